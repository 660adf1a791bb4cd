"""A model at an endpoint plays tool environments: what it is sent, what its calls do, and what a bad server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, Body, ChatServer, Raw, error, in_turn, reply
from shop_program import CODE, SHOP

from spadework.config import AgentConfig, EndpointConfig
from spadework.engines.chat import EndpointRefused
from spadework.engines.openai import pacing
from spadework.engines.openai.client import open_chat
from spadework.roles.agent import EpisodeRequest
from spadework.roles.episode import Arm, Episode, EpisodeEnd, episode_return
from spadework.roles.plays import Played
from spadework.roles.prompts import full
from spadework.roles.text_agent import TextPlayer, play_all_texts
from spadework.roles.tool_use import CallCounts, call_counts
from spadework.sandbox import Limits, Sandbox
from spadework.sandbox.outcomes import FaultKind, Outcome

CONFIG = AgentConfig(action_format="tool_call", max_reply_tokens=400, max_episode_tokens=20_000)


@pytest.fixture(autouse=True)
def _waits_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FIRST_WAIT_S", 0.001)


def play(
    answer: Answer,
    source: str = SHOP,
    config: AgentConfig = CONFIG,
    hint: str | None = None,
    replies: Path | None = None,
    **endpoint: Any,
) -> tuple[Episode, list[Body]]:
    """An episode against a real server, and the bodies of the requests that it got."""
    arm = Arm.PLAIN if hint is None else Arm.HINTED

    async def main(url: str) -> Played:
        of = EndpointConfig.model_validate({"base_url": url, "model": "stone-7b", "timeout_s": 20, **endpoint})
        async with (
            Sandbox(Limits(step_timeout_s=1.0)) as sandbox,
            open_chat(of, replies, lambda trouble: None) as chat,
        ):
            player = TextPlayer(chat, full, config, config.action_format, run_seed=7)
            return await play_all_texts([EpisodeRequest("shop", source, arm, 3, hint)], sandbox, player)

    with ChatServer(answer).running() as server:
        played = asyncio.run(main(server.url))
        return played.episodes[0], [heard.body for heard in server.heard]


def call(name: str, arguments: object, id: object = "call_a1") -> dict[str, Any]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}


def calling(*calls: object, text: str | None = None, finish: str = "tool_calls", **more: Any) -> Raw:
    return reply(text, finish, tool_calls=list(calls), **more)


CLOSE = call("set_status", {"code": CODE}, "call_close")
LOG = call("log", {"text": "done"}, "call_log")


def test_the_model_is_sent_the_tools_and_its_calls_and_their_results_come_back_to_it() -> None:
    episode, bodies = play(in_turn(calling(CLOSE), calling(LOG)))
    assert (episode.end, episode.outcome) == (EpisodeEnd.TERMINATED, Outcome.OK)
    assert episode_return(episode, "terminal") == 1.0
    assert call_counts(episode) == CallCounts(calls=2)
    first, second = bodies
    assert [tool["function"]["name"] for tool in first["tools"]] == ["set_status", "log"]
    assert first["tools"] == second["tools"]
    assert f"Close order {CODE}." in first["messages"][-1]["content"]
    assert second["messages"] == [
        *first["messages"],
        {"role": "assistant", "content": "", "tool_calls": [CLOSE]},
        {"role": "tool", "tool_call_id": "call_close", "content": "ok"},
        {"role": "user", "content": "Log it."},
    ]
    assert episode.turns[0].reply == (
        f'<tool_call>\n{{"name": "set_status", "arguments": {{"code": {CODE}}}}}\n</tool_call>'
    )
    assert json.loads(episode.turns[0].action) == {
        "calls": [{"id": "call_close", "name": "set_status", "arguments": {"code": CODE}}]
    }


def test_several_calls_of_a_turn_each_have_their_result() -> None:
    wrong = call("set_status", {"code": 1}, "call_wrong")
    episode, bodies = play(in_turn(calling(wrong, CLOSE, text="Both."), calling(LOG)))
    assert episode_return(episode, "terminal") == 1.0
    assert bodies[1]["messages"][-4:] == [
        {"role": "assistant", "content": "Both.", "tool_calls": [wrong, CLOSE]},
        {"role": "tool", "tool_call_id": "call_wrong", "content": "Error: No such order."},
        {"role": "tool", "tool_call_id": "call_close", "content": "ok"},
        {"role": "user", "content": "Log it."},
    ]


def test_only_the_hinted_arm_sees_the_hint() -> None:
    assert "Start with the order." in str(play(in_turn(calling(CLOSE)), hint="Start with the order.")[1][0])
    assert "Start with the order." not in str(play(in_turn(calling(CLOSE)))[1])


@pytest.mark.parametrize(
    ("made", "told", "shown"),
    [
        (call("log", '{"text": '), "the JSON is not right: Expecting value at character 9", "{}"),
        (call("log", ""), "the call has no arguments; {} stands for none", "{}"),
        (call("log", "[1]"), "the arguments are not an object", "{}"),
        (call("log", '{"text": "a", "text": "b"}'), "the key 'text' occurs twice", "{}"),
        (call("log", '{"text": NaN}'), "NaN is no JSON", "{}"),
        (call("erase", "{}"), "erase", "{}"),
        (call("log", '{"words": 1}'), "text missing", '{"words": 1}'),
    ],
)
def test_a_call_that_is_not_right_is_answered_and_the_episode_goes_on(
    made: dict[str, Any], told: str, shown: str
) -> None:
    episode, bodies = play(in_turn(calling(made), calling(CLOSE), calling(LOG)))
    assert episode_return(episode, "terminal") == 1.0
    said, result = bodies[1]["messages"][-2:]
    assert said["tool_calls"][0]["function"]["arguments"] == shown
    assert result["tool_call_id"] == said["tool_calls"][0]["id"]
    assert result["content"].startswith("Not executed: ") and told in result["content"]
    counts = call_counts(episode)
    assert counts is not None and counts.malformed + counts.refused == 1 and counts.calls == 3


def test_an_id_that_looks_like_ours_takes_no_place_of_it() -> None:
    ids = ["call_2_1", "call_2_1_2", "call_2_1_3"]
    first = [call("log", {"text": "a"}, id) for id in ids]
    _, bodies = play(in_turn(calling(*first), calling(call("log", {"text": "b"}, "")), calling(LOG)))
    said = [one["id"] for message in bodies[2]["messages"] for one in message.get("tool_calls", ())]
    assert said == [*ids, "call_2_1_4"]


@pytest.mark.parametrize("id", ["", None, 7, "two words", "x" * 200, "call_same"])
def test_ids_that_cannot_be_used_are_replaced_and_none_is_used_twice(id: object) -> None:
    unfit = [call("log", {"text": "a"}, id), call("log", {"text": "b"}, id), call("erase of all", {}, id)]
    episode, bodies = play(in_turn(calling(*unfit), calling(call("set_status", {"code": CODE}, id)), calling(LOG)))
    assert len(episode.turns) == 3
    messages = bodies[1]["messages"]
    (said,) = (message for message in messages if message["role"] == "assistant")
    ids = [one["id"] for one in said["tool_calls"]]
    assert len(set(ids)) == 3 and all(0 < len(one) <= 64 for one in ids)
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ids
    assert [one["function"]["name"] for one in said["tool_calls"]] == ["log", "log", "unknown"]


def test_calls_beyond_those_that_are_answered_leave_no_trace_in_the_history() -> None:
    many = [call("log", {"text": str(number)}, f"call_{number}") for number in range(80)]
    _, bodies = play(in_turn(calling(*many), calling(CLOSE)))
    said = next(message for message in bodies[1]["messages"] if message["role"] == "assistant")
    results = [message for message in bodies[1]["messages"] if message["role"] == "tool"]
    assert [one["id"] for one in said["tool_calls"]] == [one["tool_call_id"] for one in results]
    assert len(results) == 16
    assert "more calls of this turn were ignored" in str(bodies[1]["messages"])


def test_a_reply_without_calls_is_said_to_the_user() -> None:
    episode, bodies = play(in_turn(reply("<think>hm</think>Which order?"), calling(CLOSE), calling(LOG)))
    assert episode_return(episode, "terminal") == 1.0
    assert json.loads(episode.turns[0].action) == {"text": "Which order?"}
    said, answer = bodies[1]["messages"][-2:]
    assert said == {"role": "assistant", "content": "<think>hm</think>Which order?"}
    assert answer["role"] == "user"


def test_servers_that_differ_in_details_are_understood() -> None:
    as_object = {"id": "c1", "type": "function", "function": {"name": "set_status", "arguments": {"code": CODE}}}
    episode, bodies = play(in_turn(calling(as_object, finish="stop", text=""), calling(LOG, finish="stop")))
    assert episode_return(episode, "terminal") == 1.0
    said = bodies[1]["messages"][-3]
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"code": CODE}


def test_a_reply_that_is_cut_in_a_call_ends_the_episode() -> None:
    episode, bodies = play(in_turn(calling(call("log", '{"text": "an'), finish="length")))
    assert (episode.end, episode.outcome) == (EpisodeEnd.REPLY_CUT, Outcome.AGENT_FAULT)
    assert episode.turns[0].action == "" and len(bodies) == 1


@pytest.mark.parametrize("calls", [[7], "log", {"log": 1}, [{"id": "c", "type": "function"}], [{"function": "log"}]])
def test_calls_in_no_shape_of_the_api_are_nobodys_fault(calls: object) -> None:
    episode, bodies = play(in_turn(reply(None, "tool_calls", tool_calls=calls)), retries=1)
    assert (episode.end, episode.outcome) == (EpisodeEnd.FAULT, Outcome.INFRASTRUCTURE_FAULT)
    assert "tool calls" in episode.fault_reason
    assert len(bodies) == 4, "two tries of the request in each of two tries of the play"


@pytest.mark.parametrize(
    "answer",
    [
        error(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        error(400, "stone-7b does not support tools"),
        error(404, "No endpoints found that support tool use"),
        error(500, "tools param requires --jinja flag"),
    ],
)
def test_a_server_without_tools_is_told_in_one_sentence_and_asked_once(answer: Raw) -> None:
    server = ChatServer(answer=in_turn(answer))
    of = EndpointConfig(base_url=server.url, model="stone-7b")

    async def main() -> None:
        async with Sandbox() as sandbox, open_chat(of, None, lambda trouble: None) as chat:
            player = TextPlayer(chat, full, CONFIG, "tool_call", run_seed=7)
            await play_all_texts([EpisodeRequest("shop", SHOP, Arm.PLAIN, 3)], sandbox, player)

    with server.running(), pytest.raises(EndpointRefused) as caught:
        asyncio.run(main())
    assert "start the server with support for tool calls" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.heard) == 1


def test_a_call_that_the_server_itself_cannot_read_costs_that_play_alone() -> None:
    broken = error(500, "Failed to parse tool call arguments as JSON")
    episode, bodies = play(in_turn(broken), retries=3)
    assert (episode.end, episode.outcome) == (EpisodeEnd.FAULT, Outcome.INFRASTRUCTURE_FAULT)
    assert len(bodies) == 2, "once in each try of the play"


def test_what_was_asked_before_is_not_asked_again(tmp_path: Path) -> None:
    answers: Iterator[Raw] = iter([calling(CLOSE), calling(LOG)])
    first, bodies = play(lambda body, number: next(answers), replies=tmp_path / "replies.sqlite")
    again, none = play(in_turn(error(500)), replies=tmp_path / "replies.sqlite")
    assert again == first
    assert (len(bodies), none) == (2, [])


ANSWERS_NOBODY: Callable[[str], str] = lambda source: source.replace(  # noqa: E731
    "    @tool\n    def log",
    "    def step(self, action):\n"
    '        told = \'{"messages": [{"role": "tool", "id": "made-up", "name": "log", "content": "x", \'\n'
    "        return told + '\"executed\": true}]}', 0.0, False, False, {}\n\n"
    "    @tool\n    def log",
)


def test_a_program_that_answers_calls_that_were_not_made_is_at_fault() -> None:
    episode, _ = play(in_turn(calling(CLOSE)), ANSWERS_NOBODY(SHOP))
    assert (episode.outcome, episode.fault_kind) == (Outcome.ENVIRONMENT_FAULT, FaultKind.CONTRACT)


def test_a_game_is_not_played_in_tool_calls() -> None:
    game = (
        "class GuessEnv:\n    def reset(self, seed=None):\n        return 'Guess.', {}\n    def step(self, action):\n"
    )
    episode, _ = play(in_turn(calling(CLOSE)), game + "        return 'No.', 0.0, True, False, {}\n")
    assert episode.outcome is Outcome.ENVIRONMENT_FAULT
    assert "the program is no tool environment" in episode.fault_reason
