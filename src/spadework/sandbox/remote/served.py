"""One client of a server: its sandbox, its programs and plays, and the calls that it has made."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from pydantic import ValidationError

from spadework.sandbox.address import TcpAddress
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, InfrastructureFault
from spadework.sandbox.play import Play
from spadework.sandbox.pool import Sandbox
from spadework.sandbox.program import Program
from spadework.sandbox.remote import messages
from spadework.sandbox.remote.link import Link
from spadework.sandbox.remote.messages import Call, Hello, Request, Status
from spadework.sandbox.remote.token import TOKEN, proof, proves
from spadework.sandbox.wire import ProtocolBreach

INTRODUCTION_TIMEOUT_S = 10.0
MAX_CALLS = 1 << 16
"""Calls of one client that may be in flight."""

_MAKING = frozenset({Call.OPEN, Call.RESET})


class Refused(Exception):
    """A client is not served; one sentence for it."""


@dataclass
class ServedProgram:
    program: Program
    plays: dict[int, Play] = field(default_factory=dict)
    told: int = 0
    """Adaptations that the client knows."""

    def news(self) -> tuple[str, ...]:
        """Adaptations that the client does not know; from now on it does."""
        news = self.program.info.adaptations[self.told :]
        self.told += len(news)
        return news


class ServedClient(Link):
    """Made for each connection. ``done`` ends when nothing of the client is left.

    ``say`` hears one line when the client is accepted, refused or gone; with a ``refusal`` it gets no more than that.
    A client that does not read its replies is not read either, so that they cannot fill the memory.
    """

    def __init__(self, name: str, allowed: Limits, token: str, say: Callable[[str], None], refusal: str = "") -> None:
        super().__init__("a request", "surrogatepass")
        self._name = name
        self._allowed = allowed
        self._token = token
        self._say = say
        self._refusal = refusal
        self._from = ""
        self._client_nonce = ""
        self._nonce = secrets.token_hex(16)
        self._hello: asyncio.Future[object] = self._loop.create_future()
        self._over: asyncio.Future[str] = self._loop.create_future()
        self._sandbox: Sandbox | None = None
        self._programs: dict[int, ServedProgram] = {}
        self._opened = self._played = 0
        self._calls: dict[int, asyncio.Task[object]] = {}
        self._making: dict[tuple[int, int], asyncio.Task[object]] = {}
        """Those of the calls that open a program or begin a play, by the numbers of both; a program's play is 0."""
        self._closing: set[asyncio.Task[None]] = set()
        self.done: asyncio.Task[None] = self._loop.create_task(self._serve())

    def stop(self, sentence: str) -> None:
        """Tell the client why, and end what runs for it."""
        if not self._over.done():
            self.send(messages.encode(0, Status.END, _cut(sentence), []))
            self._end(sentence)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._from = f" from {TcpAddress(*peer[:2])}" if peer else ""
        if self._refusal:
            self.stop(self._refusal)
        else:
            self.send(messages.encode(messages.GREETING, messages.VERSION, self._nonce))

    def received(self, message: object) -> None:
        if not self._hello.done():
            self._hello.set_result(message)
            return
        if self._over.done():
            return
        if self._sandbox is None:
            raise ProtocolBreach("a call before it was accepted")
        request = messages.request_of(message)
        if request.call is Call.PING:
            self.send(messages.encode(request.number, Status.OK, None, []))
        elif request.call is Call.LEAVE:
            self._leave(request.program, request.play)
        elif request.number in self._calls or len(self._calls) >= MAX_CALLS:
            raise ProtocolBreach(f"a number twice, or more than {MAX_CALLS} calls at once")
        else:
            self._start(request)

    def breached(self, breach: ProtocolBreach) -> None:
        self.stop(f"the client sent {breach}")

    def eof_received(self) -> bool:
        self._end("")
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._end("")

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def _end(self, sentence: str) -> None:
        if not self._over.done():
            self._over.set_result(sentence)
        if not self._hello.done():
            self._hello.set_exception(Refused(sentence or "it left before it had introduced itself"))

    async def _serve(self) -> None:
        try:
            limits, hash_seed = await self._introduced()
            async with Sandbox(limits, hash_seed) as sandbox:
                sentence = await self._carry_on(sandbox)
            told = f": {sentence}" if sentence else ""
            self._say(f"{self._name} left after {self._opened} programs and {self._played} plays{told}")
        except (Refused, InfrastructureFault) as refusal:
            self._say(f"{self._name}{self._from} was refused: {refusal}")
            self.stop(str(refusal))
        finally:
            self.hang_up()

    async def _introduced(self) -> tuple[Limits, int]:
        """What the client asks for, once it has shown that it may. Raises Refused."""
        try:
            hello = messages.hello_of(await asyncio.wait_for(self._hello, INTRODUCTION_TIMEOUT_S))
        except ProtocolBreach as breach:
            raise Refused(f"a client introduces itself first, and this one sent {breach}") from None
        except TimeoutError:
            raise Refused(f"it has not introduced itself within {INTRODUCTION_TIMEOUT_S:g} s") from None
        if hello.version != messages.VERSION:
            raise Refused(f"it speaks version {hello.version} of the protocol, not {messages.VERSION}")
        if not proves(self._token, "client", self._nonce, hello.nonce, hello.proof):
            raise Refused(f"the token is wrong; set {TOKEN} to the same token on both machines")
        self._client_nonce = hello.nonce
        return limits_within(hello, self._allowed), hello.hash_seed

    async def _carry_on(self, sandbox: Sandbox) -> str:
        """Answer calls until the client or the server ends it; why, if there is anything to say."""
        if self._over.done():
            return self._over.result()
        self._sandbox = sandbox
        self.accept_up_to(messages.max_request_bytes(sandbox.limits))
        said = proof(self._token, "server", self._nonce, self._client_nonce)
        layers = [(layer.name, layer.absent_because) for layer in sandbox.level()]
        self.send(messages.encode(0, Status.OK, [said, layers], []))
        self._say(f"{self._name} connected{self._from}")
        sentence = await self._over
        tasks = [*self._calls.values(), *self._closing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sentence

    def _start(self, request: Request) -> None:
        """Programs and plays are looked up at once: what comes next in the stream may be that they are given up."""
        task = self._calls[request.number] = self._loop.create_task(self._work(request))
        task.add_done_callback(lambda done: self._answer(request, done))
        if request.call in _MAKING:
            self._making[request.program, request.play] = task

    def _leave(self, number: int, play: int) -> None:
        making = self._making.pop((number, play), None)
        if making is not None:
            making.cancel()
        served = self._programs.get(number) if play else self._programs.pop(number, None)
        if served is None:
            return
        left = served.plays.pop(play, None) if play else served.program
        if left is not None:
            task = self._loop.create_task(left.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _work(self, request: Request) -> Coroutine[object, object, object]:
        """What carries out a call and returns its value in plain types."""
        call, argument = request.call, request.argument
        if call is Call.OPEN:
            assert isinstance(argument, tuple)
            return self._open(request.program, *argument)
        if call is Call.CLOSE:
            return self._close(self._programs.pop(request.program, None))
        served = self._programs.get(request.program)
        if served is None:
            raise ProtocolBreach("a call to a program that is not open")
        if call is Call.RESET:
            assert not isinstance(argument, (str, tuple))
            return self._reset(served, request.play, argument)
        play = served.plays.get(request.play)
        if play is None:
            raise ProtocolBreach("a call to a play that has not begun")
        if call is Call.SOLUTION:
            return play.solution()
        if call is Call.INSPECT:
            return play.inspect()
        assert isinstance(argument, str)
        return _step(play, argument)

    async def _open(self, number: int, source: str, hash_seed: int) -> object:
        assert self._sandbox is not None
        program = await self._sandbox.open(source, hash_seed)
        self._opened += 1
        self._programs[number] = ServedProgram(program)
        info = program.info
        return info.class_name, info.max_turns, info.has_solution, info.uses_tools

    async def _reset(self, served: ServedProgram, number: int, seed: int | None) -> object:
        play, observation = await served.program.reset(seed)
        self._played += 1
        served.plays[number] = play
        return observation

    async def _close(self, served: ServedProgram | None) -> None:
        if served is not None:
            await served.program.close()

    def _answer(self, request: Request, done: asyncio.Task[object]) -> None:
        """Send what became of a call."""
        del self._calls[request.number]
        if request.call in _MAKING:
            self._making.pop((request.program, request.play), None)
        if self._over.done():
            return
        served = self._programs.get(request.program)
        news = () if served is None else served.news()
        self.send(messages.encode(request.number, *self._outcome(request, done), news))

    def _outcome(self, request: Request, done: asyncio.Task[object]) -> tuple[Status, object]:
        if done.cancelled():
            return Status.MISUSE, "the call was given up"
        error = done.exception()
        if error is None:
            return Status.OK, done.result()
        if isinstance(error, EnvironmentFault):
            return Status.ENVIRONMENT_FAULT, (error.kind, error.reason, error.trace)
        if isinstance(error, InfrastructureFault):
            return Status.INFRASTRUCTURE_FAULT, _cut(error)
        if isinstance(error, RuntimeError):
            return Status.MISUSE, _cut(error)
        # Nobody else would hear of it: the client gets a fault, the operator the traceback.
        self._loop.call_exception_handler({"message": f"a call of {self._name} failed", "exception": error})
        return Status.INFRASTRUCTURE_FAULT, _cut(f"the server failed: {type(error).__name__}: {error}")


async def _step(play: Play, action: str) -> object:
    step = await play.step(action)
    return step.observation, step.reward, step.terminated, step.truncated, step.info


def limits_within(hello: Hello, allowed: Limits) -> Limits:
    """The limits that a client asks for. Raises Refused if one exceeds what is ``allowed``.

    The isolation has every layer that either side requires.
    """
    try:
        # A message has lists of texts where limits have tuples of names, which only the strict reading refuses.
        required = Limits.model_validate({"isolation": hello.limits.get("isolation", "strict")}).required_layers()
        asked = Limits.model_validate({**hello.limits, "isolation": "strict"}, strict=True)
    except ValidationError as error:
        key = ".".join(str(part) for part in error.errors()[0]["loc"])[:60]
        raise Refused(f"the limit {key!r} is not one that this server knows; install the same spadework") from None
    for name in Limits.model_fields:
        value, most = getattr(asked, name), getattr(allowed, name)
        if name != "isolation" and value > most:
            raise Refused(
                f"sandbox.{name} is {value:g} and this server allows {most:g}; lower it, or start the server with "
                f"--set sandbox.{name}={value:g}"
            )
    required |= allowed.required_layers()
    return asked.model_copy(update={"isolation": tuple(sorted(required)) or "best-effort"})


def _cut(error: object) -> str:
    """As a sentence that a client takes."""
    return str(error)[: messages.MAX_SENTENCE_CHARS].encode("utf-8", "replace").decode()
