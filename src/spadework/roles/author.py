"""The designer as a whole round shares it, and what it wrote as the learner needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spadework.config import DesignerConfig
from spadework.engines.base import Sample
from spadework.roles.prompts import PromptStyle
from spadework.roles.rendering import Rendering

SMALLEST_TEXT_TOKENS = 32
"""With less room than this nothing is asked for: it could hold neither a program nor a hint."""


@dataclass(frozen=True)
class Author:
    """``max_context_tokens`` is the model's, ``run_seed`` the run's."""

    rendering: Rendering
    prompts: PromptStyle
    config: DesignerConfig
    max_context_tokens: int
    run_seed: int

    def room(self, prompt_ids: Sequence[int], wanted: int) -> int | None:
        """Tokens that a reply to ``prompt_ids`` may have: ``wanted`` or what the context leaves; None if too few."""
        room = min(wanted, self.max_context_tokens - len(prompt_ids))
        return room if room >= min(SMALLEST_TEXT_TOKENS, wanted) else None


@dataclass(frozen=True)
class Completion:
    """One prompt and its reply: ``sampled_T`` marks the reply, ``logprobs_T`` is 0 elsewhere."""

    token_ids_T: tuple[int, ...]
    sampled_T: tuple[bool, ...]
    logprobs_T: tuple[float, ...]
    policy_version: int

    @staticmethod
    def of(prompt_ids: Sequence[int], sample: Sample) -> Completion:
        return Completion(
            token_ids_T=(*prompt_ids, *sample.token_ids_T),
            sampled_T=(False,) * len(prompt_ids) + (True,) * len(sample.token_ids_T),
            logprobs_T=(0.0,) * len(prompt_ids) + sample.logprobs_T,
            policy_version=sample.policy_version,
        )
