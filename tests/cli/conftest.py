"""Commands are run in the process of the tests unless a test says otherwise."""

from __future__ import annotations

import io
import sys

import pytest
from command_line import Done, Spadework

from spadework.cli import main


@pytest.fixture
def spadework(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Spadework:
    """Runs a command in this process: `spadework("check", "maze.py", typed="north")`."""

    def run(*arguments: object, typed: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["spadework", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        capsys.readouterr()
        try:
            main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 0
        else:
            status = 0
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    return run
