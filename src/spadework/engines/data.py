"""What every engine asks of the data that it is given."""

from __future__ import annotations

from collections.abc import Sequence

from spadework.engines.base import Datum


def check(data: Sequence[Datum], max_tokens: int, vocabulary: int) -> None:
    """Raises ValueError, naming the datum, for data that no engine can train on."""
    if not data:
        raise ValueError("no data: skip the step when there is nothing to train on")
    for number, datum in enumerate(data):
        length = len(datum.token_ids_T)
        if {len(datum.weights_T), len(datum.logprobs_T), len(datum.advantages_T)} != {length}:
            raise ValueError(f"datum {number}: tokens, weights, logprobs and advantages differ in length")
        if not 2 <= length <= max_tokens:
            raise ValueError(f"datum {number} has {length} tokens; a sequence has 2 to {max_tokens}")
        if datum.weights_T[0] != 0 or not any(datum.weights_T):
            raise ValueError(f"datum {number}: the first token has no prediction to weigh, and some other must have")
        if not 0 <= min(datum.token_ids_T) <= max(datum.token_ids_T) < vocabulary:
            raise ValueError(f"datum {number} has token ids outside [0, {vocabulary})")
        if datum.temperature <= 0:
            raise ValueError(f"datum {number} has temperature {datum.temperature}; only positive ones can be trained")
