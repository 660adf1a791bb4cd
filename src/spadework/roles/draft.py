"""One attempt of the designer, from its prompt to its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from spadework.curriculum.documents import Document
from spadework.curriculum.memory import Memory
from spadework.engines.base import Sample
from spadework.environment.extraction import extract_program
from spadework.environment.gates import GateName, GateReport, GateResult
from spadework.environment.program import Program, ProgramRejected
from spadework.roles.admission import Admission
from spadework.roles.author import Completion
from spadework.roles.hint import HintTry
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
    """The host failed while the program was checked, twice: nobody's fault, and nothing is trained on it."""


@dataclass(frozen=True)
class Attempt:
    """An attempt that is over. ``document`` and ``memory`` are what the designer was shown.

    ``completion`` is None if there is nothing to train on. Only the last of ``hint_tries`` can be safe.
    """

    record: AttemptRecord
    document: Document
    memory: Memory
    completion: Completion | None
    hint_tries: tuple[HintTry, ...] = ()


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
    completions: list[Completion] = field(default_factory=list)
    report: GateReport = _UNCHECKED
    hint_tries: tuple[HintTry, ...] = ()

    @property
    def program(self) -> Program:
        """The program that passed its gates. Raises ValueError before there is one."""
        if self.report.program is None:
            raise ValueError(f"attempt {self.number} of slot {self.slot} has no program")
        return self.report.program

    def replied(self, prompt_ids: Sequence[int], sample: Sample, reply: str) -> None:
        """A new reply: verdicts on an earlier one no longer count."""
        self.prompt_tokens = self.prompt_tokens or len(prompt_ids)
        self.completions.append(Completion.of(prompt_ids, sample))
        self.reply, self.status, self.reason, self.report = reply, "", "", _UNCHECKED

    async def check(self, admission: Admission) -> bool:
        """Whether the reply holds a program that passes every gate that looks at it alone."""
        try:
            source = extract_program(self.reply)
        except ProgramRejected as rejected:
            result = GateResult(GateName.PARSE, False, rejected.reason, 0.0, {"kind": rejected.kind.value})
            self.report = GateReport(None, (result,))
        else:
            self.report = await admission.check(source)
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
        if not self.status:
            self.status = AttemptStatus.ACCEPTED

    def cut(self, max_tokens: int) -> None:
        self.status = AttemptStatus.REPLY_CUT
        self.reason = f"the reply was cut at its budget of {max_tokens} tokens"

    def no_room(self, prompt_tokens: int, context_tokens: int) -> None:
        """The first prompt is too long, or a repair would be: then the verdict on the earlier reply stands."""
        if not self.completions:
            self.prompt_tokens = prompt_tokens
            self.status = AttemptStatus.PROMPT_TOO_LONG
            self.reason = (
                f"the prompt of {prompt_tokens} tokens leaves no room for a program in a context of {context_tokens}; "
                "lower corpus.max_tokens or memory.max_tokens"
            )

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
            reply_tokens=sum(sum(completion.sampled_T) for completion in self.completions),
            reply=self.reply,
            status=str(self.status),
            reason=self.reason,
            environment_id=self.program.id if accepted else None,
            hint_tokens=sum(tried.tokens for tried in self.hint_tries),
            positives=tuple(example.environment_id for example in self.memory.positives),
            negatives=tuple(example.environment_id for example in self.memory.negatives),
            gates=self.report.results,
        )
        trained = self.completions if self.status != AttemptStatus.HOST_FAULT else []
        return Attempt(
            record=record,
            document=self.document,
            memory=self.memory,
            completion=trained[-1 if accepted else 0] if trained else None,
            hint_tries=self.hint_tries,
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
