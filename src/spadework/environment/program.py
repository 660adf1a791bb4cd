"""A program: the source text of one environment class, read but never imported or run.

Everything here works on the syntax tree. Deeply nested, oversized or undecodable sources are rejected with a
reason; none of them can crash or stall the process that reads them.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from dataclasses import dataclass
from enum import StrEnum

MAX_DEPTH = 100
"""Deepest syntax tree that is read. Written code stays under 40; the rest is generated or hostile."""

_REQUIRED_METHODS = ("reset", "step")


class Rejection(StrEnum):
    """Why a reply or a source holds no usable program."""

    TRUNCATED = "truncated"
    """The reply was cut short inside its thinking or inside a fenced block."""
    NO_PROGRAM = "no-program"
    """The reply has no fenced Python block outside its thinking."""
    TOO_LARGE = "too-large"
    """More characters than allowed, or nested deeper than `MAX_DEPTH`."""
    NOT_PYTHON = "not-python"
    """The source does not parse."""
    NO_CLASS = "no-class"
    """No top-level class has a name that ends in `Env`."""
    SEVERAL_CLASSES = "several-classes"
    """More than one top-level class has a name that ends in `Env`."""
    NO_METHODS = "no-methods"
    """The class lacks `reset` or `step`."""


class ProgramRejected(ValueError):
    """There is no usable program. ``reason`` is one sentence that its author can act on."""

    def __init__(self, kind: Rejection, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True)
class Program:
    """Source text of one environment class. ``id`` is the SHA-256 of the normalised source, in hexadecimal."""

    source: str
    id: str
    class_name: str


def parse_program(source: str, max_chars: int) -> Program:
    """Read ``source`` as a program.

    Raises ProgramRejected if it is longer than ``max_chars`` characters, is not Python, does not define exactly one
    top-level class whose name ends in `Env`, or if that class lacks `reset` or `step`.
    """
    if len(source) > max_chars:
        raise ProgramRejected(
            Rejection.TOO_LARGE, f"the program has {len(source)} characters; at most {max_chars} are allowed"
        )
    tree = parse_source(source)
    environment = _environment_class(tree)
    missing = [name for name in _REQUIRED_METHODS if not _may_have_method(environment, name, tree)]
    if missing:
        raise ProgramRejected(
            Rejection.NO_METHODS,
            f"class {environment.name} (line {environment.lineno}) has no method {' and no method '.join(missing)}; "
            "both reset(seed) and step(action) are needed",
        )
    return Program(source=source, id=_digest(_unparse(tree)), class_name=environment.name)


def normalise_source(source: str) -> str:
    """``source`` without comments, docstrings, blank lines and layout. Raises ProgramRejected if it does not parse."""
    return _unparse(parse_source(source))


def program_id(source: str) -> str:
    """SHA-256 of the normalised source, as 64 hexadecimal digits. Raises ProgramRejected if it does not parse."""
    return _digest(normalise_source(source))


def parse_source(source: str) -> ast.Module:
    """The syntax tree, at most `MAX_DEPTH` deep. Raises ProgramRejected instead of any parser error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError as error:
        raise ProgramRejected(Rejection.NOT_PYTHON, _syntax_reason(error, source)) from None
    except UnicodeError:
        raise ProgramRejected(
            Rejection.NOT_PYTHON, "the source holds characters that are not valid Unicode text (lone surrogates)"
        ) from None
    except (RecursionError, MemoryError):
        raise ProgramRejected(Rejection.TOO_LARGE, _too_deep()) from None
    except ValueError as error:
        raise ProgramRejected(Rejection.NOT_PYTHON, f"the source does not parse: {error}") from None
    if _deeper_than(tree, MAX_DEPTH):
        raise ProgramRejected(Rejection.TOO_LARGE, _too_deep())
    return tree


def strip_docstrings(tree: ast.Module) -> ast.Module:
    """``tree`` itself, with every docstring removed (an emptied body becomes `pass`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_bare_string(statement)]
            if not node.body and not isinstance(node, ast.Module):
                node.body = [ast.Pass()]
    return tree


def environment_classes(tree: ast.Module) -> list[ast.ClassDef]:
    """Top-level classes whose name ends in `Env`, in order."""
    return [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Env")]


def _environment_class(tree: ast.Module) -> ast.ClassDef:
    found = environment_classes(tree)
    if not found:
        others = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        seen = f"; it defines {', '.join(others)}" if others else ""
        raise ProgramRejected(Rejection.NO_CLASS, f"the program has no class whose name ends in Env{seen}")
    if len(found) > 1:
        names = " and ".join(node.name for node in found)
        raise ProgramRejected(
            Rejection.SEVERAL_CLASSES, f"the program has {len(found)} classes ending in Env, {names}; write exactly one"
        )
    return found[0]


def _may_have_method(environment: ast.ClassDef, name: str, tree: ast.Module) -> bool:
    """Whether the class has the method, itself or from a base; a base from elsewhere is given the benefit of doubt."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    pending, seen = [environment], set[str]()
    while pending:
        node = pending.pop()
        if node.name in seen:
            continue
        seen.add(node.name)
        if any(_binds(statement, name) for statement in node.body):
            return True
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in classes:
                pending.append(classes[base.id])
            elif not (isinstance(base, ast.Name) and base.id in ("object", "ABC")):
                return True
    return False


def _binds(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return statement.name == name
        case ast.Assign():
            return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
    return False


def _deeper_than(tree: ast.AST, limit: int) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _unparse(tree: ast.Module) -> str:
    try:
        return ast.unparse(ast.fix_missing_locations(strip_docstrings(tree)))
    except ValueError:
        raise ProgramRejected(Rejection.TOO_LARGE, "the source holds an integer of more than 4300 digits") from None
    except RecursionError:
        raise ProgramRejected(Rejection.TOO_LARGE, _too_deep()) from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _is_bare_string(statement: ast.stmt) -> bool:
    """Docstrings and strings used as comments: both do nothing when run."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _too_deep() -> str:
    return f"the source is nested more than {MAX_DEPTH} levels deep; split its expressions and blocks"


def _syntax_reason(error: SyntaxError, source: str) -> str:
    lines = source.split("\n")
    number = error.lineno or 0
    quoted = lines[number - 1].strip()[:120] if 1 <= number <= len(lines) else ""
    where = f" on line {number}: {quoted!r}" if quoted else (f" on line {number}" if number else "")
    return f"the source is not Python: {error.msg}{where}"
