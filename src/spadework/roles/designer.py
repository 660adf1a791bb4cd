"""A round of designs: every slot of the round is filled with an environment, or stays empty after so many attempts.

Attempts go in waves. In a wave each empty slot draws the next document, one session writes all attempts, and the gates
run on all programs at once. `novel` then goes through them in slot order, a hint is written for each that is left, and
a judge, where there is one, reads what passed all of that. Everything is named by (run seed, round, slot, attempt) and
nothing by time, so a round depends on the run seed, the weights, the cursor, the pool and the memory alone; and, where
a frozen model writes, on its replies, which the run keeps.

What an attempt trains. Every attempt gives one completion: of an accepted attempt the reply that was accepted, of a
rejected one its first reply. With repair turns these differ: the learner is not to reward the faulty reply that a later
turn repaired, and a repair that failed is not punished twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spadework.curriculum.corpus import CorpusCursor
from spadework.roles.admission import Admission
from spadework.roles.author import Author
from spadework.roles.draft import Attempt, AttemptStatus, Design, Draft
from spadework.roles.grounding import Grounding
from spadework.roles.hint import write_hint
from spadework.roles.judge import judge_program
from spadework.roles.together import all_of
from spadework.roles.writer import NoRoom, Session, Wanted
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
    admission: Admission,
) -> RoundDesigns:
    """Fill one slot per entry of ``skills``; each attempt takes the next document and draws a memory of its own.

    Raises CorpusError if a document can no longer be read, EndpointError and BudgetSpent if a frozen model is asked.
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
        await _write_programs(drafts, author, admission)
        for draft in drafts:
            draft.admit(admission)
        await _write_hints([draft for draft in drafts if not draft.status], author, admission)
        await _judge([draft for draft in drafts if not draft.status], author)
        for draft in drafts:
            draft.accept()
            attempts.append(draft.attempt(iteration))
            if draft.status == AttemptStatus.ACCEPTED:
                designs[draft.slot] = draft.design(attempts[-1])
    return RoundDesigns(
        designs=tuple(designs[slot] for slot in sorted(designs)),
        attempts=tuple(attempts),
        empty_slots=tuple(slot for slot in range(len(skills)) if slot not in designs),
        cursor=cursor,
    )


async def _write_programs(drafts: Sequence[Draft], author: Author, admission: Admission) -> None:
    async with author.programs.session(len(drafts)) as session:
        await all_of(_write(draft, author, admission, session, member) for member, draft in enumerate(drafts))


async def _write(draft: Draft, author: Author, admission: Admission, session: Session, member: int) -> None:
    """Ask for a program and check it; show the writer its rejection as often as repair turns allow."""
    prompts, config = author.programs.prompts, author.config
    try:
        messages = prompts.designer_messages(draft.skill, draft.document, draft.memory, config.difficulty)
        dialogue = session.dialogue(member)
        for turn in range(1 + config.repair_turns):
            draw = derive_seed(author.run_seed, "designer", draft.round, draft.slot, draft.number, turn)
            try:
                written = await dialogue.ask(messages, Wanted(config.max_tokens, config.temperature, draw))
            except NoRoom as full:
                draft.no_room(full)
                return
            draft.replied(written)
            if written.cut_at is not None:
                draft.cut(written.cut_at)
                return
            if turn == config.repair_turns:
                session.leave(member)  # the others need not wait for these gates
            if await draft.check(admission):
                return
            messages = prompts.repair_messages(draft.status, draft.reason, draft.trace)
    except InfrastructureFault as fault:
        draft.host_failed(fault)
    finally:
        session.leave(member)


async def _write_hints(drafts: Sequence[Draft], author: Author, admission: Admission) -> None:
    if not drafts:
        return
    async with author.hints.session(len(drafts)) as session:
        await all_of(_write_hint(draft, author, admission, session, member) for member, draft in enumerate(drafts))


async def _write_hint(draft: Draft, author: Author, admission: Admission, session: Session, member: int) -> None:
    draws = (draft.round, draft.slot, draft.number)
    try:
        draft.hinted(await write_hint(draft.program, draws, author, admission, session, member))
    except InfrastructureFault as fault:
        draft.host_failed(fault)


async def _judge(drafts: Sequence[Draft], author: Author) -> None:
    if author.judge is None or not drafts:
        return
    async with author.judge.writer.session(len(drafts)) as session:
        verdicts = await all_of(
            judge_program(draft.program, draft.report, author.judge, session, member)
            for member, draft in enumerate(drafts)
        )
    for draft, verdict in zip(drafts, verdicts, strict=True):
        draft.judged(verdict)
