"""One attempt of the designer, from its prompt to its verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from spadework.curriculum.documents import Document
from spadework.curriculum.memory import Memory
from spadework.environment.extraction import extract_program
from spadework.environment.gates import GateName, GateReport, GateResult
from spadework.environment.program import Program, ProgramRejected
from spadework.roles.admission import Admission
from spadework.roles.hint import HintTry
from spadework.roles.judge import Verdict
from spadework.roles.writer import Completion, NoRoom, Written
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.store.records import AttemptRecord

_UNCHECKED = GateReport(None, ())


class AttemptStatus(StrEnum):
    """What became of an attempt, besides the name of the gate that rejected it."""

    ACCEPTED = "accepted"
    REPLY_CUT = "reply-cut"
    """The reply reached its token budget before its end; no gate saw it."""
    PROMPT_TOO_LONG = "prompt-too-long"
    """The prompt left no room for a program in the model's context; nothing was sampled."""
    HOST_FAULT = "host-fault"
    """The host failed while the program was checked, twice, or an endpoint gave no reply: nobody's fault."""
    NO_VERDICT = "no-verdict"
    """The judge did not say whether the program can be won; that is no acceptance, and not the designer's fault."""


UNTRAINED = (AttemptStatus.HOST_FAULT, AttemptStatus.NO_VERDICT)
"""Nothing is trained on attempts that ended so."""


@dataclass(frozen=True)
class Attempt:
    """An attempt that is over. ``document`` and ``memory`` are what the designer was shown.

    ``completion`` is None if there is nothing to train on, as for a frozen designer. Only the last of ``hint_tries``
    can be safe. ``executable`` is said of the last reply's program, ``executable_at_first`` of that before any repair.
    """

    record: AttemptRecord
    document: Document
    memory: Memory
    completion: Completion | None
    hint_tries: tuple[HintTry, ...] = ()
    executable: bool = False
    executable_at_first: bool = False


@dataclass(frozen=True)
class Design:
    """An accepted environment. ``report`` holds the verdicts of all gates, `novel` and `hint-safe` included."""

    slot: int
    skill: str
    document: Document
    program: Program
    report: GateReport
    hint: str
    attempt: Attempt


@dataclass
class Draft:
    """An attempt under way. ``status`` is empty as long as nothing has decided what becomes of it."""

    round: int
    slot: int
    number: int
    skill: str
    document: Document
    memory: Memory
    status: str = ""
    reason: str = ""
    reply: str = ""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    replies: int = 0
    completions: list[Completion] = field(default_factory=list)
    report: GateReport = _UNCHECKED
    first_report: GateReport = _UNCHECKED
    hint_tries: tuple[HintTry, ...] = ()

    @property
    def program(self) -> Program:
        """The program that passed its gates. Raises ValueError before there is one."""
        if self.report.program is None:
            raise ValueError(f"attempt {self.number} of slot {self.slot} has no program")
        return self.report.program

    @property
    def trace(self) -> str:
        """The frames of the program in which the last gate saw it fail, one a line; empty if it did not crash."""
        trace = self.report.results[-1].details.get("trace", "") if self.report.results else ""
        return trace if isinstance(trace, str) else ""

    def replied(self, written: Written) -> None:
        """A new reply: verdicts on an earlier one no longer count."""
        self.prompt_tokens = self.prompt_tokens or written.prompt_tokens
        self.reply_tokens += written.reply_tokens
        if written.completion is not None:
            self.completions.append(written.completion)
        self.replies += 1
        self.reply, self.status, self.reason, self.report = written.text, "", "", _UNCHECKED

    async def check(self, admission: Admission) -> bool:
        """Whether the reply holds a program that passes every gate that looks at it alone."""
        try:
            source = extract_program(self.reply)
        except ProgramRejected as rejected:
            result = GateResult(GateName.PARSE, False, rejected.reason, 0.0, {"kind": rejected.kind.value})
            self.report = GateReport(None, (result,))
        else:
            self.report = await admission.check(source)
        if self.replies == 1:
            self.first_report = self.report
        self._judge(self.report.rejected_by, self.report.reason)
        return self.report.passed

    def admit(self, admission: Admission) -> None:
        """Pass `novel`, unless something stands against the attempt already."""
        if not self.status:
            self._add(admission.admit(self.program))

    def hinted(self, tries: tuple[HintTry, ...]) -> None:
        """The last try decides; it is safe or there is no safe hint."""
        self.hint_tries = tries
        self._add(tries[-1].result)

    def judged(self, verdict: Verdict) -> None:
        self._add(verdict.result)
        if not verdict.reached:
            self.status = AttemptStatus.NO_VERDICT

    def accept(self) -> None:
        """Nothing stands against the attempt."""
        if not self.status:
            self.status = AttemptStatus.ACCEPTED

    def cut(self, max_tokens: int) -> None:
        self.status = AttemptStatus.REPLY_CUT
        self.reason = f"the reply was cut at its budget of {max_tokens} tokens"

    def no_room(self, full: NoRoom) -> None:
        """The first prompt is too long, or a repair would be: then the verdict on the earlier reply stands."""
        if not self.replies:
            self.prompt_tokens = full.prompt_tokens
            self.status = AttemptStatus.PROMPT_TOO_LONG
            self.reason = f"{full}; lower corpus.max_tokens or memory.max_tokens"

    def host_failed(self, fault: InfrastructureFault) -> None:
        self.status, self.reason = AttemptStatus.HOST_FAULT, str(fault)

    def attempt(self, iteration: int) -> Attempt:
        accepted = self.status == AttemptStatus.ACCEPTED
        record = AttemptRecord(
            iteration=iteration,
            round=self.round,
            slot=self.slot,
            attempt=self.number,
            skill=self.skill,
            document_id=self.document.id,
            prompt_tokens=self.prompt_tokens,
            reply_tokens=self.reply_tokens,
            reply=self.reply,
            status=str(self.status),
            reason=self.reason,
            environment_id=self.program.id if accepted else None,
            hint_tokens=sum(tried.tokens for tried in self.hint_tries),
            positives=tuple(example.environment_id for example in self.memory.positives),
            negatives=tuple(example.environment_id for example in self.memory.negatives),
            gates=self.report.results,
        )
        trained = [] if self.status in UNTRAINED else self.completions
        return Attempt(
            record=record,
            document=self.document,
            memory=self.memory,
            completion=trained[-1 if accepted else 0] if trained else None,
            hint_tries=self.hint_tries,
            executable=self.report.executable,
            executable_at_first=self.first_report.executable,
        )

    def design(self, attempt: Attempt) -> Design:
        return Design(
            slot=self.slot,
            skill=self.skill,
            document=self.document,
            program=self.program,
            report=self.report,
            hint=self.hint_tries[-1].text,
            attempt=attempt,
        )

    def _add(self, result: GateResult) -> None:
        self.report = replace(self.report, results=(*self.report.results, result))
        self._judge(None if result.passed else result.gate, result.reason)

    def _judge(self, gate: GateName | None, reason: str) -> None:
        self.status, self.reason = ("", "") if gate is None else (gate.value, reason)
