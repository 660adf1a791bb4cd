"""A look at the weights themselves, for engines that hold them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from spadework.engines.base import Engine

CHECKSUM_DIGITS = 12
"""Hexadecimal digits that are logged: 48 bits, which every reader of JSON holds exactly."""


class Unchanged(Protocol):
    @property
    def unchanged(self) -> int: ...
    @property
    def total(self) -> int: ...


@runtime_checkable
class HoldsWeights(Protocol):
    """An engine whose weights are in this process."""

    async def weight_checksum(self) -> str:
        """Hexadecimal digits that change with any weight."""
        ...

    async def count_unchanged_weights(self) -> Unchanged:
        """How many weights are as they were at the last call, or when the weights were opened or loaded."""
        ...


async def weight_readings(engine: Engine) -> dict[str, float]:
    """Metrics of the weights after an update; none for an engine that does not hold them."""
    found: dict[str, float] = {"policy_version": engine.policy_version}
    if isinstance(engine, HoldsWeights):
        counted = await engine.count_unchanged_weights()
        found["learning/unchanged_weights"] = counted.unchanged / counted.total
        found["learning/weights_checksum"] = int((await engine.weight_checksum())[:CHECKSUM_DIGITS], 16)
    return found
