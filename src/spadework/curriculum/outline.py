"""What can be read off an environment's syntax tree: how it opens, what it keeps, what it understands, what it pays.

Not covered: anything that only running the program would show. What cannot be read is left out, never guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from spadework.environment.program import environment_classes, parse_source

METHOD_DEPTH = 3
"""Methods that `reset` and `step` call are followed this deep."""
STEP_RESULT = 5
_TEXT_METHODS = frozenset(
    {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "find", "count"}
    | {"match", "fullmatch", "search", "findall", "compile", "get"}
)

_T = TypeVar("_T")
Method = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Outcome:
    """One way in which `step` pays or ends, as source text. ``when`` is the nearest condition, or empty."""

    reward: str
    ends: str
    when: str


@dataclass(frozen=True)
class Outline:
    """What an environment's class shows. Texts are source code; ``opening`` is an observation with {fields}."""

    class_name: str
    docstring: str
    max_turns: str
    opening: str
    state: tuple[str, ...]
    actions: tuple[str, ...]
    tools: tuple[str, ...]
    outcomes: tuple[Outcome, ...]


def outline(source: str) -> Outline:
    """Raises ProgramRejected if ``source`` does not parse; ValueError if it defines no environment class."""
    tree = parse_source(source)
    classes = environment_classes(tree)
    if not classes:
        raise ValueError("the program has no class whose name ends in Env")
    environment = classes[0]
    methods = _methods(environment, tree)
    opening = [methods[name] for name in ("__init__", "reset") if name in methods]
    played = _reachable("step", methods)
    doc = ast.get_docstring(environment) or ast.get_docstring(tree) or ""
    return Outline(
        class_name=environment.name,
        docstring=doc.split("\n\n")[0],
        max_turns=_max_turns(environment, methods),
        opening=_opening(methods),
        state=_unique(_state(opening)),
        actions=_unique(text for method in played for text in _understood(method)),
        tools=tuple(f"{n.removeprefix('tool_')}({_arguments(m)})" for n, m in methods.items() if n.startswith("tool_")),
        outcomes=_unique(outcome for method in played for outcome in _outcomes(method)),
    )


def _methods(environment: ast.ClassDef, tree: ast.Module) -> Mapping[str, Method]:
    """Methods of the class and of the bases that the program itself defines, the nearest first."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found: dict[str, Method] = {}
    seen: set[str] = set()
    queue = [environment]
    while queue:
        current = queue.pop(0)
        seen.add(current.name)
        for node in current.body:
            if isinstance(node, Method):
                found.setdefault(node.name, node)
        bases = [base.id for base in current.bases if isinstance(base, ast.Name)]
        queue += [classes[name] for name in bases if name in classes and name not in seen]
    return found


def _reachable(start: str, methods: Mapping[str, Method]) -> list[Method]:
    """The method ``start`` and those it calls on self, in order of first call."""
    order: list[str] = [start] if start in methods else []
    level = list(order)
    for _ in range(METHOD_DEPTH):
        called = [name for caller in level for name in _self_calls(methods[caller]) if name in methods]
        level = [name for name in dict.fromkeys(called) if name not in order]
        order += level
    return [methods[name] for name in order]


def _self_calls(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and (name := _self_attribute(inner.func)):
            yield name


def _self_attribute(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


def _max_turns(environment: ast.ClassDef, methods: Mapping[str, Method]) -> str:
    constructor = methods.get("__init__")
    if constructor is not None:
        arguments = constructor.args
        for argument, default in zip(reversed(arguments.args), reversed(arguments.defaults), strict=False):
            if argument.arg == "max_turns":
                return ast.unparse(default)
    for node in ast.walk(environment):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                name = target.id if isinstance(target, ast.Name) else _self_attribute(target)
                if name == "max_turns":
                    return ast.unparse(node.value)
    return ""


def _opening(methods: Mapping[str, Method]) -> str:
    """The first observation, with what is not constant in braces."""
    if "reset" not in methods:
        return ""
    returned = _returned(methods["reset"])
    first = returned.elts[0] if isinstance(returned, ast.Tuple) and returned.elts else returned
    return "" if first is None else " ".join(_pattern(first, methods["reset"], methods, METHOD_DEPTH).split())


def _returned(method: Method) -> ast.expr | None:
    returns = [node.value for node in ast.walk(method) if isinstance(node, ast.Return) and node.value is not None]
    return returns[-1] if returns else None


def _pattern(node: ast.expr, method: Method, methods: Mapping[str, Method], depth: int) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_pattern(part, method, methods, depth) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _pattern(left, method, methods, depth) + _pattern(right, method, methods, depth)
        case ast.FormattedValue(value=value):
            return "{" + ast.unparse(value) + "}"
        case ast.Name(id=name) if depth:
            values = [n.value for n in ast.walk(method) if isinstance(n, ast.Assign) and _assigns(n, name)]
            if values:
                return _pattern(values[-1], method, methods, depth - 1)
        case ast.Call(func=func) if depth and (called := methods.get(_self_attribute(func) or "")):
            returned = _returned(called)
            if returned is not None:
                return _pattern(returned, called, methods, depth - 1)
    return "{" + ast.unparse(node) + "}"


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _state(methods: list[Method]) -> Iterator[str]:
    """Attributes that the methods set, each with the last value given to it there."""
    values: dict[str, str] = {}
    for method in methods:
        for node in ast.walk(method):
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        elements = target.elts if isinstance(target, ast.Tuple) else [target]
                        shown = ast.unparse(value) if elements == [target] else ""
                        values |= {name: shown for element in elements if (name := _self_attribute(element))}
                case ast.AnnAssign(target=target, value=given) if name := _self_attribute(target):
                    values[name] = "" if given is None else ast.unparse(given)
    values.pop("max_turns", None)
    yield from (f"{name} = {value}" if value else name for name, value in values.items())


def _understood(method: Method) -> Iterator[str]:
    """Text constants that something is compared with, searched for, or matched against."""
    for node in ast.walk(method):
        match node:
            case ast.Compare(left=left, comparators=others):
                yield from _texts(left, *others)
            case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in _TEXT_METHODS:
                yield from _texts(*arguments)
            case ast.MatchValue(value=value):
                yield from _texts(value)


def _texts(*nodes: ast.expr) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\w", node.value):
            yield repr(node.value)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield from _texts(*node.elts)
        elif isinstance(node, ast.Dict):
            yield from _texts(*(key for key in node.keys if key is not None))


def _outcomes(method: Method) -> Iterator[Outcome]:
    for statement, when in _statements(method.body, ""):
        match statement:
            case ast.Return(value=ast.Tuple(elts=elements)) if len(elements) == STEP_RESULT:
                _, reward, terminated, truncated, _ = elements
                yield Outcome(ast.unparse(reward), _ends(terminated, truncated), when)
            case ast.Assign(targets=[target], value=value) if _is_reward(target):
                yield Outcome(ast.unparse(value), "", when)
            case ast.AugAssign(target=target, value=value) if _is_reward(target):
                yield Outcome(f"{'-' if isinstance(statement.op, ast.Sub) else '+'}= {ast.unparse(value)}", "", when)


def _statements(body: list[ast.stmt], when: str) -> Iterator[tuple[ast.stmt, str]]:
    """Every statement in order, with the condition nearest to it."""
    for statement in body:
        yield statement, when
        match statement:
            case ast.If(test=test, body=then, orelse=otherwise):
                yield from _statements(then, ast.unparse(test))
                yield from _statements(otherwise, f"not ({ast.unparse(test)})")
            case ast.Match(subject=subject, cases=cases):
                for case in cases:
                    yield from _statements(case.body, f"{ast.unparse(subject)} is {ast.unparse(case.pattern)}")
            case ast.For() | ast.While() | ast.With():
                yield from _statements(statement.body, when)
            case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=last):
                yield from _statements([*tried, *otherwise, *last], when)
                for handler in handlers:
                    raised = ast.unparse(handler.type) if handler.type else "an error"
                    yield from _statements(handler.body, f"{raised} is raised")


def _ends(terminated: ast.expr, truncated: ast.expr) -> str:
    constants = [node.value if isinstance(node, ast.Constant) else None for node in (terminated, truncated)]
    if constants[0] is True:
        return "terminated"
    if constants == [False, False]:
        return "goes on"
    shown = [
        f"{word} if {ast.unparse(node)}"
        for word, node, value in zip(("terminated", "truncated"), (terminated, truncated), constants, strict=True)
        if value is None
    ]
    return " or ".join([*shown, *(["truncated"] if constants[1] is True else [])])


def _is_reward(target: ast.expr) -> bool:
    name = target.id if isinstance(target, ast.Name) else _self_attribute(target) or ""
    return "reward" in name.lower()


def _arguments(method: Method) -> str:
    return ", ".join(argument.arg for argument in method.args.args if argument.arg != "self")


def _unique(items: Iterator[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))
