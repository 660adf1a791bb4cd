"""What a client and a server say to each other.

Each message is a little-endian u32 length and one msgpack value of plain types. Both sides check every field, and
what does not fit raises ProtocolBreach.

    server  [GREETING, version, nonce]
    client  [version, nonce, proof, limits, hash_seed]
    server  [0, "ok", [proof, layers], []]
    client  [number, call, program, play, argument]     any number of them, without waiting
    server  [number, status, value, notes]              one for each number, in any order
    server  [0, "end", sentence, []]                    at any time, and then it hangs up

Programs and plays are numbered by the client. The argument of `open` is [source, hash seed]; the hash seed of an
introduction is the one that most programs will have. `leave` gives up a play, or a program if its play is 0; it has the
number 0 and is not answered. ``notes`` are adaptations of the program not reported before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgpack

from spadework.sandbox import wire
from spadework.sandbox.handles import HASH_SEEDS, MAX_ADAPTATIONS
from spadework.sandbox.layers import Layer
from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.sandbox.wire import BYTES_PER_CHAR, HEADER, SLACK_BYTES, ProtocolBreach

GREETING = "spadework sandbox"
VERSION = 2
INTRODUCTION_BYTES = 1 << 14
"""The longest message before a client is accepted."""
MAX_ACTION_CHARS = 1 << 20
MAX_SENTENCE_CHARS = 2000

Argument = str | int | tuple[str, int] | None

_pack = msgpack.Packer(unicode_errors="surrogatepass").pack


class Call(StrEnum):
    OPEN = "open"
    RESET = "reset"
    STEP = "step"
    SOLUTION = "solution"
    INSPECT = "inspect"
    CLOSE = "close"
    LEAVE = "leave"
    PING = "ping"


class Status(StrEnum):
    OK = "ok"
    ENVIRONMENT_FAULT = "environment-fault"
    INFRASTRUCTURE_FAULT = "infrastructure-fault"
    MISUSE = "misuse"
    """The call came at a time when it cannot be made, such as on a program that is closed."""
    END = "end"


_CALLS = {call.value: call for call in Call}
_STATUSES = {status.value: status for status in Status}
_ARGUMENTS: Mapping[Call, tuple[type, ...]] = {
    Call.OPEN: (list,),
    Call.RESET: (int, type(None)),
    Call.STEP: (str,),
}


@dataclass(frozen=True, slots=True)
class Hello:
    version: int
    nonce: str
    proof: str
    limits: dict[str, object]
    hash_seed: int


@dataclass(frozen=True, slots=True)
class Request:
    number: int
    call: Call
    program: int
    play: int
    argument: Argument


@dataclass(frozen=True, slots=True)
class Reply:
    """``value`` is not yet checked."""

    number: int
    status: Status
    value: object
    notes: tuple[str, ...]


def encode(*fields: object) -> bytes:
    """A message of ``fields``."""
    body: bytes = _pack(fields)
    return HEADER.pack(len(body)) + body


def max_request_bytes(limits: Limits) -> int:
    """The longest request of a client with ``limits``."""
    return BYTES_PER_CHAR * max(limits.max_source_chars, MAX_ACTION_CHARS) + SLACK_BYTES


def max_reply_bytes(limits: Limits) -> int:
    """The longest reply to a client with ``limits``.

    Twice what a worker may answer: a program can write numbers in five bytes that take nine when they are written
    again, and what one program answers must never end the connection of all.
    """
    return 2 * wire.max_answer_bytes(limits) + BYTES_PER_CHAR * wire.MAX_NOTE_CHARS * MAX_ADAPTATIONS


def greeting_of(fields: object) -> tuple[int, str]:
    """(version, nonce)."""
    if type(fields) is not list or len(fields) != 3:
        raise ProtocolBreach("a greeting that is none")
    name, version, nonce = fields
    if name != GREETING or type(version) is not int or type(nonce) is not str:
        raise ProtocolBreach("a greeting that is none")
    return version, nonce


def refusal_of(fields: object) -> str | None:
    """The sentence with which the server ends the connection, if that is what it does."""
    if type(fields) is list and fields[:2] == [0, Status.END.value]:
        return sentence_of(reply_of(fields))
    return None


def hello_of(fields: object) -> Hello:
    if type(fields) is not list or len(fields) != 5:
        raise ProtocolBreach("an introduction that is none")
    version, nonce, proof, limits, hash_seed = fields
    texts_fit = type(nonce) is str and type(proof) is str
    if type(version) is not int or not texts_fit or type(limits) is not dict or type(hash_seed) is not int:
        raise ProtocolBreach("an introduction with fields of the wrong type")
    _require_hash_seed(hash_seed)
    return Hello(version, nonce, proof, limits, hash_seed)


def welcome_of(value: object) -> tuple[str, tuple[Layer, ...]]:
    """(proof, every layer of isolation)."""
    if type(value) is not list or len(value) != 2 or type(value[0]) is not str:
        raise ProtocolBreach("a welcome that is none")
    return value[0], wire.layers_of(value[1])


def request_of(fields: object) -> Request:
    if type(fields) is not list or len(fields) != 5:
        raise ProtocolBreach("a value that is not a request")
    number, name, program, play, argument = fields
    call = _CALLS.get(name) if type(name) is str else None
    if call is None or type(number) is not int or type(program) is not int or type(play) is not int:
        raise ProtocolBreach("a request with fields of the wrong type")
    if type(argument) not in _ARGUMENTS.get(call, (type(None),)):
        raise ProtocolBreach(f"the call {call} with an argument of the wrong type")
    if (number > 0) == (call is Call.LEAVE):
        raise ProtocolBreach(f"the call {call} with the number {number}")
    return Request(number, call, program, play, _opened_of(argument) if call is Call.OPEN else argument)


def _opened_of(argument: list[object]) -> tuple[str, int]:
    """(source, hash seed)."""
    if len(argument) != 2:
        raise ProtocolBreach(f"the call {Call.OPEN} with an argument of the wrong shape")
    source, hash_seed = argument
    if type(source) is not str or type(hash_seed) is not int:
        raise ProtocolBreach(f"the call {Call.OPEN} with an argument of the wrong type")
    _require_hash_seed(hash_seed)
    return source, hash_seed


def _require_hash_seed(hash_seed: int) -> None:
    if not 0 <= hash_seed < HASH_SEEDS:
        raise ProtocolBreach("a hash seed out of range")


def reply_of(fields: object) -> Reply:
    if type(fields) is not list or len(fields) != 4:
        raise ProtocolBreach("a value that is not a reply")
    number, name, value, notes = fields
    status = _STATUSES.get(name) if type(name) is str else None
    if status is None or type(number) is not int:
        raise ProtocolBreach("a reply with fields of the wrong type")
    return Reply(number, status, value, wire.notes_of(notes, MAX_ADAPTATIONS) if notes != [] else ())


def sentence_of(reply: Reply) -> str:
    if type(reply.value) is not str or len(reply.value) > MAX_SENTENCE_CHARS:
        raise ProtocolBreach("a sentence that is none")
    return reply.value


def error_of(reply: Reply) -> Exception:
    """The exception that a reply stands for which is not `OK`."""
    if reply.status is Status.ENVIRONMENT_FAULT:
        return wire.fault_of(reply.value, MAX_SENTENCE_CHARS)
    sentence = sentence_of(reply)
    return InfrastructureFault(sentence) if reply.status is Status.INFRASTRUCTURE_FAULT else RuntimeError(sentence)
