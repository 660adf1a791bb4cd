"""A run that is killed at any instant and started again ends like one that was left alone."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from selfplay_world import without_times

from spadework.store.metrics import read_metrics

SCRIPT = Path(__file__).with_name("killed_runs.py")
TIMED = {"gate": ("seconds",)}
"""Columns that hold times."""


def tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(path) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {}
        for name in names:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            kept = ", ".join(column for column in columns if column not in TIMED.get(name, ()))
            found[name] = sorted(connection.execute(f"SELECT {kept} FROM {name}").fetchall(), key=repr)
        return found


@pytest.mark.slow
def test_ten_kills_change_neither_metrics_nor_pool_nor_weights(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ended = [int(line) for line in done.stdout.split()]
    assert ended == [0, *[signal.SIGKILL] * 10, 0]
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    rows = without_times(read_metrics(unbroken / "metrics.jsonl"))
    assert [row["iteration"] for row in rows] == [-1, 0, 1, 2, 3, 4]
    assert without_times(read_metrics(broken / "metrics.jsonl")) == rows
    assert tables(broken / "pool.sqlite") == tables(unbroken / "pool.sqlite")
    last = Path("checkpoints/000004")
    files = sorted(path.relative_to(unbroken) for path in (unbroken / last).rglob("*") if path.is_file())
    assert len(files) >= 4
    for file in files:
        assert (broken / file).read_bytes() == (unbroken / file).read_bytes()
    assert sorted(path.name for path in (broken / "checkpoints").iterdir()) == ["000003", "000004"]
