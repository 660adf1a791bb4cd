"""One actor as the client sees it: started, connected to, lost, and connected to again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from spadework.sandbox.cluster.joining import CPUS
from spadework.sandbox.cluster.transport import ActorTransport, reason_of
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.sandbox.remote.connection import Connection

START_TIMEOUT_S = 300.0
"""For an actor that starts, or starts again elsewhere; a cluster may have to grow first."""
RETRY_S = 0.25
MAX_RESTARTS = 16
"""How often Ray starts an actor again whose process or node has died."""


class Seat:
    """A connection to an actor, and how many programs are open on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.programs = 0


class Host:
    """``number`` counts actors from 1."""

    def __init__(self, number: int, limits: Limits, hash_seed: int) -> None:
        import ray

        from spadework.sandbox.cluster.actor import SandboxActor

        self.number = number
        self._limits = limits
        self._hash_seed = hash_seed
        self._session = 0
        self._seat: Seat | None = None
        self._connecting: asyncio.Task[Seat] | None = None
        options = ray.remote(SandboxActor).options(
            num_cpus=CPUS, max_restarts=MAX_RESTARTS, scheduling_strategy="SPREAD"
        )
        self._actor: Any = options.remote(limits)

    @property
    def seat(self) -> Seat | None:
        """None while there is no connection."""
        return None if self._seat is None or self._seat.connection.lost else self._seat

    def connecting(self) -> asyncio.Task[Seat]:
        """The attempt to connect that is under way, or a new one. Raises InfrastructureFault, naming the actor."""
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(_heard)
        return self._connecting

    async def close(self) -> None:
        """End the actor, once it has ended its processes."""
        import ray

        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        try:
            if self._seat is not None:
                await self._seat.connection.close()
        finally:
            with suppress(ConnectionError, ray.exceptions.RayError):  # the cluster has gone, and the actor with it
                ray.kill(self._actor)

    async def _connect(self) -> Seat:
        self._session += 1
        node, pid = await self._begun()
        connection = Connection(f"the sandbox in Ray actor {self.number} (process {pid} on {node})")
        connection.connection_made(ActorTransport(self._actor, self._session, connection))
        try:
            await connection.introduce("", self._limits, self._hash_seed)
        except BaseException:
            connection.hang_up()
            raise
        self._seat = Seat(connection)
        return self._seat

    async def _begun(self) -> tuple[str, int]:
        """(name of the node, process id) of the actor, once it runs."""
        import ray

        where = f"Ray actor {self.number} of the sandbox"
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while True:
                    try:
                        node, pid = await self._actor.begin.remote(self._session)
                    except ray.exceptions.ActorUnavailableError:
                        await asyncio.sleep(RETRY_S)  # Ray is starting it again
                    else:
                        return node, pid
        except TimeoutError:
            raise InfrastructureFault(
                f"{where} did not start within {START_TIMEOUT_S:g} s; it needs {CPUS} free CPU of the cluster "
                "(`ray status` shows what is free): lower sandbox.actors, or add nodes"
            ) from None
        except ray.exceptions.RayActorError as error:
            if "No module named 'spadework" in str(error):
                raise InfrastructureFault(
                    f"{where} cannot run on its node, where spadework is not installed; install the same spadework on "
                    "every node of the cluster"
                ) from None
            raise InfrastructureFault(f"{where} cannot run: {reason_of(error)}; Ray's log has more") from None


def _heard(task: asyncio.Task[Seat]) -> None:
    """So that the failure of an attempt for which nobody waits any more is not reported as forgotten."""
    if not task.cancelled():
        task.exception()
