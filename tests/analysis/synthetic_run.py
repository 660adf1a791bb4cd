"""A small run directory, written through the store, with numbers that can be worked out by hand."""

from pathlib import Path

from spadework.config import Config
from spadework.evaluation.items import Split
from spadework.evaluation.results import Evaluation, ItemResult, readings, write_result
from spadework.roles.episode import Arm, Episode, EpisodeEnd, Turn
from spadework.sandbox.outcomes import Outcome
from spadework.store.metrics import MetricsLog
from spadework.store.pool import Pool
from spadework.store.records import (
    AttemptRecord,
    DocumentRecord,
    EnvironmentRecord,
    EpisodeRecord,
    GateRow,
    IterationRecords,
    Measure,
)
from spadework.store.run_directory import RunDirectory

CONFIG = Config.model_validate({"iterations": 6, "evaluation": {"bootstrap_samples": 200}})
SKILL = CONFIG.curriculum.skills[0]
HOSTILE = "</pre><script>alert('program')</script>"
HOSTILE_TEXT = "``` \n</pre><script>alert('document')</script>\n# not a heading"

IN_BEFORE, IN_AFTER = 2, 6
"""In-family items solved of 8: 0.25, then 0.75."""
OUT_BEFORE, OUT_AFTER = 1, 1
"""Out-of-family items solved of 4: 0.25 both times."""


def evaluation(iterations: int, in_solved: int, out_solved: int) -> Evaluation:
    def item(split: Split, number: int, solved: bool) -> ItemResult:
        end, family = EpisodeEnd.TERMINATED, f"{split.value}-maze"
        return ItemResult(f"{split.value}-{number}", split, family, solved, 3, end, Outcome.OK)

    inside = [item(Split.IN_FAMILY, number, number < in_solved) for number in range(8)]
    outside = [item(Split.OUT_OF_FAMILY, number, number < out_solved) for number in range(4)]
    return Evaluation(
        *("games", 1, "0" * 64, "default", "seed", False, 1.0), iterations, iterations, tuple(inside + outside)
    )


def environment_id(slot: int) -> str:
    return f"{slot + 1:08x}" + "0" * 56


def _environment(slot: int, name: str) -> EnvironmentRecord:
    return EnvironmentRecord(
        id=environment_id(slot),
        round=0,
        iteration=0,
        slot=slot,
        skill=SKILL,
        document_id="doc-0",
        class_name=name,
        source=f"class {name}:\n    text = {HOSTILE!r}\n    fence = '````'\n",
        hint=f"Look left <b>of</b> {name}.",
        summary="a maze",
        fingerprint=f"{slot:064x}",
        shingles=(slot,),
        bands=(slot,),
    )


def _episode(slot: int, arm: Arm, seed: int, value: float) -> EpisodeRecord:
    turn = Turn(f"{name_of(slot)} shows a door to {arm.value}.", rf"\boxed{{open {seed}}}", f"open {seed}", value)
    return EpisodeRecord(
        0,
        Episode(
            *(environment_id(slot), arm, seed, EpisodeEnd.TERMINATED, Outcome.OK, (turn,)),
            *((1, 2), (False, True), (0.0, -0.5), "The end."),
        ),
        value,
    )


def name_of(slot: int) -> str:
    return ("Best", "Second", "Mastered", "Unsolvable")[slot]


PLAYS = {0: ((0, 0, 1, 0), (1, 1, 1, 1)), 1: ((1, 0, 1, 0), (1, 1, 1, 0)), 2: ((1,) * 4,) * 2, 3: ((0,) * 4,) * 2}
"""Per slot, plain and hinted wins by seed: regrets 0.75, 0.25, 0 and 0; zones frontier, frontier, mastered, unsolvable.
"""


def _attempts() -> list[AttemptRecord]:
    def attempt(slot: int, number: int, status: str, *gates: GateRow, reply: str = "", **more: object) -> AttemptRecord:
        return AttemptRecord(0, 0, slot, number, SKILL, "doc-0", 10, 5, reply, status, gates=gates, **more)  # type: ignore[arg-type]

    passed = GateRow("parse", True, "", 0.25)
    made = [attempt(slot, 1, "accepted", passed, environment_id=environment_id(slot)) for slot in PLAYS]
    crashed = GateRow("termination", False, "step raised <script>KeyError</script>", 0.5)
    turned_down = [attempt(slot, 0, "termination", passed, crashed, reply="\ud800") for slot in range(3)]
    return [*made, *turned_down, attempt(3, 0, "reply-cut", reason="the reply reached 5 tokens")]


def first_iteration() -> IterationRecords:
    arms = (Arm.PLAIN, Arm.HINTED)
    measures = [
        Measure(environment_id(slot), 0, 0, arm, 4, sum(wins), sum(wins) / 4, 0.1 if 0 < sum(wins) < 4 else 0.0)
        for slot, both in PLAYS.items()
        for arm, wins in zip(arms, both, strict=True)
    ]
    episodes = [
        _episode(slot, arm, seed, float(value))
        for slot, both in PLAYS.items()
        for arm, wins in zip(arms, both, strict=True)
        for seed, value in enumerate(wins)
    ]
    return IterationRecords(
        0,
        0,
        documents=(DocumentRecord("doc-0", "A <i>title</i>", "folder", HOSTILE_TEXT),),
        attempts=tuple(_attempts()),
        environments=tuple(_environment(slot, name_of(slot)) for slot in PLAYS),
        episodes=tuple(episodes),
        measures=tuple(measures),
    )


def _metrics(iteration: int) -> dict[str, float]:
    t = iteration / 6
    return {
        "agent/plain_win_rate": 0.3 + 0.2 * t,
        "agent/plain_win_rate_stderr": 0.05,
        "agent/hinted_win_rate": 0.6 + 0.1 * t,
        "agent/hinted_win_rate_stderr": 0.05,
        "agent/plain_return": 0.3 + 0.2 * t,
        "environments/regret": 0.3 - 0.1 * t,
        "environments/regret_stderr": 0.06,
        "environments/mastered": 0.25,
        "environments/frontier": 0.5,
        "environments/unsolvable": 0.25,
        "designer/validity": 0.5 + 0.3 * t,
        "designer/first_attempt_validity": 0.4 + 0.3 * t,
        "designer/rejected/termination": 3,
        "designer/rejected/novel": iteration,
        "designer/reward": 0.1 + 0.2 * t,
        "designer/reward_valid": 0.4 + 0.1 * t,
        "diversity/families": 3 + iteration % 2,
        "diversity/nearest_similarity": 0.5,
        "diversity/grounding": 0.3,
        "diversity/grounding_control": 0.1,
        "learning/logprob_mismatch": 1e-6 * (iteration + 1),
        "learning/logprob_mismatch_max": 1e-4 * (iteration + 1),
        "time/design_s": 10.0,
        "time/play_s": 20.0 + iteration,
        "time/update_s": 15.0,
        "time/store_s": 0.5,
        "time/iteration_s": 45.5 + iteration,
    }


def write_run(path: Path, iterations: int = 6) -> Path:
    """A run of so many iterations, evaluated before the first and after the last."""
    with RunDirectory.create_or_open(path, CONFIG) as directory, MetricsLog.open(directory.metrics, after=-1) as log:
        before = evaluation(0, IN_BEFORE, OUT_BEFORE)
        write_result(path, before)
        log.write(-1, readings(before, 200))
        if iterations:
            with Pool.open(directory.pool) as pool:
                pool.write(first_iteration())
        for iteration in range(iterations):
            values = _metrics(iteration)
            if iteration == iterations - 1:
                after = evaluation(iterations, IN_AFTER, OUT_AFTER)
                write_result(path, after)
                values |= readings(after, 200)
            log.write(iteration, values)
    return path
