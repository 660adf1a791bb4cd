"""A server of chat completions for tests: real HTTP on a real port, with answers as good or as bad as a test wants."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"
Body = Mapping[str, Any]


@dataclass(frozen=True)
class Raw:
    """What is sent, to the byte. ``promised`` is a Content-Length that is larger than what comes: the line drops."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": JSON})
    promised: int | None = None
    hang_s: float = 0.0


Answer = Callable[[Body, int], Raw]
"""(body of the request, how many came before it) -> what is sent."""


@dataclass
class Heard:
    """A request as it came. ``at_s`` is a monotonic clock."""

    path: str
    headers: dict[str, str]
    body: Body
    at_s: float


class ChatServer:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.heard: list[Heard] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._released = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner._handle(self)

            def do_POST(self) -> None:
                owner._handle(self)

            def log_message(self, *arguments: object) -> None:
                """Nothing on the terminal of the tests."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def prompts(self) -> list[str]:
        """The text of the last message of each request."""
        return [str(heard.body["messages"][-1]["content"]) for heard in self.heard]

    @contextmanager
    def running(self) -> Iterator[ChatServer]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._released.set()
            self._http.shutdown()
            thread.join()
            self._http.server_close()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        at_s = time.monotonic()
        length = int(handler.headers.get("Content-Length", 0))
        body = json.loads(handler.rfile.read(length)) if length else {}
        with self._lock:
            number = len(self.heard)
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.heard.append(Heard(handler.path, headers, body, at_s))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            raw = self.answer(body, number)
            self._released.wait(raw.hang_s)
        finally:
            with self._lock:
                self._at_once -= 1
        try:
            handler.send_response(raw.status)
            for name, value in raw.headers.items():
                handler.send_header(name, value)
            promised = len(raw.body) if raw.promised is None else raw.promised
            handler.send_header("Content-Length", str(promised))
            handler.end_headers()
            handler.wfile.write(raw.body)
        except OSError:  # the client has given up
            handler.close_connection = True
        if raw.promised is not None:
            handler.close_connection = True


@contextmanager
def babbling() -> Iterator[str]:
    """The address of something that answers, and not in HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    line, _ = listener.accept()
                    with line:
                        line.recv(4096)
                        line.sendall(b"421 4.7.0 mail only\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def reply(text: str | None, finish: str | None = "stop", tokens: tuple[int, int] | None = (10, 5), **more: Any) -> Raw:
    """A whole chat completion."""
    message = {"role": "assistant", "content": text, **more}
    value: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if tokens is not None:
        value["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return Raw(json.dumps(value).encode())


def error(status: int, message: str = "", code: str | None = None, **headers: str) -> Raw:
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    return Raw(
        body, status, {"Content-Type": JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    )


def in_turn(*answers: Raw) -> Answer:
    """One after the other; the last one again and again."""
    return lambda body, number: answers[min(number, len(answers) - 1)]
