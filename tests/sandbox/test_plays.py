"""Plays that share a process do not share anything else, not even its death."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time

import pytest
from both import Where, sandbox_at

from spadework.sandbox import EnvironmentFault, FaultKind, Limits, PlayHandle, ProgramHost, Sandbox, Transition
from spadework.sandbox.deadlines import LOWEST_PRIORITY

SHARED_STATE = """
import random
import numpy as np

LOG = []


class SharingEnv:
    seen = 0

    def reset(self, seed=None):
        LOG.append(seed)
        return f"{LOG} {random.random()} {np.random.rand()}", {}

    def step(self, action):
        SharingEnv.seen += 1
        LOG.append(action)
        np.random.shuffle(LOG)
        return f"{SharingEnv.seen} {LOG} {random.randint(0, 10**9)} {np.random.randint(10**9)}", 0.0, False, False, {}
"""

CLOCK = """
import time


class ClockEnv:
    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        if action == "die":
            import os
            os._exit(1)
        return str(time.perf_counter()), 0.0, False, False, {}
"""


async def observations(play: PlayHandle, actions: list[str]) -> list[str]:
    return [(await play.step(action)).observation for action in actions]


def test_plays_share_neither_globals_nor_class_attributes_nor_randomness(where: Where) -> None:
    async def run() -> None:
        async with sandbox_at(where) as sandbox, await sandbox.open(SHARED_STATE) as program:
            alone, first = await program.reset(1)
            expected = await observations(alone, ["a", "b", "c"])
            (one, first_again), (two, _) = await program.reset(1), await program.reset(2)
            assert first_again == first
            seen = []
            for action in ("a", "b", "c"):
                seen.append((await one.step(action)).observation)
                await two.step("z")
            assert seen == expected

    asyncio.run(run())


def test_dataclasses_of_equal_text_keep_what_differs_between_plays(where: Where) -> None:
    source = """
import random
from dataclasses import dataclass

DRAWN = random.randint(0, 10**9)


@dataclass(order=True)
class Card:
    value: int = DRAWN


class CardEnv:
    def reset(self, seed=None):
        return f"{Card()} {Card() < Card(DRAWN + 1)} {DRAWN}", {}

    def step(self, action):
        return "", 0.0, True, False, {}
"""

    async def run() -> None:
        async with sandbox_at(where) as sandbox, await sandbox.open(source) as program:
            seen = [(await program.reset(seed))[1] for seed in (1, 2, 1)]
            drawn = [random.Random(seed).randint(0, 10**9) for seed in (1, 2, 1)]
            assert seen == [f"Card(value={number}) True {number}" for number in drawn]

    asyncio.run(run())


def test_the_order_of_a_set_is_fixed_and_follows_the_hash_seed(where: Where) -> None:
    source = """
class SetEnv:
    def reset(self, seed=None):
        return " ".join({"a", "b", "c", "d", "e", "f", "g", "h"}), {}

    def step(self, action):
        return "", 0.0, True, False, {}
"""

    async def first(hash_seed: int, *own: int | None) -> list[str]:
        async with sandbox_at(where, hash_seed=hash_seed) as sandbox:
            assert sandbox.hash_seed == hash_seed
            return [(await (await sandbox.open(source, seed)).reset(0))[1] for seed in own]

    zero, one, again = asyncio.run(first(0, None, 1, 0))
    assert zero == again != one
    assert asyncio.run(first(1, None, 0)) == [one, zero]
    with pytest.raises(ValueError, match=r"the hash seed 4294967296 is not within \[0, 2\*\*32\)"):
        asyncio.run(first(0, 2**32))


@pytest.mark.parametrize(("action", "kind"), [("die", FaultKind.EXIT), ("hang", FaultKind.TIMEOUT)])
def test_only_the_guilty_play_is_lost_with_its_process(
    tripwire: str, action: str, kind: FaultKind, where: Where
) -> None:
    async def run() -> None:
        async with sandbox_at(where, Limits(step_timeout_s=0.3)) as sandbox, await sandbox.open(tripwire) as program:
            plays = [(await program.reset(seed))[0] for seed in (10, 20, 30, 40)]
            for play in plays:
                assert await observations(play, ["x", "x"])
            results = await asyncio.gather(
                *(play.step(what) for play, what in zip(plays, ("x", action, "x", "x"), strict=True)),
                return_exceptions=True,
            )
            assert isinstance(results[1], EnvironmentFault)
            assert results[1].kind is kind
            seen = [result.observation for result in results if not isinstance(result, BaseException)]
            assert seen == ["count 13", "count 33", "count 43"]
            with pytest.raises(EnvironmentFault) as caught:
                await plays[1].step("x")
            assert caught.value.reason == results[1].reason
            assert await observations(plays[3], ["x"]) == ["count 44"]

    asyncio.run(run())


@pytest.mark.parametrize(("action", "kind"), [("die", FaultKind.EXIT), ("babble", FaultKind.PROTOCOL)])
def test_a_play_that_was_answered_is_not_guilty_however_late_the_host_reads_it(
    tripwire: str, action: str, kind: FaultKind
) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox, await sandbox.open(tripwire) as program:
            plays = [(await program.reset(seed))[0] for seed in (10, 20, 30)]
            steps = asyncio.gather(
                *(play.step(what) for play, what in zip(plays, ("x", action, "x"), strict=True)),
                return_exceptions=True,
            )
            for _ in range(5):
                await asyncio.sleep(0)  # the requests are on their way
            time.sleep(0.5)
            first, second, third = await steps
            assert isinstance(second, EnvironmentFault) and second.kind is kind
            assert isinstance(first, Transition) and first.observation == "count 11"
            assert isinstance(third, Transition) and third.observation == "count 31"

    asyncio.run(run())


def test_a_play_that_cannot_be_repeated_is_called_not_deterministic(where: Where) -> None:
    async def run() -> None:
        async with sandbox_at(where) as sandbox, await sandbox.open(CLOCK) as program:
            play, guilty = (await program.reset(0))[0], (await program.reset(0))[0]
            await play.step("x")
            with pytest.raises(EnvironmentFault):
                await guilty.step("die")
            with pytest.raises(EnvironmentFault, match=r"not deterministic.*call 1") as caught:
                await play.step("x")
            assert caught.value.kind is FaultKind.CONTRACT

    asyncio.run(run())


def test_a_program_that_ends_three_processes_is_quarantined(tripwire: str, where: Where) -> None:
    async def run() -> None:
        async with sandbox_at(where) as sandbox:
            program = await sandbox.open(tripwire)
            survivor, _ = await program.reset(0)
            for seed in range(3):
                play, _ = await program.reset(seed)
                with pytest.raises(EnvironmentFault, match="exit code 9 during step"):
                    await play.step("die")
            for call in (survivor.step("x"), program.reset(1), sandbox.open(tripwire)):
                with pytest.raises(EnvironmentFault, match=r"quarantined.*3 times.*exit code 9") as caught:
                    await call
                assert caught.value.kind is FaultKind.EXIT
            assert await sandbox.open(tripwire + "\n# another program\n")

    asyncio.run(run())


def test_a_deadline_inside_the_program_costs_no_other_play_and_no_process(tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox(Limits(step_timeout_s=0.2)) as sandbox, await sandbox.open(tripwire) as program:
            pids = program.pids()
            slow, quick = (await program.reset(0))[0], (await program.reset(0))[0]
            started = time.perf_counter()
            results = await asyncio.gather(slow.step("loop"), quick.step("x"), return_exceptions=True)
            assert time.perf_counter() - started < 5
            assert isinstance(results[0], EnvironmentFault)
            assert (results[0].kind, results[0].reason) == (FaultKind.TIMEOUT, "step took longer than 0.2 s")
            assert "while True" in results[0].trace or "pass" in results[0].trace
            assert not isinstance(results[1], BaseException)
            assert program.pids() == pids

    asyncio.run(run())


@pytest.mark.skipif(sys.platform != "linux", reason="CPU time is counted by what Linux tells")
def test_where_too_many_programs_compute_for_long_one_lets_others_go_first_until_it_answers() -> None:
    source = """
import time


class BusyEnv:
    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        while time.process_time() < float(action):
            pass
        return "done", 0.0, True, False, {}
"""

    async def run() -> None:
        async with Sandbox(Limits(step_timeout_s=600)) as sandbox:
            few = max(1, (os.cpu_count() or 1) // 2)
            programs = [await sandbox.open(f"{source}# {number}") for number in range(few + 1)]
            pids = [program.pids()[0] for program in programs]
            usual = os.getpriority(os.PRIO_PROCESS, pids[0])
            plays = [(await program.reset(0))[0] for program in programs]
            early = [asyncio.ensure_future(play.step("600")) for play in plays[:few]]
            while len(sandbox._watch._long) < few:
                await asyncio.sleep(0.01)
            late = asyncio.ensure_future(plays[few].step("0.4"))
            while os.getpriority(os.PRIO_PROCESS, pids[few]) == usual and not late.done():
                await asyncio.sleep(0.01)
            priorities = [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids]
            assert priorities == [*[usual] * few, LOWEST_PRIORITY]
            assert (await late).observation == "done"
            left = usual if os.geteuid() == 0 else LOWEST_PRIORITY
            assert os.getpriority(os.PRIO_PROCESS, pids[few]) == left
            for play in early:
                play.cancel()

    asyncio.run(run())


def test_waiting_behind_a_slow_play_does_not_count_against_a_play(tripwire: str, where: Where) -> None:
    async def run() -> None:
        async with sandbox_at(where, Limits(step_timeout_s=0.25)) as sandbox, await sandbox.open(tripwire) as program:
            slow = [(await program.reset(0))[0] for _ in range(4)]
            quick, _ = await program.reset(7)
            results = await asyncio.gather(
                *(play.step("loop") for play in slow), quick.step("x"), return_exceptions=True
            )
            assert all(isinstance(result, EnvironmentFault) for result in results[:4])
            assert not isinstance(results[4], BaseException)
            assert results[4].observation == "count 8"

    asyncio.run(run())


def test_the_time_of_a_play_is_limited_as_a_whole(where: Where) -> None:
    source = """
import time


class SlowEnv:
    def reset(self, seed=None):
        return "ready", {}

    def step(self, action):
        time.sleep(0.1)
        return "x", 0.0, False, False, {}
"""

    async def run() -> None:
        async with sandbox_at(where, Limits(episode_timeout_s=0.25)) as sandbox, await sandbox.open(source) as program:
            play, _ = await program.reset(0)
            with pytest.raises(EnvironmentFault, match=r"longer than 0.25 s in all") as caught:
                for _ in range(3):
                    await play.step("x")
            assert caught.value.kind is FaultKind.TIMEOUT

    asyncio.run(run())


def test_more_plays_than_fit_into_a_process_get_another_one(guess: str) -> None:
    async def run() -> None:
        async with Sandbox(Limits(episodes_per_process=2)) as sandbox, await sandbox.open(guess) as program:
            plays = [(await program.reset(seed))[0] for seed in range(5)]
            assert len(program.pids()) == 3
            await plays[0].close()
            await plays[0].close()
            await program.reset(9)
            assert len(program.pids()) == 3

    asyncio.run(run())


def test_memory_that_one_play_holds_does_not_starve_later_plays(where: Where) -> None:
    source = """
class HoardingEnv:
    def reset(self, seed=None):
        self.hoard = [bytearray(140 << 20)]
        return "ready", {}

    def step(self, action):
        return "x", 0.0, False, False, {}
"""

    async def run() -> None:
        async with sandbox_at(where, Limits(memory_mb=256)) as sandbox, await sandbox.open(source) as program:
            first, _ = await program.reset(0)
            with pytest.raises(EnvironmentFault, match="limit of 256 MB") as caught:
                await program.reset(1)
            assert caught.value.kind is FaultKind.MEMORY
            assert (await program.reset(2))[1] == "ready"
            assert (await first.step("x")).observation == "x"

    asyncio.run(run())


def test_a_play_takes_one_call_at_a_time_and_none_after_its_end(guess: str, where: Where) -> None:
    async def run() -> None:
        async with sandbox_at(where) as sandbox:
            program = await sandbox.open(guess)
            play, _ = await program.reset(0)
            pending = asyncio.ensure_future(play.step("1"))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="one call at a time"):
                await play.step("2")
            await pending
            other, _ = await program.reset(0)
            cancelled = asyncio.ensure_future(other.step("1"))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            for ended in (other, play):
                await ended.close()
                with pytest.raises(RuntimeError, match="closed"):
                    await ended.step("1")
            again, _ = await program.reset(0)
            assert (await again.step("x")).observation == "A number, please."
            await program.close()
            with pytest.raises(RuntimeError, match="closed"):
                await program.reset(0)

    asyncio.run(run())


def test_many_programs_and_plays_at_once_agree_with_playing_them_one_by_one(guess: str, where: Where) -> None:
    async def one(sandbox: ProgramHost, number: int) -> list[list[str]]:
        source = guess.replace("GuessEnv", f"Guess{number}Env")
        async with await sandbox.open(source) as program:
            plays = [(await program.reset(seed))[0] for seed in range(8)]
            return list(await asyncio.gather(*(observations(play, ["50", "25", "75"]) for play in plays)))

    async def run() -> None:
        async with sandbox_at(where) as sandbox:
            together = await asyncio.gather(*(one(sandbox, number) for number in range(12)))
            assert all(transcripts == together[0] for transcripts in together)
            assert together[0] == await one(sandbox, 99)
            assert len({tuple(transcript) for transcript in together[0]}) > 1

    asyncio.run(run())
