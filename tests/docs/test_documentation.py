"""What README and docs show works, and what they name exists."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from spadework.config import Config, GatesConfig
from spadework.environment.gates import check_hint, check_program
from spadework.presets import setting_names
from spadework.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
IDS = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:src|tests|docs|configs|examples|benchmarks)/[\w./*-]*[\w/*]")
SETTING = re.compile(r"[a-z_]+(?:\.[a-z_]+)*")

each_page = pytest.mark.parametrize("page", PAGES, ids=IDS)


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in FENCE.findall(page.read_text(encoding="utf-8")) if name == language]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@each_page
def test_every_block_names_its_language(page: Path) -> None:
    marks = re.findall(r"^```(\w*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(marks[::2]), "a fenced block without a language is never checked"
    assert set(marks[::2]) <= {"python", "sh", "toml", "text"}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        path, _, anchor = target.partition("#")
        where = (page.parent / path).resolve() if path else page
        assert where.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", where.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}, target


@each_page
def test_files_that_are_named_exist(page: Path) -> None:
    named = [found for code in INLINE.findall(prose(page)) for found in PATH.findall(code)]
    missing = [name for name in named if not any(ROOT.glob(name.rstrip("/"))) and "NAME" not in name]
    assert missing == []


@each_page
def test_settings_that_are_named_exist(page: Path) -> None:
    sections = set(Config.model_fields)
    for code in INLINE.findall(prose(page)):
        name = code.partition(" ")[0]
        if SETTING.fullmatch(name) and "." in name and name.partition(".")[0] in sections and name != "config.json":
            assert_setting(name)


def assert_setting(name: str) -> None:
    assert name in set(setting_names()), f"there is no setting {name}"


def commands(page: Path) -> Iterator[list[str]]:
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                yield shlex.split(line)


@cache
def help_of(command: str) -> str:
    script = "import sys; from spadework.cli import main; sys.argv[0] = 'spadework'; main()"
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-c", script, *command.split(), "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, f"spadework {command} --help: {done.stderr}"
    return done.stdout


@each_page
def test_commands_that_are_shown_exist_with_their_options_and_files(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for words in commands(page):
        match words:
            case ["make", target, *_]:
                assert target in targets, f"make {target}"
            case ["spadework", "sandbox", command, *arguments]:
                assert_command(f"sandbox {command}", arguments)
            case ["spadework", command, *arguments]:
                assert_command(command, arguments)
            case ["python", "-m", module, *_]:
                assert (ROOT / "src" / (module.replace(".", "/") + ".py")).is_file(), module
            case [".venv/bin/pre-commit", "install"]:
                assert (ROOT / ".pre-commit-config.yaml").is_file()
            case _:
                pytest.fail(f"{page.name} shows a command that nobody checks: {' '.join(words)}")


def assert_command(command: str, arguments: list[str]) -> None:
    text = help_of(command)
    for position, word in enumerate(arguments):
        if word.startswith("--"):
            assert re.search(rf"(?<!\S){word}\b", text), f"spadework {command} has no option {word}"
        if word == "--set":
            assert_setting(arguments[position + 1].partition("=")[0])
        if command in ("check", "play") and not word.startswith("-"):
            assert (ROOT / word).exists(), word
    if command == "train":
        assert (ROOT / "configs" / f"{arguments[0]}.toml").is_file() or arguments[0] in text, arguments[0]


@each_page
def test_commands_in_sentences_exist(page: Path) -> None:
    for code in INLINE.findall(prose(page)):
        words = code.split()
        if words[0] == "spadework" and len(words) > 1 and not words[1].startswith("-"):
            assert help_of(words[1])


def test_python_of_the_readme_runs() -> None:
    shown = blocks(ROOT / "README.md", "python")
    assert shown
    for block in shown:
        done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "novel" not in done.stdout
        assert [line.split()[-1] for line in done.stdout.splitlines()] == ["passed"] * 7


def test_the_environments_of_the_guide_pass_every_gate_and_so_do_their_hints() -> None:
    guide = ROOT / "docs" / "writing-environments.md"
    sources = blocks(guide, "python")
    examples = [ROOT / "examples" / name for name in ("cellar_lock.py", "parcel_desk.py")]
    assert sources == [example.read_text(encoding="utf-8") for example in examples]
    found = re.findall(r"`hint-safe` accepts: \*([^*]+)\*", guide.read_text(encoding="utf-8"))
    hints = [" ".join(hint.split()) for hint in found]

    async def check(source: str, hint: str) -> None:
        async with Sandbox() as sandbox:
            report = await check_program(source, sandbox, GatesConfig(), run_seed=0)
            assert report.passed, report.reason
            assert report.program is not None
            result = await check_hint(hint, report.program, sandbox, GatesConfig(), run_seed=0)
            assert result.passed, result.reason

    for source, hint in zip(sources, hints, strict=True):
        asyncio.run(check(source, hint))


def test_every_page_of_docs_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in index] == ["README.md"]
