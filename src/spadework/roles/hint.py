"""Hints: a model reads a program that passed its gates and writes a tip that does not give it away.

The author of a hint sees the program and not the document; whoever plays sees the hint and not the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spadework.environment.actions import outside_thinking
from spadework.environment.gates import GateName, GateResult
from spadework.environment.program import Program
from spadework.roles.admission import Admission
from spadework.roles.author import Author
from spadework.roles.writer import NoRoom, Session, Wanted
from spadework.seeding import derive_seed

_LABEL = re.compile(r"\A\W*hint\W*:\W*", re.IGNORECASE)


@dataclass(frozen=True)
class HintTry:
    """A hint and what `hint-safe` said of it. ``text`` is empty if there was none to judge, ``tokens`` were sampled."""

    text: str
    result: GateResult
    tokens: int = 0


async def write_hint(
    program: Program, draws: tuple[int, int, int], author: Author, admission: Admission, session: Session, member: int
) -> tuple[HintTry, ...]:
    """Tries at a hint until one is safe: the last is safe, or all ``hint_attempts`` failed.

    ``draws`` (round, slot, attempt) name the samples together with the number of the try. The member leaves the
    session. Raises InfrastructureFault, EndpointError and BudgetSpent.
    """
    tries: list[HintTry] = []
    try:
        messages = author.hints.prompts.hint_messages(program.source)
        for number in range(author.config.hint_attempts):
            draw = derive_seed(author.run_seed, "hint", *draws, number)
            wanted = Wanted(author.config.hint_max_tokens, author.config.hint_temperature, draw)
            try:
                written = await session.dialogue(member).ask(messages, wanted)
            except NoRoom as full:
                return (*tries, _failed(f"no hint to the program could be asked for: {full}"))
            if written.cut_at is not None:
                tries.append(_failed(f"the hint was cut at {written.cut_at} tokens", written.reply_tokens))
                continue
            hint = read_hint(written.text)
            if not hint:
                tries.append(_failed("the reply holds no hint outside its thinking", written.reply_tokens))
                continue
            tries.append(HintTry(hint, await admission.check_hint(hint, program), written.reply_tokens))
            if tries[-1].result.passed:
                break
        return tuple(tries)
    finally:
        session.leave(member)


def read_hint(reply: str) -> str:
    """The hint in a reply: what stands outside thinking, without a leading label; empty if there is none."""
    text, thinking_open = outside_thinking(reply)
    return "" if thinking_open else _LABEL.sub("", text.strip()).strip()


def _failed(reason: str, tokens: int = 0) -> HintTry:
    return HintTry("", GateResult(GateName.HINT_SAFE, passed=False, reason=reason, seconds=0.0), tokens)
