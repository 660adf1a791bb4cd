"""What is tracked belongs to the project and to no machine."""

from __future__ import annotations

import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FOREIGN = re.compile(
    "|".join(
        [
            # Written apart, so that this file does not find itself.
            "(?<![\\w.])/" + "work/",
            "(?<![\\w.])/" + "root/",
            "(?<![\\w.])/" + r"home/\w",
            "/" + r"Users/\w",
            "pypi" + r"\.org",
            "python" + "hosted",
            "download" + r"\.pytorch",
            "npm" + "js",
            r"\.\./" + "shared",
        ]
    )
)


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str | None:
    content = path.read_bytes()
    return None if b"\0" in content[:4096] else content.decode("utf-8", "replace")


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked():
        for number, line in enumerate((text_of(path) or "").splitlines(), start=1):
            if match := FOREIGN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert found == []


def test_a_machine_path_would_be_found() -> None:
    assert FOREIGN.search("open('/" + "root/x')")
    assert not FOREIGN.search("src/network/x")


def test_no_tracked_file_is_large_or_generated() -> None:
    large = [str(path.relative_to(ROOT)) for path in tracked() if path.stat().st_size > 8 * 2**20]
    assert large == []
    assert [path.name for path in tracked() if path.suffix in (".pyc", ".sqlite") or path.name == ".env"] == []


def test_every_dependency_that_make_installs_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            pinned[canonical(name)] = version
    assert pinned["torch"] == "2.13.0"
    # Other extras are for machines of their own kind.
    extras = [project["optional-dependencies"][extra] for extra in ("train", "parquet", "dev")]
    for requirement in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        assert canonical(re.split(r"[<>=!~;\[ ]", requirement)[0]) in pinned, requirement


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_base_install_is_small() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = " ".join(project["dependencies"]).lower()
    assert not re.search(r"\b(torch|transformers|wandb|ray|datasets|pyarrow|matplotlib)\b", base)


def test_continuous_integration_runs_make_test_and_asks_nothing() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert "make test </dev/null" in text
    listed = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, timeout=60).stdout
    for check in ("ruff format --check .", "ruff check .", "bin/mypy", "bin/pytest"):
        assert check in listed
