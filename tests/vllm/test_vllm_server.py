"""A real vLLM server as the sampler: log-probabilities, updates, a killed server, and the whole loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
import transformers
from vllm_world import Server

from spadework.config import Config
from spadework.engines.base import Datum, EngineFault, Sample, SamplingParams, StopReason
from spadework.engines.open import open_engine
from spadework.engines.vllm.engine import VllmEngine
from spadework.learning.loss import PolicyLoss
from spadework.progress import Silent
from spadework.roles.choosing import open_rendering
from spadework.selfplay import TrainingSummary, train
from spadework.store.metrics import read_metrics
from spadework.store.reader import PoolReader
from spadework.store.run_directory import RunDirectory

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

STOP = 2
RATE = 0.01


def opened(server: Server, *settings: str) -> VllmEngine:
    engine = open_engine(server.config(*settings), server.model)
    assert isinstance(engine, VllmEngine)
    return engine


def prompt_of(member: int) -> tuple[int, ...]:
    return (5, 6, 7, 8, 20 + member, 30, 31)


async def plays(engine: VllmEngine, temperature: float, count: int = 16) -> list[Sample]:
    async with engine.cohort(count) as cohort:
        return await asyncio.gather(
            *(
                cohort.sample(member, prompt_of(member), SamplingParams(40, (STOP,), member, temperature))
                for member in range(count)
            )
        )


def as_data(samples: Sequence[Sample], temperature: float) -> list[Datum]:
    data = []
    for member, sample in enumerate(samples):
        before, said = (0.0,) * len(prompt_of(member)), len(sample.token_ids_T)
        data.append(
            Datum(
                token_ids_T=(*prompt_of(member), *sample.token_ids_T),
                weights_T=before + (0.01,) * said,
                logprobs_T=before + sample.logprobs_T,
                advantages_T=before + ((-1.0) ** member,) * said,
                temperature=temperature,
            )
        )
    return data


async def gap(engine: VllmEngine, data: Sequence[Datum]) -> float:
    scores = await engine.score(data)
    return max(
        abs(told - found)
        for datum, scored in zip(data, scores, strict=True)
        for weight, told, found in zip(datum.weights_T, datum.logprobs_T, scored, strict=True)
        if weight
    )


def test_probabilities_are_the_trainers_before_and_after_updates(server: Server) -> None:
    engine = opened(server)

    async def run() -> None:
        last: list[Sample] = []
        for version in range(3):
            for temperature in (0.7, 1.0):
                samples = await plays(engine, temperature)
                data = as_data(samples, temperature)
                assert await gap(engine, data) < 1e-4
                assert {sample.policy_version for sample in samples} == {version}
            assert [sample.token_ids_T for sample in samples] != [sample.token_ids_T for sample in last]
            again = await plays(engine, 1.0)
            assert sum(one.token_ids_T == other.token_ids_T for one, other in zip(samples, again, strict=True)) > 12
            ended = [sample.token_ids_T for sample in samples if sample.stop_reason is StopReason.STOP]
            assert all(ids[-1] == STOP and STOP not in ids[:-1] for ids in ended)
            last = samples
            await engine.forward_backward(data, PolicyLoss())
            assert (await engine.optim_step(RATE)).applied

    asyncio.run(run())


def test_an_adapter_of_a_rank_that_the_server_does_not_take_is_refused(server: Server) -> None:
    engine = opened(server, "model.lora_rank=16")
    with pytest.raises(EngineFault, match=r"LoRA rank 16 is greater than max_lora_rank 8.*--max-lora-rank 16"):
        asyncio.run(plays(engine, 1.0, 1))


def test_a_server_that_was_killed_and_started_again_goes_on_with_the_same_adapter(server: Server) -> None:
    engine = opened(server, "engine.vllm.patience_s=300")

    async def run() -> None:
        before = await plays(engine, 1.0)
        server.kill()
        server.start(wait=False)
        samples = await plays(engine, 1.0)  # asked while the server is still starting
        assert await gap(engine, as_data(samples, 1.0)) < 1e-4
        assert sum(one.token_ids_T == other.token_ids_T for one, other in zip(samples, before, strict=True)) > 12

    asyncio.run(run())


def go_on(path: Path, config: Config) -> TrainingSummary:
    model = Path(config.model.path)
    engine = open_engine(config, model)
    rendering = open_rendering(transformers.AutoTokenizer.from_pretrained(model), model, thinking=False)
    with RunDirectory.create_or_open(path, config) as run:
        return asyncio.run(train(run, config, engine, Silent(), rendering=rendering, tensorboard=False))


def test_a_run_learns_and_goes_on_after_the_server_was_killed(server: Server, tmp_path: Path) -> None:
    settings = (
        *("curriculum.environments=6", "curriculum.plays=4", "curriculum.round_iterations=2"),
        *("learning.learning_rate=0.001", "engine.vllm.patience_s=1"),
    )
    path = tmp_path / "run"
    assert go_on(path, server.config("iterations=2", *settings)).first_iteration == 0
    server.kill()
    with pytest.raises(EngineFault, match="no vLLM server answers"):
        go_on(path, server.config("iterations=3", *settings))
    server.start()
    assert go_on(path, server.config("iterations=3", *settings)).first_iteration == 2
    rows = read_metrics(path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    for row in rows:
        assert row["learning/logprob_mismatch_max"] < 1e-4, "sampler and trainer agree"
        assert row["learning/ratio"] == pytest.approx(1.0, abs=1e-3)
    versions: set[tuple[int, int | None]] = set()
    with PoolReader.open(path / "pool.sqlite") as pool:
        environments = [environment.id for round_ in (0, 1) for environment in pool.environments(round_)]
        for record in (pool.episode(play.row) for one in environments for play in pool.episodes(one)):
            versions.update((record.iteration, turn.policy_version) for turn in record.episode.turns)
    assert versions == {(0, 0), (1, 2), (2, 4)}, "all turns of an iteration are of one state of the weights"
