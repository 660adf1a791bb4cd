"""`novel`: nothing nearly equal was seen before, and it is no copy of what the designer was shown."""

from __future__ import annotations

import time
from collections.abc import Sequence

from spadework.environment.fingerprint import NoveltyIndex, fingerprint, jaccard
from spadework.environment.gates.results import GateName, GateResult, JSONValue
from spadework.environment.program import Program

COPY_OF_AN_EXAMPLE = 0.8
"""From this similarity on a program is a copy of a worked example, some of whose words and numbers were changed."""


def check_no_copy(program: Program, worked_examples: Sequence[str]) -> GateResult:
    """Whether ``program`` is another one than each of ``worked_examples``, the programs in the designer's prompt."""
    started = time.perf_counter()
    print_ = fingerprint(program.source)
    shown = [fingerprint(source) for source in worked_examples]
    similarity = max((jaccard(print_.shingles, one.shingles) for one in shown), default=0.0)
    reason = ""
    if similarity >= COPY_OF_AN_EXAMPLE:
        reason = (
            f"the program is not new: it is {similarity:.0%} the same as the worked example; hide another thing, offer "
            "other commands and have it won in another way"
        )
    details: dict[str, JSONValue] = {"similarity_to_worked_example": round(similarity, 4)}
    return GateResult(GateName.NOVEL, not reason, reason, time.perf_counter() - started, details)


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
