"""Which keys of its state a tool program can write, read off its source.

A key counts as written where code that a tool may run stores under it, deletes it, or calls a method that changes what
stands under it. Code of a tool is every function of the program but those that make and judge the instance. Where a
local name stands for a part of the state, the keys it was taken out with count as its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from spadework.environment.program import parse_source

NOT_OF_TOOLS = frozenset(("__init__", "setup", "reset", "solution", "final_check"))
CHANGING = frozenset(
    (
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"),
        *("update", "setdefault", "popitem", "add", "discard", "intersection_update", "difference_update"),
    )
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def written_keys(source: str) -> frozenset[str]:
    """Keys that tools can write. Raises ProgramRejected if ``source`` does not parse."""
    found: set[str] = set()
    for function in _functions_of_tools(parse_source(source)):
        names = _keys_of_names(function)
        for node in ast.walk(function):
            found |= _written(node, names)
    return frozenset(found)


def _functions_of_tools(tree: ast.Module) -> Iterator[_Function]:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _Function):
                if child.name not in NOT_OF_TOOLS:
                    yield child
            elif isinstance(child, ast.ClassDef | ast.If | ast.Try | ast.With):
                pending.append(child)


def _keys_of_names(function: _Function) -> dict[str, set[str]]:
    """For each local name the keys that it was taken out of something with."""
    names: dict[str, set[str]] = {}
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For):
            pairs = [(node.target, node.iter)]
        for target, value in pairs:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    names.setdefault(name.id, set()).update(_keys(value, {}))
    return names


def _written(node: ast.AST, names: dict[str, set[str]]) -> set[str]:
    match node:
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return _keys(node, names)
        case ast.Assign() | ast.AugAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = [target for target in targets if isinstance(target, ast.Subscript | ast.Attribute)]
            found = set[str]().union(*(_keys(target, names) for target in stored))
            return found | (_literal_keys([node.value]) if stored else set())
        case ast.Call(func=ast.Attribute(attr=method)) if method in CHANGING:
            assert isinstance(node.func, ast.Attribute)
            given = {keyword.arg for keyword in node.keywords if keyword.arg}
            first = node.args[:1] if method in ("setdefault", "pop") else []
            constants = {arg.value for arg in first if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
            return _keys(node.func.value, names) | given | constants | _literal_keys(node.args)
    return set()


def _keys(value: ast.expr, names: dict[str, set[str]]) -> set[str]:
    """Constant keys on the way to what ``value`` stands for."""
    found: set[str] = set()
    node: ast.expr = value
    while True:
        match node:
            case ast.Subscript():
                if isinstance(node.slice, ast.Constant):
                    found.add(str(node.slice.value))
                node = node.value
            case ast.Call(func=ast.Attribute()):
                assert isinstance(node.func, ast.Attribute)
                if node.func.attr in ("get", "setdefault", "pop") and node.args:
                    first = node.args[0]
                    if isinstance(first, ast.Constant):
                        found.add(str(first.value))
                node = node.func.value
            case ast.Attribute():
                node = node.value
            case ast.Name():
                return found | names.get(node.id, set())
            case _:
                return found


def _literal_keys(values: Sequence[ast.expr]) -> set[str]:
    """Keys of dicts that are written out in ``values``."""
    found: set[str] = set()
    for value in values:
        for node in ast.walk(value):
            if isinstance(node, ast.Dict):
                found |= {
                    key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
                }
    return found
