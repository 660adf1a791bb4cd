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
from spadework.roles.conversation import Conversation, TextConversation, ToolConversation
from spadework.roles.messages import Message
from spadework.roles.prompts.keywords import MOST_KEYWORDS, Encode, keywords
from spadework.roles.prompts.seed import SeedPrompts
from spadework.roles.rendering import Rendering
from spadework.roles.tool_rendering import open_tool_rendering
from spadework.sandbox import Program, Sandbox
from spadework.seeding import generator
from spadework.seedmodel.families import TRAINED
from spadework.seedmodel.grammar import GAME, TOOLS, Family, Written, words_needed, write_program
from spadework.seedmodel.players import choose, hear, reply
from spadework.seedmodel.supervision import Rendered

LEAST_KEYWORDS = 5
TOOLS_SHARE = 0.5
"""Share of programs that are tool environments."""
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


@dataclass(frozen=True)
class Designed:
    written: Written
    prompt: tuple[Message, ...]

    @property
    def reply(self) -> str:
        return f"```python\n{self.written.source}```"


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
    frame = TOOLS if rng.random() < TOOLS_SHARE else GAME
    known = [family for family in TRAINED if family.frame is frame]
    skill = _any_of(known, rng).skill
    own = [family for family in known if family.skill == skill]
    first = _any_of(own, rng)
    memory = _memory(first, own, known, rng) if rng.random() < REMEMBERED else Memory()
    families = (first,) if rng.random() >= COMPOSED else (first, _any_of(_partners(first, known), rng))
    dials = [family.dials(rng) for family in families]
    needed = words_needed(dials)
    if needed > count:
        return None
    # Words that follow each other, from near the first: copying on is easier to learn than picking anywhere.
    start = int(rng.integers(min(STARTS, count - needed + 1)))
    written = write_program(families, dials, shown[start : start + needed], _hints(families))
    prompt = prompts.designer_messages(skill, Document("", "", " ".join(shown)), memory, "medium")
    return Designed(written, tuple(prompt))


def _partners(first: Family, known: Sequence[Family]) -> list[Family]:
    """What ``first`` can be composed with: two tools of one name could not be told apart."""
    return [family for family in known if not family.tools.keys() & first.tools.keys()]


def _memory(first: Family, own: Sequence[Family], known: Sequence[Family], rng: np.random.Generator) -> Memory:
    """To vary: mostly the family that follows, sometimes one more; to avoid: sometimes another of its skill."""
    varied = [first if rng.random() < FOLLOWED else _any_of(known, rng)]
    varied += [_any_of(known, rng)] if rng.random() < 0.5 else []
    others = [family for family in own if family is not first]
    avoided = others[:1] if rng.random() < 0.5 else []
    return Memory(_remembered(varied), _remembered(avoided))


def _any_of(families: Sequence[Family], rng: np.random.Generator) -> Family:
    return families[int(rng.integers(len(families)))]


async def plays(
    written: Sequence[Written], rendering: Rendering, prompts: SeedPrompts, run_seed: int
) -> list[Rendered]:
    """A mediocre player's episodes of every program, in both arms."""
    player = _Player(rendering, prompts)
    async with Sandbox() as sandbox:
        played: list[Rendered] = []
        for start in range(0, len(written), 32):
            batch = enumerate(written[start : start + 32], start)
            rows = await asyncio.gather(
                *(player.plays(sandbox, program, number, run_seed) for number, program in batch)
            )
            played += [episode for row in rows for episode in row]
    return played


class _Player:
    """Speaks as a run does: the ids of an episode are made by the same conversations."""

    def __init__(self, rendering: Rendering, prompts: SeedPrompts) -> None:
        self._rendering, self._prompts = rendering, prompts
        self._tools = open_tool_rendering(rendering)

    async def plays(self, sandbox: Sandbox, written: Written, number: int, run_seed: int) -> list[Rendered]:
        program = await sandbox.open(written.source)
        draws = [generator(run_seed, "seed-model-play", number, index) for index in range(PLAYS)]
        try:
            return [await self._play(program, written, rng, bool(index % 2)) for index, rng in enumerate(draws)]
        finally:
            await program.close()

    async def _play(self, program: Program, written: Written, rng: np.random.Generator, hinted: bool) -> Rendered:
        uses_tools = program.info.uses_tools
        talk: Conversation = (
            ToolConversation(self._tools, self._prompts)
            if uses_tools
            else TextConversation(self._rendering, self._prompts, "boxed")
        )
        play, observation = await program.reset(int(rng.integers(2**31)))
        heard, moves = [hear(observation, uses_tools, first=True)], list[str]()
        ids = list(talk.first_prompt(observation, written.hint if hinted else None))
        learned = [False] * len(ids)
        while True:
            family, move = choose(heard, moves, HINTED_SKILL if hinted else PLAIN_SKILL, rng)
            said = reply(family, move)
            sampled = [*self._rendering.encode(said), self._rendering.stop_ids[0]]
            learned += [True] * len(sampled)
            transition = await play.step(talk.action(said, len(moves)))
            if transition.terminated or transition.truncated:
                await play.close()
                return Rendered([*ids, *sampled], learned)
            ids = list(talk.next_prompt(ids, sampled, transition.observation))
            learned += [False] * (len(ids) - len(learned))
            moves.append(move)
            heard.append(hear(transition.observation, uses_tools))


def _remembered(families: Sequence[Family]) -> tuple[Example, ...]:
    """Of a remembered environment the short prompt reads its hint only."""
    return tuple(
        Example(family.name, "", Zone.FRONTIER, 0.5, None, None, None, 0, family.hints[0], "", "", 0)
        for family in families
    )


def _hints(families: Sequence[Family]) -> list[str]:
    return [family.hints[0] for family in families]
