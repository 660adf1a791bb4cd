"""A program's syntax tree as tokens that do not depend on what its author called things.

Identifiers that the program binds are numbered by first use: locals within their function, attributes and module-level
names within the program. Imported names become their full path, so `np.array` and `numpy.array` are one token and the
import statements themselves can be left out. Annotations are left out too. Names that belong to the environment
contract keep their names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

_CONTRACT = frozenset(("reset", "step", "solution", "max_turns"))
_WORD = re.compile(r"\w+|[^\w\s]")

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class TokenKind(Enum):
    NODE = 0
    """The kind of a statement, expression or operator."""
    MARK = 1
    """The end of a node or list: makes the token list unambiguous."""
    OWN = 2
    """An identifier that the program binds."""
    NAME = 3
    """An identifier from elsewhere."""
    NUMBER = 4
    """Any constant but a string."""
    TEXT = 5
    """A string constant."""


@dataclass(frozen=True)
class Token:
    kind: TokenKind
    text: str


def canonical_tokens(tree: ast.Module) -> list[Token]:
    """All tokens of ``tree``, whose docstrings the caller has removed."""
    walk = _Walk(own_attributes=_own_attributes(tree), own_arguments=_own_arguments(tree))
    walk.scopes.append(_Scope("g", _bindings(tree.body), _imports(tree.body)))
    walk.each(tree.body)
    return walk.tokens


def shingle_words(tokens: Iterable[Token]) -> list[str]:
    """Tokens without numbering and nesting: own identifiers are alike, strings fall into lower-case words."""
    words: list[str] = []
    for token in tokens:
        match token.kind:
            case TokenKind.MARK:
                continue
            case TokenKind.OWN:
                words.append("\x00own")
            case TokenKind.TEXT:
                words += _WORD.findall(token.text.lower()) or ["\x00blank"]
            case _:
                words.append(token.text)
    return words


@dataclass
class _Scope:
    prefix: str
    names: frozenset[str]
    imports: dict[str, str] = field(default_factory=dict)
    is_class: bool = False
    numbers: dict[str, int] = field(default_factory=dict)

    def label(self, name: str) -> str:
        return f"{self.prefix}{self.numbers.setdefault(name, len(self.numbers))}"


class _Walk:
    def __init__(self, own_attributes: frozenset[str], own_arguments: frozenset[str]) -> None:
        self.tokens: list[Token] = []
        self.scopes: list[_Scope] = []
        self._attributes = _Scope("a", own_attributes)
        self._own_arguments = own_arguments

    def each(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            self.node(node)
        self._emit(TokenKind.MARK, ";")

    def node(self, node: ast.AST | None) -> None:
        match node:
            case None:
                self._emit(TokenKind.MARK, "-")
            case ast.Import() | ast.ImportFrom() if not _is_star(node):
                return
            case ast.Name():
                self._name(node.id)
            case ast.Attribute():
                self._access(node)
            case ast.Constant():
                self._constant(node.value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._emit(TokenKind.NODE, type(node).__name__)
                self._name(node.name)
                self.each(node.decorator_list)
                self._function(node, node.body)
            case ast.Lambda():
                self._emit(TokenKind.NODE, "Lambda")
                self._function(node, [node.body])
            case ast.ClassDef():
                self._class(node)
            case ast.AnnAssign():
                self._emit(TokenKind.NODE, "Assign")
                self.each([node.target])
                self.node(node.value)
            case ast.keyword():
                self._keyword(node)
            case _:
                self._generic(node)

    def _generic(self, node: ast.AST) -> None:
        self._emit(TokenKind.NODE, type(node).__name__)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr_context) or name in ("type_comment", "type_params"):
                continue
            if isinstance(value, ast.AST):
                self.node(value)
            elif isinstance(value, list):
                self._list(value)
            elif isinstance(value, str):
                self._name(value)
            elif value is None:
                self._emit(TokenKind.MARK, "-")
            else:
                self._constant(value)

    def _list(self, values: list[object]) -> None:
        for value in values:
            if isinstance(value, str):
                self._name(value)
            elif isinstance(value, ast.AST) or value is None:
                self.node(value)
        self._emit(TokenKind.MARK, ";")

    def _function(self, node: _Function, body: list[ast.stmt] | list[ast.expr]) -> None:
        arguments = node.args
        self.each([*arguments.defaults, *arguments.kw_defaults])
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
        names = _bindings(body) | {argument.arg for argument in [*named, *starred]}
        self.scopes.append(_Scope(f"v{len(self.scopes)}.", names - _declared(body), _imports(body)))
        for argument in [*named, *starred]:
            self._name(argument.arg)
        self._emit(TokenKind.MARK, ";")
        self.each(body)
        self.scopes.pop()

    def _class(self, node: ast.ClassDef) -> None:
        self._emit(TokenKind.NODE, "ClassDef")
        self._name(node.name)
        self.each([*node.decorator_list, *node.bases, *node.keywords])
        self.scopes.append(_Scope("", _bindings(node.body), _imports(node.body), is_class=True))
        self.each(node.body)
        self.scopes.pop()

    def _access(self, node: ast.Attribute) -> None:
        """`module.name` is one token, as if the name had been imported from the module."""
        if isinstance(node.value, ast.Name) and (path := self._import_path(node.value.id)) is not None:
            return self._emit(TokenKind.NAME, f"{path}.{node.attr}")
        self._emit(TokenKind.NODE, ".")
        self.node(node.value)
        return self._attribute(node.attr)

    def _import_path(self, name: str) -> str | None:
        for depth, scope in enumerate(reversed(self.scopes)):
            if scope.is_class and depth > 0:
                continue
            if name in scope.imports:
                return scope.imports[name]
            if name in scope.names:
                return None
        return None

    def _name(self, name: str) -> None:
        for depth, scope in enumerate(reversed(self.scopes)):
            if scope.is_class and depth > 0:
                continue
            if name in scope.imports:
                return self._emit(TokenKind.NAME, scope.imports[name])
            if name in scope.names:
                return self._attribute(name) if scope.is_class else self._emit(TokenKind.OWN, scope.label(name))
        return self._emit(TokenKind.NAME, name)

    def _attribute(self, name: str) -> None:
        if name in self._attributes.names:
            self._emit(TokenKind.OWN, self._attributes.label(name))
        else:
            self._emit(TokenKind.NAME, name)

    def _keyword(self, node: ast.keyword) -> None:
        own = node.arg in self._own_arguments or node.arg in self._attributes.names
        self._emit(TokenKind.OWN if own else TokenKind.NAME, "=" if own else f"{node.arg}=")
        self.node(node.value)

    def _constant(self, value: object) -> None:
        kind = TokenKind.TEXT if isinstance(value, str) else TokenKind.NUMBER
        if isinstance(value, int) and abs(value) >> 4096:
            self._emit(kind, hex(value))
        else:
            self._emit(kind, value if isinstance(value, str) else repr(value))

    def _emit(self, kind: TokenKind, text: str) -> None:
        self.tokens.append(Token(kind, text))


def _within_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Nodes that run in the scope of ``body``; of functions and classes within it only the definition itself."""
    pending = list(body)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += node.decorator_list
        elif not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _bindings(body: Iterable[ast.AST]) -> frozenset[str]:
    names = set[str]()
    for node in _within_scope(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
    return frozenset(names)


def _declared(body: Iterable[ast.AST]) -> frozenset[str]:
    """Names declared `global` or `nonlocal`."""
    nodes = (node for node in _within_scope(body) if isinstance(node, ast.Global | ast.Nonlocal))
    return frozenset(name for node in nodes for name in node.names)


def _imports(body: Iterable[ast.AST]) -> dict[str, str]:
    """What each imported name stands for."""
    paths: dict[str, str] = {}
    for node in _within_scope(body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                paths[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                paths[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
    return paths


def _own_attributes(tree: ast.Module) -> frozenset[str]:
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            names.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            names |= _bindings(node.body)
    return frozenset(name for name in names - _CONTRACT if not name.startswith("__"))


def _own_arguments(tree: ast.Module) -> frozenset[str]:
    return frozenset(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))


def _is_star(node: ast.Import | ast.ImportFrom) -> bool:
    return any(alias.name == "*" for alias in node.names)
