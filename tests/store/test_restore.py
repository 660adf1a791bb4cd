"""A run that is killed and taken up again ends as one that was not."""

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spadework.config import Config
from spadework.store.copy import copy_run
from spadework.store.errors import StoreError
from spadework.store.metrics import read_metrics
from spadework.store.pool import Pool
from spadework.store.restore import restore
from spadework.store.run_directory import RunDirectory

LOOP = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import store_records as made
from spadework.config import Config
from spadework.store.checkpoint import write_checkpoint
from spadework.store.restore import restore
from spadework.store.run_directory import RunDirectory
run = RunDirectory.create_or_open(Path(sys.argv[1]), Config())
restored = restore(run, tensorboard=False)
total = 0 if restored.checkpoint is None else restored.checkpoint.state["total"]
print("started", flush=True)
for iteration in range(restored.next_iteration, int(sys.argv[2])):
    total += iteration
    restored.pool.write(made.iteration_records(iteration))
    restored.metrics.write(iteration, {"learning/loss": total})
    async def save(path):
        (path / "weights.bin").write_bytes(bytes([iteration]) * 100_000)
    if iteration % 2 == 0:
        asyncio.run(write_checkpoint(run.checkpoints, iteration, {"total": total}, save, keep=2))
"""
ITERATIONS = 41


def start(run: Path) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", LOOP, str(run), str(ITERATIONS), str(Path(__file__).parent)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(path) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


def test_a_run_killed_again_and_again_ends_like_one_that_was_left_alone(tmp_path: Path) -> None:
    with start(tmp_path / "unbroken") as process:
        process.communicate()
    assert process.returncode == 0
    delays, kills = random.Random(0), 0
    while True:
        with start(tmp_path / "broken") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            time.sleep(delays.uniform(0.0, 0.06))
            process.send_signal(signal.SIGKILL if kills < 10 else signal.SIGCONT)
            process.communicate()
        if process.returncode == 0:
            break
        kills += 1
    assert kills >= 3
    for name in ("metrics.jsonl", "checkpoints/000040/state.json", "checkpoints/000040/weights/weights.bin"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()
    assert tables(tmp_path / "broken" / "pool.sqlite") == tables(tmp_path / "unbroken" / "pool.sqlite")


def test_a_live_run_is_copied_to_one_that_continues(tmp_path: Path) -> None:
    copies = 0
    with start(tmp_path / "live") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        while process.poll() is None:
            copy_run(tmp_path / "live", tmp_path / f"copy{copies}")
            copies += 1
    assert copies >= 2
    for number in range(copies):
        with RunDirectory.create_or_open(tmp_path / f"copy{number}", Config()) as run:
            restored = restore(run, tensorboard=False)
            last = restored.next_iteration - 1
            assert len(read_metrics(run.metrics)) == last + 1
            assert (restored.pool.last_iteration() or 0) == max(last, 0)
            restored.pool.close()
            restored.metrics.close()
    with pytest.raises(StoreError, match="exists already"):
        copy_run(tmp_path / "live", tmp_path / "copy0")


@pytest.mark.parametrize("lost", ["pool.sqlite", "metrics.jsonl"])
def test_a_run_directory_put_together_from_two_is_refused(tmp_path: Path, lost: str) -> None:
    with start(tmp_path / "run") as process:
        process.communicate()
    (tmp_path / "run" / lost).unlink()
    with (
        RunDirectory.create_or_open(tmp_path / "run", Config()) as run,
        pytest.raises(StoreError, match="restore the whole run directory from one copy"),
    ):
        restore(run, tensorboard=False)


def test_a_pool_on_a_full_disk_keeps_its_last_iteration(tmp_path: Path) -> None:
    import store_records as made

    with Pool.open(tmp_path / "pool.sqlite") as pool:
        pool.write(made.iteration_records(0))
        pages = pool._connection.execute("PRAGMA page_count").fetchone()[0]
        pool._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="could not be written: database or disk is full; free space"):
            for iteration in range(1, 50):
                pool.write(made.iteration_records(iteration))
        kept = pool.last_iteration()
        assert kept is not None
        pool._connection.execute("PRAGMA max_page_count = 100000")
        pool.write(made.iteration_records(kept + 1))


def test_a_run_on_a_read_only_medium_can_be_shown(tmp_path: Path) -> None:
    import store_records as made

    from spadework.store.reader import PoolReader

    mount = shutil.which("mount")
    (tmp_path / "medium").mkdir()
    with Pool.open(tmp_path / "medium" / "pool.sqlite") as pool:
        pool.write(made.iteration_records(0))
    bind = f"{mount} --bind {tmp_path}/medium {tmp_path}/medium && {mount} -o remount,ro,bind {tmp_path}/medium"
    if mount is None or subprocess.run(bind, shell=True, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted read-only here")
    try:
        with PoolReader.open(tmp_path / "medium" / "pool.sqlite") as reader:
            assert reader.last_iteration() == 0
    finally:
        subprocess.run(["umount", str(tmp_path / "medium")], check=True)
