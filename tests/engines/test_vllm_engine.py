"""The local engine with a vLLM server as its sampler, against one that computes, and against ones that misbehave."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from chat_server import Raw, babbling
from fake_vllm import BASE, FakeVllm, Faults, refusal
from pydantic import ValidationError
from safetensors import SafetensorError
from tiny_models import VOCABULARY, save_tiny_model

from spadework.config import Config
from spadework.engines.base import (
    ContextTooLong,
    Datum,
    EngineFault,
    Sample,
    SamplingParams,
    StaleCohort,
    StopReason,
)
from spadework.engines.open import open_engine
from spadework.engines.openai import pacing
from spadework.engines.settings import VllmConfig
from spadework.engines.vllm import server as asking
from spadework.engines.vllm.engine import VllmEngine
from spadework.engines.vllm.launch import launch_line
from spadework.learning.loss import PolicyLoss
from spadework.loop.weights import HoldsWeights

T = TypeVar("T")
STOP = 2
RATE = 0.05
"""Of steps that move the weights so far that older ones cannot be taken for newer."""
HTML = Raw(b"<html><body>Welcome to nginx!</body></html>", headers={"Content-Type": "text/html"})
Play = tuple[tuple[int, ...], SamplingParams, Sample]


@pytest.fixture(autouse=True)
def _waits_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FIRST_WAIT_S", 0.001)


@pytest.fixture
def server(tiny_qwen3: Path) -> Iterator[FakeVllm]:
    fake = FakeVllm(tiny_qwen3)
    with fake.running():
        yield fake


def config_of(
    server: FakeVllm, trained: Path | None = None, *, rank: int = 4, context: int = 200, **vllm: Any
) -> Config:
    settings = {"base_url": server.url, "model": BASE, "max_mismatch": 1e-4, "patience_s": 20.0, **vllm}
    return Config.model_validate(
        {
            "model": {"path": str(trained or server.model), "max_context_tokens": context, "lora_rank": rank},
            "engine": {"sampler": "vllm", "threads": 1, "train_tokens": 256, "vllm": settings},
            "learning": {"learning_rate": RATE},
        }
    )


def opened(server: FakeVllm, trained: Path | None = None, **settings: Any) -> VllmEngine:
    config = config_of(server, trained, **settings)
    engine = open_engine(config, Path(config.model.path))
    assert isinstance(engine, VllmEngine)
    return engine


def prompt_of(member: int) -> tuple[int, ...]:
    return (5, 6, 7 + member, 8)


def params_of(seed: int, temperature: float = 1.0, max_tokens: int = 12) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, stop_ids=(STOP,), seed=seed, temperature=temperature)


async def plays(engine: VllmEngine, count: int = 6, temperature: float = 1.0, start: int = 0) -> list[Play]:
    asked = [(prompt_of(member), params_of(start + member, temperature)) for member in range(count)]
    async with engine.cohort(count) as cohort:
        replies = await asyncio.gather(*(cohort.sample(member, *one) for member, one in enumerate(asked)))
    return [(prompt, params, reply) for (prompt, params), reply in zip(asked, replies, strict=True)]


async def one(engine: VllmEngine, **params: Any) -> Sample:
    async with engine.cohort(1) as cohort:
        return await cohort.sample(0, prompt_of(0), params_of(0, **params))


def as_data(played: Sequence[Play]) -> list[Datum]:
    data = []
    for number, (prompt, params, reply) in enumerate(played):
        before, said = (0.0,) * len(prompt), len(reply.token_ids_T)
        data.append(
            Datum(
                token_ids_T=(*prompt, *reply.token_ids_T),
                weights_T=before + (0.02,) * said,
                logprobs_T=before + reply.logprobs_T,
                advantages_T=before + ((-1.0) ** number,) * said,
                temperature=params.temperature,
            )
        )
    return data


async def gap(engine: VllmEngine, played: Sequence[Play]) -> float:
    """Largest difference between what the server told of a token and what the trainer finds."""
    data = as_data(played)
    scores = await engine.score(data)
    return max(
        abs(told - found)
        for datum, scored in zip(data, scores, strict=True)
        for weight, told, found in zip(datum.weights_T, datum.logprobs_T, scored, strict=True)
        if weight
    )


async def learn(engine: VllmEngine, played: Sequence[Play], rate: float = RATE) -> None:
    await engine.forward_backward(as_data(played), PolicyLoss())
    assert (await engine.optim_step(rate)).applied


def fault_of(use: Callable[[], Awaitable[object]]) -> str:
    async def run() -> None:
        await use()

    with pytest.raises(EngineFault) as caught:
        asyncio.run(run())
    return str(caught.value)


def test_probabilities_are_the_trainers_before_and_after_updates(server: FakeVllm) -> None:
    engine = opened(server)

    async def run() -> None:
        replies = []
        for version in range(3):
            for temperature in (1.0, 0.7):
                played = await plays(engine, temperature=temperature)
                assert await gap(engine, played) < 1e-4
                assert {reply.policy_version for _, _, reply in played} == {version}
            replies.append([reply.token_ids_T for _, _, reply in played])
            await learn(engine, played)
        assert replies[0] != replies[1] != replies[2], "the weights have moved"

    asyncio.run(run())


def test_each_state_of_the_weights_is_loaded_once_under_a_new_name_and_earlier_ones_go(server: FakeVllm) -> None:
    engine = opened(server)
    assert server.loads == [], "nothing is loaded before something is sampled"

    async def run() -> None:
        for _ in range(3):
            await plays(engine)
            await learn(engine, await plays(engine, start=50))

    asyncio.run(run())
    names = [name for name, _ in server.loads]
    assert len(set(names)) == 3 and server.unloads == names[:2], "the last update was followed by no sample"
    assert [name.rpartition("-")[2] for name in names] == ["v0", "v1", "v2"]
    (left,) = server.loads[-1][1].parent.iterdir()
    assert left.name == names[-1]
    assert {str(body["model"]) for body in server.asked("/v1/completions")} == set(names), "the base is never asked"


def test_nothing_that_shapes_the_distribution_is_left_to_defaults(server: FakeVllm) -> None:
    engine = opened(server)
    seed = (1 << 63) + 11

    async def run() -> Sample:
        async with engine.cohort(1) as cohort:
            return await cohort.sample(0, (5, 6, 7), SamplingParams(4, (STOP, 3), seed, 0.5))

    reply = asyncio.run(run())
    body = server.asked("/v1/completions")[-1]
    assert body == {
        "model": server.loads[0][0],
        "prompt": [5, 6, 7],
        "add_special_tokens": False,
        "n": 1,
        "stream": False,
        "max_tokens": 4,
        "min_tokens": 0,
        "temperature": 0.5,
        "seed": 11,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": [],
        "stop_token_ids": [STOP, 3],
        "ignore_eos": True,
        "skip_special_tokens": False,
        "logprobs": 0,
        "return_token_ids": True,
    }
    assert 1 <= len(reply.token_ids_T) == len(reply.logprobs_T) <= 4


def test_equal_seeds_give_equal_replies_and_the_stop_token_is_the_last(server: FakeVllm) -> None:
    engine = opened(server)
    first, again = asyncio.run(plays(engine, 8)), asyncio.run(plays(engine, 8))
    assert [reply for _, _, reply in first] == [reply for _, _, reply in again]
    ends = {reply.stop_reason: reply.token_ids_T for _, _, reply in asyncio.run(plays(engine, 40, start=100))}
    assert ends[StopReason.STOP][-1] == STOP and STOP not in ends[StopReason.STOP][:-1]
    assert STOP not in ends[StopReason.LENGTH] and len(ends[StopReason.LENGTH]) == 12


def test_a_cohort_of_older_weights_is_stale_even_for_a_reply_under_way(server: FakeVllm) -> None:
    engine = opened(server)
    asked, answered = threading.Event(), threading.Event()

    def hold(body: dict[str, Any], number: int) -> None:
        if body["max_tokens"] == 7:
            asked.set()
            assert answered.wait(30)

    server.faults.answer = hold  # type: ignore[assignment]

    async def run() -> None:
        played = await plays(engine)
        async with engine.cohort(2) as cohort:
            under_way = asyncio.create_task(cohort.sample(0, prompt_of(0), params_of(0, max_tokens=7)))
            await asyncio.to_thread(asked.wait, 30)
            await learn(engine, played)
            answered.set()
            with pytest.raises(StaleCohort):
                await under_way
            with pytest.raises(StaleCohort):
                await cohort.sample(1, prompt_of(1), params_of(1))
        assert {reply.policy_version for _, _, reply in await plays(engine)} == {1}

    asyncio.run(run())


def held_loads(server: FakeVllm) -> tuple[threading.Event, threading.Event]:
    """From now on a load says that it was asked for, and waits until it may go on."""
    asked, go_on = threading.Event(), threading.Event()
    real = server._load

    def slow(body: Any) -> Raw:
        asked.set()
        assert go_on.wait(30)
        return real(body)

    server._load = slow  # type: ignore[method-assign]
    return asked, go_on


def test_weights_that_change_while_their_adapter_is_loaded_are_not_sampled(server: FakeVllm) -> None:
    engine = opened(server)

    async def run() -> None:
        played = await plays(engine)
        await learn(engine, played)
        asked, go_on = held_loads(server)
        under_way = asyncio.create_task(one(engine))
        await asyncio.to_thread(asked.wait, 30)
        await learn(engine, played)
        go_on.set()
        with pytest.raises(StaleCohort):
            await under_way
        assert (await one(engine)).policy_version == 2

    asyncio.run(run())
    names = [name for name, _ in server.loads]
    assert [name.rpartition("-")[2] for name in names] == ["v0", "v1", "v2"] and server.unloads == names[:2]


def test_a_cohort_that_opens_while_older_weights_are_loaded_waits_for_its_own(server: FakeVllm) -> None:
    engine = opened(server)

    async def run() -> None:
        played = await plays(engine)
        await learn(engine, played)
        asked, go_on = held_loads(server)
        older = asyncio.create_task(one(engine))
        await asyncio.to_thread(asked.wait, 30)
        await learn(engine, played)
        fresh = asyncio.create_task(one(engine))
        await asyncio.sleep(0.05)
        go_on.set()
        with pytest.raises(StaleCohort):
            await older
        assert (await fresh).policy_version == 2

    asyncio.run(run())


def test_weights_of_a_checkpoint_are_loaded_at_the_server_too(server: FakeVllm, tmp_path: Path) -> None:
    engine = opened(server)

    async def run() -> None:
        before = await plays(engine)
        await engine.save(tmp_path / "saved")
        await learn(engine, before)
        assert await gap(engine, await plays(engine)) < 1e-4
        await engine.load(tmp_path / "saved")
        assert [reply for _, _, reply in await plays(engine)] == [reply for _, _, reply in before]
        await engine.export(tmp_path / "exported")

    asyncio.run(run())
    assert [name.rpartition("-")[2] for name, _ in server.loads] == ["v0", "v1", "v0"]
    assert (tmp_path / "exported" / "model.safetensors").exists()
    assert isinstance(engine, HoldsWeights), "checksum and count of unchanged weights are logged"


def test_a_server_that_keeps_older_weights_is_caught(server: FakeVllm) -> None:
    server.faults.keeps_first_adapter = True
    engine = opened(server)

    async def run() -> None:
        await learn(engine, await plays(engine))
        await plays(engine)

    assert "does not sample from the model that is trained here" in fault_of(run)


def test_small_steps_of_float32_are_seen_by_default_and_what_bfloat16_needs_is_said(server: FakeVllm) -> None:
    server.faults.keeps_first_adapter = True
    engine = opened(server, max_mismatch=0)

    async def run() -> None:
        await learn(engine, await plays(engine), rate=0.004)
        await plays(engine)

    sentence = fault_of(run)
    assert "older weights or a layer that it leaves out" in sentence and "where 0.001 is allowed" in sentence
    assert "another precision than the trainer's float32 (a server in bfloat16" in sentence
    assert "need engine.vllm.max_mismatch=0.1" in sentence
    assert float(sentence.partition("differ by ")[2].split()[0]) < 0.1
    assert VllmConfig(max_mismatch=0.1).max_mismatch_in("float32") == VllmConfig().max_mismatch_in("bfloat16") == 0.1


def test_another_base_model_is_refused(server: FakeVllm, tmp_path: Path) -> None:
    other = save_tiny_model(tmp_path / "other", "qwen3", tied=False)
    sentence = fault_of(lambda: one(opened(server, other)))
    assert "does not sample from the model that is trained here" in sentence
    assert f"its model {BASE} is not {other}" in sentence and "0.0001 is allowed (engine.vllm.max_mismatch)" in sentence


def test_probabilities_of_before_the_temperature_are_refused_with_the_line_that_starts_the_server(
    server: FakeVllm,
) -> None:
    server.faults.untempered = True
    sentence = fault_of(lambda: one(opened(server)))
    assert "log-probabilities of before the temperature" in sentence
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve" in sentence
    assert "--max-lora-rank 8 --logprobs-mode processed_logprobs" in sentence


def test_a_reply_of_the_base_model_is_no_reply_of_the_adapter(server: FakeVllm) -> None:
    server.faults.calls_itself = BASE
    sentence = fault_of(lambda: one(opened(server)))
    assert f"answered with {BASE} where spadework-" in sentence


def test_a_server_that_was_started_again_is_given_the_adapter_again(server: FakeVllm) -> None:
    engine = opened(server)

    async def run() -> None:
        before = await plays(engine)
        server.restart()
        async with engine.cohort(6) as cohort:
            again = await asyncio.gather(
                *(cohort.sample(member, prompt, params) for member, (prompt, params, _) in enumerate(before))
            )
        assert again == [reply for _, _, reply in before]

    asyncio.run(run())
    assert len(server.loads) == 2, "once for all who missed it"


def test_a_server_that_does_not_keep_what_it_loads_is_given_up(server: FakeVllm) -> None:
    server.faults.forgets_at_once = True
    assert "loaded an adapter twice and did not know it afterwards" in fault_of(lambda: one(opened(server)))
    assert len(server.loads) == 2


def test_a_server_that_was_started_again_between_load_and_proof_is_given_the_adapter_again(server: FakeVllm) -> None:
    def lose(body: Any, number: int) -> None:
        if server.replies == 0 and len(server.loads) == 1:
            server.restart()

    server.faults.answer = lose
    assert asyncio.run(one(opened(server))).policy_version == 0
    assert len({name for name, _ in server.loads}) == 2


def test_a_page_is_no_answer_to_a_load(server: FakeVllm) -> None:
    real, given = server._load, [0]

    def page(body: Any) -> Raw:
        given[0] += bool(body["lora_name"])
        return HTML if body["lora_name"] and given[0] == 1 else real(body)

    server._load = page  # type: ignore[method-assign]
    assert asyncio.run(one(opened(server))).policy_version == 0
    assert given == [2] and len(server.loads) == 1


def test_a_server_that_loses_the_adapter_again_and_again_is_given_up(server: FakeVllm) -> None:
    engine = opened(server)
    unknown = refusal(404, "The model does not exist.", "NotFoundError")
    server.faults.answer = lambda body, number: unknown if body["max_tokens"] == 12 else None
    assert "does not know it any more" in fault_of(lambda: one(engine))
    assert len(server.loads) == 2


def test_more_requests_than_may_be_under_way_wait(server: FakeVllm) -> None:
    engine = opened(server, concurrency=3)

    def pause(body: dict[str, Any], number: int) -> None:
        time.sleep(0.02)

    server.faults.answer = pause  # type: ignore[assignment]
    asyncio.run(plays(engine, 12))
    assert 2 <= server.http.most_at_once <= 3
    assert server.replies == 13


def after_the_proof(raw: Raw | None, times: int = 1_000_000) -> Callable[[Any, int], Raw | None]:
    """``raw`` for the first replies that are no proof of an adapter."""
    given = [0]

    def answer(body: Any, number: int) -> Raw | None:
        if body["max_tokens"] != 12 or given[0] >= times:
            return None
        given[0] += 1
        return raw

    return answer


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(500, "boom", "InternalServerError"),
        refusal(503, "loading", "ServiceUnavailable"),
        Raw(b'{"choices": [{"ind', promised=4000),
        Raw(b'{"choices": [{"ind'),
        HTML,
        Raw(json.dumps({"model": "x", "choices": [{"finish_reason": "abort"}]}).encode()),
    ],
    ids=["500", "503", "line dropped", "half JSON", "a page", "aborted"],
)
def test_trouble_that_passes_is_waited_out(server: FakeVllm, trouble: Raw) -> None:
    engine = opened(server)
    calm = asyncio.run(one(engine))
    server.faults.answer = after_the_proof(trouble, times=2)
    assert asyncio.run(one(engine)) == calm
    assert len(server.loads) == 1


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (refusal(500, "boom", "InternalServerError"), "failed (it answered 500: boom) for 0.3 s"),
        (HTML, "failed (it answered with a web page) for 0.3 s"),
        (Raw(b'{"choices": [{"ind'), "failed (the answer is broken JSON of 18 bytes) for 0.3 s"),
        (refusal(401, "Unauthorized", "x"), "set engine.vllm.key_variable"),
        (refusal(400, "no such thing", "x"), "refused: it answered 400: no such thing; see its log"),
        (Raw(b"", 302, {"Location": "http://127.0.0.1:1"}), "it points elsewhere"),
        (Raw(b'{"model": "x", "choices": []}'), "an answer without a reply"),
    ],
    ids=["500", "a page", "half JSON", "401", "400", "302", "no choices"],
)
def test_trouble_that_stays_ends_the_run_in_one_sentence(server: FakeVllm, trouble: Raw, words: str) -> None:
    engine = opened(server, patience_s=0.3)
    server.faults.answer = after_the_proof(trouble)
    sentence = fault_of(lambda: one(engine))
    assert words in sentence
    assert "\n" not in sentence


def test_replies_that_cannot_be_trained_are_refused(server: FakeVllm) -> None:
    def drop_ids(choice: dict[str, Any]) -> None:
        del choice["token_ids"]

    def drop_logprob(choice: dict[str, Any]) -> None:
        choice["logprobs"]["token_logprobs"].pop()

    def no_logprobs(choice: dict[str, Any]) -> None:
        choice["logprobs"] = None

    def no_number(choice: dict[str, Any]) -> None:
        choice["logprobs"]["token_logprobs"][0] = math.nan

    def longer_prompt(choice: dict[str, Any]) -> None:
        choice["prompt_token_ids"] = [1, *choice["prompt_token_ids"]]

    def drop_last(choice: dict[str, Any]) -> None:
        choice["token_ids"].pop()
        choice["logprobs"]["token_logprobs"].pop()

    def text_ids(choice: dict[str, Any]) -> None:
        choice["token_ids"] = [str(token) for token in choice["token_ids"]]

    engine = opened(server)
    asyncio.run(one(engine))
    for change, words in (
        (drop_ids, "gives no token ids back"),
        (text_ids, "gives no token ids back"),
        (drop_logprob, "log-probabilities where up to"),
        (no_logprobs, "gives no log-probabilities"),
        (no_number, "log-probabilities that are no numbers"),
        (longer_prompt, "another prompt than was sent (5 tokens for 4)"),
        (drop_last, "does not end where its first stop token is"),
    ):
        server.faults.changes = change
        assert words in fault_of(lambda: plays(engine, 8)), change.__name__


def test_a_server_that_went_away_is_given_up_after_the_patience_and_the_run_can_go_on(tiny_qwen3: Path) -> None:
    fake = FakeVllm(tiny_qwen3)
    with fake.running():
        engine = opened(fake, patience_s=0.3)
        asyncio.run(one(engine))
    sentence = fault_of(lambda: one(engine))
    assert "for 0.3 s when asked for a reply of up to 12 tokens to a prompt of 4" in sentence
    assert "give the same command to continue from the last checkpoint" in sentence


def test_time_in_which_the_server_worked_does_not_count_against_patience(
    server: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "REACHED_S", 0.5)
    engine = opened(server, patience_s=1.0)
    troubles = iter([refusal(503, "loading", "x"), Raw(b'{"choi', promised=4000, hang_s=1.5), None])
    server.faults.answer = lambda body, number: next(troubles) if body["max_tokens"] == 12 else None
    assert asyncio.run(one(engine)).policy_version == 0


def test_a_wait_that_is_asked_for_is_kept_and_does_not_count_against_patience(server: FakeVllm) -> None:
    engine = opened(server, patience_s=1.0)
    busy = Raw(b"{}", 503, {"Content-Type": "application/json", "Retry-After": "0.6"})
    server.faults.answer = after_the_proof(busy, times=3)
    asyncio.run(one(engine))
    asked = [heard.at_s for heard in server.http.heard if heard.body.get("max_tokens") == 12]
    assert len(asked) == 4
    assert all(later - earlier >= 0.6 for earlier, later in itertools.pairwise(asked))
    server.faults.answer = after_the_proof(Raw(b"{}", 503, {"Retry-After": "7200"}))
    assert "it asks for a wait of 7200 s; continue later" in fault_of(lambda: one(engine))


def test_what_does_not_speak_http_is_no_server(server: FakeVllm) -> None:
    assert asking.Server(VllmConfig(base_url=server.url)).is_there()
    with babbling() as url:
        assert not asking.Server(VllmConfig(base_url=url)).is_there()


def test_a_reply_that_never_comes_is_given_up_while_the_server_is_there(server: FakeVllm) -> None:
    engine = opened(server, answer_timeout_s=1.0)
    asyncio.run(one(engine))
    server.faults.answer = after_the_proof(Raw(b"", hang_s=60))
    sentence = fault_of(lambda: one(engine))
    assert "can be reached but did not answer within 1 s" in sentence
    assert "engine.vllm.answer_timeout_s" in sentence


def test_a_server_that_hangs_altogether_is_given_up_after_the_patience(server: FakeVllm) -> None:
    engine = opened(server, patience_s=0.4)
    asyncio.run(one(engine))
    server.faults.hangs = True
    assert "could not be reached for 0.4 s" in fault_of(lambda: one(engine))


def test_adapters_that_the_server_does_not_take_are_refused_with_the_remedy(server: FakeVllm) -> None:
    server.max_lora_rank = 2
    sentence = fault_of(lambda: one(opened(server)))
    assert "LoRA rank 4 is greater than max_lora_rank 2" in sentence and "--max-lora-rank 8" in sentence
    server.max_lora_rank = 16
    server.faults.refuses_load = refusal(404, "Loading lora a failed: No adapter found for <path>", "NotFoundError")
    sentence = fault_of(lambda: one(opened(server)))
    assert "set engine.vllm.adapter_dir to a directory that both see at the same path" in sentence


def test_an_adapter_whose_loading_was_answered_into_the_void_is_loaded(server: FakeVllm) -> None:
    engine = opened(server)
    real = server._load

    def lossy(body: Any) -> Raw:
        done = real(body)
        return Raw(b"", promised=10) if body["lora_name"] and len(server.asked("/v1/load_lora_adapter")) == 2 else done

    server._load = lossy  # type: ignore[method-assign]
    assert asyncio.run(one(engine)).policy_version == 0
    assert len(server.loads) == 1 and len(server.asked("/v1/load_lora_adapter")) == 3


def test_adapters_are_put_where_the_configuration_says_and_can_be_read_by_others(
    server: FakeVllm, tmp_path: Path
) -> None:
    umask = os.umask(0o077)
    try:
        engine = opened(server, adapter_dir=str(tmp_path))
        asyncio.run(one(engine))
    finally:
        os.umask(umask)
    path = server.loads[0][1]
    assert path.is_relative_to(tmp_path)
    for folder in (path.parent, path):
        assert folder.stat().st_mode & 0o777 == 0o755
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o644}
    with pytest.raises(EngineFault, match=r"no adapters can be written to engine\.vllm\.adapter_dir .*nowhere"):
        opened(server, adapter_dir=str(tmp_path / "nowhere"))


def test_an_adapter_that_cannot_be_written_ends_the_run_in_one_sentence(
    server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    engine = opened(server, adapter_dir=str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr("safetensors.torch.save_file", full)
        sentence = fault_of(lambda: one(engine))
    assert f"cannot be written to {tmp_path}" in sentence and "No space left on device (os error 28)" in sentence
    assert "make room there" in sentence and f"engine.vllm.adapter_dir, {tmp_path}" in sentence
    (folder,) = tmp_path.iterdir()
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert "Not a directory" in fault_of(lambda: one(engine))
    folder.unlink()


def test_the_line_that_starts_a_server_can_be_typed(server: FakeVllm) -> None:
    line = launch_line(config_of(server, base_url="http://gpu:8000"), "/models/a b")
    assert "vllm serve '/models/a b' --enable-lora" in line and "--port" not in line and "--api-key" not in line
    elsewhere = config_of(server, base_url="http://gpu:8123", key_variable="QUARRY_KEY")
    assert launch_line(elsewhere, "m").endswith('--port 8123 --api-key "$QUARRY_KEY"')


def test_a_server_that_cannot_serve_the_run_is_refused_before_anything_is_loaded(
    server: FakeVllm, tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**settings: Any) -> str:
        with pytest.raises(EngineFault) as caught:
            opened(server, **settings)
        return str(caught.value)

    assert f"has no base model granite (engine.vllm.model); it has {BASE}" in refused(model="granite")
    server.max_model_len = 150
    assert "holds 150 tokens and model.max_context_tokens is 200" in refused()
    server.max_model_len = 200
    server.faults = Faults(without_routes=True)
    assert "takes no adapters while it runs; stop it and start it with: VLLM_ALLOW" in refused()
    server.faults = Faults()
    with monkeypatch.context() as patched:
        patched.setattr(asking, "LOOK_TIMEOUT_S", 0.3)
        patched.setattr(server, "_load", lambda body: Raw(b"", hang_s=60))
        assert "(it did not answer within 0.3 s)" in refused()
    server.key = "sk-right"
    assert "it answered 401" in refused()
    monkeypatch.delenv("QUARRY_KEY", raising=False)
    assert "the environment variable QUARRY_KEY, which is not set" in refused(key_variable="QUARRY_KEY")
    monkeypatch.setenv("QUARRY_KEY", "sk-wrong")
    sentence = refused(key_variable="QUARRY_KEY")
    assert "set engine.vllm.key_variable" in sentence and "sk-wrong" not in sentence
    monkeypatch.setenv("QUARRY_KEY", "sk-right")
    assert asyncio.run(one(opened(server, key_variable="QUARRY_KEY"))).policy_version == 0


def test_what_is_no_vllm_server_is_told_apart(tiny_qwen3: Path) -> None:
    fake = FakeVllm(tiny_qwen3)
    for raw, words in (
        (HTML, "it answered with a web page; check engine.vllm.base_url"),
        (Raw(b'{"data": 3}'), "its answer is no list of models"),
        (Raw(b'{"detail":"Not Found"}', 404), "it answered 404: Not Found; check engine.vllm.base_url"),
        (Raw(b"", 503), "no vLLM server answers"),
    ):
        fake._models = lambda raw=raw: raw  # type: ignore[method-assign, misc]
        with fake.running(), pytest.raises(EngineFault) as caught:
            opened(fake)
        assert words in str(caught.value)
        fake = FakeVllm(tiny_qwen3)
    with pytest.raises(EngineFault, match=r"no vLLM server answers at http://127.0.0.1:9 .* start it with: VLLM_ALLOW"):
        opened(fake, base_url="http://127.0.0.1:9")


def test_members_ask_one_at_a_time_and_within_their_context(server: FakeVllm) -> None:
    engine = opened(server)

    async def run() -> None:
        with pytest.raises(ValueError, match="at least one member"):
            engine.cohort(0)
        async with engine.cohort(2) as cohort:
            with pytest.raises(ContextTooLong, match=r"model\.max_context_tokens"):
                await cohort.sample(0, (5,) * 190, params_of(0))
            with pytest.raises(ValueError, match=rf"token ids in \[0, {VOCABULARY}\)"):
                await cohort.sample(0, (5, VOCABULARY), params_of(0))
            both = [cohort.sample(0, prompt_of(0), params_of(0)) for _ in range(2)]
            first, second = await asyncio.gather(*both, return_exceptions=True)
            assert isinstance(first, Sample) and isinstance(second, ValueError)
            cohort.leave(1)
            cohort.leave(1)
            with pytest.raises(ValueError, match="has left it"):
                await cohort.sample(1, prompt_of(1), params_of(1))
        with pytest.raises(ValueError, match="not in this cohort"):
            await cohort.sample(0, prompt_of(0), params_of(0))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"lora_rank": 0}}, 'engine.sampler "vllm" is given adapters'),
        (
            {"engine": {"sampler": "local", "vllm": {"model": "a"}}},
            "engine.vllm.model has no effect with engine.sampler",
        ),
        ({"engine": {"sampler": "vllm", "vllm": {}}}, "engine.vllm.model is empty"),
        (
            {"engine": {"sampler": "vllm", "sample_batch": 8, "vllm": {"model": "a"}}},
            "engine.sample_batch has no effect with engine.sampler",
        ),
        ({"engine": {"kind": "tinker", "sampler": "vllm", "vllm": {"model": "a"}}}, "engine.sampler has no effect"),
        ({"engine": {"sampler": "vllm", "vllm": {"model": "a", "base_url": "http://a/v1"}}}, "must not end in /v1"),
        ({"engine": {"sampler": "vllm", "vllm": {"model": "a", "base_url": "a:8000"}}}, "must start with http"),
        ({"engine": {"sampler": "vllm", "vllm": {"model": "a", "base_url": "http://a:b"}}}, "is no address"),
    ],
)
def test_settings_that_would_have_no_effect_are_refused(change: dict[str, Any], words: str) -> None:
    tree = {"model": {"lora_rank": 4}, "engine": {"sampler": "vllm", "vllm": {"model": "a"}}, **change}
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(tree)
    assert words in str(caught.value)
