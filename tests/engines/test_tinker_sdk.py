"""The client library against servers that are not there, refuse, or fall silent; each is one sentence."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chat_server import babbling

from spadework.config import TinkerConfig
from spadework.engines.base import EngineFault
from spadework.engines.pulse import Pulse, ServerGone, in_thread
from spadework.engines.tinker.sdk import TinkerService


class Refusing(BaseHTTPRequestHandler):
    """Knows no key; keeps its archives."""

    def do_GET(self) -> None:
        if self.path.endswith("/download"):
            self._answer(200, b"an archive")
        else:
            self._answer(200 if self.path.endswith("healthz") else 401, b'{"detail": "no such key"}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer(401, json.dumps({"detail": "no such key"}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def nowhere() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def own(url: str) -> TinkerConfig:
    return TinkerConfig(backend="skyrl-jax", base_url=url, model="m")


def test_a_server_that_is_not_there_is_told_at_once_with_its_address() -> None:
    url = nowhere()
    start = time.monotonic()
    with pytest.raises(EngineFault, match=f"no server answers at {url} .*start it, or set engine.tinker.base_url"):
        TinkerService.open(own(url), takes_mask=True)
    assert time.monotonic() - start < 60, "the library itself would try for five minutes"


def test_the_hosted_service_needs_a_key_and_the_key_is_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with pytest.raises(EngineFault, match="set the environment variable TINKER_API_KEY"):
        TinkerService.open(TinkerConfig(model="m"), takes_mask=False)
    monkeypatch.setenv("TINKER_API_KEY", "sk-123456")
    with pytest.raises(EngineFault, match="does not start with tml-") as raised:
        TinkerService.open(TinkerConfig(model="m"), takes_mask=False)
    assert "123456" not in str(raised.value)


def test_a_key_that_the_service_refuses_is_told(refusing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-wrong-key")
    service = TinkerService.open(own(refusing), takes_mask=True)
    with pytest.raises(EngineFault, match=r"refused the key in TINKER_API_KEY \(no such key\)") as raised:
        service.models()
    assert "wrong-key" not in str(raised.value)


def test_archives_of_a_server_of_ones_own_are_fetched_from_it(refusing: str, tmp_path: Path) -> None:
    service = TinkerService.open(own(refusing), takes_mask=True)
    asyncio.run(service.download("tinker://model_1/sampler_weights/export-3", tmp_path / "weights.tar"))
    assert (tmp_path / "weights.tar").read_bytes() == b"an archive"
    with pytest.raises(EngineFault, match="could not be fetched"):
        asyncio.run(service.download("tinker://model_1/sampler_weights/export-3", tmp_path / "no" / "weights.tar"))


def test_a_server_that_goes_away_ends_every_wait() -> None:
    there = threading.Event()
    there.set()
    pulse = Pulse(there.is_set, patience_s=0.2, answer_timeout_s=60)

    async def run() -> None:
        waits = [asyncio.create_task(pulse.guard(asyncio.sleep(60))) for _ in range(3)]
        await asyncio.sleep(0.5)
        assert not any(wait.done() for wait in waits), "it was there all the time"
        there.clear()
        for found in await asyncio.gather(*waits, return_exceptions=True):
            assert isinstance(found, ServerGone)
        there.set()
        assert await pulse.guard(asyncio.sleep(0, "back")) == "back"

    asyncio.run(run())


def test_what_does_not_speak_http_is_no_server() -> None:
    with babbling() as url:
        assert not TinkerService(own(url), takes_mask=True).is_there()


def test_a_server_that_is_there_and_never_answers_is_given_up_in_the_end() -> None:
    pulse = Pulse(lambda: True, patience_s=60, answer_timeout_s=0.1)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        asyncio.run(pulse.guard(asyncio.sleep(60)))


def test_what_an_answer_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(Pulse(lambda: True, patience_s=60, answer_timeout_s=60).guard(fail()))


def test_blocking_work_does_not_hold_the_program_when_nobody_waits_for_it_any_more() -> None:
    never = threading.Event()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(never.wait), 0.05)

    start = time.monotonic()
    asyncio.run(give_up())
    assert time.monotonic() - start < 30
    never.set()
