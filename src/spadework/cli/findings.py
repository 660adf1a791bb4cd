"""What a look at a run has found so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from spadework.cli.errors import sentence_of
from spadework.cli.footprint import FLOAT_BYTES, Footprint, ModelShape, footprint_of
from spadework.cli.plan import Plan
from spadework.engines.settings import CPU_TRAIN_TOKENS

if TYPE_CHECKING:
    from spadework.config import Config

MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30


class Verdict(StrEnum):
    OK = "ok"
    NOTE = "note"
    """The run can go on, but something may not be as wished."""
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """``what`` was looked at, and one sentence about it."""

    what: str
    verdict: Verdict
    text: str


@dataclass
class Readiness:
    """``shape`` is None if nothing is known of the model; ``shape_source`` says where it is from.

    ``weight_bytes`` is what a weight takes where the model will lie, ``train_tokens`` what a micro-batch of the update
    may have there, ``memory`` the bytes that are there, ``where`` the place in words.
    """

    config: Config
    plan: Plan
    findings: list[Finding] = field(default_factory=list)
    shape: ModelShape | None = None
    shape_source: str = ""
    weight_bytes: int = FLOAT_BYTES
    train_tokens: int = CPU_TRAIN_TOKENS
    memory: int = 0
    where: str = "this machine"

    @property
    def problems(self) -> list[str]:
        return [finding.text for finding in self.findings if finding.verdict is Verdict.PROBLEM]

    @property
    def footprint(self) -> Footprint | None:
        """None if the model, or which of its layers would have adapters, is not known."""
        config, shape = self.config, self.shape
        if shape is None or (config.engine.kind == "local" and config.model.lora_rank and not shape.linears):
            return None
        return footprint_of(config, self.plan, shape, self.weight_bytes, self.train_tokens)


def told(what: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of ``check``; an error whose message is for people is the last of them."""
    try:
        yield from check()
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        yield Finding(what, Verdict.PROBLEM, sentence)


def size(count: int) -> str:
    """Bytes for people."""
    if count < GIBIBYTE:
        return f"{count / MEBIBYTE:.0f} MiB"
    return f"{count / GIBIBYTE:,.{1 if count < 100 * GIBIBYTE else 0}f} GiB"


def importable(*names: str) -> bool:
    """Whether packages are there; that they are not is told under `packages`."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in names)
