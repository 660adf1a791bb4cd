"""Schedule, state, words and names of the loop."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spadework.config import CorpusConfig
from spadework.curriculum.averages import Averages, SkillAverages
from spadework.curriculum.corpus import CorpusCursor, open_corpus
from spadework.environment.gates import GateName
from spadework.learning.delay import DelayBuffer, PendingSample
from spadework.loop.schedule import Schedule
from spadework.loop.state import LoopState
from spadework.loop.stopwatch import Stopwatch
from spadework.loop.variety import content_words, families, grounding_share
from spadework.progress import Silent, Stage
from spadework.sandbox.outcomes import FaultKind
from spadework.store.glossary import FAULTS, GATES, METRICS
from spadework.store.records import EnvironmentRecord


def test_rounds_of_two_in_five_iterations() -> None:
    schedule = Schedule(iterations=5, round_iterations=2, evaluation_every=3, checkpoint_every=2)
    assert [schedule.round_of(t) for t in range(5)] == [0, 0, 1, 1, 2]
    assert [schedule.starts_round(t) for t in range(5)] == [True, False, True, False, True]
    assert [list(schedule.window(r)) for r in range(3)] == [[0, 1], [2, 3], [4]]
    assert [t for t in range(5) if schedule.evaluates_after(t)] == [2, 4]
    assert [t for t in range(5) if schedule.checkpoints_after(t)] == [1, 3, 4]


def test_evaluation_is_after_the_last_iteration_only_unless_asked_for() -> None:
    schedule = Schedule(iterations=5, round_iterations=2, evaluation_every=0, checkpoint_every=1)
    assert [t for t in range(5) if schedule.evaluates_after(t)] == [4]


def test_the_state_comes_back_from_json_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("some words " * 40)
    corpus = open_corpus(CorpusConfig(source=str(tmp_path)))
    waiting = DelayBuffer(2)
    waiting.add(4, [PendingSample("designer/2/0/1", (1, 2, 3), (False, True, True), (0.0, -1 / 3, -1e-17), 0.7)])
    state = LoopState(waiting, CorpusCursor(3, 7), SkillAverages({"optimization": Averages(0.1, -1 / 3)}))
    back = LoopState.from_json(json.loads(json.dumps(state.to_json(corpus))), corpus)
    assert (back.cursor, back.averages) == (state.cursor, state.averages)
    assert back.waiting.state() == waiting.state()
    assert back.waiting.due(5) == () and back.waiting.due(6) == waiting.due(6)


SOURCE = '''
"""A module about harbour pilots."""

class HarbourEnv:
    """Docstrings are not shown: whirlpool."""

    def reset(self, seed=None):
        tide = 4
        return f"The lighthouse keeper watches the tide at pier {tide}.", {}

    def step(self, action):
        return "The lighthouse is dark.", 0.0, False, False, {}
'''


def test_content_words_are_those_of_the_programs_texts_less_what_every_text_is_full_of() -> None:
    assert content_words(SOURCE) == {"lighthouse", "keeper", "watches", "tide", "pier", "dark"}


def test_grounding_is_the_share_of_content_words_that_the_document_has() -> None:
    assert grounding_share(SOURCE, "At high TIDE the keeper leaves the lighthouse.") == pytest.approx(3 / 6)
    assert grounding_share(SOURCE, "Nothing of the kind: tides.") == 0.0
    assert grounding_share("class XEnv:\n    pass", "words") is None


def test_a_family_is_what_hangs_together() -> None:
    """10 of 10 shingles shared with the next by 8 (8/12 >= 0.5), with the one after by 6 (6/14 < 0.5)."""

    def environment(first: int) -> EnvironmentRecord:
        shingles = tuple(np.arange(first, first + 10).tolist())
        return EnvironmentRecord(str(first), 0, 0, 0, "s", "d", "XEnv", "", "", "", "f", shingles)

    assert families([environment(first) for first in (0, 4)]) == 2
    assert families([environment(first) for first in (0, 4, 2)]) == 1
    assert families([environment(first) for first in (0, 100, 200, 2)]) == 3


def test_every_gate_every_kind_of_fault_and_every_stage_has_its_metric() -> None:
    assert sorted(GATES) == sorted(GateName)
    assert sorted(FAULTS) == sorted(FaultKind)
    watch = Stopwatch(0, Silent())
    for stage in Stage:
        with watch.stage(stage):
            pass
    assert set(watch.readings()) <= set(METRICS)
    assert set(watch.seconds) == set(Stage)
