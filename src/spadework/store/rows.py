"""How records become columns and come back: text and token arrays compressed, everything else as it is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.sandbox.outcomes import FaultKind, Outcome
from spadework.store.records import AttemptRecord, EnvironmentRecord, GateRow

Row = Sequence[object]
COMPRESSION_LEVEL = 1
ENVIRONMENT_COLUMNS = (
    "id, iteration, round, slot, skill, document_id, class_name, source, hint, summary,"
    " fingerprint, shingles, bands, measures"
)
ATTEMPT_COLUMNS = (
    "iteration, round, slot, attempt, skill, document_id, prompt_tokens, reply_tokens, reply,"
    " status, reason, environment_id, hint_tokens, positives, negatives"
)


def pack_text(text: str) -> bytes:
    # A model may sample lone surrogates; they must come back as they were.
    return zlib.compress(text.encode("utf-8", "surrogatepass"), COMPRESSION_LEVEL)


def unpack_text(blob: bytes) -> str:
    return zlib.decompress(blob).decode("utf-8", "surrogatepass")


def printable(text: str) -> str:
    """``text`` with lone surrogates spelt out, which a text column cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def pack_unsigned(values: Sequence[int]) -> bytes:
    """Numbers of [0, 2**64)."""
    return np.asarray(values, dtype="<u8").tobytes()


def unpack_unsigned(blob: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(blob, dtype="<u8").tolist())


def pack_json(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), sort_keys=True, allow_nan=False)


def environment_row(record: EnvironmentRecord) -> Row:
    return (
        record.id,
        record.iteration,
        record.round,
        record.slot,
        record.skill,
        record.document_id,
        record.class_name,
        pack_text(record.source),
        printable(record.hint),
        printable(record.summary),
        record.fingerprint,
        pack_unsigned(record.shingles),
        np.asarray(record.bands, dtype="<i8").tobytes(),
        pack_json(record.measures),
    )


def environment_record(row: tuple[Any, ...]) -> EnvironmentRecord:
    (
        id_,
        iteration,
        round_,
        slot,
        skill,
        document,
        name,
        source,
        hint,
        summary,
        fingerprint,
        shingles,
        bands,
        measures,
    ) = row
    return EnvironmentRecord(
        id=id_,
        iteration=iteration,
        round=round_,
        slot=slot,
        skill=skill,
        document_id=document,
        class_name=name,
        source=unpack_text(source),
        hint=hint,
        summary=summary,
        fingerprint=fingerprint,
        shingles=unpack_unsigned(shingles),
        bands=tuple(np.frombuffer(bands, dtype="<i8").tolist()),
        measures=json.loads(measures),
    )


def attempt_row(record: AttemptRecord) -> Row:
    return (
        record.iteration,
        record.round,
        record.slot,
        record.attempt,
        record.skill,
        record.document_id,
        record.prompt_tokens,
        record.reply_tokens,
        pack_text(record.reply),
        str(record.status),
        printable(record.reason),
        record.environment_id,
        record.hint_tokens,
        json.dumps(record.positives),
        json.dumps(record.negatives),
        None if record.rejected_by is None else str(record.rejected_by),
    )


def attempt_record(row: tuple[Any, ...], gates: tuple[GateRow, ...]) -> AttemptRecord:
    iteration, round_, slot, attempt, skill, document, prompt, reply_tokens, reply, *rest = row
    status, reason, environment, hint_tokens, positives, negatives = rest
    return AttemptRecord(
        iteration=iteration,
        round=round_,
        slot=slot,
        attempt=attempt,
        skill=skill,
        document_id=document,
        prompt_tokens=prompt,
        reply_tokens=reply_tokens,
        reply=unpack_text(reply),
        status=status,
        reason=reason,
        environment_id=environment,
        hint_tokens=hint_tokens,
        positives=tuple(json.loads(positives)),
        negatives=tuple(json.loads(negatives)),
        gates=gates,
    )


def transcript_row(episode: Episode) -> tuple[bytes, bytes, bytes, bytes]:
    """Turns with the final observation, token ids, sampled marks and log-probabilities (64 bits: exact)."""
    turns = [
        [turn.observation, turn.reply, turn.action, turn.reward, turn.policy_version, turn.thinking_ended]
        for turn in episode.turns
    ]
    return (
        pack_text(json.dumps([turns, episode.final_observation])),
        zlib.compress(np.asarray(episode.token_ids_T, dtype="<i4").tobytes(), COMPRESSION_LEVEL),
        zlib.compress(np.packbits(np.asarray(episode.sampled_T, dtype=bool)).tobytes(), COMPRESSION_LEVEL),
        zlib.compress(np.asarray(episode.logprobs_T, dtype="<f8").tobytes(), COMPRESSION_LEVEL),
    )


def episode_of_rows(
    environment_id: str, head: tuple[Any, ...], transcript: tuple[bytes, bytes, bytes, bytes]
) -> Episode:
    """The episode of its head (arm, seed, end, outcome, fault kind, fault reason) and its transcript."""
    arm, seed, end, outcome, fault_kind, fault_reason = head
    turns, final_observation = json.loads(unpack_text(transcript[0]))
    tokens = np.frombuffer(zlib.decompress(transcript[1]), dtype="<i4")
    marks = np.frombuffer(zlib.decompress(transcript[2]), dtype=np.uint8)
    return Episode(
        environment_id=environment_id,
        arm=Arm(arm),
        seed=seed,
        end=EpisodeEnd(end),
        outcome=Outcome(outcome),
        turns=tuple(Turn(*turn) for turn in turns),
        token_ids_T=tuple(tokens.tolist()),
        sampled_T=tuple(np.unpackbits(marks, count=len(tokens)).astype(bool).tolist()),
        logprobs_T=tuple(np.frombuffer(zlib.decompress(transcript[3]), dtype="<f8").tolist()),
        final_observation=final_observation,
        fault_kind=None if fault_kind is None else FaultKind(fault_kind),
        fault_reason=fault_reason,
    )
