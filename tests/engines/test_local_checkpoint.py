from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from tiny_models import SETTINGS, open_tiny, save_tiny_model, some_data

from spadework.engines.base import SamplingParams
from spadework.engines.local.checkpoint import CheckpointUnusable
from spadework.engines.local.engine import LocalEngine


async def steps(engine: LocalEngine, seeds: range) -> None:
    for seed in seeds:
        await engine.forward_backward(some_data(seed=seed), SETTINGS)
        await engine.optim_step(1e-3)


async def probe(engine: LocalEngine) -> tuple[object, ...]:
    async with engine.cohort(1) as cohort:
        sample = await cohort.sample(0, [2, 3, 4], SamplingParams(10, (), 0))
        cohort.leave(0)
    return sample, await engine.weight_checksum(), await engine.score(some_data()), engine.policy_version


def test_saved_and_loaded_half_way_equals_straight_through(tiny_model: Path, tmp_path: Path) -> None:
    async def run() -> None:
        straight = open_tiny(tiny_model)
        await steps(straight, range(4))
        first = open_tiny(tiny_model)
        await steps(first, range(2))
        await first.save(tmp_path / "half")
        second = open_tiny(tiny_model)
        await second.load(tmp_path / "half")
        assert second.policy_version == 2
        await steps(second, range(2, 4))
        assert await probe(second) == await probe(straight)

    asyncio.run(run())


def test_a_save_before_the_first_step_loads(tiny_qwen3: Path, tmp_path: Path) -> None:
    async def run() -> None:
        fresh, trained = open_tiny(tiny_qwen3), open_tiny(tiny_qwen3)
        await fresh.save(tmp_path)
        await steps(trained, range(1))
        await trained.load(tmp_path)
        await steps(trained, range(2))
        await steps(fresh, range(2))
        assert await probe(trained) == await probe(fresh)

    asyncio.run(run())


def test_a_waiting_gradient_is_not_lost_in_a_save(tiny_qwen3: Path, tmp_path: Path) -> None:
    async def run() -> None:
        engine = open_tiny(tiny_qwen3)
        await engine.forward_backward(some_data(), SETTINGS)
        with pytest.raises(ValueError, match="after optim_step"):
            await engine.save(tmp_path)

    asyncio.run(run())


def test_the_save_of_another_engine_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    engine = open_tiny(tiny_qwen3)
    asyncio.run(engine.save(tmp_path))
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"engine": "elsewhere"}))
    with pytest.raises(CheckpointUnusable, match=r"engine\.json is of the engine elsewhere; set engine\.kind"):
        asyncio.run(engine.load(tmp_path))


@pytest.mark.parametrize("damage", ["weights.safetensors", "optimiser.safetensors", "engine.json", "half", "format"])
def test_a_damaged_save_is_named_and_changes_nothing(tiny_qwen3: Path, tmp_path: Path, damage: str) -> None:
    async def run() -> None:
        engine = open_tiny(tiny_qwen3)
        await steps(engine, range(1))
        await engine.save(tmp_path)
        before = await probe(engine)
        if damage == "half":
            weights = tmp_path / "weights.safetensors"
            weights.write_bytes(weights.read_bytes()[:1000])
        elif damage == "format":
            (tmp_path / "engine.json").write_text(json.dumps({"format": 99, "policy_version": 1}))
        else:
            (tmp_path / damage).unlink()
        with pytest.raises(CheckpointUnusable, match=str(tmp_path)):
            await engine.load(tmp_path)
        assert await probe(engine) == before

    asyncio.run(run())


def test_the_save_of_another_model_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    other = open_tiny(save_tiny_model(tmp_path / "llama", "llama", tied=False))
    asyncio.run(other.save(tmp_path / "saved"))
    with pytest.raises(CheckpointUnusable, match="another model"):
        asyncio.run(open_tiny(tiny_qwen3).load(tmp_path / "saved"))


def test_an_export_loads_with_plain_transformers(tiny_model: Path, tmp_path: Path) -> None:
    async def run() -> LocalEngine:
        engine = open_tiny(tiny_model)
        await steps(engine, range(2))
        await engine.export(tmp_path)
        return engine

    engine = asyncio.run(run())
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert model.config._attn_implementation == "sdpa"
    assert model.dtype == torch.float32
    trained = engine._model.parameters()
    assert dict(model.named_parameters()).keys() == trained.keys()
    assert all(torch.equal(value, trained[name]) for name, value in model.named_parameters())
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert tied == transformers.AutoConfig.from_pretrained(tiny_model).tie_word_embeddings
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "w7 w9"}], tokenize=False)
    assert tokenizer(text).input_ids == [7, 9]
    assert asyncio.run(open_tiny(tmp_path).weight_checksum()) == asyncio.run(engine.weight_checksum())


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["config.json"], "config.json"),
        (["model.safetensors"], "weights"),
        (["tokenizer.json", "tokenizer_config.json"], "no tokenizer"),
        (["chat_template.jinja"], "chat template"),
    ],
)
def test_a_directory_that_lacks_something_is_named_with_what_it_lacks(
    tiny_qwen3: Path, tmp_path: Path, missing: list[str], message: str
) -> None:
    directory = tmp_path / "model"
    shutil.copytree(tiny_qwen3, directory)
    for name in missing:
        (directory / name).unlink()
    with pytest.raises(ValueError, match=message) as caught:
        open_tiny(directory)
    assert str(directory) in str(caught.value) and "\n" not in str(caught.value)
