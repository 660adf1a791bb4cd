"""Commands as they are given: what one leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """``status`` is the exit status."""

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
