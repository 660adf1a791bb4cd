"""The gates as a round of designs meets them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from spadework.config import GatesConfig
from spadework.environment.fingerprint import NoveltyIndex, fingerprint
from spadework.environment.gates import (
    GateReport,
    GateResult,
    check_hint,
    check_no_copy,
    check_novel,
    check_program,
)
from spadework.environment.program import Program
from spadework.sandbox import ProgramHost
from spadework.sandbox.outcomes import InfrastructureFault

T = TypeVar("T")


class Admission:
    """Gates, with everything that was admitted before in ``novelty``.

    Each check is made again once if the host fails it; then InfrastructureFault is raised.
    """

    def __init__(
        self,
        sandbox: ProgramHost,
        config: GatesConfig,
        novelty: NoveltyIndex,
        run_seed: int,
        max_turns: int,
        uses_tools: bool = False,
        worked_examples: Sequence[str] = (),
    ) -> None:
        """``max_turns`` is what a play may have (`agent.max_turns`); ``uses_tools`` says which programs are wanted.

        ``worked_examples`` are programs that the designer's prompt shows: none like them is novel.
        """
        self._worked_examples = worked_examples
        self._uses_tools = uses_tools
        self._sandbox = sandbox
        self._config = config
        self._max_turns = max_turns
        self._novelty = novelty
        self._run_seed = run_seed

    async def check(self, source: str) -> GateReport:
        """Every gate that looks at the program alone, and `novel` if it is a copy of a worked example."""
        report = await _twice(
            lambda: check_program(
                source,
                self._sandbox,
                self._config,
                self._run_seed,
                max_turns=self._max_turns,
                uses_tools=self._uses_tools,
            )
        )
        if report.program is None or not report.passed:
            return report
        copied = check_no_copy(report.program, self._worked_examples)
        return report if copied.passed else replace(report, results=(*report.results, copied))

    def admit(self, program: Program) -> GateResult:
        """`novel`; a program that passes is added to what the next one is compared with.

        The order of the calls decides which of two twins is novel, so callers keep to slot order.
        """
        result = check_novel(program, self._novelty, self._config.similarity_threshold)
        if result.passed:
            mark = fingerprint(program.source)
            self._novelty.add(program.id, mark.digest, mark.shingles)
        return result

    async def check_hint(self, hint: str, program: Program) -> GateResult:
        return await _twice(
            lambda: check_hint(hint, program, self._sandbox, self._config, self._run_seed, max_turns=self._max_turns)
        )


async def _twice(check: Callable[[], Awaitable[T]]) -> T:
    try:
        return await check()
    except InfrastructureFault:
        return await check()
