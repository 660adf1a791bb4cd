from __future__ import annotations

import json

import pytest

from spadework.learning.delay import DelayBuffer, PendingSample


def pending(key: str) -> PendingSample:
    return PendingSample(key, (1, 2, 3), (False, True, True), (0.0, -0.1, -1 / 3), 0.9)


def keys(released) -> list[tuple[str, int]]:
    return [(held.sample.key, held.added) for held in released]


def test_samples_come_out_once_after_the_delay_in_the_order_of_adding() -> None:
    buffer = DelayBuffer(4)
    buffer.add(0, [pending("b"), pending("a")])
    buffer.add(2, [pending("c")])
    assert buffer.due(3) == ()
    assert keys(buffer.due(4)) == [("b", 0), ("a", 0)]
    assert buffer.due(4) == ()
    assert keys(buffer.due(6)) == [("c", 2)]
    assert len(buffer) == 0


def test_a_sample_whose_iteration_was_passed_over_is_not_lost() -> None:
    buffer = DelayBuffer(4)
    buffer.add(1, [pending("a")])
    assert keys(buffer.due(9)) == [("a", 1)]


def test_every_sample_of_a_run_of_any_length_comes_out_exactly_once() -> None:
    for iterations in range(1, 14):
        buffer, out = DelayBuffer(4), []
        for iteration in range(iterations):
            out += keys(buffer.due(iteration))
            if iteration % 3 == 0:
                buffer.add(iteration, [pending(f"{iteration}-{i}") for i in range(2)])
        out += keys(buffer.flush())
        assert sorted(out) == sorted((f"{t}-{i}", t) for t in range(0, iterations, 3) for i in range(2))
        assert len(buffer) == 0


def test_the_state_survives_json_bit_for_bit() -> None:
    buffer = DelayBuffer(2)
    buffer.add(5, [pending("b"), pending("a")])
    copy = DelayBuffer.from_state(json.loads(json.dumps(buffer.state())))
    assert copy.state() == buffer.state()
    assert copy.due(6) == ()
    assert copy.due(7) == buffer.due(7)


def test_a_key_that_already_waits_is_an_error_and_adds_nothing() -> None:
    buffer = DelayBuffer(2)
    buffer.add(0, [pending("a")])
    with pytest.raises(ValueError, match="already waits"):
        buffer.add(1, [pending("b"), pending("a")])
    assert keys(buffer.flush()) == [("a", 0)]


def test_a_pending_sample_becomes_a_designers_training_sample() -> None:
    sample = pending("a").with_advantage(0.3, delayed=True)
    assert (sample.role, sample.delayed, sample.advantage, sample.temperature) == ("designer", True, 0.3, 0.9)
    assert sample.logprobs_T == (0.0, -0.1, -1 / 3)
