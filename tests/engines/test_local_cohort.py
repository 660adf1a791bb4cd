from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tiny_models import open_tiny

from spadework.engines.base import ContextTooLong, Datum, Sample, SamplingParams, StaleCohort
from spadework.learning.loss import PolicyLoss

PARAMS = SamplingParams(3, (), 0)
DATUM = Datum((2, 3, 4), (0.0, 0.5, 0.5), (0.0, -3.0, -3.0), (0.0, 1.0, 1.0))


def test_nobody_is_served_until_every_live_member_waits(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> None:
        async with engine.cohort(3) as cohort:
            tasks = [asyncio.create_task(cohort.sample(member, [2, 3], PARAMS)) for member in (0, 2)]
            await asyncio.sleep(0.1)
            assert not any(task.done() for task in tasks)
            cohort.leave(1)
            assert len(await asyncio.gather(*tasks)) == 2
            cohort.leave(0)
            await cohort.sample(2, [2, 3, 4], PARAMS)
            cohort.leave(2)

    asyncio.run(run())


def test_the_members_of_a_chunk_go_on_while_the_next_is_decoded_and_all_meet_again(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3, sample_batch=2)

    async def run() -> list[int]:
        turns = []

        async def member(cohort, number: int) -> None:
            for _ in range(3):
                await cohort.sample(number, [2, 3 + number], PARAMS)
                turns.append(number)
            cohort.leave(number)

        async with engine.cohort(5) as cohort:
            await asyncio.gather(*(member(cohort, number) for number in range(5)))
        return turns

    assert asyncio.run(run()) == [0, 1, 2, 3, 4] * 3


def test_a_cancelled_member_that_leaves_does_not_hold_up_the_others(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> Sample:
        async with engine.cohort(2) as cohort:

            async def doomed() -> None:
                try:
                    await cohort.sample(1, [2, 3], PARAMS)
                finally:
                    cohort.leave(1)

            task = asyncio.create_task(doomed())
            await asyncio.sleep(0.01)
            task.cancel()
            sample = await cohort.sample(0, [2, 3], PARAMS)
            cohort.leave(0)
            return sample

    assert len(asyncio.run(run()).token_ids_T) == 3


def test_a_cohort_is_stale_after_the_weights_changed(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> None:
        async with engine.cohort(1) as cohort:
            before = await cohort.sample(0, [2, 3], PARAMS)
            await engine.forward_backward([DATUM], PolicyLoss())
            await engine.optim_step(0.05)
            with pytest.raises(StaleCohort):
                await cohort.sample(0, [2, 3, *before.token_ids_T], PARAMS)
        async with engine.cohort(1) as cohort:
            after = await cohort.sample(0, [2, 3], PARAMS)
        assert (before.policy_version, after.policy_version) == (0, 1)
        assert before.logprobs_T != after.logprobs_T

    asyncio.run(run())


def test_a_cohort_is_stale_after_load(tiny_qwen3: Path, tmp_path: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> None:
        await engine.save(tmp_path)
        async with engine.cohort(1) as cohort:
            await engine.load(tmp_path)
            with pytest.raises(StaleCohort):
                await cohort.sample(0, [2, 3], PARAMS)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("prompt", "params", "error", "message"),
    [
        ([2] * 198, PARAMS, ContextTooLong, "198 tokens"),
        ([], PARAMS, ValueError, "token ids"),
        ([2, 60], PARAMS, ValueError, r"\[0, 60\)"),
        ([2], SamplingParams(0, (), 0), ValueError, "max_tokens"),
        ([2], SamplingParams(1, (), -1), ValueError, "seed"),
    ],
)
def test_impossible_requests_are_named(
    tiny_qwen3: Path, prompt: list[int], params: SamplingParams, error: type[Exception], message: str
) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> None:
        async with engine.cohort(1) as cohort:
            with pytest.raises(error, match=message):
                await cohort.sample(0, prompt, params)
            assert len((await cohort.sample(0, [2] * 197, PARAMS)).token_ids_T) == 3
            cohort.leave(0)
            with pytest.raises(ValueError, match="left"):
                await cohort.sample(0, [2], PARAMS)

    asyncio.run(run())


def test_a_failure_while_decoding_reaches_every_member(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> list[BaseException | Sample]:
        async with engine.cohort(2) as cohort:
            return await asyncio.gather(
                *(cohort.sample(member, [2, 3], PARAMS) for member in range(2)), return_exceptions=True
            )

    with_nan = next(iter(engine._model.parameters().values()))
    with_nan.data.fill_(float("nan"))
    results = asyncio.run(run())
    assert all(isinstance(result, ValueError) and "not finite" in str(result) for result in results)


def test_the_loop_stays_free_while_the_engine_works(tiny_qwen3: Path) -> None:
    engine = open_tiny(tiny_qwen3)

    async def run() -> int:
        ticks = 0
        async with engine.cohort(1) as cohort:
            task = asyncio.create_task(cohort.sample(0, [2, 3], SamplingParams(150, (), 0)))
            while not task.done():
                await asyncio.sleep(0.001)
                ticks += 1
            cohort.leave(0)
        return ticks

    assert asyncio.run(run()) > 5
