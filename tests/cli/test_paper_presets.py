"""The presets of the paper, number by number, against a table made by hand from the paper and the reference."""

from __future__ import annotations

import re
import tomllib
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from spadework.config import COGNITIVE_SKILLS, TOOL_SKILLS, Config
from spadework.presets import load_config, preset_files

GAMES = ("games-qwen3-4b", "games-qwen3-8b", "games-qwen3-30b-a3b", "games-nemotron-3-30b-a3b")
TOOL_USE = ("tool-use-qwen3-4b", "tool-use-qwen3-8b", "tool-use-qwen3-30b-a3b", "tool-use-nemotron-3-30b-a3b")
PAGE = Path(__file__).parents[2] / "docs" / "presets.md"

EVERYWHERE: dict[str, Any] = {
    "iterations": 400,
    "model.prompts": "full",
    "designer.temperature": 0.6,
    "designer.attempts": 5,
    "designer.repair_turns": 0,
    "designer.hint_temperature": 0.3,
    "designer.hint_attempts": 3,
    "designer.difficulty": "medium",
    "agent.temperature": 0.6,
    "agent.max_turns": 25,
    "agent.max_reply_tokens": 8192,
    "agent.max_episode_tokens": 32_768,
    "agent.returns": "terminal",
    "curriculum.environments": 24,
    "curriculum.plays": 16,
    "memory.enabled": True,
    "memory.positives": 2,
    "memory.negatives": 1,
    "memory.candidates": 10,
    "memory.window_rounds": 8,
    "designer_reward.kind": "blend",
    "designer_reward.plateau_weight": 0.6,
    "designer_reward.regret_weight": 0.4,
    "designer_reward.regret_scale": 0.15,
    "designer_reward.plateau_low": 0.4,
    "designer_reward.plateau_high": 0.6,
    "designer_reward.plateau_ramp": 0.25,
    "designer_reward.fast_rate": 0.98,
    "designer_reward.slow_rate": 0.85,
    "learning.learning_rate": 1e-6,
    "learning.weight_decay": 0.1,
    "learning.betas": (0.9, 0.98),
    "learning.minibatches": 2,
    "learning.clip_low": 0.2,
    "learning.clip_high": 0.28,
    "learning.tis_cap": 2.0,
    "learning.normalise_agent": True,
    "checkpoint.every": 16,
}
GAMES_ONLY: dict[str, Any] = {
    "agent.action_format": "boxed",
    "agent.train_malformed_calls": True,
    "curriculum.round_iterations": 4,
    "curriculum.skills": COGNITIVE_SKILLS,
    "curriculum.skills_per_round": 3,
    "corpus.max_tokens": 8000,
}
TOOL_USE_ONLY: dict[str, Any] = {
    "agent.action_format": "tool_call",
    "agent.train_malformed_calls": False,
    "curriculum.round_iterations": 8,
    "curriculum.skills": TOOL_SKILLS,
    "curriculum.skills_per_round": 6,
    "corpus.max_tokens": 6000,
}
BY_MODEL = (
    # setting, then: 4B, 8B, 30B-A3B, Nemotron of the games; the same of tool use
    ("designer.max_tokens", (16_384, 20_000, 16_384, 16_384), (16_384, 20_000, 16_384, 16_384)),
    ("designer.hint_max_tokens", (4096, 8192, 4096, 4096), (2048, 8192, 2048, 2048)),
    ("model.max_context_tokens", (32_768, 40_960, 32_768, 32_768), (32_768, 40_960, 32_768, 32_768)),
    ("agent.thinking", (False, True, False, False), (False, True, False, False)),
    ("learning.kl_coefficient", (0.0, 0.005, 0.0, 0.0), (0.005, 0.005, 0.005, 0.005)),
    (
        "model.path",
        *[
            (
                "Qwen/Qwen3-4B-Instruct-2507",
                "Qwen/Qwen3-8B",
                "Qwen/Qwen3-30B-A3B-Instruct-2507",
                "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            )
        ]
        * 2,
    ),
)


def setting(config: Config, name: str) -> Any:
    return reduce(getattr, name.split("."), config)


@pytest.mark.parametrize("name", [*GAMES, *TOOL_USE])
def test_a_preset_has_the_numbers_of_its_sources(name: str) -> None:
    family, column = (GAMES, 1) if name in GAMES else (TOOL_USE, 2)
    expected = EVERYWHERE | (GAMES_ONLY if family is GAMES else TOOL_USE_ONLY)
    expected |= {row[0]: row[column][family.index(name)] for row in BY_MODEL}
    config = load_config(name)
    assert {key: setting(config, key) for key in expected} == expected


@pytest.mark.parametrize("name", [*GAMES, *TOOL_USE])
def test_every_number_of_a_preset_names_its_source(name: str) -> None:
    lines = preset_files()[name].read_text(encoding="utf-8").splitlines()
    given = [line for line in lines if "=" in line and not line.startswith(("#", "source ="))]
    assert len(given) > 40
    assert [line for line in given if re.search(r"#.*\[[PRS]\]", line) is None] == []


@pytest.mark.parametrize("name", [*GAMES, *TOOL_USE])
def test_an_iteration_of_a_preset_makes_the_plays_of_the_paper(name: str) -> None:
    config = load_config(name)
    assert config.curriculum.environments * config.curriculum.plays == 384
    assert config.iterations % config.curriculum.round_iterations == 0


def test_the_page_of_presets_has_every_setting_of_every_preset() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in (*GAMES, *TOOL_USE):
        assert f"`{name}`" in page
        for section, settings in tomllib.loads(preset_files()[name].read_text(encoding="utf-8")).items():
            for key in settings if isinstance(settings, dict) else ():
                assert f"`{section}.{key}`" in page, (name, section, key)


def test_every_override_of_the_page_changes_the_preset_that_it_is_for() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if "`--set " in line]
    assert len(lines) >= 8
    for line in lines:
        overrides = re.findall(r"--set '?([^'`]+?)'?(?= --set|`)", line)
        assert overrides, line
        changed, base = (load_config("games-qwen3-30b-a3b", given) for given in (overrides, []))
        for override in overrides:
            name = override.partition("=")[0]
            assert setting(changed, name) != setting(base, name), override
