"""The command line answers at once and says enough to work from."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from command_line import Spadework

COMMANDS = ("train", "show", "report", "eval", "check", "audit", "play", "presets", "corpus", "doctor", "sandbox")


def test_the_help_names_every_command_and_how_to_start(spadework: Spadework) -> None:
    done = spadework("--help")
    assert done.status == 0
    for command in COMMANDS:
        assert f" {command} " in done.out
    assert "spadework train quickstart" in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(spadework: Spadework, command: str) -> None:
    done = spadework(command, "--help")
    assert done.status == 0
    assert f"Usage: spadework {command}" in done.out
    examples = " ".join(done.out.split()).partition("Example")[2]
    assert f"spadework {command}" in examples


def test_the_version_is_that_of_the_package(spadework: Spadework) -> None:
    done = spadework("--version")
    assert (done.status, done.out) == (0, f"spadework {version('spadework')}\n")


def test_shell_completion_can_be_installed(spadework: Spadework) -> None:
    assert "--install-completion" in spadework("--help").out


def test_an_option_that_does_not_exist_is_refused_in_words(spadework: Spadework) -> None:
    done = spadework("check", "x.py", "--jsno")
    assert done.status == 2
    assert "--jsno" in done.err
    assert "Traceback" not in done.err


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from spadework.cli import main\n"
        "sys.argv = ['spadework', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'pydantic', 'matplotlib', 'renderers', 'sqlite3', 'asyncio'}\n"
        "print('imported:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "imported: []", done.stderr


def test_presets_are_listed_with_what_they_are(spadework: Spadework) -> None:
    done = spadework("presets")
    assert done.status == 0
    assert "quickstart" in done.out
    assert "laptop" in done.out
