"""`novel`: nothing nearly equal was seen before."""

from __future__ import annotations

import time

from spadework.environment.fingerprint import NoveltyIndex, fingerprint
from spadework.environment.gates.results import GateName, GateResult, JSONValue
from spadework.environment.program import Program


def check_novel(program: Program, novelty: NoveltyIndex, threshold: float) -> GateResult:
    """Whether ``program`` is less similar than ``threshold`` to everything in ``novelty``.

    Whoever checks several programs at once calls this in a fixed order and adds each accepted program to ``novelty``
    before the next, so that the verdicts do not depend on timing.
    """
    started = time.perf_counter()
    print_ = fingerprint(program.source)
    nearest = novelty.nearest(print_.digest, print_.shingles)
    reason = ""
    if nearest is not None and nearest[1] >= threshold:
        twin, similarity = nearest
        kind = "the same program under other names" if similarity == 1.0 else f"{similarity:.0%} the same"
        reason = f"the program is not new: it is {kind} as {twin}; change its rules, not its words"
    details: dict[str, JSONValue] = {}
    if nearest is not None:
        details = {"nearest": nearest[0], "similarity": round(nearest[1], 4)}
    return GateResult(GateName.NOVEL, not reason, reason, time.perf_counter() - started, details)
