"""The loop of a worker: one request after another, each under its deadline.

Requests are a stream of msgpack arrays [sequence, call, play, argument, limit_s]; they come from the host and
are trusted. Answers are a little-endian u32 length and a msgpack array [sequence, elapsed_us, ok, value, notes];
``value`` is a fault [kind, reason, trace] if not ``ok``, and ``notes`` are adaptations not reported before.

Answers to calls of the same name are gathered for up to `GATHER_S` and written together, unless `load` came with
false: then each is written before the next request runs, and the first unanswered request is the one that runs.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from typing import Any, NoReturn

import msgpack

from spadework.sandbox.inside import faults, imports, lockdown
from spadework.sandbox.inside.deadline import Clock, Deadline
from spadework.sandbox.inside.lockdown import Confinement
from spadework.sandbox.inside.player import Player

EXIT_MEMORY = 77
EXIT_BROKEN = 78
MAX_REQUEST_BYTES = 1 << 26
GATHER_S = 0.001

NOUNS = {
    "load": "loading",
    "reset": "reset",
    "step": "step",
    "solution": "solution",
    "inspect": "a criterion",
    "close": "closing",
}


def serve(channel: int, confinement: Confinement) -> NoReturn:
    """Answer requests until the host hangs up."""
    try:
        _serve(channel, confinement)
    except MemoryError:
        os._exit(EXIT_MEMORY)
    except BaseException:
        os._exit(EXIT_BROKEN)  # the program has broken the interpreter around us
    os._exit(0)


def _serve(channel: int, confinement: Confinement) -> None:
    read, write, now = os.read, os.write, time.perf_counter
    encode, size = msgpack.Packer().pack, struct.Struct("<I").pack
    requests = msgpack.Unpacker(raw=False, unicode_errors="surrogatepass", max_buffer_size=MAX_REQUEST_BYTES)
    worker = Worker(confinement)
    gathered = bytearray()
    gathered_call, began, gather_s = "", 0.0, 0.0
    while data := read(channel, 1 << 16):
        requests.feed(data)
        for sequence, call, play, argument, limit_s in requests:
            if call != gathered_call or now() - began >= gather_s:
                _write_all(write, channel, gathered)
                gathered_call, began = call, now()
            if call == "load":
                gather_s = GATHER_S if argument else 0.0
            elapsed_us, ok, value, adaptations = worker.answer(call, play, argument, limit_s)
            body = encode((sequence, elapsed_us, ok, value, adaptations))
            gathered += size(len(body))
            gathered += body
        _write_all(write, channel, gathered)
        worker.clock.rest()


def _write_all(write: Callable[[int, bytearray], int], channel: int, gathered: bytearray) -> None:
    """Empties ``gathered``. A program may have replaced `os.write`."""
    while gathered:
        del gathered[: write(channel, gathered)]


class Worker:
    """Runs calls on a program and turns whatever happens into an answer."""

    def __init__(self, confinement: Confinement) -> None:
        self._confinement = confinement
        self._limits = confinement.limits
        self.clock = Clock()
        self._player: Player | None = None
        self._reported: set[str] = set()

    def answer(self, call: str, play: int, argument: Any, limit_s: float) -> tuple[int, bool, object, list[str]]:
        """(elapsed_us, ok, value or fault, new notes)."""
        if call == "lock":
            return 0, True, self._lock(argument), []
        clock = self.clock
        player = self._player
        assert player is not None
        method: Callable[..., object] = getattr(player, call)
        ok = False
        value: object
        try:
            clock.start(limit_s)
            try:
                value = method(play, argument) if call != "load" else method()
                ok = True
            except Deadline:
                raise
            except BaseException as error:
                value = faults.describe(NOUNS[call], error, player.lines, self._limits["memory_mb"])
            clock.stop()
        except Deadline as deadline:
            clock.stop()
            ok = False
            trace = faults.own_frames(deadline.__traceback__, player.lines)
            value = ("timeout", f"{NOUNS[call]} took longer than {limit_s:g} s", trace)
        new = player.notes - self._reported
        if not new:
            return clock.elapsed_us(), ok, value, []
        self._reported |= new
        return clock.elapsed_us(), ok, value, sorted(note[:200] for note in new)

    def _lock(self, source: str) -> list[tuple[str, str]]:
        imports.import_standard_modules(source)
        self._player = Player(source, self._limits)
        imports.close_imports()
        return lockdown.lock(self._confinement)
