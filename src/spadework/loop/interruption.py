"""Ctrl-C, SIGTERM and a spent budget: the iteration under way is given up, and the last checkpoint stays.

A signal that comes while the iteration is being stored lets it be stored.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from spadework.engines.chat import BudgetSpent

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The run ended early; the message says how to go on. ``saved`` is the last iteration that is kept."""

    def __init__(self, why: str, saved: int | None, first: str = "") -> None:
        """``first`` is what must be done before the same command is given."""
        kept = "nothing was saved yet" if saved is None else f"everything up to iteration {saved} is saved"
        again = "starts it again" if saved is None else "continues it"
        super().__init__(f"the run was interrupted ({why}) and {kept}; {first}the same command {again}")
        self.saved = saved


class Interruption:
    """Turns the first signal into the end of the run; the second one meets the handlers that were there before.

    Use it with `with` inside the task that runs the loop, and keep ``saved`` at the last iteration with a checkpoint.
    Raises Interrupted in place of the cancellation that a signal caused, and of BudgetSpent. Handlers are installed in
    the main thread only: elsewhere Python allows none, and whoever runs the loop in a thread stops it by cancelling
    its task.
    """

    def __init__(self, saved: int | None) -> None:
        self.saved = saved
        self._received: signal.Signals | None = None
        self._finishing = False
        self._task: asyncio.Task[Any] | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.getsignal(number)
                asyncio.get_running_loop().add_signal_handler(number, self._receive, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        if isinstance(error, BudgetSpent):
            raise Interrupted(str(error), self.saved, f"raise {error.setting}, and ") from None
        if self._received is not None and isinstance(error, asyncio.CancelledError):
            if self._task is not None:
                self._task.uncancel()
            raise Interrupted(self._received.name, self.saved) from None

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """What is done in this block is finished even if a signal comes; the block then ends as if cancelled."""
        self._finishing = True
        try:
            yield
        finally:
            self._finishing = False
        if self._received is not None:
            raise asyncio.CancelledError

    def _receive(self, number: signal.Signals) -> None:
        self._received = number
        self._restore()
        if not self._finishing and self._task is not None:
            self._task.cancel()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            # None: a handler that was not installed by Python, which cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}
