"""Who writes in a round of designs: programs, hints and verdicts, each by the policy or by a frozen model."""

from __future__ import annotations

from dataclasses import dataclass

from spadework.config import DesignerConfig
from spadework.roles.judge import Judge
from spadework.roles.rendering import Rendering
from spadework.roles.writer import Writer


@dataclass(frozen=True)
class Author:
    """``rendering`` is the policy's, in whose tokens documents and memory are measured; ``run_seed`` is the run's.

    Without a ``judge`` the gate `judge` does not run.
    """

    rendering: Rendering
    config: DesignerConfig
    run_seed: int
    programs: Writer
    hints: Writer
    judge: Judge | None = None
