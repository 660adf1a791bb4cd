"""The client of chat completions against a server that behaves, and against ones that do not."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from chat_server import Answer, ChatServer, Raw, error, in_turn, reply

from spadework.config import EndpointConfig
from spadework.engines.chat import (
    BudgetSpent,
    ChatCall,
    ChatReply,
    ChatRequest,
    EndpointError,
    EndpointRefused,
    EndpointUnavailable,
    NoReply,
    PromptTooLong,
    Usage,
    as_chat,
)
from spadework.engines.open import MissingExtra
from spadework.engines.openai import pacing
from spadework.engines.openai.client import OpenAIChat, open_chat
from spadework.engines.openai.ledger import most_usage
from spadework.engines.openai.pacing import Pace, backoff_s

T = TypeVar("T")
MODEL = "stone-7b"
KEY = "sk-not-to-be-seen"
VARIABLE = "QUARRY_KEY"
PAGE = Raw(b"<html><body>Welcome to nginx!</body></html>", headers={"Content-Type": "text/html"})


@pytest.fixture(autouse=True)
def _waits_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FIRST_WAIT_S", 0.001)


def request(text: str = "How deep?", draw: int = 7, max_tokens: int = 50) -> ChatRequest:
    return ChatRequest(as_chat([("system", "Dig."), ("user", text)]), max_tokens, 0.5, draw)


def settings(url: str, **changes: Any) -> EndpointConfig:
    return EndpointConfig.model_validate({"base_url": url, "model": MODEL, "timeout_s": 20, **changes})


def asked(
    answer: Answer,
    use: Callable[[OpenAIChat], Awaitable[T]],
    replies: Path | None = None,
    notices: list[str] | None = None,
    **changes: Any,
) -> tuple[T, ChatServer]:
    """What ``use`` makes of a client of a server that gives ``answer``."""
    told = [] if notices is None else notices

    async def run(url: str) -> T:
        async with open_chat(settings(url, **changes), replies, told.append) as chat:
            return await use(chat)

    with ChatServer(answer).running() as server:
        return asyncio.run(run(server.url)), server


def one(answer: Answer, **changes: Any) -> tuple[ChatReply, ChatServer]:
    return asked(answer, lambda chat: chat.reply(request()), **changes)


def failing(kind: type[Exception], answer: Answer, **changes: Any) -> tuple[str, int]:
    """The sentence of the failure, and how many requests there were."""
    server = ChatServer(answer)

    async def run() -> None:
        async with open_chat(settings(server.url, **changes), None, lambda trouble: None) as chat:
            await chat.reply(request())

    with server.running(), pytest.raises(kind) as caught:
        asyncio.run(run())
    assert type(caught.value) is kind
    return str(caught.value), len(server.heard)


async def many(chat: OpenAIChat, requests: Sequence[ChatRequest]) -> list[ChatReply]:
    return list(await asyncio.gather(*(chat.reply(one) for one in requests)))


def test_a_request_says_what_is_wanted_and_its_reply_comes_back() -> None:
    found, server = one(in_turn(reply("Nine feet.")))
    assert found == ChatReply("Nine feet.", cut=False, usage=Usage(10, 5))
    (heard,) = server.heard
    assert heard.path == "/v1/chat/completions"
    assert heard.body == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "Dig."}, {"role": "user", "content": "How deep?"}],
        "temperature": 0.5,
        "max_tokens": 50,
        "seed": 7,
    }
    assert "authorization" not in heard.headers


TOOL = {"type": "function", "function": {"name": "dig", "description": "Dig.", "parameters": {"type": "object"}}}


def with_tools(chat: OpenAIChat) -> Awaitable[ChatReply]:
    return chat.reply(replace(request(), tools=(TOOL,)))


def test_calls_are_read_of_a_request_with_tools_and_of_no_other() -> None:
    entry = {"id": "c1", "type": "function", "function": {"name": "dig", "arguments": '{"deep'}}
    answer = reply(None, "tool_calls", tool_calls=[entry])
    found, server = asked(in_turn(answer), with_tools)
    assert found == ChatReply("", cut=False, usage=Usage(10, 5), calls=(ChatCall("c1", "dig", '{"deep'),))
    assert server.heard[0].body["tools"] == [TOOL]
    sentence, _ = failing(NoReply, in_turn(answer), retries=0)
    assert "the message has no content" in sentence
    assert one(in_turn(reply("Nine.", tool_calls=[entry])))[0].calls == ()


def test_a_file_of_replies_from_before_calls_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    one(in_turn(reply("Nine feet.")), replies=path)
    with closing(sqlite3.connect(path)) as old:
        old.execute("ALTER TABLE reply DROP COLUMN calls")
        old.execute("PRAGMA user_version = 1")
        old.commit()
    again, server = one(in_turn(error(500)), replies=path)
    assert (again.text, again.calls, server.heard) == ("Nine feet.", (), [])
    called, _ = asked(in_turn(reply("", tool_calls=[{"function": {"name": "dig"}}])), with_tools, replies=path)
    kept, server = asked(in_turn(error(500)), with_tools, replies=path)
    assert kept == called and kept.calls == (ChatCall("", "dig", ""),) and not server.heard


def test_tools_and_calls_count_for_what_a_prompt_may_cost() -> None:
    bare = request()
    calls = [{"id": "c1", "type": "function", "function": {"name": "dig", "arguments": "{}" * 100}}]
    longer = {"role": "assistant", "content": "", "tool_calls": calls}
    assert most_usage(replace(bare, tools=(TOOL,))).prompt_tokens > most_usage(bare).prompt_tokens + 20
    assert most_usage(replace(bare, messages=(*bare.messages, longer))).prompt_tokens > 66


def test_a_reply_that_its_budget_cut_is_told_apart() -> None:
    assert one(in_turn(reply("Nine fe", "length")))[0].cut
    assert one(in_turn(reply(None, "length", reasoning_content="Let me")))[0] == ChatReply("", True, Usage(10, 5))


def test_the_field_of_the_limit_is_a_setting() -> None:
    _, server = one(in_turn(reply("ok")), max_tokens_field="max_completion_tokens")
    assert server.heard[0].body["max_completion_tokens"] == 50
    assert "max_tokens" not in server.heard[0].body


def test_the_seed_may_be_left_out() -> None:
    _, server = one(in_turn(reply("ok")), send_seed=False)
    assert "seed" not in server.heard[0].body


def test_the_key_of_the_named_variable_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{KEY}\n")
    _, server = one(in_turn(reply("ok")), key_variable=VARIABLE)
    assert server.heard[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(("value", "problem"), [("", "is not set"), ("é", "holds characters")])
def test_a_key_that_is_missing_is_told_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    sentence, requests = failing(EndpointRefused, in_turn(reply("ok")), key_variable=VARIABLE)
    assert requests == 0
    assert VARIABLE in sentence and problem in sentence


def test_no_more_requests_than_allowed_are_under_way_at_once() -> None:
    slow = Raw(reply("ok").body, hang_s=0.05)
    wanted = [request(draw=draw) for draw in range(9)]
    _, server = asked(in_turn(slow), lambda chat: many(chat, wanted), concurrency=3)
    assert len(server.heard) == 9
    assert 1 < server.most_at_once <= 3


def test_requests_are_spaced_by_the_rate_limit() -> None:
    started = time.monotonic()
    asked(in_turn(reply("ok")), lambda chat: many(chat, [request(draw=d) for d in range(5)]), requests_per_minute=600)
    assert time.monotonic() - started >= 4 * 0.1


def test_the_pace_gives_out_instants_and_holds_all_of_them_back() -> None:
    now = [100.0]
    pace = Pace(120, lambda: now[0])
    assert [pace.turn() for _ in range(3)] == [0.0, 0.5, 1.0]
    pace.hold(10.0)
    assert [pace.turn(), pace.turn()] == [10.0, 10.5]
    now[0] = 200.0
    assert pace.turn() == 0.0
    free = Pace(0, lambda: now[0])
    assert [free.turn(), free.turn()] == [0.0, 0.0]


def test_waits_double_with_a_share_that_the_draw_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FIRST_WAIT_S", 1.0)
    for number, whole in enumerate((1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0)):
        waits = [backoff_s(number, draw) for draw in range(20)]
        assert all(whole / 2 <= wait <= whole for wait in waits)
        assert len(set(waits)) == 20
        assert waits == [backoff_s(number, draw) for draw in range(20)]


RECOVERED = {
    "too many requests": error(429, "slow down", Retry_After="0"),
    "overloaded": error(503, "overloaded"),
    "server error": error(500),
    "broken gateway": Raw(b"<html>502 Bad Gateway</html>", 502, {"Content-Type": "text/html"}),
    "truncated JSON": Raw(reply("Nine feet.").body[:60]),
    "connection dropped mid-reply": Raw(reply("Nine feet.").body[:60], promised=4000),
    "no choices": Raw(b'{"choices": []}'),
    "no message": Raw(b'{"choices": [{"finish_reason": "stop"}]}'),
    "no content": reply(None),
    "error with status 200": Raw(b'{"error": {"message": "upstream", "code": 502}}'),
    "not even bytes of text": Raw(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("trouble", RECOVERED.values(), ids=RECOVERED)
def test_trouble_that_passes_is_waited_out(trouble: Raw) -> None:
    notices: list[str] = []

    async def use(chat: OpenAIChat) -> tuple[ChatReply, dict[str, float]]:
        return await chat.reply(request()), chat.ledger.readings()

    (found, readings), server = asked(in_turn(trouble, trouble, reply("Nine feet.")), use, notices=notices)
    assert found.text == "Nine feet."
    assert len(server.heard) == 3
    assert (readings["endpoint/replies"], readings["endpoint/retries"]) == (1, 2)
    assert len(notices) == 1 and server.url in notices[0]


def test_retry_after_holds_back_everybody() -> None:
    """The second of two requests is sent no earlier than the server asked for, though it failed at nothing."""

    async def use(chat: OpenAIChat) -> list[ChatReply]:
        return await many(chat, [request(draw=1), request(draw=2)])

    _, server = asked(in_turn(error(429, Retry_After="1"), reply("ok")), use, concurrency=1)
    first, *later = [heard.at_s for heard in server.heard]
    assert len(later) == 2
    assert min(later) - first >= 0.9


def test_a_wait_that_is_too_long_is_a_refusal() -> None:
    sentence, requests = failing(EndpointRefused, in_turn(error(429, "daily limit", Retry_After="86400")))
    assert requests == 1
    assert "86400 s" in sentence and "daily limit" in sentence


@pytest.mark.parametrize(
    ("trouble", "words"),
    [(error(500, "boom"), "500: boom"), (RECOVERED["truncated JSON"], "broken JSON of 60 bytes")],
)
def test_trouble_that_stays_is_told_after_the_retries(trouble: Raw, words: str) -> None:
    sentence, requests = failing(EndpointUnavailable, in_turn(trouble), retries=2)
    assert requests == 3
    assert words in sentence and MODEL in sentence and "3 tries" in sentence and "endpoint.retries" in sentence
    assert failing(EndpointUnavailable, in_turn(trouble), retries=0)[1] == 1


def test_a_server_that_hangs_is_left_after_the_timeout() -> None:
    sentence, requests = failing(
        EndpointUnavailable, in_turn(Raw(reply("late").body, hang_s=30)), timeout_s=0.2, retries=1
    )
    assert requests == 2
    assert "did not answer within 0.2 s" in sentence


def test_a_server_that_is_not_there_is_named() -> None:
    with ChatServer(in_turn(reply("ok"))).running() as server:
        gone = server.url

    async def run() -> None:
        async with open_chat(settings(gone, retries=1), None, lambda trouble: None) as chat:
            await chat.reply(request())

    with pytest.raises(EndpointUnavailable, match="the connection failed") as caught:
        asyncio.run(run())
    assert gone in str(caught.value)


REFUSED = {
    "key": (error(401, f"Incorrect API key provided: {KEY}"), ("401", "endpoint.key_variable")),
    "forbidden": (error(403, "no access"), ("403", "endpoint.key_variable")),
    "model": (
        error(404, "The model `stone-7b` does not exist", "model_not_found"),
        ("does not exist", "endpoint.model"),
    ),
    "address": (Raw(b"Not Found", 404, {"Content-Type": "text/plain"}), ("404", "/v1")),
    "credit": (error(429, "You exceeded your quota", "insufficient_quota"), ("quota", "add credit")),
    "elsewhere": (Raw(b"", 301, {"Location": "https://example.org/"}), ("301", "endpoint.base_url")),
    "field": (
        error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("endpoint.max_tokens_field",),
    ),
    "seed": (error(422, "extra field: seed"), ("endpoint.send_seed",)),
    "temperature": (error(400, "temperature does not support 0.5"), ("temperature",)),
    "page": (PAGE, ("a web page", "/v1")),
    "wrong content type": (
        Raw(b"data: {}\n\n", headers={"Content-Type": "text/event-stream"}),
        ("text/event-stream that is no JSON", "endpoint.base_url"),
    ),
    "no object": (Raw(b"[1, 2]"), ("no object", "endpoint.base_url")),
}


@pytest.mark.parametrize(("answer", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_pass_is_told_at_once(monkeypatch: pytest.MonkeyPatch, answer: Raw, words: tuple[str, ...]) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    sentence, requests = failing(EndpointRefused, in_turn(answer), key_variable=VARIABLE)
    assert requests == 1
    for word in (MODEL, "http://127.0.0.1:", *words):
        assert word in sentence
    assert KEY not in sentence and "\n" not in sentence


@pytest.mark.parametrize(
    "answer",
    [
        error(400, "Too much.", "context_length_exceeded"),
        error(400, "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens."),
        error(400, "the request exceeds the available context size, try increasing it"),
        error(413, "payload"),
    ],
)
def test_a_prompt_that_is_too_long_is_a_kind_of_its_own(answer: Raw) -> None:
    sentence, requests = failing(PromptTooLong, in_turn(answer))
    assert requests == 1
    assert MODEL in sentence and "50 tokens" in sentence


@pytest.mark.parametrize(
    ("answer", "tries", "words"),
    [
        (Raw(b'{"choices": []}'), 3, "no choices"),
        (reply(None, "content_filter"), 1, "content filter"),
        (reply(None, refusal="I cannot help with that."), 1, "declined: I cannot help"),
        (reply("{}", "tool_calls"), 1, "tool_calls"),
    ],
)
def test_an_answer_without_a_reply_is_nobodys_fault(answer: Raw, tries: int, words: str) -> None:
    sentence, requests = failing(NoReply, in_turn(answer), retries=2)
    assert requests == tries
    assert words in sentence


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            error(500, "tools param requires --jinja flag"),
            EndpointError,
            "start the server with support for tool calls",
        ),
        (error(400, '"auto" tool choice requires --enable-auto-tool-choice'), EndpointError, "support for tool calls"),
        (error(500, 'Failed to parse input at pos 0: <tool_call>{"name": "enable_account"'), NoReply, "enable_account"),
        (error(400, "a message with 'tool_calls' must be followed by tool messages; required"), EndpointError, "400"),
    ],
)
def test_a_server_without_tools_is_told_from_what_a_model_wrote(answer: Raw, kind: type, words: str) -> None:
    async def use(chat: OpenAIChat) -> str:
        with pytest.raises(kind) as raised:
            await with_tools(chat)
        return str(raised.value)

    sentence, server = asked(in_turn(answer), use)
    assert len(server.heard) == 1
    assert words in sentence
    assert ("start the server with support" in sentence) == ("support" in words)


def test_a_reply_is_taken_whatever_its_content_type_says() -> None:
    mislabelled = Raw(reply("Nine feet.").body, headers={"Content-Type": "text/plain"})
    assert one(in_turn(mislabelled))[0].text == "Nine feet."


def test_a_missing_package_is_told_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"pip install 'spadework\[endpoint\]'"):
        one(in_turn(reply("ok")))


def test_a_page_in_between_is_trouble_that_passes() -> None:
    async def use(chat: OpenAIChat) -> list[str]:
        return [(await chat.reply(request(draw=draw))).text for draw in (1, 2)]

    assert asked(in_turn(reply("one"), PAGE, reply("two")), use)[0] == ["one", "two"]


def test_a_reply_is_paid_for_once_and_draws_are_told_apart(tmp_path: Path) -> None:
    def count(body: Any, number: int) -> Raw:
        return reply(f"reply {number}", tokens=(100, 10))

    async def use(chat: OpenAIChat) -> tuple[list[str], dict[str, float], Usage]:
        texts = [(await chat.reply(request(draw=draw))).text for draw in (1, 2, 1)]
        return texts, chat.ledger.readings(), chat.ledger.paid

    file = tmp_path / "replies.sqlite"
    prices = {"price_per_million_input": 2.0, "price_per_million_output": 8.0}
    (texts, readings, paid), server = asked(count, use, file, **prices)
    assert texts == ["reply 0", "reply 1", "reply 0"]
    assert len(server.heard) == 2
    assert paid == Usage(200, 20)
    assert readings == {
        "endpoint/replies": 3,
        "endpoint/repeated": 1,
        "endpoint/retries": 0,
        "endpoint/unmetered": 0,
        "endpoint/prompt_tokens": 300,
        "endpoint/reply_tokens": 30,
        "endpoint/cost": pytest.approx(300 * 2e-6 + 30 * 8e-6),
        "endpoint/cost_of_run": pytest.approx(200 * 2e-6 + 20 * 8e-6),
    }
    (texts, readings, paid), server = asked(count, use, file, **prices)
    assert texts == ["reply 0", "reply 1", "reply 0"]
    assert server.heard == [], "another server at another port is not asked again"
    assert readings["endpoint/repeated"] == 3
    assert paid == Usage(200, 20)


def test_another_model_or_another_temperature_is_asked_anew(tmp_path: Path) -> None:
    file = tmp_path / "replies.sqlite"
    one(in_turn(reply("first")), replies=file)
    assert one(in_turn(reply("second")), replies=file)[0].text == "first"
    assert one(in_turn(reply("third")), replies=file, model="stone-8b")[0].text == "third"
    hotter = ChatRequest(request().messages, 50, 0.6, 7)
    assert asked(in_turn(reply("fourth")), lambda chat: chat.reply(hotter), file)[0].text == "fourth"


def test_failures_are_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "replies.sqlite"
    with pytest.raises(EndpointError):
        one(in_turn(error(500)), replies=file, retries=0)
    assert one(in_turn(reply("ok")), replies=file)[0].text == "ok"


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "replies.sqlite"
    file.write_text("not a database " * 100)
    with pytest.raises(EndpointError, match="the replies of the endpoint"):
        one(in_turn(reply("ok")), replies=file)


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        ({"budget_tokens": 250}, "endpoint.budget_tokens"),
        ({"budget": 0.025, "price_per_million_input": 100, "price_per_million_output": 100}, "endpoint.budget"),
    ],
)
def test_a_budget_is_never_exceeded_and_loses_no_reply(tmp_path: Path, limits: dict[str, float], setting: str) -> None:
    """Each request takes 15 tokens and might take 70: those under way are waited for, and kept."""

    async def use(chat: OpenAIChat) -> tuple[Usage, list[BaseException | ChatReply], float]:
        wanted = (chat.reply(request(draw=draw)) for draw in range(40))
        ended = await asyncio.gather(*wanted, return_exceptions=True)
        return chat.ledger.paid, ended, chat.ledger.cost(chat.ledger.paid)

    file = tmp_path / "replies.sqlite"
    (paid, ended, cost), server = asked(in_turn(reply("ok")), use, file, **limits)
    spent = [one for one in ended if isinstance(one, BudgetSpent)]
    assert 0 < len(spent) < 40 and len(server.heard) == 40 - len(spent)
    assert paid.tokens == 15 * len(server.heard) <= 250
    assert cost <= 0.025
    assert spent[0].setting == setting and setting in str(spent[0]) and "are spent" in str(spent[0])

    more = {name: 100 * value if name.startswith("budget") else value for name, value in limits.items()}
    (paid, ended, _), server = asked(in_turn(reply("ok")), use, file, **more)
    assert len(server.heard) == len(spent) and paid == Usage(400, 200)


def test_a_budget_cannot_be_kept_where_no_usage_is_told() -> None:
    sentence, _ = failing(EndpointRefused, in_turn(reply("ok", tokens=None)), budget_tokens=1000)
    assert "does not say how many tokens" in sentence

    async def use(chat: OpenAIChat) -> dict[str, float]:
        await chat.reply(request())
        return chat.ledger.readings()

    assert asked(in_turn(reply("ok", tokens=None)), use)[0]["endpoint/unmetered"] == 1


def test_what_a_filter_withheld_is_paid_for() -> None:
    async def use(chat: OpenAIChat) -> Usage:
        with pytest.raises(NoReply):
            await chat.reply(request())
        with pytest.raises(BudgetSpent):
            await chat.reply(request())
        return chat.ledger.paid

    paid, server = asked(in_turn(reply(None, "content_filter")), use, budget_tokens=75)
    assert paid == Usage(10, 5) and len(server.heard) == 1


def test_texts_that_are_no_unicode_arrive() -> None:
    broken = ChatRequest(as_chat([("user", "half \ud83d of one")]), 50, 1.0, 1)
    answer = Raw(reply("x").body.replace(b'"x"', b'"half \\ud83d back"'))
    found, server = asked(in_turn(answer), lambda chat: chat.reply(broken))
    assert json.loads(json.dumps(found.text)) == "half \\ud83d back"
    assert server.prompts() == ["half \\ud83d of one"]


def test_an_answer_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spadework.engines.openai.exchange.MAX_ANSWER_BYTES", 1000)
    sentence, _ = failing(EndpointUnavailable, in_turn(reply("x" * 5000)), retries=0)
    assert "larger than 1000 bytes" in sentence
