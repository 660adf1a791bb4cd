"""A checkpoint is complete or not there: killed writers, full disks and damaged files."""

import asyncio
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from spadework.store.checkpoint import Checkpoint, latest_checkpoint, write_checkpoint
from spadework.store.errors import CheckpointError

State = dict[str, object]


def weights_of(iteration: int, size: int = 1000) -> bytes:
    return bytes([iteration % 256]) * size


def saver(iteration: int) -> Callable[[Path], Awaitable[None]]:
    async def save(directory: Path) -> None:
        (directory / "shard").mkdir()
        (directory / "shard" / "model.bin").write_bytes(weights_of(iteration))

    return save


def write(directory: Path, iteration: int, keep: int = 2, state: State | None = None) -> Path:
    return asyncio.run(write_checkpoint(directory, iteration, state or {"n": iteration}, saver(iteration), keep))


def found(directory: Path) -> Checkpoint:
    checkpoint = latest_checkpoint(directory)
    assert checkpoint is not None
    return checkpoint


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_was_written_is_read_back_exactly(tmp_path: Path) -> None:
    state = {"delay": [[1, 2], []], "rate": 0.1 + 0.2, "tiny": 5e-324, "text": "ä\ud800", "none": None}
    path = write(tmp_path / "checkpoints", 7, state=state)
    checkpoint = found(tmp_path / "checkpoints")
    assert checkpoint == Checkpoint(7, path, state)
    assert (checkpoint.weights / "shard" / "model.bin").read_bytes() == weights_of(7)


def test_no_checkpoint_was_written_yet(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "missing") is None
    assert latest_checkpoint(tmp_path) is None


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    for iteration in (1, 2, 9, 10, 11):
        write(tmp_path, iteration, keep=3)
    assert names(tmp_path) == ["000009", "000010", "000011"]


def test_checkpoints_of_a_course_that_was_given_up_go(tmp_path: Path) -> None:
    for iteration in (1, 2, 5):
        write(tmp_path, iteration, keep=3)
    write(tmp_path, 3, keep=3)
    assert names(tmp_path) == ["000001", "000002", "000003"]
    write(tmp_path, 3, keep=3, state={"again": True})
    assert found(tmp_path).state == {"again": True}


def damage(path: Path, how: str) -> None:
    weights = path / "weights" / "shard" / "model.bin"
    match how:
        case "short":
            weights.write_bytes(weights.read_bytes()[:-1])
        case "flipped":
            weights.write_bytes(b"x" + weights.read_bytes()[1:])
        case "missing":
            weights.unlink()
        case "no manifest":
            (path / "manifest.json").unlink()
        case "torn manifest":
            (path / "manifest.json").write_text('{"files": {')
        case "other manifest":
            (path / "manifest.json").write_text('{"files": {}}')


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("short", "weights/shard/model.bin has 999 bytes instead of 1000"),
        ("flipped", "weights/shard/model.bin has changed since it was written"),
        ("missing", "model.bin is missing"),
        ("no manifest", "manifest.json is missing"),
        ("torn manifest", "manifest.json cannot be read"),
        ("other manifest", "state.json is not in its manifest.json"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_and_said_so(tmp_path: Path, how: str, said: str) -> None:
    write(tmp_path, 1)
    damage(write(tmp_path, 2), how)
    checkpoint = found(tmp_path)
    assert checkpoint.iteration == 1
    assert len(checkpoint.passed_over) == 1
    assert said in checkpoint.passed_over[0]
    damage(checkpoint.path, how)
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is complete") as raised:
        latest_checkpoint(tmp_path)
    assert said in str(raised.value)


def test_a_disk_that_fills_up_costs_nothing_but_the_new_checkpoint(tmp_path: Path) -> None:
    async def full(directory: Path) -> None:
        (directory / "model.bin").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def full_in_rust(directory: Path) -> None:
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")

    write(tmp_path, 1)
    for save in (full, full_in_rust):
        with pytest.raises(
            CheckpointError, match=r"iteration 2 .* No space left .* last good one is of iteration 1; free space"
        ):
            asyncio.run(write_checkpoint(tmp_path, 2, {}, save, keep=1))
        assert names(tmp_path) == ["000001"]
        assert found(tmp_path).iteration == 1


def test_other_errors_of_the_saver_are_passed_on(tmp_path: Path) -> None:
    async def broken(directory: Path) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(write_checkpoint(tmp_path, 2, {}, broken, keep=1))
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(tmp_path, 2, state={"loss": float("nan")})
    assert names(tmp_path) == []


WRITER = """
import asyncio, itertools, sys
from pathlib import Path
from spadework.store.checkpoint import latest_checkpoint, write_checkpoint
directory, size = Path(sys.argv[1]), int(sys.argv[2])
async def run():
    last = latest_checkpoint(directory)
    for iteration in itertools.count(0 if last is None else last.iteration + 1):
        async def save(path):
            for number in range(4):
                with (path / f"{number}.bin").open("wb") as file:
                    for _ in range(16):
                        file.write(bytes([iteration % 256]) * (size // 16))
                        file.flush()
        await write_checkpoint(directory, iteration, {"iteration": iteration}, save, keep=2)
        print(iteration, flush=True)
asyncio.run(run())
"""


def start_writer(directory: Path, size: int, limit_bytes: int | None = None) -> subprocess.Popen[str]:
    def limit() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    arguments = [sys.executable, "-c", WRITER, str(directory), str(size)]
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True, preexec_fn=limit)


def assert_whole(checkpoint: Checkpoint, size: int) -> None:
    assert checkpoint.state == {"iteration": checkpoint.iteration}
    for number in range(4):
        content = (checkpoint.weights / f"{number}.bin").read_bytes()
        assert content == bytes([checkpoint.iteration % 256]) * size


def test_a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_had_finished(tmp_path: Path) -> None:
    size = 1 << 16
    moments_s = [0.0, 0.001, 0.002, 0.003, 0.005, 0.008, 0.013, 0.021, 0.034, 0.055]
    interrupted = 0
    for moment_s in moments_s:
        before = latest_checkpoint(tmp_path)
        with start_writer(tmp_path, size) as writer:
            assert writer.stdout is not None
            first = int(writer.stdout.readline())
            time.sleep(moment_s)
            writer.send_signal(signal.SIGKILL)
            finished = [first, *(int(line) for line in writer.stdout if line.endswith("\n"))]
        assert writer.returncode == -signal.SIGKILL
        assert first == (0 if before is None else before.iteration + 1)
        interrupted += any(name.startswith(".") for name in names(tmp_path))
        checkpoint = found(tmp_path)
        assert checkpoint.iteration >= finished[-1]
        assert checkpoint.passed_over == ()
        assert_whole(checkpoint, size)
    assert interrupted >= 3


def test_a_file_size_limit_stops_the_write_and_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    asyncio.run(write_checkpoint(tmp_path, 3, {"iteration": 3}, saver(3), keep=2))
    with start_writer(tmp_path, 1 << 16, limit_bytes=1 << 15) as writer:
        _, errors = writer.communicate()
    assert writer.returncode == 1
    last_line = errors.strip().splitlines()[-1]
    assert "CheckpointError: the checkpoint of iteration 4 could not be written" in last_line
    assert "the last good one is of iteration 3; free space" in last_line
    assert names(tmp_path) == ["000003"]
    assert found(tmp_path).passed_over == ()


def test_a_full_file_system_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if mount is None or os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with start_writer(tmp_path, 1 << 16) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "0\n"
            writer.kill()
        kept = found(tmp_path)
        with start_writer(tmp_path, 1 << 19) as writer:
            _, errors = writer.communicate()
        assert "No space left on device" in errors.strip().splitlines()[-1]
        assert not any(name.startswith(".") for name in names(tmp_path))
        assert found(tmp_path) == kept
        assert_whole(kept, 1 << 16)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_manifest_lists_every_file_with_its_size_and_hash(tmp_path: Path) -> None:
    manifest = json.loads((write(tmp_path, 1) / "manifest.json").read_text())
    assert manifest["iteration"] == 1
    assert sorted(manifest["files"]) == ["state.json", "weights/shard/model.bin"]
    assert manifest["files"]["weights/shard/model.bin"]["bytes"] == 1000
