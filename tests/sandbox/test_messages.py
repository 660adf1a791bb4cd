"""Neither side of a served sandbox takes a message on trust."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spadework.sandbox import EnvironmentFault, FaultKind, InfrastructureFault, Limits
from spadework.sandbox.remote import messages
from spadework.sandbox.remote.messages import Call, Request, Status
from spadework.sandbox.remote.served import Refused, limits_within
from spadework.sandbox.remote.token import proof, proves
from spadework.sandbox.wire import FrameReader, ProtocolBreach, max_answer_bytes

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([*Call, *Status, messages.GREETING]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_any_value_is_a_message_or_a_breach(value: object) -> None:
    for read in (
        messages.greeting_of,
        messages.hello_of,
        messages.welcome_of,
        messages.request_of,
        messages.refusal_of,
    ):
        with contextlib.suppress(ProtocolBreach):
            read(value)
    with contextlib.suppress(ProtocolBreach):
        reply = messages.reply_of(value)
        messages.sentence_of(reply)


@given(st.text(max_size=50), st.integers(-(2**63), 2**64 - 1))
def test_requests_arrive_as_they_were_sent(text: str, seed: int) -> None:
    reader = FrameReader(1000, "a request", "surrogatepass")
    sent = messages.encode(1, Call.STEP, 2, 3, text + "\ud800") + messages.encode(4, Call.RESET, 5, 6, seed)
    one, other = map(messages.request_of, reader.feed(sent))
    assert one == Request(1, Call.STEP, 2, 3, text + "\ud800")
    assert other == Request(4, Call.RESET, 5, 6, seed)


def test_whatever_a_worker_may_answer_fits_into_a_reply() -> None:
    limits = Limits(max_observation_chars=10, max_info_chars=1_000_000)
    number_bytes_arriving, number_bytes_sent = 5, 9  # a program may send its numbers in single precision
    numbers = max_answer_bytes(limits) // number_bytes_arriving
    assert messages.max_reply_bytes(limits) > numbers * number_bytes_sent + 1000


def test_replies_stand_for_exceptions() -> None:
    def error(status: Status, value: object) -> Exception:
        return messages.error_of(messages.reply_of([1, status.value, value, []]))

    fault = error(Status.ENVIRONMENT_FAULT, ["timeout", "too slow", "line 3"])
    assert isinstance(fault, EnvironmentFault)
    assert (fault.kind, fault.reason, fault.trace) == (FaultKind.TIMEOUT, "too slow", "line 3")
    assert repr(error(Status.INFRASTRUCTURE_FAULT, "no room")) == repr(InfrastructureFault("no room"))
    assert repr(error(Status.MISUSE, "the play is closed")) == repr(RuntimeError("the play is closed"))
    for value in (5, None, "x" * 2001):
        with pytest.raises(ProtocolBreach):
            error(Status.MISUSE, value)


def hello(limits: dict[str, object]) -> messages.Hello:
    return messages.Hello(messages.VERSION, "nonce", "proof", limits, 0)


def test_a_client_gets_the_limits_that_it_asks_for_within_those_of_the_server() -> None:
    asked = Limits(step_timeout_s=0.5, memory_mb=128, isolation="best-effort")
    given_out = limits_within(hello(asked.model_dump()), Limits(isolation="best-effort"))
    assert given_out == asked


@pytest.mark.parametrize(
    ("asked", "allowed", "required"),
    [
        ("best-effort", "strict", {"seccomp"}),
        ("strict", "best-effort", {"seccomp"}),
        (("landlock",), "strict", {"landlock", "seccomp"}),
        (("landlock",), ("empty-root",), {"landlock", "empty-root"}),
    ],
)
def test_the_layers_that_either_side_requires_are_required(asked: object, allowed: object, required: set[str]) -> None:
    client, server = (Limits.model_validate({"isolation": value}) for value in (asked, allowed))
    assert limits_within(hello(client.model_dump(mode="json")), server).required_layers() == required


@pytest.mark.parametrize("name", [name for name in Limits.model_fields if name != "isolation"])
def test_every_limit_of_the_server_holds(name: str) -> None:
    more = Limits().model_dump() | {name: getattr(Limits(), name) + 1}
    with pytest.raises(Refused, match=rf"sandbox\.{name} is .* and this server allows"):
        limits_within(hello(more), Limits())


@pytest.mark.parametrize(
    "wrong", [{"memory_mb": "512"}, {"memory_mb": 1}, {"new": 1}, {"step_timeout_s": float("inf")}]
)
def test_limits_that_are_none_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Refused, match=f"the limit '{next(iter(wrong))}' is not one that this server knows"):
        limits_within(hello(Limits().model_dump() | wrong), Limits())


def test_a_proof_holds_for_one_token_one_side_and_one_pair_of_nonces() -> None:
    said = proof("secret", "client", "a", "b")
    assert proves("secret", "client", "a", "b", said)
    for token, role, one, other in (
        ("secrets", "client", "a", "b"),
        ("secret", "server", "a", "b"),
        ("secret", "client", "b", "a"),
        ("secret", "client", "a", "c"),
    ):
        assert not proves(token, role, one, other, said)  # type: ignore[arg-type]
    assert "secret" not in said
