"""When a request may be sent: spaced by the rate limit, and held back after a failure."""

from __future__ import annotations

from collections.abc import Callable

from spadework.seeding import generator

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
LONGEST_HOLD_S = 600.0
"""A server that asks for a longer wait is taken to refuse."""


class Pace:
    """Gives out instants at which requests may start. ``now`` is a clock in seconds that never goes back."""

    def __init__(self, requests_per_minute: int, now: Callable[[], float]) -> None:
        """``requests_per_minute`` 0: no limit."""
        self._gap_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._now = now
        self._next = now()

    def turn(self) -> float:
        """Seconds to wait before the caller's request may start; the instant is then taken."""
        start = max(self._now(), self._next)
        self._next = start + self._gap_s
        return start - self._now()

    def hold(self, seconds: float) -> None:
        """Start nothing more for so long: the server asked everybody to wait."""
        self._next = max(self._next, self._now() + seconds)


def backoff_s(number: int, draw: int) -> float:
    """Seconds before further try ``number`` (from 0) of the request named by ``draw``.

    The wait doubles from `FIRST_WAIT_S` to `LONGEST_WAIT_S`; of it a share between a half and the whole is taken, so
    that requests that failed together do not come back together.
    """
    whole = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(number, 16))
    return float(whole * (0.5 + 0.5 * generator(draw, "endpoint-backoff", number).random()))
