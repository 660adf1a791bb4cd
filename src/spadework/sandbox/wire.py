"""The host's side of the protocol: requests out, answers in, and every answer checked.

A program can write anything to the channel, so that what arrives is decoded within strict limits and matched
against exact types. Whatever does not fit raises ProtocolBreach. A served sandbox reads its connections by the same
rules.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgpack

from spadework.sandbox.layers import Layer, LayerName
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, Transition

HEADER = struct.Struct("<I")
BYTES_PER_CHAR = 4
SLACK_BYTES = 1 << 16
MAX_ITEMS = 1024
MAX_INFO_DEPTH = 10
MAX_REASON_CHARS = 400
MAX_TRACE_CHARS = 4000
MAX_NOTES = 16
MAX_NOTE_CHARS = 200
ANSWER_FIELDS = 5

FAULT_KINDS = frozenset(kind.value for kind in FaultKind)

_pack = msgpack.Packer(unicode_errors="surrogatepass").pack


class ProtocolBreach(Exception):
    """What arrived does not follow the protocol."""


class Answer(NamedTuple):
    """One decoded answer. ``value`` is not yet checked."""

    sequence: int
    elapsed_us: int
    ok: bool
    value: object
    notes: tuple[str, ...]


def encode_request(sequence: int, call: str, play: int, argument: object, limit_s: float) -> bytes:
    encoded: bytes = _pack((sequence, call, play, argument, limit_s))
    return encoded


def encode_value(value: object) -> bytes:
    """Equal bytes for equal values of an answer."""
    encoded: bytes = _pack(value)
    return encoded


def max_answer_bytes(limits: Limits) -> int:
    """The longest answer that a program within ``limits`` needs."""
    return BYTES_PER_CHAR * (limits.max_observation_chars + limits.max_info_chars) + SLACK_BYTES


class FrameReader:
    """Cuts a byte stream into values; ``noun`` says what each of them is, ``unicode_errors`` how texts are decoded."""

    def __init__(
        self, max_bytes: int, noun: str, unicode_errors: Literal["strict", "surrogatepass"] = "strict"
    ) -> None:
        self.max_bytes = max_bytes
        self._noun = noun
        self._unicode_errors = unicode_errors
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[object]:
        """The values that ``data`` completes, one after another, so that those before a breach count."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= HEADER.size:
                (size,) = HEADER.unpack_from(buffer, at)
                if size > self.max_bytes:
                    raise ProtocolBreach(f"{self._noun} of {size} bytes")
                start, end = at + HEADER.size, at + HEADER.size + size
                if len(buffer) < end:
                    break
                at = end
                yield self._decode(bytes(buffer[start:end]))
        finally:
            del buffer[:at]

    def _decode(self, body: bytes) -> object:
        try:
            value: object = msgpack.unpackb(
                body,
                raw=False,
                strict_map_key=True,
                max_ext_len=0,
                max_bin_len=0,
                max_array_len=MAX_ITEMS,
                max_map_len=MAX_ITEMS,
                max_str_len=self.max_bytes,
                unicode_errors=self._unicode_errors,
            )
        except (ValueError, msgpack.UnpackException, RecursionError, MemoryError) as error:
            raise ProtocolBreach(f"bytes that cannot be decoded ({type(error).__name__})") from None
        return value


def answer_of(fields: object) -> Answer:
    """One answer of a worker."""
    if type(fields) is not list or len(fields) != ANSWER_FIELDS:
        raise ProtocolBreach("a value that is not an answer")
    sequence, elapsed_us, ok, value, notes = fields
    if type(sequence) is not int or type(elapsed_us) is not int or type(ok) is not bool or elapsed_us < 0:
        raise ProtocolBreach("an answer with fields of the wrong type")
    return Answer(sequence, elapsed_us, ok, value, notes_of(notes))


def notes_of(value: object, at_most: int = MAX_NOTES) -> tuple[str, ...]:
    """Adaptations that are reported."""
    if type(value) is not list or len(value) > at_most:
        raise ProtocolBreach("notes that are no short list")
    if not value:
        return ()
    if any(type(note) is not str or len(note) > MAX_NOTE_CHARS for note in value):
        raise ProtocolBreach("a note that is no short text")
    return tuple(value)


def fault_of(value: object, max_reason_chars: int = MAX_REASON_CHARS) -> EnvironmentFault:
    """The fault that was reported."""
    kind, reason, trace = _strings(value, 3)
    if kind not in FAULT_KINDS or len(reason) > max_reason_chars or len(trace) > MAX_TRACE_CHARS:
        raise ProtocolBreach("a fault that is none")
    return EnvironmentFault(FaultKind(kind), reason, trace)


def loaded_of(value: object) -> tuple[str, int | None, bool, bool]:
    """(class name, max_turns, whether there is a solution, whether it is a tool environment)."""
    if type(value) is not list or len(value) != 4:
        raise ProtocolBreach("a load answer of the wrong shape")
    name, max_turns, has_solution, uses_tools = value
    turns_fit = max_turns is None or (type(max_turns) is int and max_turns > 0)
    truths_fit = type(has_solution) is bool and type(uses_tools) is bool
    if type(name) is not str or not name.isidentifier() or not turns_fit or not truths_fit:
        raise ProtocolBreach("a load answer of the wrong types")
    return name, max_turns, has_solution, uses_tools


def observation_of(value: object, limits: Limits) -> str:
    if type(value) is not str or len(value) > limits.max_observation_chars:
        raise ProtocolBreach("an observation that is no text within its limit")
    return value


def transition_of(value: object, limits: Limits) -> Transition:
    if type(value) is not list or len(value) != 5:
        raise ProtocolBreach("a step answer of the wrong shape")
    text, reward, terminated, truncated, info = value
    if type(reward) is not float or not math.isfinite(reward):
        raise ProtocolBreach("a reward that is no finite float")
    if type(terminated) is not bool or type(truncated) is not bool:
        raise ProtocolBreach("an end that is no bool")
    if type(info) is not dict or not _plain(info, MAX_INFO_DEPTH):
        raise ProtocolBreach("an info that is no plain dict")
    return Transition(observation_of(text, limits), reward, terminated, truncated, info)


def solution_of(value: object) -> tuple[str, ...]:
    if type(value) is not list:
        raise ProtocolBreach("a solution that is no list")
    return _strings(value, len(value))


def inspection_of(value: object, limits: Limits) -> str:
    """JSON as text, not yet read."""
    if type(value) is not str or len(value) > limits.max_observation_chars + limits.max_info_chars:
        raise ProtocolBreach("an inspection that is no text within its limit")
    return value


def layers_of(value: object) -> tuple[Layer, ...]:
    """Every layer, in order."""
    if type(value) is not list or len(value) != len(LayerName):
        raise ProtocolBreach("a list of layers that is none")
    told = [_strings(pair, 2) for pair in value]
    if [name for name, _ in told] != list(LayerName):
        raise ProtocolBreach("layers that there are not")
    return tuple(Layer(LayerName(name), absent_because) for name, absent_because in told)


def _strings(value: object, count: int) -> tuple[str, ...]:
    if type(value) is not list or len(value) != count or any(type(item) is not str for item in value):
        raise ProtocolBreach("something else than texts")
    return tuple(value)


def _plain(value: object, depth: int) -> bool:
    if type(value) is dict:
        return depth > 0 and all(type(key) is str and _plain(item, depth - 1) for key, item in value.items())
    if type(value) is list:
        return depth > 0 and all(_plain(item, depth - 1) for item in value)
    return value is None or type(value) in (str, int, float, bool)
