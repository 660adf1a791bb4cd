"""Commands as they are given: arguments in, output and exit status out."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from spadework.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left behind. ``status`` is its exit status."""

    status: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line that a refused command says, without the name of the program."""
        assert self.status == 2, self
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("spadework: ")
        return line.removeprefix("spadework: ")


Spadework = Callable[..., Done]


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
