"""`train --dry-run` tells all reasons at once and writes nothing."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from command_line import Spadework

from spadework.cli.machine import packages
from spadework.cli.plan import plan_of
from spadework.presets import load_config
from spadework.seedmodel.shipped import model_directory
from spadework.store.run_directory import RunDirectory

imported_once = cache(packages)
"""Importing every package takes seconds, and is the same for all tests."""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty directory, with a hub's cache that is empty too."""
    monkeypatch.setattr("spadework.cli.machine.packages", imported_once)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def problems(out: str) -> list[str]:
    return [line.removeprefix("NO").strip() for line in out.splitlines() if line.startswith("NO ")]


def everything_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_the_quickstart_may_start_and_nothing_is_written(spadework: Spadework, tmp_path: Path) -> None:
    done = spadework("train", "quickstart", "--dry-run")
    assert done.status == 0, done
    assert done.out.splitlines()[-1] == "the run may start"
    assert problems(done.out) == []
    for words in ("plays in all", "4,608", "1,710,016", "811 documents", "one checkpoint", "seccomp"):
        assert words in done.out
    assert everything_below(tmp_path) == {str(tmp_path / "here"): b""}


def test_a_preset_whose_model_is_not_here_has_its_plan_and_that_reason(spadework: Spadework) -> None:
    done = spadework("train", "games-qwen3-4b", "--dry-run")
    assert done.status == 1
    assert "192,000" in done.out
    assert "4,022,468,096" in done.out
    assert "as published" in done.out
    reasons = problems(done.out)
    assert "model: the model Qwen/Qwen3-4B-Instruct-2507 does not exist" in reasons[0]
    assert "hf download Qwen/Qwen3-4B-Instruct-2507" in reasons[0]


def test_a_model_that_nobody_knows_leaves_the_rest_of_the_plan(spadework: Spadework) -> None:
    done = spadework("train", "quickstart", "--set", "model.path=nobody/knows", "--dry-run")
    assert done.status == 1
    assert "memory and disk: not known" in done.out
    assert "108,392" in done.out
    assert len(problems(done.out)) == 1


def test_all_reasons_are_told_at_once(spadework: Spadework, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(model_directory(), bad)
    (bad / "chat_template.jinja").unlink()
    (bad / "model.safetensors").unlink()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    settings = (f"model.path={bad}", "model.max_context_tokens=2048", "corpus.source=nowhere.jsonl")
    given = [part for setting in settings for part in ("--set", setting)]
    done = spadework("train", "quickstart", *given, "--run", tmp_path / "taken", "--dry-run")
    assert done.status == 1
    reasons = problems(done.out)
    expected = ("run directory: ", "has no weights", "at most 1024", "has no chat template", "nowhere.jsonl does not")
    assert len(reasons) == len(expected)
    for reason, part in zip(reasons, expected, strict=True):
        assert part in reason
    assert done.out.splitlines()[-1] == "5 reasons against this run"


@pytest.mark.parametrize(
    ("content", "part"),
    [("{", "cannot be read"), ('{"model_type": "unheard-of"}', "cannot be read"), (None, "has no config.json")],
)
def test_a_configuration_of_a_model_that_cannot_be_read_is_told(
    spadework: Spadework, tmp_path: Path, content: str | None, part: str
) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(model_directory(), bad)
    (bad / "config.json").unlink()
    if content is not None:
        (bad / "config.json").write_text(content)
    done = spadework("train", "quickstart", "--set", f"model.path={bad}", "--dry-run")
    assert done.status == 1
    assert any(part in reason for reason in problems(done.out)), done.out


def test_a_model_with_layers_that_the_engine_does_not_know_is_told(spadework: Spadework) -> None:
    done = spadework("train", "games-nemotron-3-30b-a3b", "--dry-run")
    assert any("46 of its 52 layers are not attention" in reason for reason in problems(done.out))


def test_files_of_weights_that_the_index_names_must_be_there(spadework: Spadework, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(model_directory(), bad)
    files = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (bad / "model.safetensors").rename(bad / "model-1.safetensors")
    (bad / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    done = spadework("train", "quickstart", "--set", f"model.path={bad}", "--dry-run")
    assert any("lacks 1 of 2 files of weights, first model-2.safetensors" in reason for reason in problems(done.out))


def test_a_run_that_is_there_must_be_of_the_same_configuration(spadework: Spadework, tmp_path: Path) -> None:
    run = tmp_path / "run"
    RunDirectory.create_or_open(run, load_config("quickstart")).close()
    before = everything_below(run)
    same = spadework("train", "quickstart", "--run", run, "--dry-run")
    other = spadework("train", "quickstart", "--set", "seed=1", "--run", run, "--dry-run")
    assert same.status == 0
    assert "would be continued" in same.out
    assert other.status == 1
    assert any("has seed = 0 but is now given 1" in reason for reason in problems(other.out))
    assert everything_below(run) == before


def test_json_has_the_plan_and_the_reasons(spadework: Spadework) -> None:
    done = spadework("train", "games-qwen3-8b", "--set", "corpus.source=nowhere", "--dry-run", "--json")
    assert done.status == 1
    found = json.loads(done.out)
    assert found["may_train"] is False
    assert len([reason for reason in found["problems"] if "Qwen3-8B" in reason or "nowhere" in reason]) == 2
    plan = plan_of(load_config("games-qwen3-8b"))
    assert found["plan"]["plays"] == plan.plays == 192_000
    assert found["model"]["parameters"] == 8_190_735_360
    assert found["memory_bytes"]["held"]["weights"] == 4 * 8_190_735_360
    assert found["disk_bytes"]["checkpoint"] == 12 * 8_190_735_360
    assert found["config"]["agent"]["thinking"] is True


def test_json_is_for_dry_runs(spadework: Spadework) -> None:
    assert "--json is for --dry-run" in spadework("train", "quickstart", "--json").sentence


def test_a_model_in_the_cache_of_the_hub_is_found_by_its_name(spadework: Spadework, tmp_path: Path) -> None:
    repository = tmp_path / "cache" / "models--someone--small"
    commit = "0123456789" * 4
    shutil.copytree(model_directory(), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    done = spadework("train", "quickstart", "--set", "model.path=someone/small", "--dry-run")
    assert done.status == 0, done.out
    assert "template of someone/small" in done.out


def test_an_endpoint_needs_its_key_and_is_not_asked(spadework: Spadework, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://localhost:1/v1"  # where nobody answers
    served = (
        "endpoint.model=m",
        f"endpoint.base_url={url}",
        "gates.judge=endpoint",
        "endpoint.key_variable=QUARRY_KEY",
    )
    command = ["train", "quickstart", "--dry-run", *(part for setting in served for part in ("--set", setting))]
    monkeypatch.delenv("QUARRY_KEY", raising=False)
    done = spadework(*command)
    (reason,) = problems(done.out)
    assert done.status == 1 and "QUARRY_KEY, which is not set" in reason
    monkeypatch.setenv("QUARRY_KEY", "sk-not-to-be-seen")
    done = spadework(*command)
    assert done.status == 0 and f"m at {url} for gates.judge" in done.out
    assert "sk-not-to-be-seen" not in done.out
