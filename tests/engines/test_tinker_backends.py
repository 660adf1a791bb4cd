"""What a configuration asks and a backend would ignore is refused in a sentence that says what to set."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from fake_service import table_config
from pydantic import ValidationError

from spadework.config import Config
from spadework.engines.base import EngineFault
from spadework.engines.open import notes_of, open_engine
from spadework.engines.tinker.backends import BACKENDS, require_possible
from spadework.presets import ConfigError, load_config

OWN = ("skyrl-jax", "skyrl-fsdp", "skyrl-megatron")


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_takes_a_configuration_that_asks_what_it_can(backend: str) -> None:
    require_possible(table_config(backend))


@pytest.mark.parametrize(
    ("backend", "sections", "words"),
    [
        ("hosted", {"agent": {"temperature": 0.8}}, "agent.temperature is 0.8, .*set agent.temperature=1"),
        ("skyrl-fsdp", {"designer": {"temperature": 1.2}}, "designer.temperature is 1.2"),
        ("skyrl-jax", {"learning": {"max_grad_norm": 1.0}}, "never clips gradients; set learning.max_grad_norm=none"),
        ("skyrl-megatron", {"learning": {"max_grad_norm": None}}, "always clips gradients"),
        ("skyrl-fsdp", {"learning": {"kl_coefficient": 0.1}}, "no reference to score with"),
        ("skyrl-jax", {"model": {"lora_rank": 0}}, "trains adapters only; set it to at least 1"),
        ("hosted", {"model": {"lora_rank": 0}}, "trains adapters only"),
        ("hosted", {"engine.tinker": {"model": ""}}, "engine.tinker.model is empty"),
        ("skyrl-jax", {"engine.tinker": {"base_url": None}}, "a server of your own; set it to the server's address"),
    ],
)
def test_what_a_backend_would_ignore_is_refused(backend: str, sections: dict[str, Any], words: str) -> None:
    tree = table_config(backend).model_dump()
    for section, values in sections.items():
        place = tree["engine"]["tinker"] if section == "engine.tinker" else tree[section]
        place.update(values)
    with pytest.raises(EngineFault, match=words):
        require_possible(Config.model_validate(tree))


def test_full_training_is_for_the_backends_that_can() -> None:
    tree = table_config("skyrl-fsdp").model_dump()
    tree["model"]["lora_rank"] = 0
    require_possible(Config.model_validate(tree))


def test_who_starts_a_run_is_told_which_settings_the_server_must_be_given() -> None:
    (note,) = notes_of(table_config("skyrl-megatron", learning={"weight_decay": 0.05}))
    assert "learning.weight_decay (0.05)" in note and "learning.betas (0.9, 0.98)" in note
    (note,) = notes_of(table_config("skyrl-jax"))
    assert "learning.weight_decay (0.01) to every adapter of the server" in note
    without = {"weight_decay": 0.0}
    assert notes_of(table_config("skyrl-jax", learning=without)) == notes_of(table_config("hosted")) == ()
    assert notes_of(Config()) == ()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["engine.tinker.model=x"], 'engine.tinker.model has no effect with engine.kind "local"'),
        (["engine.kind=tinker", "engine.threads=2"], 'engine.threads has no effect with engine.kind "tinker"'),
        (["engine.tinker.base_url=http://me:secret@host"], "hold no password"),
        (["engine.tinker.base_url=host:80"], "must start with http"),
        (["engine.tinker.rank=3"], "there is no setting engine.tinker.rank"),
        (["engine.tinker.backend=skyrl"], "engine.tinker.backend is 'skyrl'"),
    ],
)
def test_settings_that_have_no_effect_or_do_not_exist_are_errors(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config("quickstart", overrides)
    assert words in str(raised.value)


def test_a_preset_is_moved_to_a_service_by_overrides_alone() -> None:
    overrides = ["engine.kind=tinker", "engine.tinker.model=m", "model.lora_rank=8", "learning.max_grad_norm=none"]
    config = load_config(
        "quickstart", [*overrides, "engine.tinker.backend=skyrl-jax", "engine.tinker.base_url=http://h:1"]
    )
    require_possible(config)
    assert Config.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(ValidationError):
        Config.model_validate({"learning": {"max_grad_norm": 0}})


def test_without_the_package_the_message_is_the_line_that_installs_it(tmp_path: object) -> None:
    program = """
import sys
from pathlib import Path
from spadework.config import Config
from spadework.engines.open import MissingExtra, open_engine
sys.modules["tinker"] = None
try:
    engine = {"kind": "tinker", "tinker": {"model": "m"}}
    open_engine(Config.model_validate({"model": {"lora_rank": 8}, "engine": engine}), Path("nowhere"))
except MissingExtra as error:
    print(error)
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "the tinker engine needs tinker, which is not installed: pip install 'spadework[train,tinker]'\n"
    )


def test_what_a_backend_cannot_do_is_told_before_the_service_is_asked() -> None:
    config = table_config("skyrl-jax", learning={"max_grad_norm": 1.0})
    with pytest.raises(EngineFault, match="never clips"):
        open_engine(config, None)  # type: ignore[arg-type]


def test_an_adapter_that_the_service_makes_takes_no_settings_of_the_local_one() -> None:
    with pytest.raises(ValueError, match=r"model\.lora_alpha has no effect with engine.kind"):
        table_config("hosted", model={"lora_alpha": 8.0})
