"""One process writes a run directory, and only ever the run that it was started as."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spadework.config import CheckpointConfig, Config, LearningConfig
from spadework.sandbox.layers import Layer, LayerName
from spadework.sandbox.limits import SandboxConfig
from spadework.store.errors import StoreError
from spadework.store.run_directory import RunDirectory


def test_a_new_directory_holds_the_resolved_configuration(tmp_path: Path) -> None:
    with RunDirectory.create_or_open(tmp_path / "a" / "run", Config(seed=3)) as run:
        assert run.is_new
        with RunDirectory.open_readonly(run.path) as seen:
            assert seen.config == run.config == Config(seed=3)
            assert seen.created == run.created
    head = json.loads((tmp_path / "a" / "run" / "run.json").read_text())
    assert head["format"] == 1
    assert head["spadework"]


def test_the_same_configuration_continues_the_run(tmp_path: Path) -> None:
    RunDirectory.create_or_open(tmp_path / "run", Config()).close()
    with RunDirectory.create_or_open(tmp_path / "run", Config()) as run:
        assert not run.is_new


def test_every_start_is_recorded_with_its_layers(tmp_path: Path) -> None:
    with RunDirectory.create_or_open(tmp_path / "run", Config()) as run:
        assert run.starts() == ()
        run.record_start([Layer(LayerName.PROCESS), Layer(LayerName.LANDLOCK, "none here")])
    with RunDirectory.create_or_open(tmp_path / "run", Config()) as run:
        run.record_start([Layer(LayerName.PROCESS)])
    first, second = RunDirectory.open_readonly(tmp_path / "run").starts()
    assert (first.isolation, second.isolation) == ({"process": "", "landlock": "none here"}, {"process": ""})
    assert run.created <= first.at <= second.at
    head = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (head["format"], head["created"], len(head["starts"])) == (1, run.created, 2)


def test_how_long_a_run_goes_on_and_where_its_programs_run_may_change(tmp_path: Path) -> None:
    RunDirectory.create_or_open(tmp_path / "run", Config(iterations=5)).close()
    elsewhere = SandboxConfig(address="tcp://node-7:8471")
    longer = Config(iterations=9, checkpoint=CheckpointConfig(every=3, keep=5), sandbox=elsewhere)
    with RunDirectory.create_or_open(tmp_path / "run", longer) as run:
        assert not run.is_new
        assert RunDirectory.open_readonly(run.path).config == longer


def test_another_configuration_is_refused_naming_the_key_and_both_values(tmp_path: Path) -> None:
    RunDirectory.create_or_open(tmp_path / "run", Config()).close()
    before = (tmp_path / "run" / "config.json").read_bytes()
    other = Config(learning=LearningConfig(betas=(0.5, 0.98)), iterations=7)
    with pytest.raises(
        StoreError, match=r"has learning.betas = \[0.9, 0.98\] but is now given \[0.5, 0.98\]; give the same"
    ):
        RunDirectory.create_or_open(tmp_path / "run", other)
    assert (tmp_path / "run" / "config.json").read_bytes() == before


def test_a_key_that_one_side_lacks_is_named(tmp_path: Path) -> None:
    RunDirectory.create_or_open(tmp_path / "run", Config()).close()
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    config["gates"]["old_key"] = 1
    path.write_text(json.dumps(config))
    with pytest.raises(StoreError, match=r"has gates.old_key = 1 but is now given nothing"):
        RunDirectory.create_or_open(tmp_path / "run", Config())
    with pytest.raises(StoreError, match=r"does not suit this spadework \(gates.old_key"):
        RunDirectory.open_readonly(tmp_path / "run")


def test_another_format_is_refused(tmp_path: Path) -> None:
    RunDirectory.create_or_open(tmp_path / "run", Config()).close()
    (tmp_path / "run" / "run.json").write_text('{"format": 7, "spadework": "9.1", "created": "2030"}')
    for opened in (
        lambda: RunDirectory.create_or_open(tmp_path / "run", Config()),
        lambda: RunDirectory.open_readonly(tmp_path / "run"),
    ):
        with pytest.raises(
            StoreError, match=r"format 7 \(written by spadework 9.1\) and this spadework reads format 1"
        ):
            opened()


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(StoreError, match=r"holds other files \(thesis.tex\)"):
        RunDirectory.create_or_open(tmp_path, Config())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match="is a file; give a directory"):
        RunDirectory.create_or_open(tmp_path / "thesis.tex", Config())


def test_a_creation_that_was_interrupted_is_started_over(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"seed": 99')
    (tmp_path / "run.json.part").write_text("{")
    (tmp_path / "lock").write_text("process 1 on gone\n")
    with pytest.raises(StoreError, match="not a run directory"):
        RunDirectory.open_readonly(tmp_path)
    with RunDirectory.create_or_open(tmp_path, Config(seed=1)) as run:
        assert run.is_new
        assert RunDirectory.open_readonly(tmp_path).config.seed == 1


def test_two_processes_never_write_one_run(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from spadework.config import Config\n"
        "from spadework.store.run_directory import RunDirectory\n"
        "run = RunDirectory.create_or_open(Path(sys.argv[1]), Config())\n"
        "print('open', flush=True); sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path / "run")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "open\n"
            with pytest.raises(StoreError, match=f"is being written by process {other.pid} on"):
                RunDirectory.create_or_open(tmp_path / "run", Config())
            assert RunDirectory.open_readonly(tmp_path / "run").config == Config()
        finally:
            other.kill()
    RunDirectory.create_or_open(tmp_path / "run", Config()).close()
