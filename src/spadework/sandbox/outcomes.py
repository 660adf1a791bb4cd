"""What can happen when a program is asked to do something, and whose fault it is.

A sandbox call returns its value or raises one of two exceptions, so that no error ever travels as a
number. Records keep the matching `Outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Whose doing an episode's end was."""

    OK = "ok"
    """The episode ran to an end that the environment or a budget set."""
    AGENT_FAULT = "agent-fault"
    """The agent's reply was cut short or could not be used; the episode counts as failed."""
    ENVIRONMENT_FAULT = "environment-fault"
    """The program crashed, hung or broke the contract: the designer's fault, never the agent's."""
    INFRASTRUCTURE_FAULT = "infrastructure-fault"
    """The host failed: nobody's fault; retried, counted and shown."""


class FaultKind(StrEnum):
    """How a program failed."""

    LOAD = "load"
    """The source does not compile, import or construct."""
    EXCEPTION = "exception"
    """`reset`, `step` or `solution` raised."""
    CONTRACT = "contract"
    """A call returned something that the environment contract does not allow."""
    TIMEOUT = "timeout"
    """A deadline passed."""
    MEMORY = "memory"
    """The memory limit was reached."""
    OUTPUT = "output"
    """An observation or `info` was larger than its limit."""
    EXIT = "exit"
    """The program ended its process (`sys.exit`, `os._exit`, a signal)."""
    PROTOCOL = "protocol"
    """The process answered with something that is not an answer."""


class EnvironmentFault(Exception):
    """The program is at fault. ``reason`` is one sentence; ``trace`` holds the program's own frames."""

    def __init__(self, kind: FaultKind, reason: str, trace: str = "") -> None:
        super().__init__(f"{kind.value}: {reason}")
        self.kind = kind
        self.reason = reason
        self.trace = trace


class InfrastructureFault(Exception):
    """The host is at fault: the same call may succeed when tried again."""


@dataclass(frozen=True)
class Transition:
    """What one `step` returned."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, object]
