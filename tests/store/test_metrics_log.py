"""The log of metrics survives kills and resumes, and holds nothing that is not explained."""

import json
import sys
from pathlib import Path

import pytest

from spadework.environment.gates import GateName
from spadework.store.errors import StoreError
from spadework.store.metrics import METRICS, MetricsLog, read_metrics


def log(path: Path, iterations: range, after: int = -1) -> None:
    with MetricsLog.open(path, after=after) as metrics:
        for iteration in iterations:
            metrics.write(iteration, {"learning/loss": iteration / 3, "agent/episodes": iteration})


def test_a_line_per_iteration_with_sorted_keys_and_exact_numbers(tmp_path: Path) -> None:
    log(tmp_path / "m.jsonl", range(2))
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert lines[1] == '{"agent/episodes": 1, "iteration": 1, "learning/loss": 0.3333333333333333}'
    assert read_metrics(tmp_path / "m.jsonl")[1]["learning/loss"] == 1 / 3


@pytest.mark.parametrize("torn", ["", '{"agent/episodes": 5, "iter', "\xff\x00"])
def test_a_resumed_log_equals_an_unbroken_one(tmp_path: Path, torn: str) -> None:
    log(tmp_path / "straight.jsonl", range(6))
    log(tmp_path / "broken.jsonl", range(5))
    with (tmp_path / "broken.jsonl").open("a") as file:
        file.write(torn)
    assert len(read_metrics(tmp_path / "broken.jsonl")) == 5
    log(tmp_path / "broken.jsonl", range(3, 6), after=2)
    assert (tmp_path / "broken.jsonl").read_bytes() == (tmp_path / "straight.jsonl").read_bytes()


def test_starting_anew_forgets_what_was_there(tmp_path: Path) -> None:
    log(tmp_path / "m.jsonl", range(3))
    log(tmp_path / "m.jsonl", range(1))
    assert [row["iteration"] for row in read_metrics(tmp_path / "m.jsonl")] == [0]


def test_a_torn_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"iteration": 0}\n{"iter\n{"iteration": 2}\n')
    with pytest.raises(StoreError, match=r"line 2 of .* is not a line of metrics: '{\"iter'"):
        read_metrics(tmp_path / "m.jsonl")


def test_a_metric_without_a_meaning_is_refused(tmp_path: Path) -> None:
    with MetricsLog.open(tmp_path / "m.jsonl", after=-1) as metrics:
        with pytest.raises(StoreError, match="metric 'agent/luck' has no line in METRICS"):
            metrics.write(0, {"agent/luck": 1.0})
        metrics.write(0, {})
        with pytest.raises(StoreError, match="iteration 0 cannot follow those of 0"):
            metrics.write(0, {})


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    with MetricsLog.open(tmp_path / "m.jsonl", after=-1) as metrics:
        metrics.write(0, {"learning/grad_norm": float("nan"), "learning/loss": float("inf")})
    (row,) = read_metrics(tmp_path / "m.jsonl")
    assert row == {"iteration": 0, "learning/grad_norm": None, "learning/loss": None}


def test_every_metric_is_explained_in_one_line() -> None:
    for name, meaning in METRICS.items():
        assert "\n" not in meaning
        assert meaning.endswith(".")
        assert name == name.strip().replace(" ", "")


def test_every_gate_s_rejections_are_a_metric() -> None:
    assert {f"designer/rejected/{gate}" for gate in GateName} <= METRICS.keys()


def test_tensorboard_has_the_values_and_a_resume_replaces_later_ones(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = tmp_path / "tensorboard"
    for after, values in ((-1, (0.0, 1.0, 2.0)), (0, (10.0, 20.0))):
        with MetricsLog.open(tmp_path / "m.jsonl", after=after, tensorboard=events) as metrics:
            for iteration, value in enumerate(values, start=after + 1):
                metrics.write(iteration, {"learning/loss": value})
    read = accumulator.EventAccumulator(str(events))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("learning/loss")] == [(0, 0.0), (1, 10.0), (2, 20.0)]


def test_without_tensorboard_the_install_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(StoreError, match=r"pip install 'spadework\[train\]'"):
        MetricsLog.open(tmp_path / "m.jsonl", after=-1, tensorboard=tmp_path / "tensorboard")


def test_lines_are_json(tmp_path: Path) -> None:
    log(tmp_path / "m.jsonl", range(1))
    assert json.loads((tmp_path / "m.jsonl").read_text())["iteration"] == 0
