"""Whatever happens, no process, zombie or descriptor stays behind, and the host is left as it was."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from processes import children, descriptors, forked_for, wait_until_dead

from spadework.sandbox import EnvironmentFault, InfrastructureFault, Limits, Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_two_hundred_killed_plays_leave_no_zombie_and_no_descriptor(tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox:
            await sandbox.open(tripwire)
            before, processes = descriptors(), len(children(os.getpid()))
            for number in range(67):
                async with await sandbox.open(f"{tripwire}\n# {number}\n") as program:
                    for seed in range(3):
                        play, _ = await program.reset(seed)
                        with pytest.raises(EnvironmentFault):
                            await play.step("die")
            assert descriptors() == before
            assert len(children(os.getpid())) == processes

    before = descriptors()
    asyncio.run(run())
    assert children(os.getpid()) == []
    assert descriptors() == before


def test_closing_ends_programs_that_hang(tripwire: str) -> None:
    async def run() -> list[int]:
        async with Sandbox(Limits(step_timeout_s=60)) as sandbox:
            program = await sandbox.open(tripwire)
            play, _ = await program.reset(0)
            task = asyncio.ensure_future(play.step("hang"))
            await asyncio.sleep(0.1)
            task.cancel()
            started = time.perf_counter()
        assert time.perf_counter() - started < 5
        return children(os.getpid())

    assert asyncio.run(run()) == []


def test_an_exception_in_the_host_ends_everything(guess: str) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox:
            await sandbox.open(guess)
            raise ValueError("the host's own")

    with pytest.raises(ValueError, match="the host's own"):
        asyncio.run(run())
    assert children(os.getpid()) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_sandbox_that_was_never_closed_ends_with_its_loop(guess: str) -> None:
    async def run() -> None:
        sandbox = await Sandbox().__aenter__()
        await sandbox.open(guess)

    asyncio.run(run())
    gc.collect()
    assert wait_until_dead(children(os.getpid()), 5) == []
    assert children(os.getpid()) == []


HOST = """
import asyncio, signal, sys
from spadework.sandbox import Limits, Sandbox

# A shell starts what it runs in the background with SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    async with Sandbox(Limits(step_timeout_s=60)) as sandbox:
        program = await sandbox.open(sys.argv[1])
        plays = [(await program.reset(seed))[0] for seed in range(3)]
        other = await sandbox.open(sys.argv[1] + "# idle")
        hanging = asyncio.ensure_future(plays[0].step("hang"))
        await asyncio.sleep(0.2)
        print("ready", flush=True)
        await hanging

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_a_killed_host(tripwire: str, number: signal.Signals) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, tripwire],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    processes = children(host.pid)
    # The template and two workers, and where the host allows a pid namespace, its first process.
    assert len(processes) in (3, 4)
    os.killpg(host.pid, number)  # as a terminal does on Ctrl-C
    _, errors = host.communicate(timeout=10)
    assert wait_until_dead(processes, 5) == []
    assert "inside" not in errors  # no worker complains
    assert (errors.splitlines() or [""])[-1] == ("KeyboardInterrupt" if number is signal.SIGINT else "")


STARTING_HOST = """
import asyncio, signal, sys
from spadework.sandbox import Sandbox

signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    async with Sandbox() as sandbox:
        print("ready", flush=True)
        for number in range(1000):
            programs = await asyncio.gather(*(sandbox.open(f"{sys.argv[1]}# {number} {i}") for i in range(8)))
            for program in programs:
                await program.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_a_host_that_is_killed_while_it_starts_others(
    tripwire: str, number: signal.Signals
) -> None:
    for later in range(4):
        host = subprocess.Popen(
            [sys.executable, "-c", STARTING_HOST, tripwire],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert host.stdout is not None
        assert host.stdout.readline() == "ready\n"
        time.sleep(0.05 + later * 0.013)
        assert forked_for(host.pid)
        host.send_signal(number)
        host.communicate(timeout=10)
        deadline = time.monotonic() + 5
        while (left := forked_for(host.pid)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert left == []


def test_a_killed_template_is_replaced_and_plays_go_on(tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox:
            program = await sandbox.open(tripwire)
            play, _ = await program.reset(5)
            await play.step("x")
            (template,) = [pid for pid in children(os.getpid()) if program.pids()[0] in children(pid)]
            os.kill(template, signal.SIGKILL)
            assert (await play.step("x")).observation == "count 7"
            assert (await sandbox.open(tripwire + "# new")).info.class_name == "TripwireEnv"

    asyncio.run(run())
    assert children(os.getpid()) == []


def test_a_template_killed_while_a_program_loads_is_the_hosts_fault() -> None:
    async def run() -> None:
        async with Sandbox() as sandbox:
            opening = asyncio.ensure_future(sandbox.open("while True:\n    pass\n"))
            await asyncio.sleep(0.3)
            (template,) = [pid for pid in children(os.getpid()) if children(pid)]
            os.kill(template, signal.SIGKILL)
            with pytest.raises(InfrastructureFault, match="could not be loaded: the template process ended"):
                await opening

    asyncio.run(run())
    assert children(os.getpid()) == []


def test_a_call_that_the_host_failed_can_be_tried_again(tripwire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox, await sandbox.open(tripwire) as program:
            play, _ = await program.reset(5)
            await play.step("x")
            monkeypatch.setattr("spadework.sandbox.pool.MAX_TEMPLATE_STARTS", 1)
            (template,) = [pid for pid in children(os.getpid()) if children(pid)]
            os.kill(template, signal.SIGKILL)
            assert wait_until_dead(list(program.pids()), 5) == []
            with pytest.raises(InfrastructureFault):
                await play.step("x")
            monkeypatch.setattr("spadework.sandbox.pool.MAX_TEMPLATE_STARTS", 8)
            assert (await play.step("x")).observation == "count 7"

    asyncio.run(run())


def test_a_template_that_keeps_dying_is_the_hosts_fault(tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox() as sandbox:
            program = await sandbox.open(tripwire)
            play, _ = await program.reset(0)
            for _ in range(20):
                for pid in children(os.getpid()):
                    os.kill(pid, signal.SIGKILL)
                await play.step("x")

    with pytest.raises(InfrastructureFault, match="template process ended 8 times"):
        asyncio.run(run())
    assert children(os.getpid()) == []


def test_playing_leaves_the_hosts_random_state_and_handlers_alone(guess: str) -> None:
    import numpy as np

    async def run() -> None:
        async with Sandbox() as sandbox, await sandbox.open(guess) as program:
            for seed in range(30):
                play, _ = await program.reset(seed)
                await play.step("50")
                await play.close()

    states = random.getstate(), np.random.get_state()[1].tolist()
    handlers = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGINT)]
    asyncio.run(run())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    assert [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGINT)] == handlers


def test_importing_the_sandbox_has_no_side_effect() -> None:
    script = textwrap.dedent(
        """
        import builtins, os, random, signal, sys, threading
        def state():
            handlers = [signal.getsignal(number) for number in signal.valid_signals()]
            return list(sys.path), handlers, random.getstate(), sorted(vars(builtins)), dict(os.environ)
        before = state()
        import spadework.sandbox
        assert state() == before
        assert threading.active_count() == 1
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_a_program_without_time_to_load_is_refused_in_time() -> None:
    async def run() -> None:
        async with Sandbox(Limits(load_timeout_s=0.3)) as sandbox:
            started = time.perf_counter()
            with pytest.raises(EnvironmentFault, match=r"loading took longer than 0.3 s"):
                await sandbox.open("while True:\n    pass\n")
            assert time.perf_counter() - started < 5

    asyncio.run(run())
