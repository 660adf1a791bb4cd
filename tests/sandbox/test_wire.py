"""The host takes no answer on trust."""

from __future__ import annotations

import contextlib
import math
import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spadework.sandbox import FaultKind, Layer, LayerName, Limits, Transition
from spadework.sandbox.wire import (
    Answer,
    FrameReader,
    ProtocolBreach,
    answer_of,
    fault_of,
    layers_of,
    loaded_of,
    max_answer_bytes,
    transition_of,
)

LIMITS = Limits(max_observation_chars=1000)


class AnswerReader(FrameReader):
    def __init__(self) -> None:
        super().__init__(max_answer_bytes(LIMITS), "an answer")

    def answers(self, data: bytes) -> list[Answer]:
        return [answer_of(fields) for fields in self.feed(data)]


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def frame(value: object) -> bytes:
    body = msgpack.packb(value)
    return struct.pack("<I", len(body)) + body


@given(st.binary(max_size=400))
def test_any_bytes_are_answers_or_a_breach(data: bytes) -> None:
    reader = AnswerReader()
    with contextlib.suppress(ProtocolBreach):
        reader.answers(data)
    assert len(reader._buffer) <= len(data)


@given(plain)
def test_any_decoded_value_is_a_transition_or_a_breach(value: object) -> None:
    try:
        transition = transition_of(value, LIMITS)
    except ProtocolBreach:
        return
    assert type(transition.reward) is float
    assert math.isfinite(transition.reward)


@given(st.lists(st.integers(1, 9), max_size=30))
def test_answers_are_the_same_however_their_bytes_arrive(cuts: list[int]) -> None:
    stream = b"".join(frame([number, 5, True, ["x", 0.5, False, False, {}], []]) for number in range(1, 6))
    reader = AnswerReader()
    answers = []
    for cut in cuts:
        answers += reader.answers(stream[:cut])
        stream = stream[cut:]
    answers += reader.answers(stream)
    assert [answer.sequence for answer in answers] == [1, 2, 3, 4, 5]
    assert transition_of(answers[0].value, LIMITS) == Transition("x", 0.5, False, False, {})


@pytest.mark.parametrize(
    "value",
    [
        [1, 5, True, None],
        [True, 5, True, None, []],
        [1, -5, True, None, []],
        [1, 5, 1, None, []],
        [1, 5, True, None, [1]],
        [1, 5, True, None, ["note"] * 17],
        [1, 5, True, None, ["n" * 201]],
        {"a": 1},
        [1, 5, True, b"bytes", []],
    ],
)
def test_a_frame_that_is_no_answer_is_a_breach(value: object) -> None:
    with pytest.raises(ProtocolBreach):
        AnswerReader().answers(frame(value))


def test_a_frame_too_large_is_a_breach_before_it_has_arrived() -> None:
    reader = AnswerReader()
    assert reader.answers(struct.pack("<I", reader.max_bytes)) == []
    with pytest.raises(ProtocolBreach, match="an answer of"):
        AnswerReader().answers(struct.pack("<I", reader.max_bytes + 1))


@pytest.mark.parametrize(
    "value",
    [
        ["x", 1, False, False, {}],
        ["x", math.inf, False, False, {}],
        ["x", 0.5, 0, False, {}],
        ["x", 0.5, False, False, None],
        ["x" * 1001, 0.5, False, False, {}],
        [None, 0.5, False, False, {}],
    ],
)
def test_a_forged_transition_is_a_breach(value: object) -> None:
    with pytest.raises(ProtocolBreach):
        transition_of(value, LIMITS)


def test_a_forged_info_may_not_be_deep() -> None:
    info: dict[str, object] = {}
    for _ in range(20):
        info = {"in": info}
    with pytest.raises(ProtocolBreach):
        transition_of(["x", 0.5, False, False, info], LIMITS)


def test_faults_have_known_kinds_and_bounded_words() -> None:
    fault = fault_of(["timeout", "step took longer than 1 s", ""])
    assert (fault.kind, str(fault)) == (FaultKind.TIMEOUT, "timeout: step took longer than 1 s")
    for value in (["unknown", "x", ""], ["timeout", "x" * 401, ""], ["timeout", "x"], None):
        with pytest.raises(ProtocolBreach):
            fault_of(value)
    for value in (
        ["not a name", None, True, True],
        ["AEnv", 0, True, True],
        ["AEnv", None, 1, True],
        ["AEnv", None, True, 1],
        ["AEnv", None, True],
    ):
        with pytest.raises(ProtocolBreach):
            loaded_of(value)


def test_layers_are_all_of_them_in_order_or_a_breach() -> None:
    told: list[object] = [[name.value, "" if name is LayerName.PROCESS else "none"] for name in LayerName]
    first, *others = layers_of(told)
    assert first == Layer(LayerName.PROCESS) and first.in_force
    assert [layer.absent_because for layer in others] == ["none"] * (len(LayerName) - 1)
    for wrong in (None, [], told[:-1], told[::-1], [*told[:-1], ["moat", ""]], [*told[:-1], ["seccomp", 1]]):
        with pytest.raises(ProtocolBreach):
            layers_of(wrong)
