"""Runs whose programs, hints or verdicts come from a frozen model at an endpoint."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chat_server import Answer, Body, ChatServer, Raw, error, reply
from selfplay_world import (
    HINT,
    Trained,
    open_policy,
    run_once,
    save_corpus,
    save_model,
    script,
    small_config,
    without_times,
)

from spadework.config import Config
from spadework.engines.base import SamplingParams
from spadework.engines.chat import EndpointRefused
from spadework.roles.judge import QUESTIONS
from spadework.selfplay import Interrupted
from spadework.store.copy import copy_run
from spadework.store.glossary import METRICS
from spadework.store.reader import PoolReader
from spadework.store.records import AttemptRecord

MODEL = "stone-7b"
OF_THIS_START = ("endpoint/repeated", "endpoint/retries", "endpoint/cost_of_run")
"""Metrics of what was paid, which a continued run need not share with an unbroken one."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Config:
    place = tmp_path_factory.mktemp("world")
    config = small_config(save_model(place / "model"), save_corpus(place / "corpus.jsonl"))
    return config.model_copy(update={"iterations": 3})


def using(world: Config, url: str, *users: str, **limits: Any) -> Config:
    """``users`` are the settings that are to be "endpoint"."""
    tree = world.model_dump(mode="json")
    tree["endpoint"] = {"base_url": url, "model": MODEL, "prompts": "seed", "timeout_s": 20, **limits}
    for user in users:
        section, name = user.split(".")
        tree[section][name] = "endpoint"
    return Config.model_validate(tree)


def scripted(body: Body, number: int) -> Raw:
    """What the policy of these tests would say, at a price of 100 and 20 tokens."""
    turns = (f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in body["messages"])
    params = SamplingParams(body["max_tokens"], (), body["seed"], body["temperature"])
    return reply(script("".join(turns), params), tokens=(100, 20))


def lenient(body: Body, number: int) -> Raw:
    """Writes like the script and judges that all is well."""
    return reply(verdict()) if is_trial(body) else scripted(body, number)


def is_trial(body: Body) -> bool:
    return "----- program" in body["messages"][-1]["content"]


def verdict(**changes: str) -> str:
    """``changes`` are answers by the number of the question, as q1 and so on."""
    given = {
        str(n): {"answer": changes.get(f"q{n}", "yes"), "reason": "So it is."} for n in range(1, 1 + len(QUESTIONS))
    }
    return f"I have read it.\n```json\n{json.dumps({'answers': given})}\n```"


def attempts(path: Path) -> list[AttemptRecord]:
    with PoolReader.open(path / "pool.sqlite") as pool:
        return [attempt for round_ in (0, 1) for attempt in pool.attempts(round_)]


def run(path: Path, world: Config, answer: Answer, *users: str, **limits: Any) -> tuple[Trained, ChatServer, list[str]]:
    """The run, the server, and the prompts that the policy itself was given."""
    heard: list[str] = []

    def say(prompt: str, params: SamplingParams) -> str:
        heard.append(prompt.split("<|im_start|>user\n")[1])
        return script(prompt, params)

    with ChatServer(answer).running() as server:
        config = using(world, server.url, *users, **limits)
        return run_once(path, config, open_policy(config, say)), server, heard


def test_a_frozen_designer_is_gated_and_stored_and_only_the_agent_is_trained(world: Config, tmp_path: Path) -> None:
    trained, server, heard = run(tmp_path / "run", world, scripted, "roles.designer")
    records = attempts(tmp_path / "run")
    status = Counter(record.status for record in records)
    assert status["accepted"] == 6 and status["parse"] >= 1
    assert len(server.heard) == len(records)
    assert all(prompt.startswith("design ") for prompt in server.prompts())
    assert all((record.prompt_tokens, record.reply_tokens) == (100, 20) for record in records)
    assert not any(prompt.startswith("design ") for prompt in heard)
    assert any(prompt.startswith("hint:") for prompt in heard)
    for row in trained.rows:
        assert row["learning/designer_sequences"] == 0 < row["learning/agent_sequences"]
        assert "designer/reward" not in row
    assert len({row["learning/weights_checksum"] for row in trained.rows}) == 3
    first, second, third = trained.rows
    assert first["endpoint/replies"] + third["endpoint/replies"] == len(records)
    assert first["endpoint/prompt_tokens"] == 100 * first["endpoint/replies"]
    assert second["endpoint/replies"] == 0
    assert not {name for row in trained.rows for name in row if name.startswith("endpoint/cost")}, "there are no prices"


def test_a_frozen_hint_writer_leaves_the_designer_to_be_trained(world: Config, tmp_path: Path) -> None:
    prices = {"price_per_million_input": 1.0, "price_per_million_output": 10.0}
    trained, server, heard = run(tmp_path / "run", world, scripted, "roles.hint_writer", **prices)
    assert len(server.heard) == 6
    assert all(prompt.startswith("hint:") for prompt in server.prompts())
    assert not any(prompt.startswith("hint:") for prompt in heard)
    assert sum(row["learning/designer_sequences"] for row in trained.rows) > 0
    assert trained.rows[-1]["endpoint/cost_of_run"] == pytest.approx(6 * (100 * 1e-6 + 20 * 10e-6))
    assert trained.rows[0]["endpoint/cost"] == pytest.approx(3 * (100 * 1e-6 + 20 * 10e-6))
    with PoolReader.open(tmp_path / "run" / "pool.sqlite") as pool:
        assert {one.hint for round_ in (0, 1) for one in pool.environments(round_)} == {HINT}


def test_prompts_of_the_endpoint_are_its_own(world: Config, tmp_path: Path) -> None:
    with ChatServer(lambda body, number: error(404, "no such model")).running() as server:
        config = using(world, server.url, "roles.designer", prompts="full")
        with pytest.raises(EndpointRefused):
            run_once(tmp_path / "run", config)
    assert "Write one environment that trains" in server.prompts()[0]


def test_a_spent_budget_ends_the_run_and_the_raised_one_continues_it(world: Config, tmp_path: Path) -> None:
    users = ("roles.designer", "roles.hint_writer")
    unbroken, server, _ = run(tmp_path / "unbroken", world, scripted, *users)
    paid = len(server.heard)

    path = tmp_path / "broken"
    with ChatServer(scripted).running() as server, pytest.raises(Interrupted) as caught:
        run_once(path, using(world, server.url, *users, budget_tokens=2000))
    before = len(server.heard)
    assert 0 < before < paid
    sentence = str(caught.value)
    assert "endpoint.budget_tokens is used up" in sentence and "of 2000 are spent" in sentence
    assert "raise endpoint.budget_tokens, and the same command" in sentence

    copy_run(path, tmp_path / "copy")
    for place in (path, tmp_path / "copy"):
        ended, server, _ = run(place, world, scripted, *users, budget_tokens=10**6)
        assert before + len(server.heard) == paid, "every reply is paid for once"
        assert comparable(ended.rows) == comparable(unbroken.rows)


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name not in OF_THIS_START} for row in without_times(rows)]


def test_a_refused_endpoint_ends_the_run_and_the_mended_one_continues_it(world: Config, tmp_path: Path) -> None:
    def until_the_second_round(body: Body, number: int) -> Raw:
        return scripted(body, number) if number < 4 else error(401, "your key has expired")

    path = tmp_path / "run"
    with pytest.raises(EndpointRefused, match="your key has expired"):
        run(path, world, until_the_second_round, "roles.hint_writer", retries=0)
    ended, _, _ = run(path, world, scripted, "roles.hint_writer", retries=2, concurrency=3)
    assert [row["iteration"] for row in ended.rows] == [0, 1, 2]


def test_an_attempt_without_a_reply_is_nobodys_fault(world: Config, tmp_path: Path) -> None:
    def withheld(body: Body, number: int) -> Raw:
        return reply(None, "content_filter") if number == 0 else scripted(body, number)

    trained, _, _ = run(tmp_path / "run", world, withheld, "roles.designer")
    (record,) = [record for record in attempts(tmp_path / "run") if record.status == "host-fault"]
    assert "content filter" in record.reason
    assert trained.rows[0]["designer/host_faults"] == 1


def test_a_judge_that_is_content_changes_nothing_but_leaves_its_verdict(world: Config, tmp_path: Path) -> None:
    _, server, _ = run(tmp_path / "run", world, lenient, "gates.judge")
    accepted = [record for record in attempts(tmp_path / "run") if record.status == "accepted"]
    assert len(server.heard) == len(accepted) == 6
    for record in accepted:
        *_, before, last = record.gates
        assert before.gate == "hint-safe"
        assert (last.gate, last.passed, last.reason) == ("judge", True, "")
        assert last.seconds > 0 and "I have read it." in str(last.details["reply"])
    asked = server.heard[0].body
    assert (asked["temperature"], asked["max_tokens"]) == (0.0, 4096)
    assert "class " in server.prompts()[0] and "within 6 turns" in server.prompts()[0]


def test_a_judge_that_says_no_rejects_and_one_that_does_not_say_accepts_nothing(world: Config, tmp_path: Path) -> None:
    answers = [verdict(q2="no"), verdict(q3="unknown"), "It looks fine to me.", None]

    def strict(body: Body, number: int) -> Raw:
        text = answers[number] if number < len(answers) else verdict()
        return reply(text, "content_filter" if text is None else "stop")

    trained, _, _ = run(tmp_path / "run", world, strict, "gates.judge")
    judged = [record for record in attempts(tmp_path / "run") if record.gates and record.gates[-1].gate == "judge"]
    status = Counter(record.status for record in judged)
    assert (status["judge"], status["no-verdict"]) == (1, 3)
    (rejected,) = [record for record in judged if record.status == "judge"]
    assert rejected.reason == "the judge finds the program not winnable: So it is."
    missing = [record for record in judged if record.status == "no-verdict"]
    assert all(record.reason.startswith("the judge gave no verdict: ") for record in missing)
    assert not any(record.gates[-1].passed or record.environment_id for record in (rejected, *missing))
    assert trained.rows[0]["designer/rejected/judge"] == 1
    assert trained.rows[0]["designer/no_verdicts"] == 3
    trained_designs = sum(row["learning/designer_sequences"] for row in trained.rows)
    unpunished = sum(record.status != "no-verdict" for record in attempts(tmp_path / "run"))
    assert trained_designs <= unpunished


def test_the_policy_can_be_its_own_judge(world: Config, tmp_path: Path) -> None:
    gates = {"judge": "self", "judge_max_tokens": 300, "judge_temperature": 0.5}
    config = world.model_copy(update={"gates": world.gates.model_copy(update=gates)})
    heard: list[SamplingParams] = []

    def say(prompt: str, params: SamplingParams) -> str:
        if "----- program" not in prompt:
            return script(prompt, params)
        heard.append(params)
        return verdict()

    run_once(tmp_path / "run", config, open_policy(config, say))
    assert len(heard) == 6
    assert {(params.temperature, params.max_tokens) for params in heard} == {(0.5, 300)}
    assert all(r.gates[-1].gate == "judge" for r in attempts(tmp_path / "run") if r.status == "accepted")


def test_every_metric_of_an_endpoint_is_logged(world: Config, tmp_path: Path) -> None:
    prices = {"price_per_million_input": 1.0, "price_per_million_output": 10.0}
    trained, _, _ = run(tmp_path / "run", world, scripted, "roles.hint_writer", **prices)
    named = {name for name in METRICS if name.startswith("endpoint/")}
    assert all(named <= set(row) for row in trained.rows)
