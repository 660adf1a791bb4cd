"""What the gates say about one program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from spadework.environment.program import Program

JSONValue: TypeAlias = "bool | int | float | str | list[JSONValue] | dict[str, JSONValue] | None"


class GateName(StrEnum):
    """One check each, in order of cost."""

    PARSE = "parse"
    """The source is one readable environment class."""
    CONTRACT = "contract"
    """It loads, and `reset` and `step` take and return what they must."""
    DETERMINISM = "determinism"
    """Equal seeds and actions give equal episodes in another process; seeds give many different instances."""
    TERMINATION = "termination"
    """Whatever the agent says, the episode ends in time and nothing crashes."""
    NOT_TRIVIAL = "not-trivial"
    """Agents that know nothing earn little."""
    SOLVABLE = "solvable"
    """`solution()` wins on every seed and nothing pays as much as winning."""
    SECRET = "secret"
    """What decides the win is not given away at the start, and can be found out by acting."""
    HINT_SAFE = "hint-safe"
    """The hint helps without giving the solution away."""
    NOVEL = "novel"
    """The pool holds nothing nearly equal."""
    JUDGE = "judge"
    """A model that reads the program says that it can be won as it says."""


@dataclass(frozen=True)
class GateResult:
    """The verdict of one gate. ``reason`` is empty if it passed, else one sentence for the program's author."""

    gate: GateName
    passed: bool
    reason: str
    seconds: float
    """Wall time."""
    details: Mapping[str, JSONValue] = field(default_factory=dict)


@dataclass(frozen=True)
class GateReport:
    """All verdicts on one source, in the order in which the gates ran."""

    program: Program | None
    """The program as it runs, adaptations included; None if there is none."""
    results: tuple[GateResult, ...]
    adaptations: tuple[str, ...] = ()
    """What was changed in the source or read leniently, by name."""
    measures: Mapping[str, JSONValue] = field(default_factory=dict)
    """What was measured on the way; `check_program` lists the keys."""

    @property
    def passed(self) -> bool:
        """Whether there is a program and every gate that ran let it through."""
        return self.program is not None and all(result.passed for result in self.results)

    @property
    def executable(self) -> bool:
        """Whether the program starts and answers as it must, whatever else is wrong with it."""
        return any(result.gate is GateName.CONTRACT and result.passed for result in self.results)

    @property
    def rejected_by(self) -> GateName | None:
        """The first gate that said no."""
        return next((result.gate for result in self.results if not result.passed), None)

    @property
    def reason(self) -> str:
        """The reason of the first gate that said no; empty if the program passed."""
        return next((result.reason for result in self.results if not result.passed), "")
