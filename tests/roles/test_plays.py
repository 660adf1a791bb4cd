from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from scripted_engine import Script, ScriptedEngine
from small_tokenizers import CHATML, build_tokenizer
from staged_programs import Stage, random_delays

from spadework.config import AgentConfig
from spadework.engines.base import SamplingParams
from spadework.roles.agent import EpisodeRequest, Player
from spadework.roles.choosing import open_rendering
from spadework.roles.episode import Arm, Episode, EpisodeEnd, episode_return
from spadework.roles.plays import Played, matched_returns, play_all
from spadework.roles.prompts import full
from spadework.sandbox.outcomes import FaultKind, Outcome
from spadework.seeding import derive_seed, generator

RENDERING = open_rendering(build_tokenizer(CHATML), "local", thinking=False)
CONFIG = AgentConfig(max_turns=6, max_reply_tokens=40, max_episode_tokens=4000)
PLAYER = Player(RENDERING, full, CONFIG, max_context_tokens=4000, run_seed=7)


def play(
    requests: Sequence[EpisodeRequest], script: Script, player: Player = PLAYER, stage: Stage | None = None
) -> tuple[Played, ScriptedEngine, Stage]:
    engine = ScriptedEngine(RENDERING, script)
    stage = stage or Stage()
    played = asyncio.run(play_all(requests, engine, stage, player))
    assert not stage.unclosed
    assert stage.open_plays == 0
    return played, engine, stage


def one(source: str, script: Script, player: Player = PLAYER, seed: int = 3) -> tuple[Episode, ScriptedEngine]:
    played, engine, _ = play([EpisodeRequest("e", source, Arm.PLAIN, seed)], script, player)
    return played.episodes[0], engine


def say(text: str) -> Script:
    return lambda member, prompt, params: text


def guess_at_random(member: int, prompt: str, params: SamplingParams) -> str:
    return f"Perhaps \\boxed{{{generator(params.seed, 'guess').integers(1, 10)}}}"


def turns_of(prompt: str) -> int:
    return prompt.count("<|im_start|>assistant\n") - 1


def test_a_won_episode_holds_its_turns_and_its_whole_token_stream() -> None:
    episode, _ = one("honest", lambda member, prompt, params: f"\\boxed{{{turns_of(prompt) + 3}}}")
    assert [(turn.action, turn.reward) for turn in episode.turns] == [("3", 0.1), ("4", 1.0)]
    assert [turn.observation for turn in episode.turns] == ["Guess a number from 1 to 9.", "Not '3'."]
    assert episode.final_observation == "Yes."
    assert (episode.end, episode.outcome) == (EpisodeEnd.TERMINATED, Outcome.OK)
    text = RENDERING.decode(episode.token_ids_T)
    assert text.endswith(
        "\\boxed{3}<|im_end|>\n<|im_start|>user\nNot '3'.<|im_end|>\n<|im_start|>assistant\n\\boxed{4}<|im_end|>"
    )


def test_trained_tokens_are_the_sampled_tokens_with_their_logprobs() -> None:
    episode, engine = one("honest", guess_at_random)
    samples = [
        engine.reply(member, prompt, SamplingParams(CONFIG.max_reply_tokens, RENDERING.stop_ids, seed))
        for (member, prompt), seed in zip(list(engine.prompts), list(engine.seeds), strict=True)
    ]
    stream = list(zip(episode.token_ids_T, episode.sampled_T, episode.logprobs_T, strict=True))
    assert [token for token, sampled, _ in stream if sampled] == [t for sample in samples for t in sample.token_ids_T]
    assert [logprob for _, sampled, logprob in stream if sampled] == [
        x for sample in samples for x in sample.logprobs_T
    ]
    assert all(logprob == 0.0 for _, sampled, logprob in stream if not sampled)
    assert [flag for flag, _ in groupby(episode.sampled_T)] == [False, True] * len(episode.turns)


def test_each_turn_says_which_weights_sampled_it() -> None:
    engine = ScriptedEngine(RENDERING, guess_at_random, policy_version=5)

    def older_at_first(member: int, prompt: str, params: SamplingParams) -> str:
        engine.policy_version = 5 + turns_of(prompt)
        return "\\boxed{1}"

    engine.script = older_at_first
    played = asyncio.run(play_all([EpisodeRequest("e", "honest", Arm.PLAIN, 3)], engine, Stage(), PLAYER))
    assert [turn.policy_version for turn in played.episodes[0].turns] == [5, 6, 7, 8, 9]


def test_each_prompt_is_the_last_prompt_and_its_reply_continued() -> None:
    episode, engine = one("honest", say("\\boxed{1}"))
    prompts = [prompt for _, prompt in engine.prompts]
    assert len(prompts) == len(episode.turns) == 5
    for earlier, later in pairwise(prompts):
        assert later[: len(earlier)] == earlier
    assert episode.token_ids_T[: len(prompts[-1])] == prompts[-1]


def test_a_cut_reply_ends_the_episode_and_no_further_turn_is_generated() -> None:
    long_at_turn_2 = "very long " * 40
    episode, engine = one(
        "honest", lambda member, prompt, params: long_at_turn_2 if turns_of(prompt) == 1 else "\\boxed{1}"
    )
    assert (episode.end, episode.outcome) == (EpisodeEnd.REPLY_CUT, Outcome.AGENT_FAULT)
    assert len(engine.prompts) == len(episode.turns) == 2
    assert episode.turns[1].action == "" and episode.turns[1].reward == 0.0
    assert sum(episode.sampled_T) == len(RENDERING.encode("\\boxed{1}")) + 1 + CONFIG.max_reply_tokens
    assert episode_return(episode, "terminal") == 0.0


@pytest.mark.parametrize(("program_turns", "run_turns", "expected"), [(5, 6, 5), (5, 4, 4), (None, 6, 6)])
def test_the_smaller_turn_limit_truncates_and_counts_exactly(
    program_turns: int | None, run_turns: int, expected: int
) -> None:
    player = replace(PLAYER, config=CONFIG.model_copy(update={"max_turns": run_turns}))
    request = EpisodeRequest("e", "honest", Arm.PLAIN, 3)
    played, engine, _ = play([request], say("\\boxed{1}"), player, Stage(max_turns=program_turns))
    episode = played.episodes[0]
    assert (episode.end, episode.outcome) == (EpisodeEnd.TURN_LIMIT, Outcome.OK)
    assert len(episode.turns) == len(engine.prompts) == expected
    assert episode_return(episode, "terminal") == 0.0


def test_an_environment_that_truncates_is_truncated_not_terminated() -> None:
    episode, _ = one("truncates at turn 3", say("\\boxed{1}"))
    assert (episode.end, len(episode.turns)) == (EpisodeEnd.TURN_LIMIT, 3)


def test_a_full_context_asks_for_no_reply() -> None:
    prompt = len(RENDERING.first_prompt(full.agent_messages("Guess a number from 1 to 9.", None, "boxed")))
    episode, engine = one("honest", say("\\boxed{1}"), replace(PLAYER, max_context_tokens=prompt + 15))
    assert (episode.end, episode.outcome, episode.turns) == (EpisodeEnd.CONTEXT_FULL, Outcome.OK, ())
    assert engine.prompts == []
    assert episode.token_ids_T == ()
    assert episode.final_observation == "Guess a number from 1 to 9."


def test_a_reply_that_the_rest_of_the_context_cut_is_told_apart_from_a_long_one() -> None:
    prompt = len(RENDERING.first_prompt(full.agent_messages("Guess a number from 1 to 9.", None, "boxed")))
    episode, _ = one("honest", say("long " * 99), replace(PLAYER, max_context_tokens=prompt + 20))
    assert (episode.end, episode.outcome) == (EpisodeEnd.CONTEXT_FULL, Outcome.AGENT_FAULT)
    assert len(episode.token_ids_T) == prompt + 20


@pytest.mark.parametrize("budget", ["episode", "context"])
def test_no_stream_outgrows_its_token_budget(budget: str) -> None:
    config = CONFIG.model_copy(update={"max_episode_tokens": 420 if budget == "episode" else 4000})
    player = replace(PLAYER, config=config, max_context_tokens=420 if budget == "context" else 4000)
    episode, _ = one("honest", say("I try one \\boxed{1}"), player)
    assert episode.end is EpisodeEnd.CONTEXT_FULL
    assert 300 < len(episode.token_ids_T) <= 420


def test_a_reply_without_an_action_steps_with_the_empty_action() -> None:
    episode, _ = one("honest", say("I do not know."))
    assert [turn.action for turn in episode.turns] == [""] * 5
    assert episode.outcome is Outcome.OK


def test_a_crash_is_the_environments_fault_and_keeps_the_action_that_caused_it() -> None:
    played, _, stage = play([EpisodeRequest("e", "crashes at turn 2", Arm.PLAIN, 3)], say("\\boxed{1}"))
    episode = played.episodes[0]
    assert (episode.end, episode.outcome) == (EpisodeEnd.FAULT, Outcome.ENVIRONMENT_FAULT)
    assert (episode.fault_kind, episode.fault_reason) == (FaultKind.EXCEPTION, "step raised KeyError: 'x'")
    assert not episode.scored
    assert [turn.action for turn in episode.turns] == ["1", "1"]
    assert stage.resets["crashes at turn 2", 3] == 2
    assert played.retried == (episode,)


def test_a_host_fault_is_retried_once_on_its_seed_and_shown() -> None:
    request = EpisodeRequest("e", "host fails once", Arm.PLAIN, 0)
    played, _, stage = play([request], say("\\boxed{1}"))
    assert played.episodes[0].end is EpisodeEnd.TERMINATED
    assert [(e.outcome, e.fault_reason) for e in played.retried] == [
        (Outcome.INFRASTRUCTURE_FAULT, "no process could be started")
    ]
    assert stage.resets["host fails once", 0] == 2


def test_a_program_that_does_not_load_fails_its_own_plays_only() -> None:
    requests = [
        EpisodeRequest("bad", "does not load", Arm.PLAIN, 0),
        EpisodeRequest("good", "honest", Arm.PLAIN, 0),
        EpisodeRequest("bad", "does not load", Arm.PLAIN, 1),
    ]
    stage = Stage()
    played = asyncio.run(play_all(requests, ScriptedEngine(RENDERING, say("\\boxed{1}")), stage, PLAYER))
    assert [(e.environment_id, e.seed, e.end.value) for e in played.episodes] == [
        ("bad", 0, "fault"), ("good", 0, "terminated"), ("bad", 1, "fault"),
    ]  # fmt: skip
    assert played.episodes[0].fault_kind is FaultKind.LOAD
    assert stage.opened == {"does not load": 2, "honest": 1}


def test_each_environment_is_opened_once_however_many_plays_it_has() -> None:
    requests = [EpisodeRequest("e", "honest", Arm.PLAIN, seed) for seed in range(8)]
    _, _, stage = play(requests, guess_at_random)
    assert stage.opened == {"honest": 1}


def test_one_id_with_two_programs_is_an_error() -> None:
    with pytest.raises(ValueError, match="environment e was requested with two different programs"):
        play([EpisodeRequest("e", "a", Arm.PLAIN, 0), EpisodeRequest("e", "b", Arm.PLAIN, 1)], guess_at_random)


def test_nothing_in_the_result_depends_on_timing() -> None:
    requests = [
        EpisodeRequest(source, source, arm, seed, hint="Think." if arm is Arm.HINTED else None)
        for source in ("honest", "crashes at turn 2", "truncates at turn 3", "host fails once", "does not load")
        for arm, seeds in ((Arm.PLAIN, (0, 1, 2)), (Arm.HINTED, (3, 4, 5)))
        for seed in seeds
    ]

    def outcome(delay_seed: int) -> tuple[Played, list[tuple[int, ...]], list[tuple[int, tuple[int, ...]]]]:
        stage = Stage(delay=random_delays(delay_seed))
        engine = ScriptedEngine(RENDERING, guess_at_random)
        played = asyncio.run(play_all(requests, engine, stage, PLAYER))
        return played, engine.batches, engine.prompts

    first = outcome(1)
    assert [(e.environment_id, e.arm, e.seed) for e in first[0].episodes] == [
        (r.environment_id, r.arm, r.seed) for r in requests
    ]
    assert first == outcome(2) == outcome(3)


def test_every_draw_is_named_by_environment_arm_seed_and_turn() -> None:
    _, engine = one("honest", say("\\boxed{1}"), seed=3)
    assert engine.seeds == [derive_seed(7, "episode", "e", "plain", 3, turn) for turn in range(5)]


def test_the_hint_follows_the_first_observation_and_is_the_only_difference_between_the_arms() -> None:
    requests = [
        EpisodeRequest("e", "honest", Arm.PLAIN, 3),
        EpisodeRequest("e", "honest", Arm.HINTED, 3, hint="Halve the range."),
    ]
    _, engine, _ = play(requests, say("\\boxed{1}"))
    plain, hinted = (RENDERING.decode(next(ids for m, ids in engine.prompts if m == member)) for member in (0, 1))
    assert "Guess a number from 1 to 9.\n\nHINT: Halve the range.\n" in hinted
    assert hinted.replace("\n\nHINT: Halve the range.", "") == plain
    last = RENDERING.decode(engine.prompts[-1][1])
    assert last.count("HINT:") == 1


def test_the_agent_never_sees_the_program() -> None:
    source = "class SecretEnv: answer = 'quetzal'"
    _, engine = one(source, guess_at_random)
    assert not any(re.search("quetzal|SecretEnv", RENDERING.decode(prompt)) for _, prompt in engine.prompts)


@pytest.mark.parametrize(("arm", "hint"), [(Arm.PLAIN, "a hint"), (Arm.HINTED, None)])
def test_a_hint_belongs_to_the_hinted_arm(arm: Arm, hint: str | None) -> None:
    with pytest.raises(ValueError, match=f"the {arm.value} arm of e must have"):
        EpisodeRequest("e", "honest", arm, 0, hint)


def test_an_engine_that_fails_leaves_nothing_open() -> None:
    def broken(member: int, prompt: str, params: SamplingParams) -> str:
        raise MemoryError("no memory for the batch")

    stage = Stage()
    requests = [EpisodeRequest("e", "honest", Arm.PLAIN, seed) for seed in range(3)]
    with pytest.raises(MemoryError, match="no memory for the batch"):
        asyncio.run(play_all(requests, ScriptedEngine(RENDERING, broken), stage, PLAYER))
    assert not stage.unclosed
    assert stage.open_plays == 0


def episode(seed: int, arm: Arm, reward: float | None, environment_id: str = "e") -> Episode:
    """A one-turn episode; no reward: the program crashed."""
    played, _, _ = play(
        [EpisodeRequest(environment_id, "honest", arm, seed, "h" if arm is Arm.HINTED else None)],
        say("\\boxed{give up}" if reward == -1.0 else f"\\boxed{{{seed % 9 + 1}}}"),
    )
    if reward is None:
        return replace(played.episodes[0], outcome=Outcome.ENVIRONMENT_FAULT, end=EpisodeEnd.FAULT)
    return played.episodes[0]


def test_a_seed_that_failed_in_one_arm_is_dropped_from_both() -> None:
    plain = [
        episode(0, Arm.PLAIN, 1.0),
        episode(1, Arm.PLAIN, None),
        episode(2, Arm.PLAIN, -1.0),
        episode(3, Arm.PLAIN, 1.0),
    ]
    hinted = [episode(s, Arm.HINTED, r) for s, r in ((3, None), (2, 1.0), (1, 1.0), (0, 1.0))]
    matched = matched_returns(plain, hinted, "terminal")
    assert matched.seeds_S == (0, 2)
    assert matched.plain_S == (1.0, -1.0)
    assert matched.hinted_S == (1.0, 1.0)


def test_unmatched_arms_are_an_error() -> None:
    zero, one_, hinted = episode(0, Arm.PLAIN, 1.0), episode(1, Arm.PLAIN, 1.0), episode(0, Arm.HINTED, 1.0)
    with pytest.raises(ValueError, match=r"seeds \[1\] were played in one arm only"):
        matched_returns([zero, one_], [hinted], "terminal")
    with pytest.raises(ValueError, match="played twice"):
        matched_returns([zero, zero], [hinted], "terminal")
    with pytest.raises(ValueError, match="more than one environment"):
        matched_returns([zero], [episode(0, Arm.HINTED, 1.0, "other")], "terminal")
    with pytest.raises(ValueError, match="was given as hinted"):
        matched_returns([zero], [one_], "terminal")
