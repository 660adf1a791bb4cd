"""What the seed model is started on: programs from documents, hints from programs, and mediocre play."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spadework.curriculum.corpus import Corpus
from spadework.curriculum.documents import Document
from spadework.curriculum.memory import Example, Memory
from spadework.curriculum.zones import Zone
from spadework.roles.messages import Message
from spadework.roles.prompts.keywords import MOST_KEYWORDS, Encode, keywords
from spadework.roles.prompts.seed import SeedPrompts
from spadework.sandbox import Program, Sandbox
from spadework.seeding import generator
from spadework.seedmodel.families import TRAINED
from spadework.seedmodel.grammar import Family, Written, words_needed, write_program
from spadework.seedmodel.players import choose

LEAST_KEYWORDS = 5
COMPOSED = 0.35
"""Share of programs with two stages."""
PLAIN_SKILL = 0.45
HINTED_SKILL = 0.95
REMEMBERED = 0.5
"""Share of designs that are shown a memory."""
FOLLOWED = 0.6
"""How often a design varies what memory shows, given that it has the skill."""
STARTS = 3
"""Keywords of a document, from the first, with which a program may begin."""
PLAYS = 4

Conversation = tuple[Message, ...]
"""Messages of which the assistant's are learned."""


@dataclass(frozen=True)
class Designed:
    written: Written
    conversation: Conversation


def vocabulary(corpus: Corpus, encode: Encode) -> list[str]:
    """The keywords of all documents: the words that programs may take."""
    texts = (corpus.document(index).text for index in range(len(corpus)))
    return sorted({word for text in texts for word in keywords(text, encode)})


def design(words: Sequence[str], prompts: SeedPrompts, rng: np.random.Generator) -> Designed | None:
    """One program grounded in a document of any keywords out of ``words``, or None if they are too few for it.

    A model that sees the same documents again learns them by heart, and never learns to copy from one that is new.
    """
    count = int(rng.integers(LEAST_KEYWORDS, MOST_KEYWORDS + 1))
    shown = [words[index] for index in rng.choice(len(words), count, replace=False)]
    skill = _any_of(TRAINED, rng).skill
    own = [family for family in TRAINED if family.skill == skill]
    first = _any_of(own, rng)
    memory = _memory(first, own, rng) if rng.random() < REMEMBERED else Memory()
    families = (first,) if rng.random() >= COMPOSED else (first, _any_of(TRAINED, rng))
    dials = [family.dials(rng) for family in families]
    needed = words_needed(dials)
    if needed > count:
        return None
    # Words that follow each other, from near the first: copying on is easier to learn than picking anywhere.
    start = int(rng.integers(min(STARTS, count - needed + 1)))
    written = write_program(families, dials, shown[start : start + needed], _hints(families))
    prompt = prompts.designer_messages(skill, Document("", "", " ".join(shown)), memory, "medium")
    return Designed(written, (*prompt, Message("assistant", f"```python\n{written.source}```")))


def _memory(first: Family, own: Sequence[Family], rng: np.random.Generator) -> Memory:
    """To vary: mostly the family that follows, sometimes one more; to avoid: sometimes another of its skill."""
    varied = [first if rng.random() < FOLLOWED else _any_of(TRAINED, rng)]
    varied += [_any_of(TRAINED, rng)] if rng.random() < 0.5 else []
    others = [family for family in own if family is not first]
    avoided = others[:1] if rng.random() < 0.5 else []
    return Memory(_remembered(varied), _remembered(avoided))


def _any_of(families: Sequence[Family], rng: np.random.Generator) -> Family:
    return families[int(rng.integers(len(families)))]


def hint_conversation(written: Written, prompts: SeedPrompts) -> Conversation:
    return (*prompts.hint_messages(written.source), Message("assistant", written.hint))


async def plays(written: Sequence[Written], prompts: SeedPrompts, run_seed: int) -> list[Conversation]:
    """A mediocre player's episodes of every program, in both arms."""
    async with Sandbox() as sandbox:
        conversations: list[Conversation] = []
        for start in range(0, len(written), 32):
            batch = enumerate(written[start : start + 32], start)
            rows = await asyncio.gather(
                *(_plays(sandbox, program, prompts, number, run_seed) for number, program in batch)
            )
            conversations += [conversation for row in rows for conversation in row]
    return conversations


async def _plays(
    sandbox: Sandbox, written: Written, prompts: SeedPrompts, number: int, run_seed: int
) -> list[Conversation]:
    program = await sandbox.open(written.source)
    draws = [generator(run_seed, "seed-model-play", number, index) for index in range(PLAYS)]
    try:
        return [await _play(program, written, prompts, rng, bool(index % 2)) for index, rng in enumerate(draws)]
    finally:
        await program.close()


async def _play(
    program: Program, written: Written, prompts: SeedPrompts, rng: np.random.Generator, hinted: bool
) -> Conversation:
    hint = written.hint if hinted else None
    play, observation = await program.reset(int(rng.integers(2**31)))
    observations, actions = [observation], list[str]()
    messages = prompts.agent_messages(observation, hint, "boxed")
    while True:
        action = choose(observations, actions, HINTED_SKILL if hinted else PLAIN_SKILL, rng)
        messages.append(Message("assistant", f"\\boxed{{{action}}}"))
        transition = await play.step(action)
        if transition.terminated or transition.truncated:
            await play.close()
            return tuple(messages)
        actions.append(action)
        observations.append(transition.observation)
        messages.append(prompts.observation_message(transition.observation))


def _remembered(families: Sequence[Family]) -> tuple[Example, ...]:
    """Of a remembered environment the short prompt reads its hint only."""
    return tuple(
        Example(family.name, "", Zone.FRONTIER, 0.5, None, None, None, 0, family.hints[0], "", "", 0)
        for family in families
    )


def _hints(families: Sequence[Family]) -> list[str]:
    return [family.hints[0] for family in families]
