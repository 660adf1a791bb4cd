"""What engines whose sampler is a server ask of a request, and of the reply that comes back."""

from __future__ import annotations

from collections.abc import Sequence

from spadework.engines.base import ContextTooLong, EngineFault, SamplingParams, StopReason


def check_request(prompt_ids: Sequence[int], params: SamplingParams, max_tokens: int, vocabulary: int) -> None:
    """Raises ContextTooLong, and ValueError for a request that no server is sent."""
    if params.max_tokens < 1 or params.seed < 0 or params.temperature < 0:
        raise ValueError(f"max_tokens must be positive, seed and temperature not negative: {params}")
    if not params.stop_ids:
        raise ValueError("stop_ids is empty; services end a reply at the tokens that are named and at no other")
    if len(prompt_ids) + params.max_tokens > max_tokens:
        raise ContextTooLong(
            f"a prompt of {len(prompt_ids)} tokens and a reply of up to {params.max_tokens} do not fit the context "
            f"of {max_tokens} tokens (model.max_context_tokens)"
        )
    if not prompt_ids or min(prompt_ids) < 0 or max(prompt_ids) >= vocabulary:
        raise ValueError(f"a prompt is one or more token ids in [0, {vocabulary})")


def stop_reason(
    token_ids_T: Sequence[int], logprobs_T: Sequence[float], *, stopped: bool, params: SamplingParams
) -> StopReason:
    """Why the reply ended, by its tokens; ``stopped`` is what the server says.

    Raises EngineFault for a reply that cannot be what was asked for.
    """
    length = len(token_ids_T)
    if not 1 <= length <= params.max_tokens or len(logprobs_T) != length:
        raise EngineFault(
            f"the service gave {length} tokens with {len(logprobs_T)} log-probabilities where up to "
            f"{params.max_tokens} were asked for"
        )
    stops = [place for place, token in enumerate(token_ids_T) if token in params.stop_ids]
    if stops == [length - 1]:
        return StopReason.STOP
    if stops or stopped or length < params.max_tokens:
        raise EngineFault(
            f"the service gave a reply of {length} tokens that does not end where its first stop token is; "
            "its tokens cannot be trained"
        )
    return StopReason.LENGTH
