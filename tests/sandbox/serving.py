"""`spadework sandbox serve` in a process of its own, and connections to it by hand."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

from processes import children

from spadework.sandbox import Limits
from spadework.sandbox.address import TcpAddress, UnixAddress, parse_server_address
from spadework.sandbox.remote import messages
from spadework.sandbox.remote.token import TOKEN, TOKEN_FILE, proof
from spadework.sandbox.wire import HEADER, FrameReader

PATIENCE_S = 180
"""What a machine that does much else may need to start or end an interpreter."""
SECRET = "0123456789abcdef-the-right-token"
START = "import sys; sys.argv[0] = 'spadework'; from spadework.cli import main; main()"


class ServerProcess:
    """Use it with `with`. ``arguments`` are those of `spadework sandbox serve`."""

    def __init__(self, *arguments: object, environment: dict[str, str] | None = None) -> None:
        clean = {name: value for name, value in os.environ.items() if name not in (TOKEN, TOKEN_FILE)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "sandbox", "serve", *map(str, arguments)],
            env={**clean, **({TOKEN: SECRET} if environment is None else environment)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self.address = ""
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listening.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        assert self.address, self.lines
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.stop(signal.SIGTERM)

    @property
    def processes(self) -> list[int]:
        """Templates and workers."""
        return children(self.process.pid)

    def says(self, line: str) -> bool:
        """Whether the server prints ``line``, within a while."""
        deadline = time.monotonic() + PATIENCE_S
        while line not in self.lines and time.monotonic() < deadline:
            time.sleep(0.02)
        return line in self.lines

    def stop(self, number: signal.Signals) -> int:
        """Its exit status after that signal to its process group, which is what Ctrl-C sends."""
        os.killpg(self.process.pid, number)
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if "listening" in line:
                self.address = line.rpartition("sandbox.address=")[2].strip()
                self._listening.set()
        self._listening.set()


class Caller:
    """A connection that sends whatever a test wants."""

    def __init__(self, address: str) -> None:
        parsed = parse_server_address(address)
        if isinstance(parsed, UnixAddress):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(parsed.path)
        else:
            assert isinstance(parsed, TcpAddress)
            self.socket = socket.create_connection((parsed.host, parsed.port))
        self.socket.settimeout(PATIENCE_S)
        self._reader = FrameReader(1 << 24, "a message")
        self._messages: list[object] = []
        _, _, self.nonce = self.next()

    def send(self, *fields: object) -> None:
        self.socket.sendall(messages.encode(*fields))

    def introduce(self, token: str, limits: Limits = Limits()) -> Any:  # noqa: B008
        """What the server says to that."""
        said = proof(token, "client", self.nonce, "mine")
        self.send(messages.VERSION, "mine", said, limits.model_dump(include=set(Limits.model_fields)), 0)
        return self.next()

    def next(self) -> Any:
        """The next message; None if the server has hung up."""
        while not self._messages:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._messages += self._reader.feed(data)
        return self._messages.pop(0)

    def close(self) -> None:
        self.socket.close()


def frame(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body
