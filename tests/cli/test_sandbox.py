"""`spadework sandbox serve`, and commands whose programs run there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Spadework

LOCK = Path(__file__).parents[2] / "examples" / "cellar_lock.py"
START = "import sys; sys.argv[0] = 'spadework'; from spadework.cli import main; main()"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", START, "sandbox", "serve", "--unix", str(tmp_path / "socket")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        yield process
        process.kill()


def test_programs_are_checked_where_the_setting_says(
    spadework: Spadework, server: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert server.stdout is not None
    assert "seccomp" in server.stdout.readline()
    listening = server.stdout.readline()
    assert listening == f"listening; a run comes here with --set sandbox.address=unix:{tmp_path / 'socket'}\n"
    here = spadework("check", LOCK, "--json")
    there = spadework("check", LOCK, "--json", "--set", f"sandbox.address=unix:{tmp_path / 'socket'}")
    assert there.status == 0
    reports = [json.loads(done.out)[0] for done in (here, there)]
    for report in reports:
        for gate in report["gates"]:
            del gate["seconds"]
    assert reports[0] == reports[1]
    os.killpg(server.pid, signal.SIGINT)
    connected, left, stopped = server.stdout.read().splitlines()
    assert (connected, stopped) == ("client 1 connected", "stopped")
    assert re.fullmatch(r"client 1 left after 2 programs and \d+ plays", left)
    assert server.wait(180) == 0


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is missing: pip install 'spadework[ray]'")
def test_programs_are_checked_on_a_ray_cluster(tmp_path: Path) -> None:
    """In a process of its own, as is usual: Ray starts with the command and ends with it."""

    def check(*arguments: str) -> list[dict[str, object]]:
        command = [sys.executable, "-c", START, "check", str(LOCK), "--json", *arguments]
        environment = {**os.environ, "RAY_ADDRESS": "local", "RAY_worker_niceness": "0"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        (report,) = json.loads(done.stdout)
        return [{key: value for key, value in gate.items() if key != "seconds"} for gate in report["gates"]]

    assert check("--set", "sandbox.address=ray") == check()


def test_a_sandbox_that_is_not_there_is_named(spadework: Spadework, tmp_path: Path) -> None:
    sentence = spadework("check", LOCK, "--set", f"sandbox.address=unix:{tmp_path / 'none'}").sentence
    assert sentence.startswith(f"no sandbox answers at unix:{tmp_path / 'none'} (No such file or directory); start one")


def test_what_is_no_address_is_refused(spadework: Spadework) -> None:
    sentence = spadework("check", LOCK, "--set", "sandbox.address=node-7").sentence
    assert sentence == (
        "sandbox.address: 'node-7' is no address of a sandbox; it should be tcp://HOST:PORT, unix:PATH, ray or "
        "ray://HOST:PORT, or empty for this machine"
    )


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("sandbox.address=unix:here", "a server takes --host and --port, or --unix"),
        ("seed=1", "--set seed=1: a server has the settings of the section sandbox alone"),
        ("sandbox.memory_mb=1", "sandbox.memory_mb is 1"),
        ("sandbox.actors=2", "sandbox.actors is 2 and programs do not run on Ray"),
    ],
)
def test_settings_that_a_server_does_not_have_are_refused(spadework: Spadework, setting: str, words: str) -> None:
    assert words in spadework("sandbox", "serve", "--unix", "socket", "--set", setting).sentence
