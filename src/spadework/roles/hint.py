"""Hints: the policy reads a program that passed its gates and writes a tip that does not give it away.

The author of a hint sees the program and not the document; whoever plays sees the hint and not the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spadework.engines.base import Cohort, ContextTooLong, SamplingParams, StopReason
from spadework.environment.actions import outside_thinking
from spadework.environment.gates import GateName, GateResult
from spadework.environment.program import Program
from spadework.roles.admission import Admission
from spadework.roles.author import Author
from spadework.seeding import derive_seed

_LABEL = re.compile(r"\A\W*hint\W*:\W*", re.IGNORECASE)


@dataclass(frozen=True)
class HintTry:
    """A hint and what `hint-safe` said of it. ``text`` is empty if there was none to judge, ``tokens`` were sampled."""

    text: str
    result: GateResult
    tokens: int = 0


async def write_hint(
    program: Program, draws: tuple[int, int, int], author: Author, admission: Admission, cohort: Cohort, member: int
) -> tuple[HintTry, ...]:
    """Tries at a hint until one is safe: the last is safe, or all ``hint_attempts`` failed.

    ``draws`` (round, slot, attempt) name the samples together with the number of the try. The member leaves the
    cohort. Raises InfrastructureFault.
    """
    tries: list[HintTry] = []
    try:
        prompt_ids = author.rendering.first_prompt(author.prompts.hint_messages(program.source))
        max_tokens = author.room(prompt_ids, author.config.hint_max_tokens)
        if max_tokens is None:
            return (_failed("the program leaves no room in the model's context for a hint to it"),)
        for number in range(author.config.hint_attempts):
            params = SamplingParams(
                max_tokens=max_tokens,
                stop_ids=author.rendering.stop_ids,
                seed=derive_seed(author.run_seed, "hint", *draws, number),
                temperature=author.config.hint_temperature,
            )
            try:
                sample = await cohort.sample(member, prompt_ids, params)
            except ContextTooLong:
                return (*tries, _failed("the program leaves no room in the model's context for a hint to it"))
            tokens = len(sample.token_ids_T)
            if sample.stop_reason is StopReason.LENGTH:
                tries.append(_failed(f"the hint was cut at {max_tokens} tokens", tokens))
                continue
            hint = read_hint(author.rendering.reply_text(sample.token_ids_T))
            if not hint:
                tries.append(_failed("the reply holds no hint outside its thinking", tokens))
                continue
            tries.append(HintTry(hint, await admission.check_hint(hint, program), tokens))
            if tries[-1].result.passed:
                break
        return tuple(tries)
    finally:
        cohort.leave(member)


def read_hint(reply: str) -> str:
    """The hint in a reply: what stands outside thinking, without a leading label; empty if there is none."""
    text, thinking_open = outside_thinking(reply)
    return "" if thinking_open else _LABEL.sub("", text.strip()).strip()


def _failed(reason: str, tokens: int = 0) -> HintTry:
    return HintTry("", GateResult(GateName.HINT_SAFE, passed=False, reason=reason, seconds=0.0), tokens)
