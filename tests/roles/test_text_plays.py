"""An agent that deals in texts plays by the rules of all agents, in both arms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from staged_programs import Stage

from spadework.config import AgentConfig
from spadework.engines.chat import BudgetSpent, ChatReply, ChatRequest, NoReply, PromptTooLong, Usage
from spadework.roles.agent import EpisodeRequest
from spadework.roles.episode import Arm, Episode, EpisodeEnd, episode_return
from spadework.roles.plays import Played, matched_returns
from spadework.roles.prompts import full
from spadework.roles.text_agent import TextPlayer, play_all_texts
from spadework.sandbox.outcomes import FaultKind, Outcome
from spadework.seeding import derive_seed

CONFIG = AgentConfig(max_turns=6, max_reply_tokens=40, max_episode_tokens=4000)


@dataclass
class Scripted:
    """A chat model whose replies a function writes; it may raise what a model raises."""

    say: Callable[[ChatRequest], str]
    usage: Usage | None = field(default_factory=lambda: Usage(100, 10))
    heard: list[ChatRequest] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "scripted"

    async def reply(self, request: ChatRequest) -> ChatReply:
        self.heard.append(request)
        text = self.say(request)
        return ChatReply(text, text == "cut", self.usage)


def play(
    requests: list[EpisodeRequest], model: Scripted, config: AgentConfig = CONFIG, stage: Stage | None = None
) -> Played:
    stage = stage or Stage()
    player = TextPlayer(model, full, config, "raw" if config.action_format == "raw" else "boxed", run_seed=7)
    try:
        return asyncio.run(play_all_texts(requests, stage, player))
    finally:
        assert not stage.unclosed
        assert stage.open_plays == 0


def one(source: str, model: Scripted, config: AgentConfig = CONFIG, stage: Stage | None = None) -> Episode:
    return play([EpisodeRequest("e", source, Arm.PLAIN, 3)], model, config, stage).episodes[0]


def count_up(request: ChatRequest) -> str:
    return f"\\boxed{{{len(request.messages) // 2 + 3}}}"


def test_a_won_episode_holds_its_turns_and_no_tokens() -> None:
    model = Scripted(lambda request: "\\boxed{3}" if len(request.messages) < 3 else "It is \\boxed{4}")
    episode = one("honest", model)
    assert [(turn.observation, turn.reply, turn.action, turn.reward) for turn in episode.turns] == [
        ("Guess a number from 1 to 9.", "\\boxed{3}", "3", 0.1),
        ("Not '3'.", "It is \\boxed{4}", "4", 1.0),
    ]
    assert (episode.end, episode.outcome, episode.final_observation) == (EpisodeEnd.TERMINATED, Outcome.OK, "Yes.")
    assert episode.token_ids_T == episode.sampled_T == episode.logprobs_T == ()
    assert [message["role"] for message in model.heard[1].messages][-3:] == ["user", "assistant", "user"]
    assert [request.draw for request in model.heard] == [
        derive_seed(7, "episode", "e", "plain", 3, turn) for turn in (0, 1)
    ]


def test_only_the_hinted_arm_sees_the_hint_and_the_arms_are_matched() -> None:
    def told(request: ChatRequest) -> str:
        return "\\boxed{4}" if "Say four." in request.messages[-1]["content"] else "\\boxed{1}"

    requests = [
        EpisodeRequest("e", "honest", arm, seed, "Say four." if arm is Arm.HINTED else None)
        for arm in Arm
        for seed in (3, 12)
    ]
    played = play(requests, Scripted(told), CONFIG.model_copy(update={"max_turns": 1}))
    plain, hinted = played.episodes[:2], played.episodes[2:]
    assert matched_returns(plain, hinted, "terminal").plain_S == (0.0, 0.0)
    assert matched_returns(plain, hinted, "terminal").hinted_S == (1.0, 1.0)


def test_a_cut_reply_ends_the_episode_without_a_step() -> None:
    episode = one("honest", Scripted(lambda request: "cut"))
    assert (episode.end, episode.outcome) == (EpisodeEnd.REPLY_CUT, Outcome.AGENT_FAULT)
    assert episode.turns[0].action == "" and episode_return(episode, "terminal") == 0


def test_the_budget_of_an_episode_is_kept_by_the_counts_of_the_server() -> None:
    tight = CONFIG.model_copy(update={"max_episode_tokens": 130})
    model = Scripted(lambda request: "\\boxed{1}")
    assert one("honest", model, tight).end is EpisodeEnd.TURN_LIMIT
    assert [request.max_tokens for request in model.heard] == [40, 20, 20, 20, 20]
    full_up = one("honest", Scripted(lambda request: "\\boxed{1}", Usage(110, 10)), tight)
    assert (full_up.end, full_up.outcome, len(full_up.turns)) == (EpisodeEnd.CONTEXT_FULL, Outcome.OK, 1)
    unmetered = Scripted(lambda request: "\\boxed{1}", None)
    assert one("honest", unmetered, tight).end is EpisodeEnd.TURN_LIMIT


def test_faults_are_tried_once_more_and_have_no_return() -> None:
    def silent(request: ChatRequest) -> str:
        raise NoReply("it gave no reply")

    played = play([EpisodeRequest("e", "honest", Arm.PLAIN, 3)], Scripted(silent))
    (episode,), (first,) = played.episodes, played.retried
    assert (episode.outcome, episode.fault_reason) == (Outcome.INFRASTRUCTURE_FAULT, "it gave no reply")
    assert first.outcome is Outcome.INFRASTRUCTURE_FAULT and not episode.scored
    crashed = one("crashes at turn 2", Scripted(lambda request: "\\boxed{1}"))
    assert (crashed.outcome, crashed.fault_kind) == (Outcome.ENVIRONMENT_FAULT, FaultKind.EXCEPTION)


def test_a_prompt_that_grows_too_long_fills_the_context() -> None:
    def long_later(request: ChatRequest) -> str:
        if len(request.messages) > 1:
            raise PromptTooLong("too long")
        return count_up(request)

    episode = one("honest", Scripted(long_later))
    assert (episode.end, len(episode.turns)) == (EpisodeEnd.CONTEXT_FULL, 1)


def test_a_context_that_holds_no_first_reply_is_no_failure_of_the_model() -> None:
    def long(request: ChatRequest) -> str:
        raise PromptTooLong("too long")

    with pytest.raises(PromptTooLong):
        one("honest", Scripted(long))


def test_a_tool_environment_is_not_played() -> None:
    episode = one("honest", Scripted(count_up), stage=Stage(uses_tools=True))
    assert (episode.outcome, episode.fault_kind) == (Outcome.ENVIRONMENT_FAULT, FaultKind.CONTRACT)


def test_a_spent_budget_ends_all_plays() -> None:
    def spent(request: ChatRequest) -> str:
        raise BudgetSpent("endpoint.budget", "4 of 4 are spent")

    with pytest.raises(BudgetSpent):
        play([EpisodeRequest("e", "honest", Arm.PLAIN, seed) for seed in range(4)], Scripted(spent))


def test_without_boxes_the_whole_reply_is_the_action() -> None:
    raw = CONFIG.model_copy(update={"action_format": "raw"})
    assert one("honest", Scripted(lambda request: " 4 \n"), raw).turns[0].action == "4"
