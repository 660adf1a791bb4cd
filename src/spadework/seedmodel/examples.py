"""What the seed model is started on: programs from documents, hints from programs, and mediocre play."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spadework.curriculum.corpus import Corpus, truncate
from spadework.curriculum.documents import Document
from spadework.curriculum.memory import Example, Memory
from spadework.curriculum.zones import Zone
from spadework.roles.messages import Message
from spadework.roles.prompts import seed as prompts
from spadework.roles.rendering import Tokenizer
from spadework.sandbox import Program, Sandbox
from spadework.seeding import generator
from spadework.seedmodel.families import TRAINED
from spadework.seedmodel.grammar import Family, Written, words_needed, write_program
from spadework.seedmodel.players import choose
from spadework.seedmodel.wording import copyable_words, reserved_words

DOCUMENT_TOKENS = 128
COMPOSED = 0.15
"""Share of programs with two stages."""
PLAIN_SKILL = 0.45
HINTED_SKILL = 0.8
REMEMBERED = 0.5
"""Share of designs that are shown a memory."""
FOLLOWED = 0.6
"""How often a design varies what memory shows, given that it has the skill."""
PLAYS = 4

Conversation = tuple[Message, ...]
"""Messages of which the assistant's are learned."""


@dataclass(frozen=True)
class Designed:
    written: Written
    conversation: Conversation


def excerpts(corpus: Corpus, tokenizer: Tokenizer, least_words: int) -> list[tuple[Document, list[str]]]:
    """Every document as the designer sees it, with the words that a program may take from it."""
    reserved = reserved_words()
    found: list[tuple[Document, list[str]]] = []
    for index in range(len(corpus)):
        document = corpus.document(index)
        text, _ = truncate(document.text, DOCUMENT_TOKENS, tokenizer)
        words = copyable_words(text, reserved, tokenizer)
        if len(words) >= least_words:
            found.append((Document(document.id, document.title, text), words))
    return found


def exchanged(
    document: Document,
    own: Sequence[str],
    words: Sequence[str],
    reserved: frozenset[str],
    tokenizer: Tokenizer,
    rng: np.random.Generator,
) -> tuple[Document, list[str]]:
    """``document`` with other words in the place of its ``own``, and those.

    A model that sees the same documents again learns them by heart, and never learns to copy from one that is new.
    """
    others = dict(zip(own, (words[index] for index in rng.permutation(len(words))), strict=False))
    text = re.sub(r"[a-z]+", lambda found: others.get(found[0], found[0]), document.text)
    return Document(document.id, document.title, text), copyable_words(text, reserved, tokenizer)


def design(document: Document, words: Sequence[str], rng: np.random.Generator) -> Designed | None:
    """One program grounded in ``document``, or None if it has too few words for it."""
    skill = TRAINED[int(rng.integers(len(TRAINED)))].skill
    own = [family for family in TRAINED if family.skill == skill]
    first = own[int(rng.integers(len(own)))]
    memory = Memory()
    if rng.random() < REMEMBERED:
        others = [family for family in own if family is not first]
        shown = [first] if rng.random() < FOLLOWED else [TRAINED[int(rng.integers(len(TRAINED)))]]
        shown += [TRAINED[int(rng.integers(len(TRAINED)))]] if rng.random() < 0.5 else []
        avoided = others if others and rng.random() < 0.5 else []
        memory = Memory(_remembered(shown), _remembered(avoided[:1]))
    families = (first,) if rng.random() >= COMPOSED else (first, TRAINED[int(rng.integers(len(TRAINED)))])
    dials = [family.dials(rng) for family in families]
    needed = words_needed(dials)
    if needed > len(words):
        return None
    # Words that follow each other in the document: copying on is easier to learn than picking anywhere.
    start = int(rng.integers(len(words) - needed + 1))
    written = write_program(families, dials, words[start : start + needed], _hints(families))
    prompt = prompts.designer_messages(skill, document, memory, "medium")
    return Designed(written, (*prompt, Message("assistant", f"```python\n{written.source}```")))


def hint_conversation(written: Written) -> Conversation:
    return (*prompts.hint_messages(written.source), Message("assistant", written.hint))


async def plays(written: Sequence[Written], run_seed: int) -> list[Conversation]:
    """A mediocre player's episodes of every program, in both arms."""
    async with Sandbox() as sandbox:
        conversations: list[Conversation] = []
        for start in range(0, len(written), 32):
            batch = enumerate(written[start : start + 32], start)
            rows = await asyncio.gather(*(_plays(sandbox, program, number, run_seed) for number, program in batch))
            conversations += [conversation for row in rows for conversation in row]
    return conversations


async def _plays(sandbox: Sandbox, written: Written, number: int, run_seed: int) -> list[Conversation]:
    program = await sandbox.open(written.source)
    try:
        return [await _play(program, written, number, run_seed, index) for index in range(PLAYS)]
    finally:
        await program.close()


async def _play(program: Program, written: Written, number: int, run_seed: int, index: int) -> Conversation:
    rng = generator(run_seed, "seed-model-play", number, index)
    hint = written.hint if index % 2 else None
    play, observation = await program.reset(int(rng.integers(2**31)))
    observations, actions = [observation], list[str]()
    messages = prompts.agent_messages(observation, hint, "boxed")
    while True:
        action = choose(observations, actions, PLAIN_SKILL if hint is None else HINTED_SKILL, rng)
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
