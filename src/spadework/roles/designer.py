"""A round of designs: every slot of the round is filled with an environment, or stays empty after so many attempts.

Attempts go in waves. In a wave each empty slot draws the next document, one cohort samples all attempts, and the gates
run on all programs at once. `novel` then goes through them in slot order, and a hint is written for each that is left.
Everything is named by (run seed, round, slot, attempt) and nothing by time, so a round depends on the run seed, the
weights, the cursor, the pool and the memory alone.

What an attempt trains. Every attempt gives one completion: of an accepted attempt the reply that was accepted, of a
rejected one its first reply. With repair turns these differ: the learner is not to reward the faulty reply that a later
turn repaired, and a repair that failed is not punished twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spadework.curriculum.corpus import CorpusCursor
from spadework.engines.base import Cohort, ContextTooLong, Engine, SamplingParams, StopReason
from spadework.roles.admission import Admission
from spadework.roles.author import Author
from spadework.roles.draft import Attempt, AttemptStatus, Design, Draft
from spadework.roles.grounding import Grounding
from spadework.roles.hint import write_hint
from spadework.roles.together import all_of
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.seeding import derive_seed


@dataclass(frozen=True)
class RoundDesigns:
    """``designs`` in slot order, ``attempts`` by attempt and slot, ``cursor`` for the next draw from the corpus."""

    designs: tuple[Design, ...]
    attempts: tuple[Attempt, ...]
    empty_slots: tuple[int, ...]
    cursor: CorpusCursor


async def design_round(
    skills: Sequence[str],
    cursor: CorpusCursor,
    *,
    round: int,
    iteration: int,
    grounding: Grounding,
    author: Author,
    engine: Engine,
    admission: Admission,
) -> RoundDesigns:
    """Fill one slot per entry of ``skills``; each attempt takes the next document and draws a memory of its own.

    Raises CorpusError if a document can no longer be read.
    """
    designs: dict[int, Design] = {}
    attempts: list[Attempt] = []
    for number in range(author.config.attempts):
        drafts: list[Draft] = []
        for slot, skill in enumerate(skills):
            if slot not in designs:
                document, cursor = grounding.next_document(author.run_seed, cursor, author.rendering)
                memory = grounding.recall(skill, round, slot, number, author.run_seed, author.rendering)
                drafts.append(Draft(round, slot, number, skill, document, memory))
        if not drafts:
            break
        await _write_programs(drafts, author, engine, admission)
        for draft in drafts:
            draft.admit(admission)
        await _write_hints([draft for draft in drafts if not draft.status], author, engine, admission)
        for draft in drafts:
            attempts.append(draft.attempt(iteration))
            if draft.status == AttemptStatus.ACCEPTED:
                designs[draft.slot] = draft.design(attempts[-1])
    return RoundDesigns(
        designs=tuple(designs[slot] for slot in sorted(designs)),
        attempts=tuple(attempts),
        empty_slots=tuple(slot for slot in range(len(skills)) if slot not in designs),
        cursor=cursor,
    )


async def _write_programs(drafts: Sequence[Draft], author: Author, engine: Engine, admission: Admission) -> None:
    async with engine.cohort(len(drafts)) as cohort:
        await all_of(_write(draft, author, admission, cohort, member) for member, draft in enumerate(drafts))


async def _write(draft: Draft, author: Author, admission: Admission, cohort: Cohort, member: int) -> None:
    """Sample a program and check it; show the model its rejection as often as repair turns allow."""
    rendering, prompts, config = author.rendering, author.prompts, author.config
    try:
        messages = prompts.designer_messages(draft.skill, draft.document, draft.memory, config.difficulty)
        prompt_ids = rendering.first_prompt(messages)
        for turn in range(1 + config.repair_turns):
            max_tokens = author.room(prompt_ids, config.max_tokens)
            if max_tokens is None:
                draft.no_room(len(prompt_ids), author.max_context_tokens)
                return
            seed = derive_seed(author.run_seed, "designer", draft.round, draft.slot, draft.number, turn)
            params = SamplingParams(max_tokens, rendering.stop_ids, seed, config.temperature)
            try:
                sample = await cohort.sample(member, prompt_ids, params)
            except ContextTooLong:
                draft.no_room(len(prompt_ids), author.max_context_tokens)
                return
            draft.replied(prompt_ids, sample, rendering.reply_text(sample.token_ids_T))
            if sample.stop_reason is StopReason.LENGTH:
                draft.cut(max_tokens)
                return
            if turn == config.repair_turns:
                cohort.leave(member)  # the others need not wait for these gates
            if await draft.check(admission):
                return
            repair = prompts.repair_messages(draft.status, draft.reason)
            prompt_ids = rendering.next_prompt(prompt_ids, sample.token_ids_T, repair)
    except InfrastructureFault as fault:
        draft.host_failed(fault)
    finally:
        cohort.leave(member)


async def _write_hints(drafts: Sequence[Draft], author: Author, engine: Engine, admission: Admission) -> None:
    if not drafts:
        return
    async with engine.cohort(len(drafts)) as cohort:
        await all_of(_write_hint(draft, author, admission, cohort, member) for member, draft in enumerate(drafts))


async def _write_hint(draft: Draft, author: Author, admission: Admission, cohort: Cohort, member: int) -> None:
    draws = (draft.round, draft.slot, draft.number)
    try:
        draft.hinted(await write_hint(draft.program, draws, author, admission, cohort, member))
    except InfrastructureFault as fault:
        draft.host_failed(fault)
