from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import peft
import pytest
import torch
import transformers
from tiny_models import SETTINGS, open_tiny, save_tiny_model, some_data

from spadework.config import Config, ModelConfig
from spadework.engines.local.adapter import AdapterUnusable
from spadework.engines.local.checkpoint import CheckpointUnusable
from spadework.engines.local.engine import LocalEngine

LORA = {"lora_rank": 4, "lora_alpha": 8.0}
LAYERS = ("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj")


async def train(engine: LocalEngine, seeds: range = range(3)) -> None:
    for seed in seeds:
        await engine.forward_backward(some_data(seed=seed), SETTINGS)
        await engine.optim_step(0.01)


def trained(directory: Path, **model: object) -> LocalEngine:
    engine = open_tiny(directory, model={**LORA, **model})
    asyncio.run(train(engine))
    return engine


def base_weights(engine: LocalEngine) -> dict[str, torch.Tensor]:
    return {name: p for name, p in engine._model.network.named_parameters() if ".lora_" not in name}


def logits(network: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return network(torch.arange(2, 40).view(2, 19)).logits


def plain(directory: Path) -> torch.nn.Module:
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def trained_logits(engine: LocalEngine) -> torch.Tensor:
    ids = torch.arange(2, 40).view(2, 19)
    with torch.no_grad():
        return engine._model.network_logits(ids, torch.arange(19).expand(2, 19))


def test_a_step_trains_the_adapter_as_plain_autograd_and_adamw_would(tiny_model: Path) -> None:
    """By hand: W + (alpha / rank) * B A put in place of every linear layer's W, token by token."""
    engine = open_tiny(tiny_model, model=LORA, weight_decay=0.1, betas=(0.9, 0.98), max_grad_norm=1e9)
    start = {name: value.detach().clone() for name, value in engine._model.parameters().items()}
    assert {name.split(".")[-4] for name in start} == set(LAYERS)
    assert all(not value.any() for name, value in start.items() if "lora_B" in name)
    network = plain(tiny_model).requires_grad_(False)
    leaves = {name: value.clone().requires_grad_() for name, value in start.items()}
    for name, module in list(network.named_modules()):
        if name.endswith(LAYERS):
            a, b = (leaves[f"{name}.lora_{part}.default.weight"] for part in "AB")
            whole = module.weight + 8.0 / 4 * b @ a
            del module.weight
            module.weight = whole
    loss = torch.zeros(())
    for datum in some_data():
        logprobs = (network(torch.tensor([datum.token_ids_T])).logits[0] / datum.temperature).log_softmax(-1)
        for t, weight in enumerate(datum.weights_T):
            if weight:
                ratio = (logprobs[t - 1, datum.token_ids_T[t]] - datum.logprobs_T[t]).exp()
                advantage = datum.advantages_T[t]
                loss = loss - weight * torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
    loss.backward()

    async def step() -> None:
        found = await engine.forward_backward(some_data(), SETTINGS)
        assert found.loss == pytest.approx(float(loss.detach()), rel=1e-4)
        norm = torch.nn.utils.get_total_norm([value.grad for value in leaves.values()])
        assert found.grad_norm == pytest.approx(float(norm), rel=1e-4)
        gradients = dict(zip(start, engine._optimiser._accumulated, strict=True))
        for name, leaf in leaves.items():
            torch.testing.assert_close(gradients[name], leaf.grad, atol=1e-6, rtol=1e-3)
        kept = {name: value.clone() for name, value in gradients.items()}
        await engine.optim_step(0.01)
        for name, value in engine._model.parameters().items():
            expected = start[name] * (1 - 0.01 * 0.1) - 0.01 * kept[name] / (kept[name].abs() + 1e-8)
            torch.testing.assert_close(value.detach(), expected, atol=1e-5, rtol=1e-3)

    asyncio.run(step())


def test_a_new_adapter_changes_nothing_and_training_leaves_the_base_as_it_was(tiny_model: Path) -> None:
    engine = open_tiny(tiny_model, model=LORA)
    assert torch.equal(trained_logits(engine), trained_logits(open_tiny(tiny_model)))
    before = {name: value.clone() for name, value in base_weights(engine).items()}
    asyncio.run(train(engine))
    assert all(torch.equal(value, before[name]) for name, value in base_weights(engine).items())
    assert (trained_logits(engine) - logits(plain(tiny_model))).abs().max() > 0.1


def test_the_run_seed_names_the_adapters_first_weights_and_no_other_draw_moves(tiny_qwen3: Path) -> None:
    def weights(seed: int) -> str:
        config = Config.model_validate({"seed": seed, "model": {"max_context_tokens": 200, **LORA}})
        engine = LocalEngine.open(tiny_qwen3, config.engine, config.model, config.learning, config.seed)
        return asyncio.run(engine.weight_checksum())

    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    first = weights(1)
    assert torch.equal(torch.rand(4), expected)
    assert (weights(1) == first, weights(2) == first) == (True, False)


def test_the_reference_is_the_base_with_the_adapter_off(tiny_qwen3: Path) -> None:
    async def run() -> None:
        base = await open_tiny(tiny_qwen3).score(some_data())
        engine = open_tiny(tiny_qwen3, model=LORA, kl_coefficient=0.01)
        assert engine._reference is None
        await train(engine)
        before = await engine.weight_checksum(), await engine.score(some_data())
        assert await engine.score(some_data(), reference=True) == base
        assert before[1] != base
        assert (await engine.weight_checksum(), await engine.score(some_data())) == before
        await train(engine)
        assert await engine.weight_checksum() != before[0]

    asyncio.run(run())


def test_saved_and_loaded_half_way_equals_straight_through_and_the_base_is_not_saved(
    tiny_model: Path, tmp_path: Path
) -> None:
    async def run() -> None:
        straight = open_tiny(tiny_model, model=LORA)
        await train(straight, range(4))
        first = open_tiny(tiny_model, model=LORA)
        await train(first, range(2))
        await first.save(tmp_path / "half")
        second = open_tiny(tiny_model, model=LORA)
        await second.load(tmp_path / "half")
        await train(second, range(2, 4))
        assert await second.weight_checksum() == await straight.weight_checksum()
        assert await second.score(some_data()) == await straight.score(some_data())

    asyncio.run(run())
    from safetensors.torch import load_file

    assert all(".lora_" in name for name in load_file(tmp_path / "half" / "weights.safetensors"))


@pytest.mark.parametrize(
    ("saved", "opened", "message"),
    [
        ({}, LORA, "holds all weights and no adapter; set model.lora_rank=0"),
        (LORA, {}, "holds an adapter; set model.lora_rank"),
        (LORA, {"lora_rank": 2}, "another model"),
    ],
)
def test_a_checkpoint_of_the_other_kind_is_refused(
    tiny_qwen3: Path, tmp_path: Path, saved: dict[str, object], opened: dict[str, object], message: str
) -> None:
    asyncio.run(open_tiny(tiny_qwen3, model=saved).save(tmp_path))
    with pytest.raises(CheckpointUnusable, match=message):
        asyncio.run(open_tiny(tiny_qwen3, model=opened).load(tmp_path))


def other_base(source: Path, target: Path) -> Path:
    """The same architecture with other weights."""
    model = plain(source)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)
    model.save_pretrained(target)
    for file in source.iterdir():
        if not (target / file.name).exists():
            shutil.copy(file, target)
    return target


def test_the_checkpoint_of_an_adapter_of_another_base_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    asyncio.run(trained(tiny_qwen3).save(tmp_path / "saved"))
    other = open_tiny(other_base(tiny_qwen3, tmp_path / "other"), model=LORA)
    with pytest.raises(CheckpointUnusable, match=r"another base; set model\.path"):
        asyncio.run(other.load(tmp_path / "saved"))


def test_a_merged_export_is_a_plain_model_with_the_trained_logits(tiny_model: Path, tmp_path: Path) -> None:
    engine = trained(tiny_model)
    before = asyncio.run(engine.weight_checksum()), trained_logits(engine)
    asyncio.run(engine.export(tmp_path))
    assert (asyncio.run(engine.weight_checksum()), trained_logits(engine).equal(before[1])) == (before[0], True)
    exported = plain(tmp_path)
    torch.testing.assert_close(logits(exported), before[1], atol=1e-4, rtol=1e-4)
    assert dict(exported.named_parameters()).keys() == dict(plain(tiny_model).named_parameters()).keys()
    tied = exported.get_input_embeddings().weight is exported.get_output_embeddings().weight
    assert tied == transformers.AutoConfig.from_pretrained(tiny_model).tie_word_embeddings
    assert not list(tmp_path.glob("adapter*"))
    open_tiny(tmp_path, model=LORA)


def test_an_exported_adapter_is_read_by_peft_and_starts_another_run(tiny_model: Path, tmp_path: Path) -> None:
    engine = trained(tiny_model, lora_export="adapter")
    asyncio.run(engine.export(tmp_path))
    assert not (tmp_path / "model.safetensors").exists()
    by_peft = peft.PeftModel.from_pretrained(plain(tiny_model), tmp_path)
    torch.testing.assert_close(logits(by_peft), trained_logits(engine), atol=1e-4, rtol=1e-4)
    again = open_tiny(tiny_model, model={**LORA, "adapter": str(tmp_path)})
    assert trained_logits(again).equal(trained_logits(engine))

    async def reference() -> None:
        start = await again.score(some_data())
        await train(again)
        moved = await again.weight_checksum()
        assert await again.score(some_data(), reference=True) == start
        assert await again.weight_checksum() == moved
        assert await again.score(some_data()) != start

    asyncio.run(reference())


def test_an_adapter_that_peft_trained_starts_a_run(tiny_qwen3: Path, tmp_path: Path) -> None:
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    theirs = peft.get_peft_model(plain(tiny_qwen3), config)
    theirs.save_pretrained(tmp_path)
    engine = open_tiny(tiny_qwen3, model={**LORA, "lora_targets": ["q_proj", "v_proj"], "adapter": str(tmp_path)})
    torch.testing.assert_close(trained_logits(engine), logits(theirs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ({"lora_rank": 2}, ("model.lora_rank is 2", "has 4")),
        ({"lora_alpha": 16.0}, ("model.lora_alpha is 16", "has 8")),
        ({"lora_targets": ["q_proj"]}, ("other layers", "model.lora_targets", "down_proj")),
        ({"adapter": "nowhere"}, ("nowhere", "cannot be read", "adapter_config.json")),
    ],
)
def test_an_adapter_that_does_not_fit_the_settings_is_named(
    tiny_qwen3: Path, tmp_path: Path, model: dict[str, object], parts: tuple[str, ...]
) -> None:
    asyncio.run(trained(tiny_qwen3, lora_export="adapter").export(tmp_path))
    with pytest.raises(AdapterUnusable) as caught:
        open_tiny(tiny_qwen3, model={**LORA, "adapter": str(tmp_path), **model})
    assert all(part in str(caught.value) for part in parts)
    assert "\n" not in str(caught.value)


def test_an_adapter_of_another_base_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    asyncio.run(trained(tiny_qwen3, lora_export="adapter").export(tmp_path / "adapter"))
    adapted = {**LORA, "adapter": str(tmp_path / "adapter")}
    with pytest.raises(AdapterUnusable, match=f"another base .{tiny_qwen3}.*set model.path"):
        open_tiny(other_base(tiny_qwen3, tmp_path / "other"), model=adapted)
    # An adapter that does not say which weights it belongs to is told by its shapes.
    (tmp_path / "adapter" / "adapter_base.json").unlink()
    with pytest.raises(AdapterUnusable, match=r"of another base: .* \(64, 4\) there and \(32, 4\)"):
        open_tiny(save_tiny_model(tmp_path / "llama", "llama"), model=adapted)


def test_an_adapter_of_another_method_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    asyncio.run(trained(tiny_qwen3, lora_export="adapter").export(tmp_path))
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"use_dora": True}))
    with pytest.raises(AdapterUnusable, match=r"no plain LoRA \(use_dora\)"):
        open_tiny(tiny_qwen3, model={**LORA, "adapter": str(tmp_path)})


def test_a_target_that_no_layer_is_called_is_named(tiny_qwen3: Path) -> None:
    with pytest.raises(AdapterUnusable, match=r"query, which no linear layer of Qwen3ForCausalLM .* q_proj"):
        open_tiny(tiny_qwen3, model={**LORA, "lora_targets": ["q_proj", "query"]})
    engine = open_tiny(tiny_qwen3, model={**LORA, "lora_targets": ["q_proj"]})
    assert {name.split(".")[-4] for name in engine._model.parameters()} == {"q_proj"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("adapter", "somewhere"), ("lora_alpha", 8.0), ("lora_targets", ("q_proj",)), ("lora_export", "adapter")],
)
def test_settings_of_adapters_without_a_rank_are_an_error_of_the_configuration(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"model\.{name} has no effect while model\.lora_rank is 0"):
        ModelConfig(**{name: value})


def test_without_peft_an_adapter_is_one_sentence_and_full_training_needs_none(tiny_qwen3: Path) -> None:
    program = f"""
import sys
from pathlib import Path
sys.modules["peft"] = None
from spadework.config import Config
from spadework.engines.open import MissingExtra, open_engine
model = {{"max_context_tokens": 100}}
open_engine(Config.model_validate({{"model": model}}), Path({str(tiny_qwen3)!r}))
try:
    open_engine(Config.model_validate({{"model": model | {{"lora_rank": 2}}}}), Path({str(tiny_qwen3)!r}))
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == (
        "the local engine needs peft, which is not installed: pip install 'spadework[train]'"
    )
