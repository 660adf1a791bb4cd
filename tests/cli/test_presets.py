"""Configurations by name and by file, with overrides."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spadework.cli.evaluate import _config_of_model
from spadework.config import Config
from spadework.presets import ConfigError, change_config, load_config, preset_files, preset_summary

ROOT = Path(__file__).parents[2]


def refusal(preset: str | Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load_config(str(preset), overrides)
    return str(refused.value)


def test_every_shipped_preset_is_a_configuration_and_says_what_it_is() -> None:
    presets = preset_files()
    assert "quickstart" in presets
    for name, path in presets.items():
        load_config(name)
        assert preset_summary(path)


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("iterations = 7\n[agent]\nmax_turns = 3\n[designer]\nmax_tokens = 100\n")
    expected = Config().model_dump()
    expected["iterations"] = 7
    expected["agent"]["max_turns"] = 3
    expected["designer"]["max_tokens"] = 100
    expected["designer"]["hint_max_tokens"] = 512
    assert load_config(str(file)).model_dump() == expected


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("seed=3", 3),
        ("learning.learning_rate=1e-4", 1e-4),
        ("agent.thinking=true", True),
        ("corpus.source=docs", "docs"),
        ('corpus.source="docs"', "docs"),
        ("corpus.source = docs", "docs"),
        ("corpus.source=python:json,csv", "python:json,csv"),
        ("corpus.source=2024", "2024"),
        ("model.path=a=b", "a=b"),
        ("designer_reward.invalid=none", None),
        ("designer_reward.invalid=-0.5", -0.5),
        ("model.path=none", "none"),
        ("learning.betas=[0.9, 0.95]", (0.9, 0.95)),
        ('curriculum.skills=["optimization", "causal inference", "logical deduction"]', None),
    ],
)
def test_an_override_is_a_toml_value_and_text_needs_no_quotes(override: str, value: object) -> None:
    config = load_config("quickstart", [override])
    key = override.partition("=")[0].strip()
    section, _, name = key.rpartition(".")
    found = getattr(getattr(config, section) if section else config, name)
    if key == "curriculum.skills":
        value = ("optimization", "causal inference", "logical deduction")
    assert found == value
    assert type(found) is type(value)


def test_an_override_comes_after_the_file_and_a_later_one_after_an_earlier() -> None:
    assert load_config("quickstart", ["iterations=3", "iterations=4"]).iterations == 4


def test_a_configuration_can_be_changed_without_a_file() -> None:
    changed = change_config(Config(), ["gates.seeds=8", "designer_reward.invalid=none"])
    assert changed.gates.seeds == 8
    assert changed.designer_reward.invalid is None
    assert change_config(changed, ["seed=1"]).designer_reward.invalid is None
    assert change_config(changed, []) == changed


def test_an_override_cannot_set_two_things() -> None:
    assert "seed is '1\\niterations = 5'" in refusal("quickstart", "seed=1\niterations = 5")


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        # Misspelt: a sibling, a section, a name without its section, a key below a setting, nothing alike.
        ("learning.learning_rte=1", ("learning.learning_rte", "learning.learning_rate")),
        ("lerning.learning_rate=1", ("lerning", "learning")),
        ("learning_rate=1", ("learning_rate", "learning.learning_rate")),
        ("seed.x=1", ("seed.x", "seed")),
        ("learning.zzz=1", ("learning.zzz", "learning.betas")),
        # Not an assignment, a section in place of a setting.
        ("iterations", ("iterations", "curriculum.plays=8")),
        ("=4", ("=4", "curriculum.plays=8")),
        ("learning..betas=4", ("learning..betas", "curriculum.plays=8")),
        ("learning=4", ("learning", "section")),
        # Values of the wrong kind or out of range.
        ("curriculum.plays=many", ("curriculum.plays", "'many'", "integer")),
        ("curriculum.plays=2.5", ("curriculum.plays", "2.5", "integer")),
        ("curriculum.plays=true", ("curriculum.plays", "true", "number")),
        ("iterations=0", ("iterations", "0", "greater than 0")),
        ("learning.minibatches=1", ("learning.minibatches", "1", "greater than or equal to 2")),
        ("learning.learning_rate=inf", ("learning.learning_rate", "inf", "finite")),
        ("learning.learning_rate=nan", ("learning.learning_rate", "nan", "finite")),
        ("agent.temperature=3", ("agent.temperature", "3", "less than or equal to 2")),
        ("agent.returns=mean", ("agent.returns", "'mean'", "'terminal', 'best' or 'sum'")),
        ("agent.thinking=perhaps", ("agent.thinking", "'perhaps'", "true, false, or an effort")),
        ("curriculum.skills=logic", ("curriculum.skills", "'logic'", "list")),
        ("sandbox.step_timeout_s=-1", ("sandbox.step_timeout_s", "-1", "greater than 0")),
        ("seed=none", ("seed", "'none'", "integer")),
    ],
)
def test_a_wrong_override_is_told_with_its_place_and_what_would_be_right(override: str, parts: tuple[str, ...]) -> None:
    sentence = refusal("quickstart", override)
    assert "\n" not in sentence
    assert "--set" in sentence
    for part in parts:
        assert part in sentence


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        # Groups: the number of slots must fit the skills, and a play needs another one to be compared with.
        (
            ("curriculum.environments=10", "curriculum.skills_per_round=3"),
            ("curriculum.environments (10)", "curriculum.skills_per_round (3)", "9"),
        ),
        (
            ("curriculum.skills_per_round=7", "curriculum.environments=14"),
            ("curriculum.skills_per_round is 7", "curriculum.skills has 6", "1 to 6"),
        ),
        (("curriculum.plays=1",), ("curriculum.plays", "at least 2")),
        # Batches.
        (
            ("designer_reward.kind=learning-progress", "curriculum.round_iterations=1"),
            ("learning-progress", "curriculum.round_iterations (1)", "at least 2"),
        ),
        (
            ("curriculum.environments=3", "curriculum.plays=2", "learning.minibatches=7"),
            ("learning.minibatches is 7", "curriculum.environments", "curriculum.plays", "2 to 6"),
        ),
        (
            ("designer.max_tokens=900", "model.max_context_tokens=640"),
            ("designer.max_tokens is 900", "model.max_context_tokens is 640", "below 640", "above 900"),
        ),
        (
            ("designer.hint_max_tokens=640", "model.max_context_tokens=640"),
            ("designer.hint_max_tokens is 640", "model.max_context_tokens is 640"),
        ),
        (
            ("gates.judge=self", "gates.judge_max_tokens=640"),
            ("gates.judge_max_tokens is 640", "model.max_context_tokens is 640"),
        ),
        # Endpoints.
        (
            ("roles.designer=endpoint", "endpoint.base_url=http://localhost:1/v1"),
            ("roles.designer", "endpoint.model is not set"),
        ),
        (("gates.judge=endpoint", "endpoint.model=m"), ("gates.judge", "endpoint.base_url is not set")),
        (
            ("endpoint.base_url=http://localhost:1/v1", "endpoint.model=m"),
            ("endpoint.base_url", "nothing uses the endpoint", "roles.designer", "gates.judge"),
        ),
        (("endpoint.base_url=localhost:1",), ("localhost:1", "https:// or http://")),
        (("endpoint.budget=5",), ("endpoint.budget", "endpoint.price_per_million_input", "endpoint.budget_tokens")),
        # Rewards.
        (
            ("designer_reward.plateau_low=0.7",),
            ("designer_reward.plateau_low", "designer_reward.plateau_high"),
        ),
        (
            ("designer_reward.slow_rate=0.99",),
            ("designer_reward.slow_rate", "designer_reward.fast_rate"),
        ),
    ],
)
def test_settings_that_no_run_can_have_together_are_told_with_the_legal_values(
    overrides: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    sentence = refusal("quickstart", *overrides)
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence


def test_token_budgets_of_roles_at_the_endpoint_need_not_fit_the_policys_context() -> None:
    served = ("endpoint.base_url=http://localhost:1/v1", "endpoint.model=m", "roles.designer=endpoint")
    config = load_config("quickstart", (*served, "designer.max_tokens=9000"))
    assert config.designer.max_tokens > config.model.max_context_tokens
    assert config.endpoint_users == ("roles.designer",)


def test_a_misspelt_key_of_a_file_is_told_with_its_line_and_the_nearest_key(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("iterations = 7\n\n[curriculum]\nplays = 4\nround_iteration = 2\n")
    sentence = refusal(file)
    assert f"curriculum.round_iteration (in {file}, line 5)" in sentence
    assert "did you mean curriculum.round_iterations?" in sentence


def test_a_misspelt_section_of_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("# mine\n[curiculum]\nplays = 4\n")
    sentence = refusal(file)
    assert f"curiculum (in {file}, line 2)" in sentence
    assert "did you mean curriculum?" in sentence


def test_a_wrong_value_of_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[agent]\nreturns = "mean"\n')
    assert f"agent.returns is 'mean' (in {file}, line 2)" in refusal(file)


def test_several_wrong_values_are_told_one_a_line() -> None:
    lines = refusal("quickstart", "iterations=0", "curriculum.plays=many").splitlines()
    assert [line.split()[0] for line in lines] == ["iterations", "curriculum.plays"]


def test_files_that_are_no_configuration_are_named(tmp_path: Path) -> None:
    broken, binary, folder = tmp_path / "broken.toml", tmp_path / "binary.toml", tmp_path / "folder.toml"
    broken.write_text("iterations = \n")
    binary.write_bytes(b"\xff\xfe\x00")
    folder.mkdir()
    assert "is not TOML" in refusal(broken) and "line 1" in refusal(broken)
    assert "is not UTF-8 text" in refusal(binary)
    assert "is a directory" in refusal(folder)
    assert "does not exist" in refusal(tmp_path / "missing.toml")


def test_an_unknown_preset_is_told_with_the_nearest_names_and_where_the_list_is() -> None:
    near, far = refusal("quickstrat"), refusal("zzz")
    assert "'quickstrat'" in near and "did you mean quickstart" in near
    assert "quickstart" in far
    assert "spadework presets" in near and "spadework presets" in far


def test_an_installed_package_has_its_presets(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    script = "from spadework import presets; print(*map(str, presets.preset_files().values()), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    folder = tmp_path / "installed" / "spadework" / "configs"
    assert done.stdout.split() == [str(folder / path.name) for path in preset_files().values()]


@pytest.mark.parametrize(("made_for", "taken"), [(4096, 4096), (1_000_000, 32_768)])
def test_a_model_without_a_preset_is_asked_in_its_own_context(tmp_path: Path, made_for: int, taken: int) -> None:
    (tmp_path / "config.json").write_text(f'{{"max_position_embeddings": {made_for}}}')
    assert _config_of_model(str(tmp_path), None, ()).model.max_context_tokens == taken
    assert _config_of_model(str(tmp_path), "quickstart", ()).model.max_context_tokens == 640
