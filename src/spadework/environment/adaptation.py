"""Source-level adaptations of programs found in the wild: only what has one possible meaning.

A name that is used as a global, that nothing defines, and that names one well-known thing gets its import. Names with
more than one likely meaning are left alone, and the program then fails with its own NameError. Every adaptation is
recorded by what it did (`import math`, `from collections import deque`).
"""

from __future__ import annotations

import ast
import builtins
import symtable
import textwrap
import warnings
from collections.abc import Iterator

from spadework.environment.program import ProgramRejected, parse_source

_MODULES = (
    *("abc", "bisect", "collections", "copy", "dataclasses", "decimal", "enum", "fractions", "functools", "hashlib"),
    *("heapq", "itertools", "json", "math", "numpy", "operator", "random", "re", "statistics", "string", "textwrap"),
    *("typing", "time"),
)
"""Imported if every use of the name is `name.attribute`: a bare `copy` or `random` may be a function."""

_ALIASES = {"np": "import numpy as np"}

_MEMBERS = {
    "abc": ("ABC", "abstractmethod"),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),
    "copy": ("deepcopy",),
    "dataclasses": ("dataclass",),
    "decimal": ("Decimal",),
    "enum": ("Enum", "IntEnum", "StrEnum"),
    "fractions": ("Fraction",),
    "functools": ("lru_cache", "partial", "reduce"),
    "heapq": ("heapify", "heappop", "heappush"),
    "itertools": ("accumulate", "chain", "combinations", "permutations", "product"),
    "tool_environment": ("Instruction", "ToolEnv", "ToolError", "tool"),
    "tool_use_base_env": ("ToolUseBaseEnv",),
    "typing": (
        *("Any", "Callable", "ClassVar", "Dict", "FrozenSet", "Iterable", "Iterator", "List", "Literal", "Mapping"),
        *("NamedTuple", "Optional", "Sequence", "Set", "Tuple", "TypedDict", "Union"),
    ),
}

_MODULE_NAMES = frozenset(
    ("__name__", "__file__", "__doc__", "__builtins__", "__annotations__", "__spec__", "__loader__", "__package__")
)


def adapt(source: str) -> tuple[str, tuple[str, ...]]:
    """The source to run, and the names of what was changed in it, in the order of the changes.

    A source that does not parse comes back with, at most, its byte-order mark and common indentation removed.
    """
    changes: list[str] = []
    if source.startswith("\ufeff"):
        source = source.removeprefix("\ufeff")
        changes.append("byte-order mark removed")
    if source[:1] in (" ", "\t") and (dedented := textwrap.dedent(source)) != source:
        source = dedented
        changes.append("common indentation removed")
    try:
        tree = parse_source(source)
        undefined = _undefined_globals(source)
    except (ProgramRejected, SyntaxError):
        return source, tuple(changes)
    imports = [*_missing_imports(undefined, tree)]
    if imports and (position := _import_line(tree)) is not None:
        source = _insert(source, position, "\n".join(imports))
        changes += imports
    return source, tuple(changes)


def prepend(source: str, statements: str) -> str:
    """``source`` with ``statements`` before its own first one, after its docstring and `__future__` imports.

    Unchanged where the first statement shares its line with those. Raises ProgramRejected if it does not parse.
    """
    position = _import_line(parse_source(source))
    return source if position is None else _insert(source, position, statements)


def _insert(source: str, position: int, statements: str) -> str:
    lines = source.split("\n")
    return "\n".join([*lines[:position], statements, *lines[position:]])


def _undefined_globals(source: str) -> frozenset[str]:
    """Names that some scope reads as a global and that neither the module nor the builtins define."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = symtable.symtable(source, "<program>", "exec")
    defined, used = set[str](), set[str]()
    pending = [module]
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        for symbol in scope.get_symbols():
            at_module_level = scope is module or symbol.is_declared_global()
            if at_module_level and (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()):
                defined.add(symbol.get_name())
            if symbol.is_referenced() and (scope is module or symbol.is_global()):
                used.add(symbol.get_name())
    return frozenset(used - defined - set(dir(builtins)) - _MODULE_NAMES)


def _missing_imports(undefined: frozenset[str], tree: ast.Module) -> Iterator[str]:
    if not undefined:
        return
    bare = _bare_uses(tree)
    yield from (f"import {name}" for name in _MODULES if name in undefined and name not in bare)
    yield from (line for name, line in _ALIASES.items() if name in undefined and name not in bare)
    for module, members in _MEMBERS.items():
        if missing := [name for name in members if name in undefined]:
            yield f"from {module} import {', '.join(missing)}"


def _bare_uses(tree: ast.Module) -> frozenset[str]:
    """Names that are read other than as the base of an attribute, in any scope."""
    bases = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    reads = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return frozenset(node.id for node in reads if id(node) not in bases)


def _import_line(tree: ast.Module) -> int | None:
    """Number of lines that must stay before an import; None if the first statement shares its line with them."""
    position = 0
    for index, statement in enumerate(tree.body):
        docstring = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (docstring or future):
            first_line = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", []))])
            return position if first_line > position else None
        position = statement.end_lineno or statement.lineno
    return position
