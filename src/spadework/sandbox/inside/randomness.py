"""A global random state for each play.

Programs that call `random.choice` or `numpy.random.rand` share one hidden generator per process. Plays that
share a process must not see each other's draws, so each has its own generator, and the functions of the two
modules are pointed at it while the play runs.
"""

from __future__ import annotations

import random
import sys
from types import ModuleType

State = list[tuple[dict[str, object], dict[str, object]]]
"""Pairs of a module's namespace and the entries that the play puts there."""


def _bound_names(module: ModuleType, generator: object) -> list[str]:
    return [name for name, value in vars(module).items() if getattr(value, "__self__", None) is generator]


class RandomStates:
    """Makes and switches random states. ``numpy`` is looked at only if it is already imported."""

    def __init__(self) -> None:
        self._names = _bound_names(random, random._inst)
        self._numpy: tuple[ModuleType, ModuleType] | None = None
        if "numpy" in sys.modules:
            package, core = sys.modules["numpy.random"], sys.modules["numpy.random.mtrand"]
            self._numpy = package, core
            self._package_names = _bound_names(package, core._rand)
            self._core_names = _bound_names(core, core._rand)

    def new(self, seed: int | None) -> State:
        """The state of a play that starts from ``seed``; none counts as 0, so that a play can be repeated."""
        generator = random.Random(0 if seed is None else seed)
        entries: dict[str, object] = {name: getattr(generator, name) for name in self._names}
        entries["_inst"] = generator
        state: State = [(vars(random), entries)]
        if self._numpy is not None:
            package, core = self._numpy
            legacy = core.RandomState((seed or 0) % 2**32)
            state.append((vars(package), {name: getattr(legacy, name) for name in self._package_names}))
            core_entries = {name: getattr(legacy, name) for name in self._core_names}
            state.append((vars(core), {**core_entries, "_rand": legacy}))
        return state


def switch_to(state: State) -> None:
    for namespace, entries in state:
        namespace.update(entries)
