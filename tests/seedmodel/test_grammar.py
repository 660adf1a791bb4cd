"""The grammar: every family gives sound programs, an expert wins them, and a mediocre player leaves room to learn."""

from __future__ import annotations

import asyncio
import re

import numpy as np
import pytest

from spadework.config import COGNITIVE_SKILLS, TOOL_SKILLS, GatesConfig
from spadework.environment.gates import check_hint, check_program
from spadework.environment.tool_formats import ToolFormat, read_tool_reply
from spadework.roles.prompts.keywords import KEYWORD, RESERVED, usable_words
from spadework.sandbox import Program, Sandbox
from spadework.seedmodel.families import ALL, GAMES, HELD_OUT, TOOL_ENVIRONMENTS, TRAINED, family
from spadework.seedmodel.grammar import GAME, TOOLS, Family, Written, fixed_text, words_needed, write_program
from spadework.seedmodel.players import choose, hear, reply

WORDS = [
    "lantern",
    "copper",
    "window",
    "garden",
    "mirror",
    "silver",
    "river",
    "orange",
    "planet",
    "basket",
    "candle",
    "thunder",
    "marble",
    "ribbon",
    "velvet",
    "anchor",
]


def written(families: list[Family], seed: int) -> Written:
    rng = np.random.default_rng(seed)
    dials = [family.dials(rng) for family in families]
    return write_program(families, dials, WORDS[: words_needed(dials)], [family.hints[0] for family in families])


async def play(program: Program, seed: int, skill: float) -> float:
    rng = np.random.default_rng(seed)
    uses_tools = program.info.uses_tools
    play, observation = await program.reset(seed)
    heard, moves = [hear(observation, uses_tools, first=True)], list[str]()
    while True:
        family, move = choose(heard, moves, skill, rng)
        said = reply(family, move)
        calls = read_tool_reply(said, ToolFormat.JSON_TAGS, (), len(moves))
        transition = await play.step(calls.action if uses_tools else move)
        moves.append(move)
        if transition.terminated or transition.truncated:
            await play.close()
            return transition.reward
        heard.append(hear(transition.observation, uses_tools))


def win_rate(family: Family, skill: float, plays: int) -> float:
    async def run() -> float:
        rewards: list[float] = []
        async with Sandbox() as sandbox:
            for number in range(plays // 4):
                async with await sandbox.open(written([family], number).source) as program:
                    rewards += [await play(program, 4 * number + index, skill) for index in range(4)]
        return float(np.mean(rewards))

    return asyncio.run(run())


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_programs_of_every_family_pass_all_gates_with_their_hint(family: Family) -> None:
    async def check() -> None:
        async with Sandbox() as sandbox:
            for seed in range(3):
                program = written([family], seed)
                report = await check_program(program.source, sandbox, GatesConfig(), run_seed=seed)
                assert report.passed, report.reason
                assert report.program is not None
                hint = await check_hint(program.hint, report.program, sandbox, GatesConfig(), run_seed=seed)
                assert hint.passed, hint.reason

    asyncio.run(check())


@pytest.mark.parametrize(("first", "second"), [("largest", "cycle"), ("record", "move"), ("stamp", "tell")])
def test_composed_programs_pass_all_gates_and_need_both_stages(first: str, second: str) -> None:
    async def check() -> None:
        async with Sandbox() as sandbox:
            program = written([family(first), family(second)], 0)
            report = await check_program(program.source, sandbox, GatesConfig(), run_seed=0)
            assert report.passed, report.reason
            async with await sandbox.open(program.source) as opened:
                episode, _ = await opened.reset(1)
                rewards = [(await episode.step(action)).reward for action in await episode.solution()]
                assert rewards[-1] == 1.0
                assert set(rewards[:-1]) == {0.0}

    asyncio.run(check())


@pytest.mark.parametrize(
    "family", [family for family in ALL if family.name not in ("eliminate", "switch")], ids=lambda family: family.name
)
def test_the_expert_always_wins(family: Family) -> None:
    assert win_rate(family, 1.0, 24) == 1.0


@pytest.mark.parametrize("name", ["bisect", "lookup", "map", "largest", "record", "hang", "move", "tell"])
def test_a_mediocre_player_wins_sometimes(name: str) -> None:
    assert 0.0 < win_rate(family(name), 0.45, 80) < 0.6


def test_families_cover_all_skills_and_some_are_held_out() -> None:
    assert {family.skill for family in TRAINED if family in GAMES} == set(COGNITIVE_SKILLS)
    assert {family.skill for family in TRAINED if family in TOOL_ENVIRONMENTS} == set(TOOL_SKILLS)
    assert len(TRAINED) >= 20
    assert {family.name for family in ALL} - {family.name for family in TRAINED} == set(HELD_OUT)


def test_fixed_text_and_slots_give_the_template_back() -> None:
    template = "a = {{x}}\n\n    b{{y}}c\n"
    assert fixed_text(template) == ["a = ", "\n\n    b", "c", "\n"]


def test_a_call_is_written_with_spaces_before_words_and_none_before_listed_values() -> None:
    assert reply(family("status"), "set copper shut") == (
        '<tool_call>\n{"name": "set", "arguments": {"word": " copper", "to": "shut"}}\n</tool_call>'
    )
    assert reply(family("lookup"), "say copper") == "\\boxed{say copper}"


def test_words_of_the_grammar_and_of_no_content_are_not_taken_from_documents() -> None:
    text = "Ask about the Lantern, which holds copper_wire and `river` but not say.word nor window."
    assert usable_words(text) == ["lantern", "holds", "window"]


def test_every_word_of_the_grammar_is_reserved() -> None:
    said = "\n".join(text for family in ALL for text in (family.code, *family.hints, *family.tools))
    said = "\n".join((said, GAME.skeleton, TOOLS.skeleton))
    spoken = {word.lower() for word in re.findall("[A-Za-z]+", said)}
    assert {word for word in spoken if KEYWORD.fullmatch(word)} <= RESERVED
