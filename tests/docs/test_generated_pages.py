"""The generated pages say what the code says."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from spadework.presets import setting_names
from spadework.store.glossary import METRICS

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["configuration.md", "metrics.md"])
def test_page_is_what_the_code_gives(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == generator().PAGES[name](), f"docs/{name} is not up to date: run `make docs`"


def test_page_lists_every_setting_with_its_default() -> None:
    page = generator().configuration()
    assert "| `iterations` | whole number > 0 | `400` |" in page
    assert "| `learning.betas` | [number ≥ 0, ≤ 1; number ≥ 0, ≤ 1] | `[0.9, 0.98]` |" in page
    assert "| `designer_reward.invalid` | number or `none` | `-0.25` |" in page
    keys = list(setting_names())
    assert len(keys) > 80
    assert [key for key in keys if f"| `{key}` |" not in page] == []


def test_meanings_are_not_given_twice_or_for_keys_that_are_gone() -> None:
    page = generator().configuration()
    assert [key for key in generator().MEANINGS if f"| `{key}` |" not in page] == []


def test_a_setting_without_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match=r"agent\.nonsense must have one meaning"):
        generator()._meaning("agent.nonsense", None)


def test_every_metric_of_the_table_is_logged_somewhere() -> None:
    texts: set[str] = set()
    patterns: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        if path.name == "glossary.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            if isinstance(node, ast.JoinedStr):
                patterns.add("".join(part_pattern(part) for part in node.values))
    with_room = [re.compile(pattern) for pattern in patterns if "/" in pattern]
    suffixes = [pattern.removeprefix(ANYTHING) for pattern in patterns if re.fullmatch(r"\.\+_\w+", pattern)]

    def is_logged(name: str) -> bool:
        return name in texts or any(pattern.fullmatch(name) for pattern in with_room)

    missing = [
        name
        for name in METRICS
        if not is_logged(name) and not any(name.endswith(end) and is_logged(name.removesuffix(end)) for end in suffixes)
    ]
    assert missing == []


ANYTHING = ".+"


def part_pattern(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else ANYTHING
