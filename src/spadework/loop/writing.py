"""A round of designs as the pool and the delay buffer keep it."""

from __future__ import annotations

from collections.abc import Iterable

from spadework.curriculum.summary import summarise
from spadework.environment.fingerprint import bands, fingerprint, minhash
from spadework.learning.delay import PendingSample
from spadework.roles.designer import RoundDesigns
from spadework.roles.draft import Attempt, Design
from spadework.store.records import AttemptRecord, DocumentRecord, EnvironmentRecord


def document_records(designs: RoundDesigns, corpus: str) -> tuple[DocumentRecord, ...]:
    """Every document that was shown, as it was shown, once."""
    shown = {attempt.document.id: attempt.document for attempt in designs.attempts}
    return tuple(DocumentRecord(one.id, one.title, corpus, one.text) for one in shown.values())


def environment_records(designs: Iterable[Design]) -> tuple[EnvironmentRecord, ...]:
    return tuple(_environment(design) for design in designs)


def pending_samples(attempts: Iterable[Attempt], temperature: float) -> tuple[PendingSample, ...]:
    """What the designer may be trained on once its rewards are known."""
    return tuple(
        PendingSample(
            key=attempt_key(attempt.record),
            token_ids_T=attempt.completion.token_ids_T,
            sampled_T=attempt.completion.sampled_T,
            logprobs_T=attempt.completion.logprobs_T,
            temperature=temperature,
        )
        for attempt in attempts
        if attempt.completion is not None
    )


def attempt_key(record: AttemptRecord) -> str:
    """Names an attempt within the run."""
    return f"designer/{record.round}/{record.slot}/{record.attempt}"


def _environment(design: Design) -> EnvironmentRecord:
    mark = fingerprint(design.program.source)
    record = design.attempt.record
    return EnvironmentRecord(
        id=design.program.id,
        round=record.round,
        iteration=record.iteration,
        slot=design.slot,
        skill=design.skill,
        document_id=design.document.id,
        class_name=design.program.class_name,
        source=design.program.source,
        hint=design.hint,
        summary=summarise(design.program.source),
        fingerprint=mark.digest,
        shingles=tuple(int(value) for value in mark.shingles),
        bands=bands(minhash(mark.shingles)),
        measures={**design.report.measures, "adaptations": list(design.report.adaptations)},
    )
