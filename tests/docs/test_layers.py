"""Imports point one way, and no program is run by the trainer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}

BOUNDARY = {
    *(
        "spadework",
        "spadework.config",
        "spadework.errors",
        "spadework.sections",
        "spadework.seeding",
        "spadework.progress",
    ),
    *("spadework.sandbox.address", "spadework.sandbox.layers"),
    *("spadework.sandbox.limits", "spadework.sandbox.outcomes"),
    *("spadework.roles.episode", "spadework.engines.base", "spadework.engines.settings", "spadework.learning.loss"),
}
"""Frozen types that cross boundaries: any room may import them, and they import each other alone."""

BELOW = {
    "sandbox": set[str](),
    "store": {"sandbox"},
    "environment": {"sandbox"},
    "learning": set[str](),
    "engines": {"learning"},
    "curriculum": {"environment", "store"},
    "roles": {"environment", "curriculum", "engines", "sandbox", "store"},
    "loop": {"roles", "environment", "curriculum", "learning", "engines", "sandbox", "store"},
}
"""What each room of the loop may import besides boundary types and itself."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room(module: str) -> str:
    return [*module.split("."), ""][1]


def imports(path: Path) -> Iterator[str]:
    """Every module of the package that ``path`` imports, wherever in the file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if room_of_package(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and room_of_package(node.module):
            assert node.level == 0, f"{path} has a relative import; write it out"
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                yield member if member in MODULES else node.module


def room_of_package(module: str) -> bool:
    return module.partition(".")[0] == "spadework"


@pytest.mark.parametrize("name", sorted(BELOW))
def test_a_room_imports_only_rooms_below_it(name: str) -> None:
    allowed = BELOW[name] | {name}
    wrong = [
        f"{module} imports {imported}"
        for module, path in MODULES.items()
        if room(module) == name
        for imported in imports(path)
        if imported not in BOUNDARY and room(imported) not in allowed
    ]
    assert not wrong, "; ".join(wrong)


def test_boundary_types_import_only_each_other() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module in sorted(BOUNDARY)
        for imported in imports(MODULES[module])
        if imported not in BOUNDARY
    ]
    assert not wrong, "; ".join(wrong)


def test_only_the_commands_and_what_serves_them_import_the_loop() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, path in MODULES.items()
        if room(module) in {*BELOW} - {"loop"}
        for imported in imports(path)
        if room(imported) in {"selfplay", "loop", "cli", "seedmodel", "evaluation", "analysis", "interop"}
    ]
    assert not wrong, "; ".join(wrong)


def test_rooms_have_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if module not in BOUNDARY and room(module):
            below = {room(imported) for imported in imports(path) if imported not in BOUNDARY}
            graph.setdefault(room(module), set()).update(below - {room(module), ""})
    assert list(TopologicalSorter(graph).static_order())


RUNS_CODE = {"exec", "eval", "compile", "__import__", "import_module", "run_path", "run_module", "exec_module"}


def test_only_the_inside_of_the_sandbox_runs_or_imports_by_name() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} calls {ast.unparse(node.func)}"
        for module, path in MODULES.items()
        if not module.startswith("spadework.sandbox.inside")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and runs_code(node.func)
    ]
    assert not wrong, "; ".join(wrong)


def runs_code(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in RUNS_CODE
    # `re.compile`, `network.eval` and the like share a name with what is looked for.
    return isinstance(function, ast.Attribute) and function.attr in RUNS_CODE - {"compile", "eval", "exec"}


def test_runs_code_is_seen_where_it_is() -> None:
    calls = [ast.parse(text, mode="eval").body for text in ("exec(x)", "importlib.import_module(x)", "re.compile(x)")]
    assert [runs_code(call.func) for call in calls if isinstance(call, ast.Call)] == [True, True, False]


def test_the_inside_of_the_sandbox_needs_only_the_standard_library_and_the_wire_format() -> None:
    allowed = {"msgpack", "numpy"}
    for module, path in MODULES.items():
        if not module.startswith("spadework.sandbox.inside"):
            continue
        for imported in imports(path):
            assert imported.startswith("spadework.sandbox.inside") or imported in BOUNDARY, f"{module}: {imported}"
        third_party = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert not third_party & {"torch", "transformers", "pydantic"} - allowed, module
