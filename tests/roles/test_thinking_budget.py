"""Thinking that is ended at its budget: what is sampled, what stands between, and what is trained."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import groupby

import pytest
from families import FAMILIES, GPT_OSS, Family
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_engine import Script, ScriptedEngine
from shop_program import CODE, SHOP
from staged_programs import Stage

from spadework.config import AgentConfig
from spadework.engines.base import SamplingParams, StopReason
from spadework.presets import ConfigError, load_config
from spadework.roles.agent import EpisodeRequest, Player
from spadework.roles.choosing import open_rendering
from spadework.roles.episode import Arm, Episode, EpisodeEnd
from spadework.roles.plays import play_all
from spadework.roles.prompts import full
from spadework.roles.rendering import RenderingRefused
from spadework.roles.thinking import require_thinking
from spadework.roles.tool_rendering import open_tool_rendering
from spadework.roles.tool_use import trained_tokens
from spadework.sandbox import Sandbox
from spadework.sandbox.outcomes import Outcome
from spadework.store.rows import episode_of_rows, transcript_row

BUDGET = 16
THINKERS = {name: FAMILIES[name] for name in ("Qwen3 thinking", "Nemotron-3 thinking")} | {"gpt-oss": GPT_OSS}
ENDINGS = {
    "Qwen3 thinking": "\n</think>\n\n",
    "Nemotron-3 thinking": "\n</think>\n\n",
    "gpt-oss": "<|end|><|start|>assistant<|channel|>final<|message|>",
}
OPENINGS = {"Qwen3 thinking": "<think>\n", "Nemotron-3 thinking": "", "gpt-oss": "<|channel|>analysis<|message|>"}
each_thinker = pytest.mark.parametrize("name", THINKERS)


def player(family: Family, **settings: object) -> Player:
    given = {"thinking": family.thinking, "max_thinking_tokens": BUDGET, "max_reply_tokens": 60, "max_turns": 3}
    config = AgentConfig.model_validate(given | settings)
    rendering = open_rendering(family.tokenizer(), "local", family.thinking)
    tools = open_tool_rendering(rendering) if config.action_format == "tool_call" else None
    return Player(rendering, full, config, max_context_tokens=4000, run_seed=7, tools=tools)


def play(script: Script, player: Player, arm: Arm = Arm.PLAIN) -> tuple[Episode, ScriptedEngine]:
    engine = ScriptedEngine(player.rendering, script)
    hint = "Guess low." if arm is Arm.HINTED else None
    played = asyncio.run(play_all([EpisodeRequest("e", "honest", arm, 3, hint)], engine, Stage(), player))
    return played.episodes[0], engine


def thinks_for_long(name: str) -> Script:
    def script(member: int, prompt: str, params: SamplingParams) -> str:
        if prompt.endswith(ENDINGS[name]):
            return "\\boxed{1}"
        return OPENINGS[name] + "is it \\boxed{9} or " * 9

    return script


def runs(episode: Episode) -> list[tuple[bool, tuple[int, ...]]]:
    """The stream in runs of tokens that were sampled, or that were not."""
    pairs = zip(episode.sampled_T, episode.token_ids_T, strict=True)
    return [(sampled, tuple(token for _, token in run)) for sampled, run in groupby(pairs, lambda pair: pair[0])]


@each_thinker
def test_thinking_is_ended_at_its_budget_and_the_answer_is_played(name: str) -> None:
    one = player(THINKERS[name])
    episode, engine = play(thinks_for_long(name), one)
    rendering = one.rendering
    assert len(episode.turns) == 3
    assert {turn.action for turn in episode.turns} == {"1"}
    assert all(turn.thinking_ended for turn in episode.turns)
    stream = runs(episode)
    answer = (*rendering.encode("\\boxed{1}"), rendering.stop_ids[0])
    for turn in range(3):
        (_, prompt), (thought, thoughts), (closed, ending), (said, sampled) = stream[4 * turn : 4 * turn + 4]
        assert (thought, closed, said) == (True, False, True)
        assert len(thoughts) == BUDGET
        assert rendering.decode(ending) == ENDINGS[name]
        assert sampled == answer
        assert prompt
    assert len(stream) == 12
    assert all(x == 0.0 for x, sampled in zip(episode.logprobs_T, episode.sampled_T, strict=True) if not sampled)
    assert episode.token_ids_T[: len(engine.prompts[-1][1])] == engine.prompts[-1][1]
    assert len(set(engine.seeds)) == 6


@each_thinker
def test_both_arms_are_cut_alike(name: str) -> None:
    episodes = [play(thinks_for_long(name), player(THINKERS[name]), arm)[0] for arm in Arm]
    shapes = [[(sampled, len(run)) for sampled, run in runs(episode)][1:] for episode in episodes]
    assert shapes[0] == shapes[1]


@each_thinker
def test_thinking_that_ends_in_time_is_left_alone(name: str) -> None:
    ending = ENDINGS[name]
    one = player(THINKERS[name], max_thinking_tokens=40, max_reply_tokens=90)
    short, engine = play(lambda m, p, s: f"{OPENINGS[name]}a{ending}\\boxed{{1}}", one)
    assert len(engine.prompts) == len(short.turns) == 3
    assert not any(turn.thinking_ended for turn in short.turns)

    def wordy(member: int, prompt: str, params: SamplingParams) -> str:
        return f"{OPENINGS[name]}a{ending}" + "so it is " * 5 if "so it" not in prompt[-20:] else " \\boxed{1}"

    long, engine = play(wordy, player(THINKERS[name], max_thinking_tokens=40, max_reply_tokens=90, max_turns=1))
    (turn,) = long.turns
    assert len(engine.prompts) == 2
    assert not turn.thinking_ended
    assert turn.action == "1"
    assert len(runs(long)) == 2
    assert sum(long.sampled_T) == 40 + len(one.rendering.encode(" \\boxed{1}")) + 1


@each_thinker
def test_thought_and_answer_together_keep_to_the_budget_of_the_reply(name: str) -> None:
    one = player(THINKERS[name], max_reply_tokens=24)
    never_ends: Script = lambda member, prompt, params: OPENINGS[name] + "so it is " * 20  # noqa: E731
    episode, _ = play(never_ends, one)
    assert (episode.end, episode.outcome) == (EpisodeEnd.REPLY_CUT, Outcome.AGENT_FAULT)
    assert sum(episode.sampled_T) == 24
    assert episode.turns[-1].thinking_ended and episode.turns[-1].action == ""


@each_thinker
def test_a_context_that_is_full_ends_the_episode_as_one(name: str) -> None:
    one = player(THINKERS[name])
    opening = len(play(thinks_for_long(name), one)[1].prompts[0][1])
    for room in (17, 19, 40):
        tight = replace(one, max_context_tokens=opening + room)
        episode, _ = play(lambda m, p, s: OPENINGS[name] + "so it is " * 20, tight)
        assert (episode.end, episode.outcome) == (EpisodeEnd.CONTEXT_FULL, Outcome.AGENT_FAULT)
        assert len(episode.token_ids_T) <= opening + room


texts = st.text("ab <>/think|\n", max_size=30)


@each_thinker
@settings(max_examples=40, deadline=None)
@given(data=st.data(), budget=st.integers(1, 30))
def test_whatever_is_sampled_is_trained_and_nothing_else_is(name: str, data: st.DataObject, budget: int) -> None:
    one = player(THINKERS[name], max_thinking_tokens=budget)
    sampled: list[int] = []
    marks = [str(token) for token in one.rendering.tokenizer.added_tokens_decoder.values()]
    pieces = st.lists(st.sampled_from([*marks, *OPENINGS.values(), "final", "\\boxed{1}"]) | texts, max_size=8)

    class Recorded(ScriptedEngine):
        def reply(self, member, prompt_ids, params):  # type: ignore[no-untyped-def]
            sample = super().reply(member, prompt_ids, params)
            stop = next((n for n, token in enumerate(sample.token_ids_T, 1) if token in params.stop_ids), None)
            if stop is not None:
                sample = replace(
                    sample,
                    token_ids_T=sample.token_ids_T[:stop],
                    logprobs_T=sample.logprobs_T[:stop],
                    stop_reason=StopReason.STOP,
                )
            sampled.extend(sample.token_ids_T)
            return sample

    engine = Recorded(one.rendering, lambda member, prompt, params: "".join(data.draw(pieces)))
    played = asyncio.run(play_all([EpisodeRequest("e", "honest", Arm.PLAIN, 3)], engine, Stage(), one))
    (episode,) = played.episodes
    assert [t for t, s in zip(episode.token_ids_T, episode.sampled_T, strict=True) if s] == sampled
    assert sum(run[0] for run in runs(episode)) == sum(1 + turn.thinking_ended for turn in episode.turns)
    assert trained_tokens(episode, train_malformed_calls=False) == episode.sampled_T


@each_thinker
@pytest.mark.parametrize("short", [0, 1])
def test_a_reply_that_stops_at_its_budget_to_the_token_is_whole(name: str, short: int) -> None:
    family = THINKERS[name]
    rendering = player(family).rendering
    answer = rendering.encode(f"{OPENINGS[name]}hm{ENDINGS[name]}\\boxed{{1}}")
    one = player(family, max_thinking_tokens=len(answer) + 1 - short)
    episode, _ = play(lambda member, prompt, params: rendering.decode(answer), one)
    assert [turn.thinking_ended for turn in episode.turns] == [False] * len(episode.turns) != []
    if not short:
        assert {turn.action for turn in episode.turns} == {"1"}
        assert [sum(sampled for sampled, _ in runs(episode))] == [len(episode.turns)]


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_channel_is_ended_wherever_it_is_cut(cut: int) -> None:
    rendering = open_rendering(GPT_OSS.tokenizer(), "local", "low")
    thought = rendering.encode(
        "<|channel|>analysis<|message|>hm \\boxed{9}<|end|><|start|>assistant<|channel|>analysis"
    )
    answer = (*rendering.encode("5"), rendering.stop_ids[0])
    ids = thought[: min(cut, len(thought))]
    ending = rendering.thinking_end(ids, calls=False)
    assert ending is not None
    assert rendering.reply_text((*ids, *ending, *answer)).rpartition("</think>")[2].strip() == "5"
    said = "<|channel|>final<|message|>so"
    for answering in (
        "<|channel|>final",
        "<|channel|>final<|message|>",
        said,
        f"{said}<|end|>",
        f"{said}<|end|><|start|>",
    ):
        begun = (*rendering.encode("<|channel|>analysis<|message|>hm<|end|><|start|>assistant"),)
        assert rendering.thinking_end((*begun, *rendering.encode(answering)), calls=False) is None
    calling = rendering.encode("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{")
    assert rendering.thinking_end(calling, calls=True) is None


def test_a_call_may_follow_thinking_that_was_ended_and_one_that_is_malformed_is_left_out_whole() -> None:
    one = player(GPT_OSS, action_format="tool_call", max_reply_tokens=200, max_turns=2)
    one = replace(one, max_context_tokens=20_000)

    thought = "<|channel|>analysis<|message|>" + "think " * 40
    calls = [
        f"<|channel|>commentary to=functions.set_status <|constrain|>json<|message|>{body}<|call|>"
        for body in ("{", f'{{"code": "{CODE}"}}')
    ]
    says = iter((thought, calls[0], thought, calls[1]))

    async def main() -> Episode:
        async with Sandbox() as sandbox:
            engine = ScriptedEngine(one.rendering, lambda member, prompt, params: next(says))
            played = await play_all([EpisodeRequest("shop", SHOP, Arm.PLAIN, 3)], engine, sandbox, one)
            return played.episodes[0]

    episode = asyncio.run(main())
    assert [turn.thinking_ended for turn in episode.turns] == [True, True]
    kept = trained_tokens(episode, train_malformed_calls=False)
    left = [flag for flag, run in groupby(zip(episode.sampled_T, kept, strict=True)) if flag[0]]
    assert left == [(True, False), (True, False), (True, True), (True, True)]


def test_the_record_of_an_episode_keeps_where_thinking_was_ended() -> None:
    episode, _ = play(thinks_for_long("gpt-oss"), player(GPT_OSS))
    head = (episode.arm, episode.seed, episode.end, episode.outcome, None, "")
    assert episode_of_rows(episode.environment_id, head, transcript_row(episode)) == episode


@pytest.mark.parametrize("name", ["Qwen3-Instruct-2507", "Qwen2.5", "Llama-3", "ChatML"])
def test_a_budget_is_refused_for_a_model_without_thinking(name: str) -> None:
    rendering = open_rendering(FAMILIES[name].tokenizer(), f"local/{name}", thinking=True)
    config = AgentConfig(thinking=True, max_thinking_tokens=10)
    with pytest.raises(RenderingRefused, match=f"the chat template of local/{name}.* knows no thinking"):
        require_thinking(rendering, config)
    require_thinking(rendering, AgentConfig(thinking=True))


@each_thinker
def test_a_budget_is_taken_for_a_model_that_thinks(name: str) -> None:
    one = player(THINKERS[name])
    require_thinking(one.rendering, one.config)


def test_budgets_that_can_have_no_effect_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent\.max_thinking_tokens has no effect while agent.thinking is false"):
        load_config("quickstart", ["agent.max_thinking_tokens=100"])
    with pytest.raises(ConfigError, match=r"agent.max_thinking_tokens \(64\) leaves no room for an answer"):
        load_config("quickstart", ["agent.thinking=true", "agent.max_thinking_tokens=64", "agent.max_reply_tokens=64"])
