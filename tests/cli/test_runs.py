"""What the commands say of a run that was written beforehand, without a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import synthetic_run
from conftest import Spadework
from rich.console import Console

from spadework.cli.closing import print_closing
from spadework.cli.watching import Watching
from spadework.progress import Observer, Stage


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_run.write_run(tmp_path_factory.mktemp("runs") / "tour")


def first_id(spadework: Spadework, run: Path) -> str:
    listed = json.loads(spadework("show", run, "--json").out)
    return str(listed["environments"][0]["id"])


def test_show_lists_rounds_and_the_environments_of_the_last_one(spadework: Spadework, run: Path) -> None:
    done = spadework("show", run)
    assert done.status == 0
    assert "frontier" in done.out
    assert first_id(spadework, run)[:12] in done.out


def test_show_of_an_environment_has_its_program_hint_document_gates_and_both_arms(
    spadework: Spadework, run: Path
) -> None:
    id_ = first_id(spadework, run)
    found = json.loads(spadework("show", run, id_, "--json").out)
    told = spadework("show", run, id_).out
    assert {episode["arm"] for episode in found["episodes"]} == {"plain", "hinted"}
    assert found["environment"]["class_name"] in told
    assert found["document"]["title"] in told
    for gate in found["attempt"]["gates"]:
        assert gate["gate"] in told
    for line in ("Program", "Hint", "Both arms", "Episodes"):
        assert line in told


def test_show_of_an_episode_has_every_turn_with_its_action_and_reward(spadework: Spadework, run: Path) -> None:
    id_ = first_id(spadework, run)
    number = json.loads(spadework("show", run, id_, "--json").out)["episodes"][0]["row"]
    turns = json.loads(spadework("show", run, id_, number, "--json").out)["episode"]["turns"]
    told = spadework("show", run, id_, number).out
    assert told.count("action '") == len(turns) > 0
    assert f"action {turns[-1]['action']!r}, reward {turns[-1]['reward']:g}" in told


def test_show_attempts_has_the_gate_that_rejected_and_why(spadework: Spadework, run: Path) -> None:
    attempts = json.loads(spadework("show", run, "--attempts", "--json").out)
    rejected = [gate for one in attempts for gate in one["gates"] if not gate["passed"]]
    told = spadework("show", run, "--attempts").out
    assert rejected
    assert all(gate["gate"] in told for gate in rejected)


def test_what_a_run_does_not_have_is_told_with_what_it_has(spadework: Spadework, run: Path) -> None:
    assert "no round 7; it has the rounds 0 to 0" in spadework("show", run, "--round", 7).sentence
    assert "no environment" in spadework("show", run, "zz").sentence
    assert "no episode 99999" in spadework("show", run, first_id(spadework, run), 99999).sentence


def test_a_run_that_wrote_no_environment_yet_has_nothing_to_show(spadework: Spadework, tmp_path: Path) -> None:
    begun = synthetic_run.write_run(tmp_path / "begun", iterations=0)
    assert str(begun) in spadework("show", begun).sentence


def test_report_prints_where_it_is(spadework: Spadework, tmp_path: Path) -> None:
    own = synthetic_run.write_run(tmp_path / "own", iterations=2)
    done = spadework("report", own)
    assert done.status == 0
    paths = [Path(line.split(": ", 1)[1]) for line in done.out.splitlines()]
    assert [path.is_file() for path in paths] == [True, True]


def test_closing_table_has_rates_before_and_after_with_the_paired_interval(run: Path) -> None:
    with Console(width=160, record=True) as console:
        print_closing(console, run, synthetic_run.CONFIG)
    told = console.export_text()
    items_in = len(synthetic_run.evaluation(0, 0, 0).solved(synthetic_run.Split.IN_FAMILY))
    difference = (synthetic_run.IN_AFTER - synthetic_run.IN_BEFORE) / items_in
    assert "in-family" in told
    assert "out-of-family" in told
    assert f"{difference:+.3f} (" in told
    assert "time:" in told
    assert "nothing was trained" not in told


def test_iterations_that_trained_nothing_are_told(run: Path, tmp_path: Path) -> None:
    idle = tmp_path / "idle"
    shutil.copytree(run, idle)
    lines = [json.loads(line) for line in (idle / "metrics.jsonl").read_text().splitlines()]
    trained = [line for line in lines if line["iteration"] >= 0]
    for number, line in enumerate(trained):
        line["learning/skipped"] = int(number in (1, 2))
    assert len(trained) < len(lines), "the evaluation before training has a line of its own"
    (idle / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Console(width=160, record=True) as console:
        print_closing(console, idle, synthetic_run.CONFIG)
    assert f"nothing was trained in 2 of {len(trained)} iterations" in console.export_text()


def watch(console: Console) -> None:
    with Watching(console) as watching:
        observer: Observer = watching
        observer.started(0, 2)
        observer.stage_started(-1, Stage.EVALUATION)
        observer.iteration_ended(-1, {"heldout/in_family": 0.25, "time/iteration_s": 3.0})
        observer.stage_started(0, Stage.PLAY)
        observer.iteration_ended(0, {"agent/plain_win_rate": 0.5, "time/iteration_s": 61.0})
        observer.iteration_ended(1, {"agent/plain_win_rate": 0.75, "time/iteration_s": 61.0, "learning/skipped": 1})


def test_a_log_gets_one_plain_line_per_iteration_with_its_numbers() -> None:
    with Console(width=120, record=True) as console:
        watch(console)
    before, first, last = console.export_text().splitlines()
    assert before == "before training  3.0 s  held out in-family 0.25"
    assert first.startswith("iteration 1/2  61 s  plain 0.50  about ")
    assert last == "iteration 2/2  61 s  plain 0.75  nothing to train"


def test_a_terminal_gets_the_same_lines_and_what_is_being_done() -> None:
    console = Console(width=120, record=True, force_terminal=True)
    watch(console)
    told = console.export_text()
    assert "iteration 2/2  61 s  plain 0.75" in told
