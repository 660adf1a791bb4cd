"""The environment contract, checked where the program's objects still exist.

Only exact built-in types leave a worker. What can be read in one way only is converted and noted; the rest is a
breach. The host checks the decoded answer once more, since a program can reach this code.
"""

from __future__ import annotations

import math
from typing import Any

MAX_DEPTH = 8
MAX_SOLUTION_ACTIONS = 1000
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1


class Breach(Exception):
    """The program broke the contract. ``kind`` is a value of `FaultKind`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def type_name(value: object) -> str:
    return str(type(value).__name__)[:60]


def observation(value: object, call: str, max_chars: int) -> str:
    if type(value) is not str:
        if not isinstance(value, str):
            raise Breach("contract", f"{call} returned an observation of type {type_name(value)}; it must be a str")
        value = str.__str__(value)
    if len(value) > max_chars:
        raise Breach("output", f"{call} returned an observation of {len(value)} characters; at most {max_chars} fit")
    return _valid_text(value, f"the observation of {call}")


def reset_result(value: object, max_chars: int, max_info_chars: int, notes: set[str]) -> str:
    """The first observation. A bare string is accepted and noted."""
    if isinstance(value, str):
        notes.add("reset returns a bare observation")
        return observation(value, "reset", max_chars)
    if type(value) is not tuple or len(value) != 2:
        raise Breach("contract", f"reset returned {_shape(value)}; it must return (observation, info)")
    text = observation(value[0], "reset", max_chars)
    info(value[1], "reset", max_info_chars, notes)
    return text


def step_result(value: object, max_chars: int, max_info_chars: int, notes: set[str]) -> list[object]:
    """[observation, reward, terminated, truncated, info] in plain types."""
    if type(value) is not tuple or len(value) != 5:
        raise Breach(
            "contract",
            f"step returned {_shape(value)}; it must return (observation, reward, terminated, truncated, info)",
        )
    return [
        observation(value[0], "step", max_chars),
        reward(value[1]),
        _truth(value[2], "terminated"),
        _truth(value[3], "truncated"),
        info(value[4], "step", max_info_chars, notes),
    ]


def reward(value: object) -> float:
    kind = type(value)
    if kind is not float:
        plain = _numpy_plain(value)
        if isinstance(plain, float):
            value = float.__float__(plain)
        elif isinstance(plain, int):
            try:
                value = int.__float__(plain)
            except OverflowError:
                raise Breach("contract", "step returned a reward too large for a float") from None
        else:
            raise Breach("contract", f"step returned a reward of type {type_name(value)}; it must be a finite float")
    number: float = value  # type: ignore[assignment]
    if not math.isfinite(number):
        raise Breach("contract", f"step returned the reward {number}; it must be finite")
    return number


def solution_actions(value: object, max_chars: int) -> list[str]:
    if isinstance(value, str):
        value = [value]
    if type(value) not in (list, tuple):
        raise Breach("contract", f"solution returned {_shape(value)}; it must return an action or a list of actions")
    actions: list[str] = []
    total = 0
    for item in value:  # type: ignore[attr-defined]
        if not isinstance(item, str):
            raise Breach("contract", f"solution returned an action of type {type_name(item)}; actions are str")
        actions.append(_valid_text(str.__str__(item), "an action of solution"))
        total += len(actions[-1])
        if total > max_chars or len(actions) > MAX_SOLUTION_ACTIONS:
            raise Breach("output", f"solution is longer than {max_chars} characters or {MAX_SOLUTION_ACTIONS} actions")
    return actions


def info(value: object, call: str, max_chars: int, notes: set[str]) -> dict[str, object]:
    if type(value) is not dict:
        if not isinstance(value, dict):
            raise Breach("contract", f"{call} returned an info of type {type_name(value)}; it must be a dict")
        value = dict(value)
    if not value:
        return {}
    return _Plain(call, max_chars, notes).convert(value, 0)  # type: ignore[return-value]


class _Plain:
    """Turns one info into plain data of bounded size and depth."""

    def __init__(self, call: str, max_chars: int, notes: set[str]) -> None:
        self.call = call
        self.max_chars = self.left = max_chars
        self.notes = notes

    def convert(self, value: Any, depth: int) -> object:
        kind = type(value)
        if kind is str:
            self._spend(len(value))
            return _valid_text(value, f"the info of {self.call}")
        self._spend(8)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return value if SMALLEST_INTEGER <= value <= LARGEST_INTEGER else self._described(value)
        if depth >= MAX_DEPTH:
            raise Breach("output", f"{self.call} returned an info nested deeper than {MAX_DEPTH}")
        if kind is dict:
            return {self._key(key): self.convert(item, depth + 1) for key, item in value.items()}
        if kind in (list, tuple, set, frozenset):
            return [self.convert(item, depth + 1) for item in value]
        if isinstance(value, str):
            return self.convert(str.__str__(value), depth)
        if kind.__module__ == "numpy":
            return self.convert(value.tolist(), depth + 1)
        return self._described(value)

    def _key(self, key: object) -> str:
        if isinstance(key, str):
            text = str.__str__(key)
        elif key is None or type(key) in (int, float, bool, tuple):
            self._spend(8)
            text = repr(key)
        else:
            text = self._described(key)
        self._spend(len(text))
        return _valid_text(text, f"the info of {self.call}")

    def _described(self, value: object) -> str:
        text = f"<{type_name(value)}>"
        self.notes.add(f"info holds {text}, recorded by its type alone")
        return text

    def _spend(self, chars: int) -> None:
        self.left -= chars
        if self.left < 0:
            raise Breach("output", f"{self.call} returned an info of more than {self.max_chars} characters")


def _truth(value: object, name: str) -> bool:
    if type(value) is bool:
        return value
    plain = _numpy_plain(value)
    if type(plain) is not bool:
        raise Breach("contract", f"step returned {name} of type {type_name(value)}; it must be a bool")
    return plain


def _numpy_plain(value: Any) -> object:
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


def _valid_text(text: str, where: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Breach("contract", f"{where} holds lone surrogates, which are no valid text") from None
    return text


def _shape(value: object) -> str:
    if type(value) is tuple:
        return f"a tuple of {len(value)}"
    return f"a value of type {type_name(value)}"
