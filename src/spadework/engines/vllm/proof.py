"""Proof that a server samples from the weights that are trained here, and by the probabilities that it tells."""

from __future__ import annotations

from collections.abc import Sequence

from spadework.engines.base import Datum, SamplingParams
from spadework.engines.vllm.answers import Reply

PROMPT_TOKENS, REPLY_TOKENS = 8, 32
TEMPERATURE = 2.0
"""Far from 1, so that probabilities of before and after the temperature differ, and many kinds of tokens are drawn."""


def prompt_of(vocabulary: int) -> tuple[int, ...]:
    """Token ids spread over the vocabulary: models that differ at all differ about them."""
    return tuple(vocabulary * (place + 1) // (PROMPT_TOKENS + 1) for place in range(PROMPT_TOKENS))


def params_of(max_context_tokens: int) -> SamplingParams:
    """For one reply that nothing but its length ends."""
    room = max(1, min(REPLY_TOKENS, max_context_tokens - PROMPT_TOKENS))
    return SamplingParams(max_tokens=room, stop_ids=(), seed=0, temperature=TEMPERATURE)


def datum_of(prompt_ids: Sequence[int], reply: Reply, temperature: float) -> Datum:
    """The reply as something to score at ``temperature``."""
    before, said = (0.0,) * len(prompt_ids), len(reply.token_ids_T)
    return Datum(
        token_ids_T=(*prompt_ids, *reply.token_ids_T),
        weights_T=before + (1.0,) * said,
        logprobs_T=before + reply.logprobs_T,
        advantages_T=(0.0,) * (len(prompt_ids) + said),
        temperature=temperature,
    )


def mean_difference(datum: Datum, scored_T: Sequence[float]) -> float:
    """Mean absolute difference of the sampled tokens' log-probabilities."""
    rows = zip(datum.weights_T, datum.logprobs_T, scored_T, strict=True)
    gaps = [abs(one - other) for weight, one, other in rows if weight]
    return sum(gaps) / len(gaps)
