"""Structures, nearest neighbours and effective numbers of a run's environments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spadework.analysis.diversity import diversity_by_round, nearest_similarity, similarities, skeleton, vendi_score
from spadework.environment.fingerprint import fingerprint
from spadework.store.pool import Pool
from spadework.store.records import AttemptRecord, DocumentRecord, EnvironmentRecord, IterationRecords

BASE = '''
class DoorEnv:
    """Doors."""

    def reset(self, seed=None):
        self.doors = ["red", "blue"]
        return "Pick a door.", {}

    def step(self, action):
        if action == self.doors[0]:
            return "It opens.", 1.0, True, False, {}
        return "Locked.", 0.0, False, False, {}
'''
OTHER_WORDS = BASE.replace('"red", "blue"', '"lamp", "boat", "kite"').replace("Locked.", "No.").replace("1.0", "0.5")
OTHER_NAMES = BASE.replace("doors", "gates").replace("DoorEnv", "GateEnv")
OTHER_RULE = BASE.replace("action == self.doors[0]", "action != self.doors[0]")


def test_constants_names_and_docstrings_are_no_structure() -> None:
    assert skeleton(BASE) == skeleton(OTHER_WORDS) == skeleton(OTHER_NAMES) == skeleton(BASE.replace("Doors.", "x"))


def test_another_rule_is_another_structure() -> None:
    assert skeleton(BASE) != skeleton(OTHER_RULE)


def test_nearest_similarity_is_the_mean_over_all_of_their_nearest() -> None:
    # Nearest others: 0.8, 0.8 and 0.4.
    alike = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.4], [0.2, 0.4, 1.0]])
    assert nearest_similarity(alike) == pytest.approx(2.0 / 3)
    assert nearest_similarity(np.eye(1)) is None
    assert nearest_similarity(np.eye(2)) == 0.0


def test_vendi_score_counts_kinds() -> None:
    assert vendi_score(np.eye(5)) == pytest.approx(5)
    assert vendi_score(np.ones((4, 4))) == pytest.approx(1)
    two_kinds = np.kron(np.eye(2), np.ones((3, 3)))
    assert vendi_score(two_kinds) == pytest.approx(2)
    # Two of similarity 1/2: eigenvalues of K / 2 are 3/4 and 1/4, whose entropy is 0.5623.
    assert vendi_score(np.array([[1.0, 0.5], [0.5, 1.0]])) == pytest.approx(np.exp(0.56233514), rel=1e-6)
    with pytest.raises(ValueError, match="nothing"):
        vendi_score(np.zeros((0, 0)))


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 20), max_size=8), min_size=1, max_size=8))
def test_vendi_score_lies_between_one_and_the_number(sets: list[set[int]]) -> None:
    alike = similarities([np.array(sorted(one), dtype=np.uint64) for one in sets])
    assert 1 - 1e-6 <= vendi_score(alike) <= len(sets) + 1e-6


def environment(source: str, number: int, round_: int) -> EnvironmentRecord:
    mark = fingerprint(source)
    return EnvironmentRecord(
        id=f"{round_:032x}{number:032x}",
        round=round_,
        iteration=round_,
        slot=number,
        skill="logical deduction",
        document_id="doc",
        class_name="DoorEnv",
        source=source,
        hint="Look.",
        summary="doors",
        fingerprint=mark.digest,
        shingles=tuple(int(value) for value in mark.shingles),
    )


def records(round_: int, *sources: str) -> IterationRecords:
    environments = tuple(environment(source, number, round_) for number, source in enumerate(sources))
    attempts = tuple(
        AttemptRecord(round_, round_, one.slot, 0, one.skill, "doc", 1, 1, "", "accepted", environment_id=one.id)
        for one in environments
    )
    document = DocumentRecord("doc", "Doors", "folder", "Doors are red.")
    return IterationRecords(round_, round_, (document,), attempts, environments)


def test_a_structure_is_new_only_in_its_first_round(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        assert list(diversity_by_round(pool)) == []
        pool.write(records(0, BASE))
        pool.write(records(1))
        pool.write(records(2, OTHER_WORDS, OTHER_RULE))
        first, third = diversity_by_round(pool)
    assert (first.round, first.environments, first.structures, first.new_structures) == (0, 1, 1, 1)
    assert (first.nearest, first.vendi) == (None, pytest.approx(1))
    assert (third.round, third.structures, third.new_structures) == (2, 2, 1)
    assert third.nearest is not None
    assert 0 < third.nearest < 1
    assert 1 < third.vendi < 2
