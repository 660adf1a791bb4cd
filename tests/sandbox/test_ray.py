"""A sandbox of Ray actors gives what the local one gives, and outlives its actors."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from both import ACTORS, needs_ray, sandbox_at, start_ray
from comparing import FAULTY_LIMITS, TALKATIVE, everything, fault_of, faulty, report
from processes import alive, children, wait_until_dead

from spadework.sandbox import (
    InfrastructureFault,
    Layer,
    LayerName,
    Limits,
    ProgramHandle,
    ProgramHost,
    RaySandbox,
    Sandbox,
    SandboxConfig,
    open_sandbox,
)
from spadework.sandbox.address import RayAddress
from spadework.sandbox.cluster import host as hosts
from spadework.sandbox.cluster.actor import SandboxActor
from spadework.sandbox.cluster.client import common
from spadework.sandbox.cluster.joining import join
from spadework.sandbox.cluster.sequence import InOrder
from spadework.sandbox.cluster.transport import ActorTransport
from spadework.sandbox.remote.client import RemoteProgram
from spadework.sandbox.remote.connection import Connection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PATIENCE_S = 180


# Without Ray: the tunnel of bytes, and what the client makes of many actors


def test_pieces_come_out_in_order_whatever_order_they_arrive_in() -> None:
    order = InOrder()
    assert list(order.put(2, b"c")) == []
    assert list(order.put(0, b"a")) == [b"a"]
    assert list(order.put(1, b"b")) == [b"b", b"c"]
    assert list(order.put(3, b"")) == [b""]


class Unordered:
    """The handle of an actor in this process whose calls overtake each other."""

    def __init__(self, limits: Limits) -> None:
        self._actor = SandboxActor(limits)
        self._calls = 0
        self.begin, self.read, self.write = map(Method, (self._actor.begin, self._actor.read, self._write))

    async def _write(self, session: int, number: int, data: bytes) -> None:
        self._calls += 1
        await asyncio.sleep(0.002 * (self._calls % 3))
        await self._actor.write(session, number, data)


class Method:
    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call
        self._running: set[asyncio.Future[Any]] = set()

    def remote(self, *arguments: object) -> asyncio.Future[Any]:
        running = asyncio.ensure_future(self._call(*arguments))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running


def test_calls_that_overtake_each_other_change_nothing(tripwire: str) -> None:
    async def run() -> None:
        handle = Unordered(Limits())
        await handle.begin.remote(1)
        connection = Connection("the sandbox of this test")
        connection.connection_made(ActorTransport(handle, 1, connection))
        await connection.introduce("", Limits(), 0)
        program = RemoteProgram(connection, 1, Limits())
        await program.load(tripwire, 0)
        plays = [(await program.reset(seed))[0] for seed in range(8)]

        async def count(play: Any) -> list[str]:
            return [(await play.step("x" * size)).observation for size in (1, 100_000, 5, 1, 1)]

        told = await asyncio.gather(*map(count, plays))
        assert told == [[f"count {seed + turn}" for turn in range(1, 6)] for seed in range(8)]
        before = children(os.getpid())
        assert before
        await connection.close()
        assert wait_until_dead(before, PATIENCE_S) == []

    asyncio.run(run())


def test_a_session_in_place_of_another_ends_it_and_hears_nothing_of_it(tripwire: str) -> None:
    async def run() -> None:
        handle = Unordered(Limits())
        connections = []
        for session in (1, 2):
            await handle.begin.remote(session)
            connection = Connection(f"session {session}")
            connection.connection_made(ActorTransport(handle, session, connection))
            await connection.introduce("", Limits(), 0)
            connections.append(connection)
        for number, connection in enumerate(connections):
            program = RemoteProgram(connection, 1, Limits())
            if number == 0:
                with pytest.raises(InfrastructureFault, match="session 1"):
                    await program.load(tripwire, 0)
            else:
                await program.load(tripwire, 0)
                assert program.info.class_name == "TripwireEnv"
            await connection.close()

    asyncio.run(run())


def test_a_layer_is_in_force_if_it_is_everywhere() -> None:
    def level(**absent: str) -> tuple[Layer, ...]:
        return tuple(Layer(name, absent.get(name.name, "")) for name in LayerName)

    one = level(LANDLOCK="the kernel has none", USER_NAMESPACE="root needs none")
    assert common([]) == ()
    assert common([("a", one)]) == common([("a", one), ("b", one)]) == one
    mixed = common([("a", level(USER_NAMESPACE="root needs none")), ("b", one)])
    assert mixed == level(LANDLOCK="the kernel has none (in b)", USER_NAMESPACE="root needs none")


def test_without_ray_one_sentence_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    async def run() -> None:
        async with open_sandbox(SandboxConfig(address="ray")):
            pass

    with pytest.raises(InfrastructureFault) as caught:
        asyncio.run(run())
    assert str(caught.value) == (
        "sandbox.address = ray needs Ray, which is not installed: pip install 'spadework[ray]'"
    )


def test_a_configuration_names_the_cluster_and_its_actors() -> None:
    assert isinstance(open_sandbox(SandboxConfig(address="ray", actors=3)), RaySandbox)
    assert isinstance(open_sandbox(SandboxConfig(address="ray://head:10001")), RaySandbox)
    with pytest.raises(ValueError, match=r"sandbox.actors is 3 and programs do not run on Ray; set sandbox.address"):
        SandboxConfig(actors=3)
    with pytest.raises(ValueError, match="is no Ray cluster; it should be ray or ray://HOST:PORT"):
        RaySandbox("tcp://head:10001")


# With Ray


def with_ray(test: Callable[..., None]) -> Callable[..., None]:
    for mark in needs_ray:
        test = mark(test)
    return test


def actors() -> list[int]:
    """Processes of actors of a Ray cluster that this process started."""
    return [pid for pid in children(os.getpid()) if command(pid).startswith("ray::SandboxActor") and alive(pid)]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.05)


@with_ray
def test_everything_is_the_same_here_and_there(tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox() as here, sandbox_at("ray") as there:
            assert there.level() == here.level()
            assert repr(await everything(there, TALKATIVE)) == repr(await everything(here, TALKATIVE))
            for path in ("sound/wild_bare_string", "faulty/coin", "faulty/order_of_a_set", "tools_sound/ticket_desk"):
                assert await report(there, path) == await report(here, path)
        async with Sandbox(FAULTY_LIMITS) as here, sandbox_at("ray", FAULTY_LIMITS) as there:
            for source, actions in faulty(tripwire):
                one, other = await fault_of(here, source, *actions), await fault_of(there, source, *actions)
                assert (one.kind, one.reason, one.trace) == (other.kind, other.reason, other.trace)

    asyncio.run(run())


@with_ray
def test_programs_are_spread_and_survive_their_actor_elsewhere(tripwire: str) -> None:
    async def opened(sandbox: ProgramHost, number: int) -> ProgramHandle:
        return await sandbox.open(f"{tripwire}# {number}\n")

    async def run() -> None:
        async with sandbox_at("ray", Limits(step_timeout_s=600)) as sandbox:
            await until(lambda: len(actors()) == ACTORS)  # those of the test before have ended
            first, second = actors()
            idle = {pid: len(children(pid)) for pid in (first, second)}
            programs = [await opened(sandbox, number) for number in range(4)]
            assert [len(children(pid)) - idle[pid] for pid in (first, second)] == [2, 2]
            plays = [(await program.reset(7))[0] for program in programs]
            calls = [asyncio.ensure_future(play.step("hang")) for play in plays]
            await asyncio.sleep(0.5)

            victims = children(first)
            os.kill(first, signal.SIGKILL)
            await until(lambda: sum(call.done() for call in calls) == 2)
            for call in calls:
                if call.done():
                    with pytest.raises(InfrastructureFault, match=rf"Ray actor \d \(process {first} on .* was lost"):
                        await call
            assert wait_until_dead(victims, PATIENCE_S) == []

            for program, call in zip(programs, calls, strict=True):
                if call.done():
                    again, observation = await program.reset(7)
                    assert observation == "count 7"
                    assert (await again.step("x")).observation == "count 8"
            assert sum(call.done() for call in calls) == 2

            await until(lambda: len(actors()) == ACTORS)  # Ray has started it again
            (newcomer,) = set(actors()) - {second}
            await until_used(sandbox, newcomer)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert wait_until_dead([second, newcomer], PATIENCE_S) == []

    async def until_used(sandbox: ProgramHost, actor: int) -> None:
        before = len(children(actor))
        for number in range(10, 60):
            await opened(sandbox, number)
            if len(children(actor)) > before + 1:
                return
            await asyncio.sleep(0.2)
        raise AssertionError("the actor that was started again is not used")

    asyncio.run(run())


@with_ray
def test_when_every_actor_has_died_the_next_call_waits_for_one(tripwire: str) -> None:
    async def run() -> None:
        async with sandbox_at("ray") as sandbox, await sandbox.open(tripwire) as program:
            play, _ = await program.reset(1)
            await until(lambda: len(actors()) == ACTORS)
            for pid in actors():
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(InfrastructureFault, match=r"Ray actor \d .* was lost"):
                await play.step("x")
            await until(lambda: sandbox.level() == ())  # the other's death is noticed as well
            again, observation = await program.reset(1)
            assert (observation, (await again.step("x")).observation) == ("count 1", "count 2")
            await play.close()

    asyncio.run(run())


@with_ray
def test_what_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(sandbox: RaySandbox) -> str:
        with pytest.raises(InfrastructureFault) as caught:
            async with sandbox:
                pass
        return str(caught.value)

    async def run() -> None:
        start_ray()
        impossible = Limits(isolation=(LayerName.USER_NOBODY, LayerName.USER_NAMESPACE))
        refused = await fails(RaySandbox("ray", impossible, actors=1))
        assert "Ray actor 1 (process " in refused
        assert "sandbox.isolation requires what is not in force here" in refused
        monkeypatch.setattr(hosts, "START_TIMEOUT_S", 20.0)
        crowded = await fails(RaySandbox("ray", actors=9))
        assert "did not start within 20 s; it needs 1 free CPU of the cluster" in crowded
        await until(lambda: actors() == [])

    asyncio.run(run())


@with_ray
def test_a_cluster_that_is_joined_leaves_the_signal_handlers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def handler(number: int, frame: object) -> None: ...

    ray.shutdown()
    monkeypatch.setenv("RAY_ADDRESS", "local")
    previous = signal.signal(signal.SIGTERM, handler)
    try:
        join(RayAddress())
        assert ray.is_initialized()
        assert signal.getsignal(signal.SIGTERM) is handler
        heard: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)
