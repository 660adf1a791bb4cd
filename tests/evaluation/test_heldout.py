"""Held-out evaluation: what is asked stays fixed, errors count as failures, intervals are what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spadework.evaluation.bootstrap import bootstrap, paired_bootstrap
from spadework.evaluation.items import VERSIONS, ItemsUnusable, Split, Suite, load_items, shipped_items
from spadework.evaluation.results import (
    Evaluation,
    ItemResult,
    first_and_last,
    gain,
    read_results,
    readings,
    write_result,
)
from spadework.roles.episode import EpisodeEnd
from spadework.sandbox.outcomes import Outcome
from spadework.seedmodel.families import GAMES, HELD_OUT, TOOL_ENVIRONMENTS
from spadework.store.errors import StoreError


def result(number: int, solved: bool, end: EpisodeEnd = EpisodeEnd.TERMINATED) -> ItemResult:
    outcome = Outcome.ENVIRONMENT_FAULT if end is EpisodeEnd.FAULT else Outcome.OK
    return ItemResult(f"item-{number}", Split.IN_FAMILY, f"family-{number % 2}", solved, 2, end, outcome)


def evaluation(*results: ItemResult, iterations: int = 0) -> Evaluation:
    return Evaluation("games", 1, "ab" * 32, "qwen3", "seed", False, 1.0, 0, iterations, results)


def test_equal_differences_leave_no_doubt() -> None:
    interval = paired_bootstrap([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], samples=100, seed=0)
    assert (interval.mean, interval.low, interval.high) == (1.0, 1.0, 1.0)


def test_interval_of_a_fair_coin_is_two_standard_errors_wide() -> None:
    interval = bootstrap([0.0, 1.0] * 200, samples=4000, seed=0)
    standard_error = 0.5 / 400**0.5
    assert interval.mean == 0.5
    assert interval.low == pytest.approx(0.5 - 1.96 * standard_error, abs=0.006)
    assert interval.high == pytest.approx(0.5 + 1.96 * standard_error, abs=0.006)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_mean_lies_in_its_interval_and_seeds_repeat(values: list[float]) -> None:
    interval = bootstrap(values, samples=200, seed=3)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9
    assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9
    assert interval == bootstrap(values, samples=200, seed=3)


def test_pairing_removes_what_items_have_in_common() -> None:
    before = [0.0] * 50 + [1.0] * 50
    after = [1.0] * 10 + [0.0] * 40 + [1.0] * 50
    paired = paired_bootstrap(before, after, samples=2000, seed=0)
    assert paired.mean == pytest.approx(0.1)
    assert paired.low > 0


def test_lists_of_different_length_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="2 items before and 1 after"):
        paired_bootstrap([0.0, 1.0], [1.0], samples=10, seed=0)


@pytest.mark.parametrize("suite", VERSIONS)
def test_shipped_items_are_distinct_and_split_by_family(suite: Suite) -> None:
    items = load_items(shipped_items(suite))
    assert (items.suite, items.version) == (suite, VERSIONS[suite])
    assert len({item.id for item in items.items}) == len(items.items) >= 250
    assert len({(item.source, item.seed) for item in items.items}) == len(items.items)
    families = {family.name for family in (GAMES if suite == "games" else TOOL_ENVIRONMENTS)}
    assert {item.family for item in items.items} == families
    assert {item.family for item in items.items if item.split is Split.OUT_OF_FAMILY} == families & set(HELD_OUT)


def test_fewer_items_per_family_are_the_first_of_each() -> None:
    path = shipped_items("games")
    few, all_ = load_items(path, per_family=2), load_items(path)
    assert [item for item in all_.items if item.id.endswith(("-00", "-01"))] == list(few.items)
    assert few.sha256 == all_.sha256


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "hold a head"),
        ("nonsense\n", "line 1"),
        ('{"suite": "games", "version": 1}\n{"id": "a"}\n', "line 2"),
        ('{"suite": "games", "version": 1}\n{broken\n', "line 2"),
    ],
)
def test_broken_item_lists_are_named_with_the_place(tmp_path: Path, content: str, place: str) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(content)
    with pytest.raises(ItemsUnusable, match=place) as caught:
        load_items(path)
    assert str(path) in str(caught.value)


def test_an_item_list_with_another_seed_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    item = {"id": "a", "split": "in-family", "family": "f", "source": "s", "seed": 1}
    digests = set[str]()
    for seed in (1, 2):
        path.write_text('{"suite": "games", "version": 1}\n' + json.dumps(item | {"seed": seed}))
        digests.add(load_items(path).sha256)
    assert len(digests) == 2


def test_errors_and_cut_replies_count_as_failures_and_stay_in_the_denominator() -> None:
    found = evaluation(result(0, True), result(1, False, EpisodeEnd.FAULT), result(2, False, EpisodeEnd.REPLY_CUT))
    metrics = readings(found, samples=100)
    assert metrics["heldout/in_family"] == pytest.approx(1 / 3)
    assert metrics["heldout/errors"] == 1
    assert metrics["heldout/cut_share"] == pytest.approx(1 / 3)
    assert "heldout/out_of_family" not in metrics
    assert found.by_family() == {"family-0": (1, 2), "family-1": (0, 1)}


def test_gain_is_over_the_same_items_only() -> None:
    before, after = evaluation(result(0, False), result(1, False)), evaluation(result(0, True), result(1, False))
    interval = gain(before, after, Split.IN_FAMILY, samples=200)
    assert interval is not None
    assert interval.mean == 0.5
    with pytest.raises(ValueError, match="same items"):
        gain(before, replace(after, sha256="cd" * 32), Split.IN_FAMILY, samples=200)
    with pytest.raises(ValueError, match="same items"):
        gain(before, replace(after, items=after.items[::-1]), Split.IN_FAMILY, samples=200)


def test_results_are_kept_in_the_run_and_replaced_when_repeated(tmp_path: Path) -> None:
    for iterations, solved in ((0, False), (10, False), (10, True)):
        write_result(tmp_path, evaluation(result(0, solved), iterations=iterations))
    results = read_results(tmp_path)
    assert list(results) == [0, 10]
    assert [item.items[0].solved for item in first_and_last(results)] == [False, True]
    (tmp_path / "heldout" / "000020.json").write_text("{}")
    with pytest.raises(StoreError, match=r"000020\.json"):
        read_results(tmp_path)
