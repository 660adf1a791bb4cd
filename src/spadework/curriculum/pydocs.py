"""The documentation of installed Python packages as a corpus: real text on any machine, without a download.

Nothing is imported: sources are found on disk and their docstrings taken from the syntax tree. Per module, class and
function with a long enough docstring there is one document, and one for the description of each distribution.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from spadework.curriculum.documents import CorpusError, Document, Skipped, has_words

_SKIPPED_FOLDERS = frozenset({"test", "tests", "__pycache__", "site-packages"})
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class PythonDocsSource:
    """The documentation of ``names``; a document's id is the dotted name of what it documents."""

    def __init__(self, names: Sequence[str], min_words: int, skipped: Skipped) -> None:
        self._documents: list[Document] = []
        digest = hashlib.sha256()
        seen: set[str] = set()
        distributions = _distributions(names)
        for name in names:
            for document in _documents(name, distributions.get(name, ()), skipped):
                if document.id in seen:
                    continue
                seen.add(document.id)
                if has_words(document.text, min_words):
                    self._documents.append(document)
                    digest.update(f"{document.id}\x1f{document.text}\x1f".encode("utf-8", "surrogatepass"))
                else:
                    skipped.add(f"fewer than {min_words} words", document.id, document.text)
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._documents)

    def document(self, index: int) -> Document:
        return self._documents[index]


def _documents(name: str, distributions: Sequence[str], skipped: Skipped) -> Iterator[Document]:
    for module, path in _sources(name):
        yield from _docstrings(module, path, skipped)
    yield from _descriptions(distributions)


def _sources(name: str) -> Iterator[tuple[str, Path]]:
    """The dotted name and file of every module of ``name``, sorted. Raises CorpusError if there are none."""
    top, *inner = name.split(".")
    if not all(part.isidentifier() for part in (top, *inner)):
        raise CorpusError(f"{name!r} is not the name of a module; write corpus.source as python:NAME,NAME")
    # Only the top level is looked up: finding a submodule would import its parents.
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise CorpusError(f"there is no module {top!r} in this Python; install it or take it out of corpus.source")
    folders = [Path(folder).joinpath(*inner) for folder in spec.submodule_search_locations or ()]
    files: dict[str, Path] = {}
    for folder in folders:
        if inner and folder.with_suffix(".py").is_file():
            files[name] = folder.with_suffix(".py")
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if not _SKIPPED_FOLDERS & set(parts[:-1]):
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                files.setdefault(".".join((name, *parts)), path)
    if not folders and not inner and spec.has_location and spec.origin and spec.origin.endswith(".py"):
        files[name] = Path(spec.origin)
    if not files:
        raise CorpusError(
            f"the module {name!r} has no Python source to take documentation from; take it out of corpus.source"
        )
    yield from sorted(files.items())


def _docstrings(module: str, path: Path, skipped: Skipped) -> Iterator[Document]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's invalid escapes
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        skipped.add("source that does not parse", str(path), str(error))
        return
    counts: dict[str, int] = {}
    for name, node in _documented(module, tree):
        text = ast.get_docstring(node, clean=True)
        if text:
            counts[name] = counts.get(name, 0) + 1
            # A name that is defined twice (on two platforms, say) is told apart by its number.
            id_ = name if counts[name] == 1 else f"{name}#{counts[name]}"
            yield Document(id_, name, text)


def _documented(name: str, node: _Documented) -> Iterator[tuple[str, _Documented]]:
    yield name, node
    for inner in _definitions(node):
        yield from _documented(f"{name}.{inner.name}", inner)


def _definitions(node: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Definitions of one level, also behind `if` and `try`; not those inside functions."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif isinstance(child, ast.If | ast.Try):
            yield from _definitions(child)


def _distributions(names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The distributions that hold each module; asked only if need be, since it reads the metadata of all of them."""
    if all(name.split(".")[0] in sys.stdlib_module_names for name in names):
        return {}
    return importlib.metadata.packages_distributions()


def _descriptions(distributions: Sequence[str]) -> Iterator[Document]:
    """What distributions say of themselves."""
    for distribution in sorted(set(distributions)):
        metadata = importlib.metadata.metadata(distribution)
        text = metadata.get("Description") or metadata.get_payload()  # type: ignore[attr-defined]
        if isinstance(text, str) and text.strip():
            yield Document(f"description of {distribution}", distribution, inspect.cleandoc(text))
