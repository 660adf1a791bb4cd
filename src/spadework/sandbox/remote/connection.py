"""The client's side of one connection: calls in flight, and its end."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import suppress

from spadework.sandbox.address import ServerAddress, UnixAddress
from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.sandbox.remote import messages
from spadework.sandbox.remote.link import Link
from spadework.sandbox.remote.messages import Argument, Call, Reply, Status
from spadework.sandbox.remote.token import proof, proves
from spadework.sandbox.wire import ProtocolBreach

CONNECT_TIMEOUT_S = 10.0
WELCOME_TIMEOUT_S = 90.0
END_TIMEOUT_S = 10.0
PING_S = 20.0
"""A server that owes an answer and is silent for so long is asked whether it lives; it has as long again to answer."""


class Connection(Link):
    """Calls are answered in any order, each by its number. ``name`` says in sentences who answers them."""

    def __init__(self, name: str) -> None:
        super().__init__("a message", "strict")
        self.level: tuple[Layer, ...] = ()
        self.name = name
        self._calls: dict[int, asyncio.Future[Reply]] = {}
        self._last_number = 0
        self._awaited: asyncio.Future[object] | None = self._loop.create_future()
        self._lost = ""
        self.closed = False
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._ping = 0
        self._heard = False

    @property
    def lost(self) -> bool:
        return bool(self._lost)

    def request(self, call: Call, program: int, play: int, argument: Argument) -> asyncio.Future[Reply]:
        """Queue a call. Its future raises InfrastructureFault if the connection is lost, RuntimeError if closed."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self._lost:
            future.set_exception(self._error())
            return future
        self._last_number += 1
        self._calls[self._last_number] = future
        self.send(messages.encode(self._last_number, call, program, play, argument))
        if self._timer is None:
            self._heard = True
            self._look_later()
        return future

    def leave(self, program: int, play: int) -> None:
        """Give up a play, or a program if ``play`` is 0."""
        self.send(messages.encode(0, Call.LEAVE, program, play, None))

    async def close(self) -> None:
        """End the connection, and wait until the server has ended what ran for it."""
        self.closed = True
        self._fail("the sandbox is closed")
        if self._transport is not None and not self._transport.is_closing():
            self._flush()
            with suppress(OSError):  # the server may have hung up a moment ago
                self._transport.write_eof()
            try:
                await asyncio.wait((self._gone,), timeout=END_TIMEOUT_S)
            finally:
                self._transport.abort()

    def fault(self, breach: ProtocolBreach) -> InfrastructureFault:
        """End the connection because of what the server sent."""
        self.breached(breach)
        return InfrastructureFault(self._lost)

    async def introduce(self, token: str, limits: Limits, hash_seed: int) -> None:
        """Raises InfrastructureFault with the reason if the server and this client do not suit each other."""
        try:
            version, server_nonce = messages.greeting_of(await self._next(CONNECT_TIMEOUT_S))
            if version != messages.VERSION:
                raise InfrastructureFault(
                    f"{self.name} speaks version {version} of its protocol and this spadework version "
                    f"{messages.VERSION}; install the same spadework on both machines"
                )
            self._awaited = self._loop.create_future()
            nonce = secrets.token_hex(16)
            asked = limits.model_dump(mode="json", include=set(Limits.model_fields))
            said = proof(token, "client", server_nonce, nonce)
            self.send(messages.encode(messages.VERSION, nonce, said, asked, hash_seed))
            reply = messages.reply_of(await self._next(WELCOME_TIMEOUT_S))
            said, self.level = messages.welcome_of(reply.value)
            if not proves(token, "server", server_nonce, nonce, said):
                raise InfrastructureFault(f"{self.name} does not know the token; it is not the server that was meant")
        except ProtocolBreach as breach:
            raise InfrastructureFault(f"what should be {self.name} is no sandbox: it sent {breach}") from None
        self.accept_up_to(messages.max_reply_bytes(limits))

    def received(self, message: object) -> None:
        if self._lost:
            return
        self._heard = True
        if self._awaited is not None:
            awaited, self._awaited = self._awaited, None
            if not awaited.done():
                awaited.set_result(message)
            return
        reply = messages.reply_of(message)
        if reply.status is Status.END:
            self._lose(f"{self.name} ended the connection: {messages.sentence_of(reply)}")
        elif self._ping and reply.number == self._ping:
            self._ping = 0
        else:
            call = self._calls.pop(reply.number, None)
            if call is None:
                raise ProtocolBreach("a reply that nobody asked for")
            if not call.done():
                call.set_result(reply)

    def breached(self, breach: ProtocolBreach) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(breach)
        self._lose(f"the connection to {self.name} was given up: it sent {breach}")

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(f"the connection to {self.name} was lost{_reason(error)}")
        if not self._gone.done():
            self._gone.set_result(None)

    async def _next(self, timeout_s: float) -> object:
        """The message that is awaited next."""
        if self._awaited is None:
            raise ProtocolBreach("more than was asked for")
        try:
            message = await asyncio.wait_for(self._awaited, timeout_s)
        except TimeoutError:
            raise InfrastructureFault(
                f"{self.name} said nothing for {timeout_s:g} s; see whether its server is well"
            ) from None
        refusal = messages.refusal_of(message)
        if refusal is not None:
            raise InfrastructureFault(f"{self.name} refused: {refusal}")
        return message

    def _lose(self, sentence: str) -> None:
        self._fail(sentence)
        if self._transport is not None and not self.closed:
            self._transport.abort()

    def _fail(self, sentence: str) -> None:
        """Every call in flight fails, and every later one."""
        if self._lost:
            return
        self._lost = sentence
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self._calls = self._calls, {}
        waiting: list[asyncio.Future[Reply] | asyncio.Future[object]] = list(calls.values())
        if self._awaited is not None:
            waiting.append(self._awaited)
        for future in waiting:
            if not future.done():
                future.set_exception(self._error())

    def _error(self) -> Exception:
        return RuntimeError(self._lost) if self.closed else InfrastructureFault(self._lost)

    def _look_later(self) -> None:
        self._due = self._loop.time() + PING_S
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._calls:
            return
        # A loop that was held up may have had no time yet to ask, or to read the answer.
        in_time = self._loop.time() - self._due < PING_S / 2
        if self._ping and not self._heard and in_time:
            self._lose(f"{self.name} was silent for more than {PING_S:g} s; see whether it is well")
            return
        self._heard = False
        if not self._ping:
            self._last_number += 1
            self._ping = self._last_number
            self.send(messages.encode(self._ping, Call.PING, 0, 0, None))
        self._look_later()


async def connect(address: ServerAddress, token: str, limits: Limits, hash_seed: int) -> Connection:
    """An accepted connection. Raises InfrastructureFault."""
    loop = asyncio.get_running_loop()
    connection = Connection(f"the sandbox at {address}")
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if isinstance(address, UnixAddress):
                await loop.create_unix_connection(lambda: connection, address.path)
            else:
                await loop.create_connection(lambda: connection, address.host, address.port)
    except OSError as error:
        raise InfrastructureFault(
            f"no sandbox answers at {address} ({_why(error)}); start one there with `spadework sandbox serve`"
        ) from None
    try:
        await connection.introduce(token, limits, hash_seed)
    except BaseException:
        connection.hang_up()
        raise
    return connection


def _reason(error: Exception | None) -> str:
    said = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error or "")
    return f" ({said})" if said else ""


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError) and not error.errno:
        return f"nothing heard for {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, socket.gaierror) or not error.errno:
        return str(error.strerror or error)
    return os.strerror(error.errno)
