"""A model at an endpoint plays the held-out items by the rules that every other model plays by."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, Body, ChatServer, Raw, error, in_turn, reply
from test_playing_items import ITEMS, config, evaluate, halve

from spadework.cli import main
from spadework.config import Config
from spadework.engines.chat import EndpointRefused, PromptTooLong
from spadework.engines.openai.client import open_chat
from spadework.evaluation.items import Split
from spadework.evaluation.results import Evaluation
from spadework.evaluation.served import evaluate_served
from spadework.roles.episode import EpisodeEnd
from spadework.sandbox.outcomes import Outcome


def as_prompt(body: Body) -> str:
    """The conversation as `halve` reads it."""
    return "".join(f"{message['role']}\n{message['content']}\n" for message in body["messages"])


def halving(body: Body, number: int) -> Raw:
    return reply(halve(0, as_prompt(body), None), tokens=(len(body["messages"]) * 20, 5))


def served(answer: Answer, **changes: Any) -> tuple[Evaluation, ChatServer]:
    with ChatServer(answer).running() as server:
        tree = config().model_dump(mode="json")
        tree["endpoint"] = {"base_url": server.url, "model": "stone-7b", "timeout_s": 20, "retries": 0}
        for section, values in changes.items():
            tree[section] |= values
        of = Config.model_validate(tree)

        async def run() -> Evaluation:
            async with open_chat(of.endpoint, None, lambda trouble: None) as chat:
                return await evaluate_served(ITEMS, of, chat)

        return asyncio.run(run()), server


def test_the_same_replies_solve_the_same_items_in_the_same_turns() -> None:
    found, server = served(halving)
    expected, _ = evaluate(halve)
    assert found.items == expected.items
    assert found.solved(Split.IN_FAMILY) == (1.0,) * 6
    assert found.errors == 2
    assert (found.prompts, found.temperature, found.thinking, found.iterations) == ("full", 0.7, False, None)
    assert found.renderer == f"stone-7b at {server.url}"
    assert {heard.body["temperature"] for heard in server.heard} == {0.7}
    assert {heard.body["max_tokens"] for heard in server.heard} == {40}
    first = server.heard[0].body["messages"]
    assert "\\boxed{" in first[-1]["content"], "the agent is told how to mark its action"


def test_a_conversation_grows_by_its_own_replies() -> None:
    _, server = served(halving)
    longest = max((heard.body["messages"] for heard in server.heard), key=len)
    roles = [message["role"] for message in longest]
    assert roles[-3:] == ["user", "assistant", "user"]
    assert re.fullmatch(r"\\boxed\{\d\}", longest[-2]["content"])


TOO_LONG = error(400, "maximum context length", "context_length_exceeded")


def full_later(body: Body, number: int) -> Raw:
    talked = any(message["role"] == "assistant" for message in body["messages"])
    return TOO_LONG if talked else reply("\\boxed{0}")


@pytest.mark.parametrize(
    ("answer", "changes", "end", "outcome"),
    [
        (in_turn(reply("and so on", "length")), {}, EpisodeEnd.REPLY_CUT, Outcome.AGENT_FAULT),
        (
            in_turn(reply("\\boxed{0}", tokens=(1990, 5))),
            {"agent": {"max_turns": 20, "max_reply_tokens": 40, "max_episode_tokens": 2000}},
            EpisodeEnd.CONTEXT_FULL,
            Outcome.OK,
        ),
        (full_later, {}, EpisodeEnd.CONTEXT_FULL, Outcome.OK),
        (in_turn(reply("\\boxed{0}")), {"agent": {"max_turns": 2}}, EpisodeEnd.TURN_LIMIT, Outcome.OK),
        (in_turn(reply(None, "content_filter")), {}, EpisodeEnd.FAULT, Outcome.INFRASTRUCTURE_FAULT),
    ],
)
def test_episodes_end_by_the_rules_of_all_agents(
    answer: Answer, changes: dict[str, Any], end: EpisodeEnd, outcome: Outcome
) -> None:
    found, _ = served(answer, **changes)
    assert {(item.end, item.outcome) for item in found.items[:6]} == {(end, outcome)}
    assert not any(item.solved for item in found.items)


def test_a_context_that_holds_no_first_reply_is_told_and_not_played() -> None:
    with pytest.raises(PromptTooLong, match=r"lower the token budget of the role that asks"):
        served(in_turn(TOO_LONG))


def test_a_refusal_is_told_and_not_counted_as_a_failure_of_the_model() -> None:
    with pytest.raises(EndpointRefused, match=r"expired"):
        served(in_turn(error(401, "expired")))


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def spadework(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["spadework", *map(str, arguments)])
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_the_command_measures_what_is_served(spadework: Run) -> None:
    five = in_turn(reply("\\boxed{5}", tokens=(50, 4)))
    with ChatServer(five).running() as server:
        asked = ("eval", "--endpoint", server.url, "--model-name", "stone-7b", "--items", 1, "--temperature", 0)
        isolation = ("--set", "sandbox.isolation=best-effort")
        status, out, _ = spadework(*asked, *isolation, "--set", "endpoint.price_per_million_input=1", "--json")
        found = json.loads(out)
        assert status == 0
        assert f"stone-7b at {server.url} (" in found["of"] and "cost " in found["of"]
        assert {family["asked"] for family in found["families"].values()} == {1}
        assert {heard.body["temperature"] for heard in server.heard} == {0.0}
        assert {heard.body["model"] for heard in server.heard} == {"stone-7b"}

        status, _, err = spadework(*asked, *isolation, "--set", "endpoint.budget_tokens=9000")
        assert status == 2
        assert "endpoint.budget_tokens is used up" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("endpoint.base_url is not set", "--endpoint URL")),
        (("--endpoint", "http://localhost:1/v1"), ("endpoint.model is not set", "--model-name NAME")),
        (("seed", "--endpoint", "http://localhost:1/v1"), ("seed is asked here",)),
        (("--endpoint", "localhost:1", "--model-name", "m"), ("must begin with https:// or http://",)),
        (
            ("--endpoint", "http://localhost:1/v1", "--model-name", "m", "--set", "agent.thinking=true"),
            ("agent.thinking",),
        ),
    ],
)
def test_what_is_missing_is_named(spadework: Run, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    status, out, err = spadework("eval", *arguments)
    assert (status, out) == (2, "")
    assert all(word in err for word in words)


def test_the_command_measures_with_tools(spadework: Run) -> None:
    isolation = ("--set", "sandbox.isolation=best-effort", "--set", "endpoint.prompts=seed")
    with ChatServer(in_turn(reply("Done."))).running() as server:
        asked = ("eval", "--preset", "quickstart-tools", "--endpoint", server.url, "--model-name", "m", "--items", 1)
        status, out, _ = spadework(*asked, *isolation, "--json")
        assert status == 0
        assert json.loads(out)["evaluation"]["suite"] == "tools"
        assert all(heard.body["tools"] for heard in server.heard)
    with ChatServer(in_turn(error(400, "m does not support tools"))).running() as server:
        asked = ("eval", "--preset", "quickstart-tools", "--endpoint", server.url, "--model-name", "m", "--items", 1)
        status, _, err = spadework(*asked, *isolation)
        assert status == 2
        assert "start the server with support for tool calls" in err


def test_the_endpoint_may_stand_in_a_file(spadework: Run, tmp_path: Path) -> None:
    with ChatServer(in_turn(reply("\\boxed{5}"))).running() as server:
        file = tmp_path / "quarry.toml"
        file.write_text(
            f'[endpoint]\nbase_url = "{server.url}"\nmodel = "stone-7b"\nprompts = "seed"\n'
            '[sandbox]\nisolation = "best-effort"\n[evaluation]\nitems = 1\n'
        )
        status, out, _ = spadework("eval", "--preset", file)
        assert status == 0
        assert "stone-7b at" in out and "prompts seed" in out
        assert not any("boxed" in prompt for prompt in server.prompts()), "these are the short prompts"
