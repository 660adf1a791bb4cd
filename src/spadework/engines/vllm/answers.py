"""From what a vLLM server answered to what was asked for, or to a named reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spadework.engines.base import EngineFault, SamplingParams, StopReason
from spadework.engines.openai.answers import (
    OK,
    TRANSIENT,
    Answer,
    NotTheApi,
    Refused,
    TryAgain,
    object_of,
    shown,
    told,
    wait_s,
)
from spadework.engines.remote import stop_reason

ADDRESS = "engine.vllm.base_url"


class NotFound(Exception):
    """The server knows no such path, model or adapter."""


@dataclass(frozen=True)
class Card:
    """A model or adapter that the server has. ``parent`` is an adapter's base, ``max_tokens`` a model's context."""

    name: str
    parent: str | None
    max_tokens: int | None


@dataclass(frozen=True)
class Reply:
    """``model`` is what sampled, as the server calls it."""

    model: str
    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    stop_reason: StopReason


def require_ok(answer: Answer) -> None:
    """Raises TryAgain, NotFound and Refused unless the answer is what was asked for."""
    if answer.status == OK:
        return
    words, _ = told(answer.body)
    reason = f"it answered {answer.status}" + (f": {words}" if words else "")
    if answer.status in TRANSIENT:
        raise TryAgain(reason, wait_s(answer.headers))
    if answer.status in (401, 403):
        raise Refused(reason, "set engine.vllm.key_variable to the name of an environment variable with its key")
    if answer.status == 404:
        raise NotFound(reason)
    if 300 <= answer.status < 400:
        raise Refused(reason, f"it points elsewhere; check {ADDRESS}")
    raise Refused(reason, "see its log")


def cards_of(answer: Answer) -> tuple[Card, ...]:
    """Raises what `require_ok` and `object_of` raise, and NotTheApi for anything but a list of models."""
    require_ok(answer)
    data = object_of(answer, ADDRESS).get("data")
    if not isinstance(data, list) or not all(isinstance(card, dict) and "id" in card for card in data):
        raise NotTheApi("its answer is no list of models", f"check {ADDRESS}")
    return tuple(_card(card) for card in data)


def _card(card: Mapping[str, Any]) -> Card:
    parent, most = card.get("parent"), card.get("max_model_len")
    return Card(str(card["id"]), None if parent is None else str(parent), most if isinstance(most, int) else None)


def reply_of(answer: Answer, prompt_ids: Sequence[int], params: SamplingParams) -> Reply:
    """Raises what `require_ok` and `object_of` raise, and EngineFault for a reply that cannot be trained."""
    require_ok(answer)
    value = object_of(answer, ADDRESS)
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise EngineFault("the vLLM server gave an answer without a reply; see its log")
    if choice.get("finish_reason") not in ("stop", "length"):
        raise TryAgain(f"it ended the reply for the reason {shown(repr(choice.get('finish_reason')))}")
    tokens, seen = choice.get("token_ids"), choice.get("prompt_token_ids")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise EngineFault(
            "the vLLM server gives no token ids back (return_token_ids), without which nothing can be trained; use "
            "vLLM 0.10.2 or later"
        )
    if isinstance(seen, list) and seen != list(prompt_ids):
        raise EngineFault(
            f"the vLLM server replied to another prompt than was sent ({len(seen)} tokens for {len(prompt_ids)}); "
            "start it without options that change prompts"
        )
    logprobs = _logprobs(choice.get("logprobs"))
    stopped = choice["finish_reason"] == "stop"
    reason = stop_reason(tokens, logprobs, stopped=stopped, params=params)
    return Reply(str(value.get("model")), tuple(tokens), logprobs, reason)


def _logprobs(value: object) -> tuple[float, ...]:
    found = value.get("token_logprobs") if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise EngineFault("the vLLM server gives no log-probabilities of the tokens it sampled; start it with them")
    if not all(isinstance(one, int | float) and math.isfinite(one) for one in found):
        raise EngineFault("the vLLM server gave log-probabilities that are no numbers; the weights may be damaged")
    return tuple(float(one) for one in found)
