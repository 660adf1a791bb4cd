"""The shipped seed model: loads anywhere, writes sound programs from documents, and plays with room to learn."""

from __future__ import annotations

import asyncio
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from spadework.config import Config
from spadework.engines.open import open_engine
from spadework.progress import Silent
from spadework.roles.choosing import open_rendering
from spadework.seedmodel.families import TRAINED
from spadework.seedmodel.grammar import Family, words_needed, write_program
from spadework.seedmodel.shipped import model_directory
from spadework.selfplay import train
from spadework.store.metrics import read_metrics
from spadework.store.reader import PoolReader
from spadework.store.run_directory import RunDirectory

MOST_BYTES = 8_000_000
CONFIGS = Path(__file__).parents[2] / "configs"


def test_it_is_small_and_loads_with_plain_transformers() -> None:
    directory = model_directory()
    assert sum(path.stat().st_size for path in directory.iterdir()) <= MOST_BYTES
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert 1_000_000 <= model.num_parameters() <= 4_000_000
    assert type(model).__name__ == "Qwen3ForCausalLM"


@pytest.mark.parametrize("family", TRAINED, ids=lambda family: family.name)
def test_programs_survive_the_tokenizer_and_take_few_tokens(family: Family) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_directory())
    dials = family.dials(np.random.default_rng(0))
    words = [f"word{chr(97 + index)}" for index in range(words_needed([dials]))]
    source = write_program([family], [dials], words, family.hints).source
    ids = tokenizer.encode(source, add_special_tokens=False)
    assert tokenizer.decode(ids) == source
    assert len(ids) < 160


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "validity", "grounding", "families"),
    [("quickstart", 0.85, 0.5, 10), ("quickstart-tools", 0.8, 0.25, 7)],  # tools have more words of their own
)
def test_it_designs_valid_grounded_environments_at_the_frontier(
    tmp_path: Path, preset: str, validity: float, grounding: float, families: int
) -> None:
    raw = tomllib.loads((CONFIGS / f"{preset}.toml").read_text())
    raw |= {"iterations": 1, "seed": 11}
    raw["curriculum"] |= {"environments": 48, "skills_per_round": 6}
    config = Config(**raw)
    engine = open_engine(config, model_directory())
    tokenizer = AutoTokenizer.from_pretrained(model_directory())
    rendering = open_rendering(tokenizer, model_directory(), thinking=False)
    run = RunDirectory.create_or_open(tmp_path / "run", config)
    asyncio.run(train(run, config, engine, Silent(), rendering=rendering, tensorboard=False))
    metrics = read_metrics(run.metrics)[-1]
    assert metrics["designer/first_attempt_validity"] >= validity
    assert metrics["diversity/grounding"] >= grounding > 4 * metrics["diversity/grounding_control"]
    with PoolReader.open(run.pool) as pool:
        first_families = {re.findall("[A-Z][a-z]+", made.class_name)[0] for made in pool.environments(0)}
    assert len(first_families) >= families
    assert metrics["environments/regret"] > 0.05
    assert metrics["environments/frontier"] > 0.5
    assert metrics["learning/logprob_mismatch"] < 1e-3
