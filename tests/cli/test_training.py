"""A whole run from the command line, stopped with Ctrl-C on the way."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Spadework

SETTINGS = (
    *("iterations=2", "curriculum.environments=3", "curriculum.plays=2", "designer.attempts=1"),
    *("gates.seeds=2", "gates.random_plays=2", "evaluation.items=1", "evaluation.every=0"),
)


@pytest.mark.slow
def test_a_run_that_ctrl_c_stopped_is_continued_by_the_command_that_it_names(
    spadework: Spadework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["train", "quickstart", *(part for setting in SETTINGS for part in ("--set", setting)), "--run", "tour"]
    command = [str(Path(sys.executable).with_name("spadework")), *given]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        lines = []
        for line in training.stdout:
            lines.append(line)
            if line.startswith("iteration 1/2"):
                training.send_signal(signal.SIGINT)
        assert training.stderr is not None
        sentence, again = training.stderr.read().splitlines()
    assert training.returncode == 130
    assert lines[0] == "run: tour\n"
    assert "interrupted (SIGINT)" in sentence
    assert "the same command continues it" in sentence
    assert shlex.split(again) == ["spadework", *given]

    monkeypatch.chdir(tmp_path)
    done = spadework(*given)
    assert done.status == 0
    assert "continuing with iteration" in done.out
    assert "iteration 1/2" not in done.out
    told = [line for line in done.out.splitlines() if line.strip()]
    for words in ("held-out items solved, in-family", "out-of-family", "valid first attempts", "at the frontier"):
        assert any(words in line for line in told)
    assert told[-1].startswith("report: ")
    assert Path(told[-1].removeprefix("report: ")).is_file()
    rows = [json.loads(line) for line in (tmp_path / "tour" / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [-1, 0, 1]

    starts = json.loads((tmp_path / "tour" / "run.json").read_text())["starts"]
    assert [start["isolation"]["seccomp"] for start in starts] == ["", ""]
    report = Path(told[-1].removeprefix("report: ")).with_suffix(".md").read_text()
    assert report.count("Programs were isolated from") == 1

    found = json.loads(spadework("eval", "tour", "--items", 1, "--temperature", 0, "--json").out)
    assert found["evaluation"]["iterations"] == 2
    assert found["evaluation"]["temperature"] == 0
    assert {family["asked"] for family in found["families"].values()} == {1}
