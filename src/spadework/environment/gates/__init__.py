"""Gates: the checks that a program and its hint must pass before anyone plays them."""

from spadework.environment.gates.check import check_hint, check_program
from spadework.environment.gates.novel import check_no_copy, check_novel
from spadework.environment.gates.results import GateName, GateReport, GateResult, JSONValue

__all__ = [
    "GateName",
    "GateReport",
    "GateResult",
    "JSONValue",
    "check_hint",
    "check_no_copy",
    "check_novel",
    "check_program",
]
