"""What is fuzzed: functions that take any bytes and raise nothing unless a promise is broken.

`test_fuzz.py` runs them on the kept inputs in `corpus/` and on what hypothesis makes of these; `guided.py` searches for
inputs that reach new code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal

from spadework.environment.adaptation import adapt
from spadework.environment.extraction import extract_program
from spadework.environment.fingerprint import fingerprint
from spadework.environment.program import ProgramRejected, normalise_source, parse_program, program_id
from spadework.sandbox import EnvironmentFault, Limits, Transition, wire
from spadework.sandbox.remote import messages
from spadework.sandbox.remote.served import Refused, limits_within
from spadework.sandbox.wire import FrameReader, ProtocolBreach

LIMITS = Limits(max_observation_chars=200, max_info_chars=200, max_source_chars=2000)
MAX_PROGRAM_CHARS = 20_000


def worker_answers(data: bytes) -> None:
    """What the host makes of bytes that a program wrote to its channel."""
    for fields in _values(data, wire.max_answer_bytes(LIMITS), "strict"):
        with suppress(ProtocolBreach):
            answer = wire.answer_of(fields)
            assert answer.elapsed_us >= 0
            assert len(answer.notes) <= wire.MAX_NOTES
            _read_each_way(answer.value)


def client_messages(data: bytes) -> None:
    """What a server makes of bytes that somebody sent to it."""
    for fields in _values(data, messages.max_request_bytes(LIMITS), "surrogatepass"):
        with suppress(ProtocolBreach, Refused):
            limits = limits_within(messages.hello_of(fields), LIMITS)
            assert limits.memory_mb <= LIMITS.memory_mb
            assert limits.required_layers() >= LIMITS.required_layers()
        with suppress(ProtocolBreach):
            request = messages.request_of(fields)
            assert (request.number <= 0) == (request.call is messages.Call.LEAVE)


def server_messages(data: bytes) -> None:
    """What a client makes of bytes that came from a server, or from something else that listens there."""
    for fields in _values(data, messages.max_reply_bytes(LIMITS), "strict"):
        with suppress(ProtocolBreach):
            messages.greeting_of(fields)
        with suppress(ProtocolBreach):
            sentence = messages.refusal_of(fields)
            assert sentence is None or len(sentence) <= messages.MAX_SENTENCE_CHARS
        with suppress(ProtocolBreach):
            reply = messages.reply_of(fields)
            with suppress(ProtocolBreach):
                messages.welcome_of(reply.value)
            with suppress(ProtocolBreach):
                assert isinstance(messages.error_of(reply), Exception)
            _read_each_way(reply.value)


def designer_reply(data: bytes) -> None:
    """What becomes of a reply that should hold a program."""
    with suppress(ProgramRejected):
        program_source(extract_program(text_of(data)).encode("utf-8", "surrogatepass"))


def program_source(data: bytes) -> None:
    """What becomes of a source: it is a program that keeps its identity, or it is rejected with a reason."""
    text = text_of(data)
    source, changes = adapt(text)
    assert bool(changes) == (source != text)
    try:
        program = parse_program(source, MAX_PROGRAM_CHARS)
    except ProgramRejected as rejected:
        assert rejected.reason
        return
    assert program.class_name.endswith("Env")
    assert parse_program(source + "\n# a remark\n", MAX_PROGRAM_CHARS + 20).id == program.id
    assert program_id(normalise_source(source)) == program.id
    assert adapt(source) == (source, ())
    assert fingerprint(source).digest == fingerprint(normalise_source(source)).digest


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (worker_answers, client_messages, server_messages, designer_reply, program_source)
}


def text_of(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _values(data: bytes, max_bytes: int, unicode_errors: Literal["strict", "surrogatepass"]) -> list[object]:
    """What `FrameReader` reads, which must not depend on where the stream was cut."""
    whole = _read([data], max_bytes, unicode_errors)
    middle = len(data) // 2
    assert repr(_read([data[:middle], data[middle:]], max_bytes, unicode_errors)) == repr(whole)
    assert len(whole) <= len(data) // wire.HEADER.size
    return whole


def _read(parts: list[bytes], max_bytes: int, unicode_errors: Literal["strict", "surrogatepass"]) -> list[object]:
    """The values before a breach, if there is one."""
    reader = FrameReader(max_bytes, "a message", unicode_errors)
    values: list[object] = []
    with suppress(ProtocolBreach):
        for part in parts:
            for value in reader.feed(part):
                values.append(value)
    return values


def _read_each_way(value: object) -> None:
    """Whatever kind of answer ``value`` is taken for, what comes out keeps its promises."""
    with suppress(ProtocolBreach):
        name, max_turns, _, _ = wire.loaded_of(value)
        assert name.isidentifier()
        assert max_turns is None or max_turns > 0
    with suppress(ProtocolBreach):
        assert len(wire.observation_of(value, LIMITS)) <= LIMITS.max_observation_chars
    with suppress(ProtocolBreach):
        assert all(type(action) is str for action in wire.solution_of(value))
    with suppress(ProtocolBreach):
        assert len(wire.inspection_of(value, LIMITS)) <= LIMITS.max_observation_chars + LIMITS.max_info_chars
    with suppress(ProtocolBreach):
        wire.layers_of(value)
    with suppress(ProtocolBreach):
        fault = wire.fault_of(value)
        assert type(fault) is EnvironmentFault
        assert len(fault.trace) <= wire.MAX_TRACE_CHARS
    with suppress(ProtocolBreach):
        transition = wire.transition_of(value, LIMITS)
        assert type(transition) is Transition
        assert type(transition.reward) is float and math.isfinite(transition.reward)
        assert len(transition.observation) <= LIMITS.max_observation_chars
        json.dumps(transition.info).encode()
