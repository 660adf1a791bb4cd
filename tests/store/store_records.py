"""Records for the store's tests, small and made by hand."""

from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.sandbox.outcomes import Outcome
from spadework.store.records import (
    AttemptRecord,
    DocumentRecord,
    EnvironmentRecord,
    EpisodeRecord,
    GateRow,
    IterationRecords,
    Measure,
)


def environment_id(number: int) -> str:
    return f"{number:08x}" + "0" * 56


def document(number: int = 0) -> DocumentRecord:
    return DocumentRecord(f"doc-{number}", "Title", "folder", f"words of document {number}")


def environment(number: int, iteration: int = 0, round_: int = 0, **changes: object) -> EnvironmentRecord:
    fields: dict[str, object] = {
        "id": environment_id(number),
        "round": round_,
        "iteration": iteration,
        "slot": number,
        "skill": "logical deduction",
        "document_id": "doc-0",
        "class_name": f"Maze{number}Env",
        "source": f"class Maze{number}Env: ...",
        "hint": "Look left.",
        "summary": "a maze",
        "fingerprint": f"{number:064x}",
        "shingles": (number, 2**64 - 1),
        "bands": (-number - 1, 2**63 - 1),
        "measures": {"random_return": 0.25},
    }
    return EnvironmentRecord(**{**fields, **changes})  # type: ignore[arg-type]


def attempt(slot: int, number: int, iteration: int = 0, round_: int = 0, **changes: object) -> AttemptRecord:
    fields: dict[str, object] = {
        "iteration": iteration,
        "round": round_,
        "slot": slot,
        "attempt": number,
        "skill": "logical deduction",
        "document_id": "doc-0",
        "prompt_tokens": 100,
        "reply_tokens": 50,
        "reply": "a reply with a lone surrogate \ud800",
        "status": "valid",
        "hint_tokens": 7,
        "positives": ("a" * 64,),
        "negatives": ("b" * 64, "c" * 64),
        "gates": (GateRow("parse", True, "", 0.5, {"chars": 12}),),
    }
    return AttemptRecord(**{**fields, **changes})  # type: ignore[arg-type]


def rejected(slot: int, number: int, gate: str, **changes: object) -> AttemptRecord:
    verdicts = (GateRow("parse", True, "", 0.0), GateRow(gate, False, "step raised KeyError", 0.1))
    return attempt(slot, number, **{"status": "rejected", "reason": "KeyError", "gates": verdicts, **changes})


def episode(
    number: int, seed: int, arm: Arm = Arm.PLAIN, value: float | None = 1.0, iteration: int = 0
) -> EpisodeRecord:
    turns = (
        Turn("You see a door.", r"\boxed{open}", "open", 0.1, policy_version=3),
        Turn("It opens.", r"\boxed{go}", "go", 0.3),
    )
    return EpisodeRecord(
        iteration,
        Episode(
            environment_id=environment_id(number),
            arm=arm,
            seed=seed,
            end=EpisodeEnd.TERMINATED if value is not None else EpisodeEnd.FAULT,
            outcome=Outcome.OK if value is not None else Outcome.ENVIRONMENT_FAULT,
            turns=turns,
            token_ids_T=(1, 2, 70_000, 4, 5, 6, 7, 8, 9),
            sampled_T=(False, False, True, True, False, False, True, True, True),
            logprobs_T=(0.0, 0.0, -0.1, -1e-9, 0.0, 0.0, -2.5, -1 / 3, -7.25),
            final_observation="Done.",
        ),
        value,
    )


def measure(
    number: int, iteration: int, arm: Arm, plays: int, wins: int, mean: float | None, stderr: float | None
) -> Measure:
    return Measure(environment_id(number), iteration, 0, arm, plays, wins, mean, stderr, faults=0)


def iteration_records(iteration: int, number: int | None = None) -> IterationRecords:
    """A whole iteration with one new environment, its attempts, two plays and their measure."""
    number = iteration if number is None else number
    return IterationRecords(
        iteration,
        round=iteration,
        documents=(document(),),
        attempts=(
            rejected(0, 0, "contract", iteration=iteration, round=iteration),
            attempt(0, 1, iteration, iteration, environment_id=environment_id(number)),
        ),
        environments=(environment(number, iteration, iteration),),
        episodes=(episode(number, 1, iteration=iteration), episode(number, 2, value=0.0, iteration=iteration)),
        measures=(measure(number, iteration, Arm.PLAIN, 2, 1, 0.5, 0.5),),
    )
