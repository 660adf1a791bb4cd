"""`doctor` says whether training may run here, why not, and what holds a program."""

from __future__ import annotations

import json
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from command_line import Spadework
from ordinary_user import ordinary_python

from spadework.sandbox import LayerName

IMPOSSIBLE = 'sandbox.isolation=["user-nobody", "user-namespace"]'
"""Programs run as user nobody, or in a user namespace of an ordinary user; never both."""


def test_a_machine_that_may_train_is_described_and_the_status_is_0(spadework: Spadework) -> None:
    done = spadework("doctor")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "training may run"
    assert f"spadework {version('spadework')}, Python 3." in done.out
    assert f" torch {version('torch')} can be used " in f" {' '.join(done.out.split())}"
    for name in LayerName:
        assert f" {name} " in done.out
    assert "sandbox.isolation requires seccomp" in done.out
    assert "a harmless program ran" in done.out


def test_json_has_the_same(spadework: Spadework) -> None:
    found = json.loads(spadework("doctor", "--json").out)
    assert found["may_train"] is True
    assert found["problems"] == []
    assert found["cores"] >= 1
    assert found["memory_bytes"] > 1 << 28
    assert [layer["name"] for layer in found["isolation"]["layers"]] == list(LayerName)
    assert all(layer["in_force"] == (not layer["absent_because"]) for layer in found["isolation"]["layers"])
    assert found["isolation"]["required"] == ["seccomp"]
    assert found["probe"]["failure"] == ""
    assert 0 < found["probe"]["worker_start_s"] < found["probe"]["sandbox_start_s"]


def test_a_level_below_that_required_is_a_problem_with_its_remedy(spadework: Spadework) -> None:
    done = spadework("doctor", "--set", IMPOSSIBLE)
    assert done.status == 1
    *_, problem, verdict = done.out.splitlines()
    assert problem.startswith("NO  sandbox.isolation requires what is not in force here: user-n")
    assert problem.endswith("or leave it out of sandbox.isolation")
    assert verdict == "training may not run"
    found = json.loads(spadework("doctor", "--json", "--set", IMPOSSIBLE).out)
    assert found["problems"] == [problem.removeprefix("NO  ")]


def test_a_run_below_its_level_is_refused_before_anything_is_written(spadework: Spadework, tmp_path: Path) -> None:
    done = spadework("train", "quickstart", "--set", IMPOSSIBLE, "--run", tmp_path / "run")
    assert done.sentence.startswith("sandbox.isolation requires what is not in force here: user-n")
    assert not (tmp_path / "run").exists()


def test_a_package_that_is_not_installed_is_named_with_its_extra(
    spadework: Spadework, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(name: str) -> str:
        if name in ("renderers", "pyarrow"):
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("spadework.cli.machine.version", installed)
    done = spadework("doctor", "--json")
    assert done.status == 1
    # Training does without pyarrow.
    assert json.loads(done.out)["problems"] == [
        "training needs renderers, not installed: pip install 'spadework[train]'"
    ]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ImportError('libfoo.so: cannot open')", "(ImportError: libfoo.so: cannot open)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "(the process ended with status -4 here or before)"),
    ],
)
def test_a_package_that_cannot_be_imported_is_found_out(
    spadework: Spadework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    (tmp_path / "safetensors.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = spadework("doctor", "--json")
    assert done.status == 1
    problems = json.loads(done.out)["problems"]
    assert f"safetensors {version('safetensors')} cannot be imported {told}; install it again: pip " in " ".join(
        problems
    )
    assert not any(problem.startswith("torch ") for problem in problems)


def test_a_program_that_cannot_be_started_is_a_problem(spadework: Spadework) -> None:
    done = spadework("doctor", "--json", "--set", "sandbox.max_source_chars=10")
    assert done.status == 1
    (problem,) = json.loads(done.out)["problems"]
    assert problem.startswith("a harmless program does not run in the sandbox: load: the source has ")


def test_an_ordinary_user_is_told_of_its_own_layers() -> None:
    process = ordinary_python("from spadework.cli import main; main()", "doctor", "--json")
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, out + errors
    absent = {layer["name"]: layer["absent_because"] for layer in json.loads(out)["isolation"]["layers"]}
    assert "only root can change users" in absent["user-nobody"]
    assert absent["seccomp"] == ""


def test_with_an_address_the_layers_are_those_of_the_sandbox_there(spadework: Spadework) -> None:
    here = json.loads(spadework("doctor", "--json").out)["isolation"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        address = f"unix:{folder}/socket"
        serve = "import sys; from spadework.cli import main; main()"
        process = ordinary_python(serve, "sandbox", "serve", "--unix", f"{folder}/socket")
        try:
            assert process.stdout is not None
            while "listening" not in process.stdout.readline():
                assert process.poll() is None
            there = json.loads(spadework("doctor", "--json", "--set", f"sandbox.address={address}").out)["isolation"]
            told = spadework("doctor", "--set", f"sandbox.address={address}").out
        finally:
            process.kill()
            process.communicate()
    assert (here["address"], there["address"]) == ("", address)
    assert f"isolation at {address}: " in told
    assert f"a harmless program ran at {address}: " in told
    absent = {layer["name"]: layer["absent_because"] for layer in there["layers"]}
    assert "only root can change users" in absent["user-nobody"]
    assert absent["seccomp"] == ""


def test_a_sandbox_that_cannot_be_reached_is_a_problem(spadework: Spadework, tmp_path: Path) -> None:
    done = spadework("doctor", "--json", "--set", f"sandbox.address=unix:{tmp_path}/socket")
    assert done.status == 1
    (problem,) = json.loads(done.out)["problems"]
    assert problem.startswith(
        f"a harmless program does not run in the sandbox at unix:{tmp_path}/socket: no sandbox answers at "
    )
