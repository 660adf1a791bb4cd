"""A served sandbox gives what the local one gives; whatever happens to either side, nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import FAULTY_LIMITS, TALKATIVE, everything, fault_of, faulty, report
from processes import children, wait_until_dead
from serving import PATIENCE_S, SECRET, Caller, ServerProcess, frame

from spadework.sandbox import (
    InfrastructureFault,
    Limits,
    RemoteSandbox,
    Sandbox,
    SandboxConfig,
    open_sandbox,
)
from spadework.sandbox.address import Address, RayAddress, TcpAddress, UnixAddress, parse_address, parse_server_address
from spadework.sandbox.layers import LayerName
from spadework.sandbox.remote import connection, messages, server, token
from spadework.sandbox.remote.server import SandboxServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def tcp() -> Iterator[ServerProcess]:
    """A server at a TCP port of this machine."""
    with ServerProcess("--port", 0) as served:
        yield served


@pytest.fixture
def unix(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of this test alone, at a Unix socket."""
    patient = ("--set", "sandbox.step_timeout_s=600", "--set", "sandbox.load_timeout_s=600")
    with ServerProcess("--unix", tmp_path / "socket", *patient) as served:
        yield served


def client(served: ServerProcess, limits: Limits = Limits()) -> RemoteSandbox:  # noqa: B008
    return RemoteSandbox(served.address, limits, token=SECRET)


def test_a_program_shows_the_same_here_and_there(tcp: ServerProcess) -> None:
    async def run() -> None:
        async with Sandbox() as here, client(tcp) as there:
            assert there.level() == here.level()
            expected = await everything(here, TALKATIVE)
            assert repr(await everything(there, TALKATIVE)) == repr(expected)
            assert "info holds <object>, recorded by its type alone" in str(expected[-1])

    asyncio.run(run())


def test_faults_are_the_same_here_and_there(tcp: ServerProcess, tripwire: str) -> None:
    async def run() -> None:
        async with Sandbox(FAULTY_LIMITS) as here, client(tcp, FAULTY_LIMITS) as there:
            for source, actions in faulty(tripwire):
                one, other = await fault_of(here, source, *actions), await fault_of(there, source, *actions)
                assert (one.kind, one.reason, one.trace) == (other.kind, other.reason, other.trace)

    asyncio.run(run())


@pytest.mark.parametrize(
    "path",
    [
        *("sound/maze", "sound/wild_bare_string", "tools_sound/order_desk"),
        *("faulty/ends_its_process", "faulty/coin", "faulty/order_of_a_set", "tools_faulty/superfluous_call"),
    ],
)
def test_the_gates_say_the_same_here_and_there(tcp: ServerProcess, path: str) -> None:
    async def run() -> None:
        async with Sandbox() as here, client(tcp) as there:
            assert await report(there, path) == await report(here, path)

    asyncio.run(run())


def test_a_configuration_names_its_sandbox(unix: ServerProcess) -> None:
    assert isinstance(open_sandbox(SandboxConfig()), Sandbox)
    there = open_sandbox(SandboxConfig(address=unix.address, step_timeout_s=0.5))
    assert isinstance(there, RemoteSandbox)
    assert there.limits.step_timeout_s == 0.5


def test_a_thousand_plays_at_once_are_answered_each_with_its_own(tcp: ServerProcess, tripwire: str) -> None:
    async def run() -> None:
        async with client(tcp) as sandbox, await sandbox.open(tripwire) as program:
            plays = [play for play, _ in await asyncio.gather(*(program.reset(seed) for seed in range(1000)))]
            for turn in (1, 2):
                steps = await asyncio.gather(*(play.step("x") for play in plays))
                assert [step.observation for step in steps] == [f"count {seed + turn}" for seed in range(1000)]

    asyncio.run(run())


def test_two_clients_know_nothing_of_each_other(tcp: ServerProcess, tripwire: str) -> None:
    async def run() -> None:
        async with client(tcp) as one, client(tcp, Limits(max_kills=1)) as other:
            for _ in range(2):
                assert (await fault_of(other, tripwire, "die")).kind == "exit"
            assert "quarantined" in (await fault_of(other, tripwire)).reason
            async with await one.open(tripwire) as program:
                play, _ = await program.reset(1)
                assert (await play.step("x")).observation == "count 2"

    asyncio.run(run())


def test_what_a_client_gives_up_ends_there_and_its_connection_goes_on(unix: ServerProcess, tripwire: str) -> None:
    endless = "while True:\n    pass\n"
    slow = tripwire.replace(
        "self.count = seed or 0", "self.count = seed or 0\n        while seed == 9:\n            pass"
    )

    async def cancelled(task: asyncio.Task[object]) -> None:
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def run() -> None:
        limits = Limits(load_timeout_s=600, reset_timeout_s=2.0, step_timeout_s=600)
        async with client(unix, limits) as sandbox:
            before = unix.processes
            await cancelled(asyncio.create_task(sandbox.open(endless)))
            async with asyncio.timeout(PATIENCE_S):
                while len(unix.processes) > len(before):
                    await asyncio.sleep(0.02)
            program = await sandbox.open(slow)
            await cancelled(asyncio.create_task(program.reset(9)))
            play, _ = await program.reset(1)
            assert (await play.step("x")).observation == "count 2"
            hanging, _ = await program.reset(2)
            await cancelled(asyncio.create_task(hanging.step("hang")))
            with pytest.raises(RuntimeError, match="closed"):
                await hanging.step("x")
            await program.close()
            assert len(unix.processes) == len(before)

    asyncio.run(run())


def test_calls_after_the_end_are_refused_as_here(tcp: ServerProcess, guess: str) -> None:
    async def run() -> None:
        sandbox = client(tcp)
        with pytest.raises(RuntimeError, match="not open"):
            await sandbox.open(guess)
        async with sandbox:
            program = await sandbox.open(guess)
            play, _ = await program.reset(0)
            pending = asyncio.ensure_future(play.step("1"))
            await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="closed"):
            await pending
        for call in (play.step("1"), program.reset(0), sandbox.open(guess)):
            with pytest.raises(RuntimeError, match=r"closed|not open"):
                await call
        await play.close()
        await program.close()
        await sandbox.close()

    asyncio.run(run())


def test_the_end_of_a_client_is_waited_for(unix: ServerProcess, tripwire: str) -> None:
    async def run() -> None:
        async with client(unix, Limits(step_timeout_s=600)) as sandbox:
            program = await sandbox.open(tripwire)
            hanging = asyncio.ensure_future((await program.reset(0))[0].step("hang"))
            await asyncio.sleep(0.3)
            assert len(unix.processes) >= 2
        assert unix.processes == []
        with pytest.raises(RuntimeError):
            await hanging

    asyncio.run(run())
    assert unix.says("client 1 connected")
    assert unix.says("client 1 left after 1 programs and 1 plays")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_server_that_ends_takes_its_processes_along_and_its_clients_are_told(
    tmp_path: Path, tripwire: str, number: signal.Signals
) -> None:
    async def run(served: ServerProcess) -> None:
        async with client(served, Limits(step_timeout_s=600)) as sandbox:
            program = await sandbox.open(tripwire)
            plays = [(await program.reset(seed))[0] for seed in range(3)]
            calls = [asyncio.ensure_future(play.step("hang")) for play in plays]
            await asyncio.sleep(0.3)
            processes = served.processes
            status = await asyncio.to_thread(served.stop, number)
            assert wait_until_dead(processes, PATIENCE_S) == []
            assert status == (-number if number is signal.SIGKILL else 0)
            for call in (*calls, plays[0].step("x"), program.reset(1), sandbox.open(tripwire)):
                with pytest.raises(InfrastructureFault) as caught:
                    await call
                assert served.address in str(caught.value)
            assert ("the server was stopped" in str(calls[0].exception())) == (number is not signal.SIGKILL)
            await plays[0].close()
            await program.close()

    with ServerProcess("--unix", tmp_path / "socket", "--set", "sandbox.step_timeout_s=600") as served:
        asyncio.run(run(served))
        assert not any("Traceback" in line for line in served.lines)
        assert (tmp_path / "socket").exists() == (number is signal.SIGKILL)


def test_a_server_that_was_started_again_serves_the_same_client(tmp_path: Path, tripwire: str) -> None:
    async def run() -> None:
        with ServerProcess("--unix", tmp_path / "socket") as first:
            sandbox = await client(first).__aenter__()
            play, _ = await (await sandbox.open(tripwire)).reset(0)
            await asyncio.to_thread(first.stop, signal.SIGKILL)
            with pytest.raises(InfrastructureFault, match="lost"):
                await play.step("x")
        with ServerProcess("--unix", tmp_path / "socket"):  # in place of the socket that was left
            again, _ = await (await sandbox.open(tripwire)).reset(0)
            assert (await again.step("x")).observation == "count 1"
            with pytest.raises(InfrastructureFault, match="lost"):
                await play.step("x")
            await sandbox.close()

    asyncio.run(run())


CLIENT = """
import asyncio, sys
from spadework.sandbox import Limits, RemoteSandbox

async def main():
    async with RemoteSandbox(sys.argv[1], Limits(step_timeout_s=600)) as sandbox:
        program = await sandbox.open(sys.argv[2])
        play, _ = await program.reset(0)
        hanging = asyncio.ensure_future(play.step("hang"))
        await asyncio.sleep(0.3)
        print("ready", flush=True)
        await hanging

asyncio.run(main())
"""


def test_the_processes_of_a_killed_client_end_and_those_of_others_go_on(unix: ServerProcess, tripwire: str) -> None:
    async def run() -> None:
        async with client(unix) as sandbox, await sandbox.open(tripwire) as program:
            play, _ = await program.reset(0)
            before = set(unix.processes)
            killed = subprocess.Popen(
                [sys.executable, "-c", CLIENT, unix.address, tripwire], stdout=subprocess.PIPE, text=True
            )
            assert killed.stdout is not None
            assert await asyncio.to_thread(killed.stdout.readline) == "ready\n"
            its = [pid for pid in unix.processes if pid not in before]
            assert len(its) >= 2  # template and worker, and the first of their namespace
            killed.kill()
            killed.communicate()
            assert await asyncio.to_thread(wait_until_dead, its, PATIENCE_S) == []
            assert (await play.step("x")).observation == "count 1"

    asyncio.run(run())
    assert unix.says("client 2 left after 1 programs and 1 plays")


def test_a_server_says_that_it_lives_while_a_program_hangs(unix: ServerProcess, tripwire: str) -> None:
    caller = Caller(unix.address)
    caller.introduce("", Limits(step_timeout_s=600))
    for number, call, play, argument in ((1, "open", 0, (tripwire, 0)), (2, "reset", 1, 0)):
        caller.send(number, call, 1, play, argument)
        assert caller.next()[:2] == [number, "ok"]
    caller.send(3, "step", 1, 1, "hang")
    caller.send(4, "ping", 0, 0, None)
    assert caller.next() == [4, "ok", None, []]
    caller.close()


def test_a_server_that_falls_silent_is_given_up(
    unix: ServerProcess, tripwire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PING_S", 1.0)

    async def run() -> None:
        async with client(unix, Limits(step_timeout_s=600)) as sandbox, await sandbox.open(tripwire) as program:
            plays = [(await program.reset(seed))[0] for seed in range(2)]
            patient = asyncio.ensure_future(plays[0].step("hang"))
            unix.process.send_signal(signal.SIGSTOP)
            with pytest.raises(InfrastructureFault, match="was silent for more than 1 s"):
                await plays[1].step("x")
            with pytest.raises(InfrastructureFault, match="was silent"):
                await patient

    asyncio.run(run())


def test_a_client_that_is_held_up_itself_blames_nobody(
    unix: ServerProcess, tripwire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PING_S", 0.5)

    async def run() -> None:
        async with client(unix, Limits(step_timeout_s=600)) as sandbox, await sandbox.open(tripwire) as program:
            play, _ = await program.reset(0)
            patient = asyncio.ensure_future(play.step("hang"))
            for _ in range(6):
                await asyncio.sleep(0)
                time.sleep(0.9)  # as an engine that samples in the event loop
            assert not patient.done()
            patient.cancel()

    asyncio.run(run())


# Who may connect


def refusal(address: str, secret: str | None, limits: Limits = Limits()) -> str:  # noqa: B008
    async def run() -> None:
        async with RemoteSandbox(address, limits, token=secret):
            pass

    with pytest.raises(InfrastructureFault) as caught:
        asyncio.run(run())
    return str(caught.value)


def test_a_wrong_token_is_refused_in_one_sentence_that_does_not_tell_it(tcp: ServerProcess) -> None:
    wrong = "0123456789abcdef-the-wrong-token"
    said = refusal(tcp.address, wrong)
    assert said.endswith("the token is wrong; set SPADEWORK_SANDBOX_TOKEN to the same token on both machines")
    deadline = time.monotonic() + PATIENCE_S
    while not any("was refused: the token is wrong" in line for line in tcp.lines):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    heard = "\n".join(tcp.lines)
    assert wrong not in heard + said
    assert SECRET not in heard + said


def test_the_token_is_that_of_the_environment_or_of_a_file(
    tcp: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(token.TOKEN, raising=False)
    monkeypatch.delenv(token.TOKEN_FILE, raising=False)
    assert "neither is set" in refusal(tcp.address, None)
    monkeypatch.setenv(token.TOKEN, "short")
    assert "has 5 characters; take at least 16" in refusal(tcp.address, None)
    monkeypatch.setenv(token.TOKEN_FILE, str(tmp_path / "token"))
    assert "both are set" in refusal(tcp.address, None)
    monkeypatch.delenv(token.TOKEN)
    assert "cannot be read: No such file or directory" in refusal(tcp.address, None)
    (tmp_path / "token").write_text(f"{SECRET}\n")

    async def run() -> None:
        async with RemoteSandbox(tcp.address) as sandbox:
            assert sandbox.level()

    asyncio.run(run())


def test_a_server_without_a_token_does_not_start_at_a_port() -> None:
    served = ServerProcess("--port", 0, environment={})
    assert served.process.wait(PATIENCE_S) == 2
    assert served.lines[0].startswith("spadework: a sandbox at a TCP port needs a token")


def test_limits_above_those_of_the_server_are_refused_by_name(tcp: ServerProcess) -> None:
    assert refusal(tcp.address, SECRET, Limits(memory_mb=1024)).endswith(
        "sandbox.memory_mb is 1024 and this server allows 512; lower it, or start the server with "
        "--set sandbox.memory_mb=1024"
    )


def test_nothing_listens_there(tmp_path: Path) -> None:
    assert "(No such file or directory); start one" in refusal(f"unix:{tmp_path / 'nowhere'}", None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert "(Connection refused); start one there with `spadework sandbox serve`" in refusal(
        f"tcp://127.0.0.1:{port}", SECRET
    )


def test_a_unix_socket_is_its_owners_and_replaces_none_that_is_in_use(unix: ServerProcess, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    assert path.stat().st_mode & 0o777 == 0o600
    second = ServerProcess("--unix", path)
    assert second.process.wait(PATIENCE_S) == 2
    assert second.lines == [f"spadework: nothing can be served at unix:{path}: Address already in use; give another"]
    (tmp_path / "file").write_text("precious")
    third = ServerProcess("--unix", tmp_path / "file")
    assert third.process.wait(PATIENCE_S) == 2
    assert (tmp_path / "file").read_text() == "precious"
    asyncio.run(_opens(unix))


async def _opens(served: ServerProcess) -> None:
    async with client(served) as sandbox:
        assert sandbox.level()


def test_more_clients_than_the_server_takes_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CLIENTS", 1)
    address = f"unix:{tmp_path / 'socket'}"

    async def run() -> None:
        async with (
            SandboxServer(parse_server_address(address), Limits(), "", lambda line: None),
            RemoteSandbox(address),
        ):
            with pytest.raises(InfrastructureFault, match="refused: the server has 1 clients already"):
                async with RemoteSandbox(address):
                    pass

    asyncio.run(run())


def test_another_version_is_named(tcp: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "VERSION", 7)
    assert "speaks version 2 of its protocol and this spadework version 7; install" in refusal(tcp.address, SECRET)


# What does not follow the protocol


def named(value: object) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        os.urandom(5000),
        b"\xff\xff\xff\xff",
        frame(b"\xc1"),
        frame(b"\xdd\xff\xff\xff\xff"),
        messages.encode("hello"),
        messages.encode(1, "nonce", "proof", {}, -1),
        messages.encode(1, "nonce", 5, {}, 0),
        messages.encode(1, "\ud800", "\ud800", {}, 0),
    ],
    ids=["http", "random", "oversized", "undecodable", "huge-array", "short", "range", "type", "surrogate"],
)
def test_garbage_gets_one_sentence_and_the_others_go_on(tcp: ServerProcess, garbage: bytes, tripwire: str) -> None:
    async def run() -> None:
        async with client(tcp) as sandbox, await sandbox.open(tripwire) as program:
            play, _ = await program.reset(0)
            caller = await asyncio.to_thread(Caller, tcp.address)
            caller.socket.sendall(garbage)
            number, status, sentence, _ = await asyncio.to_thread(caller.next)
            assert (number, status) == (0, "end")
            assert isinstance(sentence, str) and sentence
            assert await asyncio.to_thread(caller.next) is None
            caller.close()
            assert (await play.step("x")).observation == "count 1"

    asyncio.run(run())
    assert not any("Traceback" in line for line in tcp.lines)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xff\xff\x7f", "a request of 2147483647 bytes"),
        (messages.encode(1, "open", 1, 0, "x"), "the call open with an argument of the wrong type"),
        (messages.encode(1, "open", 1, 0, ("x", None)), "the call open with an argument of the wrong type"),
        (messages.encode(1, "open", 1, 0, ("x",)), "the call open with an argument of the wrong shape"),
        (messages.encode(1, "open", 1, 0, ("x", 2**32)), "a hash seed out of range"),
        (messages.encode(1, "explode", 1, 0, None), "fields of the wrong type"),
        (messages.encode(1, "reset", 1, 1, True), "the call reset with an argument of the wrong type"),
        (messages.encode(1, "reset", 5, 1, 0), "a program that is not open"),
        (messages.encode(0, "open", 1, 0, ("x", 0)), "the call open with the number 0"),
        (messages.encode(1, "leave", 1, 0, None), "the call leave with the number 1"),
        (messages.encode(1, "open", 1, 0, ("x", 0)) * 2, "a number twice"),
    ],
    ids=named,
)
def test_an_accepted_client_that_breaks_the_protocol_is_ended(unix: ServerProcess, data: bytes, words: str) -> None:
    caller = Caller(unix.address)
    number, status, _, _ = caller.introduce("")
    assert (number, status) == (0, "ok")
    processes = unix.processes
    assert processes
    caller.socket.sendall(data)
    number, status, sentence, _ = caller.next()
    assert (number, status) == (0, "end")
    assert words in sentence
    assert caller.next() is None
    assert wait_until_dead(processes, PATIENCE_S) == []
    caller.close()


def test_a_client_that_reads_nothing_holds_up_nobody(unix: ServerProcess, tripwire: str) -> None:
    loud = tripwire.replace('f"count {self.count}", 0.0', '"x" * 20_000, 0.0')
    caller = Caller(unix.address)
    caller.introduce("")
    caller.send(1, "open", 1, 0, (loud, 0))
    assert caller.next()[:2] == [1, "ok"]
    for play in range(1, 21):
        caller.send(1 + play, "reset", 1, play, 0)
        assert caller.next()[:2] == [1 + play, "ok"]
    caller.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):  # the server stops reading a client that does not read
        for number in range(22, 1_000_000):
            caller.send(number, "step", 1, number % 20 + 1, "x" * 1000)

    async def run() -> None:
        async with client(unix) as sandbox, await sandbox.open(tripwire) as program:
            play, _ = await program.reset(0)
            assert (await play.step("x")).observation == "count 1"

    asyncio.run(run())
    its = len(unix.processes)
    caller.close()
    deadline = time.monotonic() + PATIENCE_S
    while unix.processes and time.monotonic() < deadline:
        time.sleep(0.05)
    assert its and unix.processes == []


def served_by(script: list[bytes | str], *, calls: int = 0) -> str:
    """What a client says of a server that follows ``script``: bytes to send, or `hello` and `call` to wait for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for item in script:
            if isinstance(item, bytes):
                writer.write(item)
            else:
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "little"))
        await writer.drain()
        await reader.read()
        writer.close()

    async def run() -> str:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            with pytest.raises(InfrastructureFault) as caught:
                async with RemoteSandbox(f"tcp://127.0.0.1:{port}", token=SECRET) as sandbox:
                    await asyncio.gather(*(sandbox.open("x") for _ in range(3)))
            return str(caught.value)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


LAYERS = [(name.value, "") for name in LayerName]
GREETING = messages.encode(messages.GREETING, messages.VERSION, "nonce")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "is no sandbox: it sent a message of"),
        ([messages.encode("something else", 1, "x")], "is no sandbox: it sent a greeting that is none"),
        ([GREETING, "hello", messages.encode(0, "ok", ["forged", LAYERS], [])], "does not know the token"),
        ([GREETING, "hello", messages.encode(0, "end", "too hot today", [])], "refused: too hot today"),
        ([GREETING, "hello", b"\xff\xff\xff\xff"], "is no sandbox: it sent a message of 4294967295 bytes"),
    ],
    ids=named,
)
def test_a_server_that_is_none_is_not_believed(script: list[bytes | str], words: str) -> None:
    assert words in served_by(script)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"\xff\xff\xff\x7f", "it sent a message of 2147483647 bytes"),
        (messages.encode(9, "ok", ["AEnv", None, True, False], []), "a reply that nobody asked for"),
        (messages.encode(1, "ok", ["AEnv", None, True, 1], []), "a load answer of the wrong types"),
        (messages.encode(1, "fine", None, []), "fields of the wrong type"),
        (messages.encode(1, "ok", ["AEnv", None, True, False], ["n" * 201]), "a note that is no short text"),
        (messages.encode(1, "environment-fault", ["unknown", "x", ""], []), "a fault that is none"),
        (messages.encode(0, "end", "so long", []), "ended the connection: so long"),
    ],
    ids=named,
)
def test_a_server_that_breaks_the_protocol_is_given_up_with_every_call(
    reply: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "proves", lambda *_: True)
    welcome = messages.encode(0, "ok", ["", LAYERS], [])
    assert words in served_by([GREETING, "hello", welcome, "call", reply])


# Addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://node-7:8471", TcpAddress("node-7", 8471)),
        ("tcp://[::1]:1", TcpAddress("::1", 1)),
        ("unix:/run/user/sandbox", UnixAddress("/run/user/sandbox")),
        ("unix:here", UnixAddress("here")),
        ("ray", RayAddress()),
        ("ray://head:10001", RayAddress("head:10001")),
    ],
)
def test_addresses_are_read_and_written_alike(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["node-7:8471", "tcp://node-7", "tcp://:80", "tcp://a:99999", "unix:", "http://a:1", "ray://"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it should be tcp://HOST:PORT, unix:PATH, ray or ray://HOST:PORT"):
        parse_address(text)
    with pytest.raises(ValueError, match=r"sandbox.address: .* or empty for this machine"):
        SandboxConfig(address=text)


def test_no_process_of_these_tests_is_left() -> None:
    assert [pid for pid in children(os.getpid()) if not wait_until_dead([pid], 0)] == []
