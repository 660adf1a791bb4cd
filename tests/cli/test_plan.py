"""The arithmetic of a plan, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from spadework.cli.footprint import (
    Linears,
    ModelShape,
    activation_bytes_per_token,
    cache_bytes_per_token,
    checkpoint_bytes,
    footprint_of,
    held_bytes,
    pool_bytes,
    working_bytes,
)
from spadework.cli.model_shape import PUBLISHED, shape_of
from spadework.cli.plan import Amount, plan_of
from spadework.config import Config
from spadework.presets import change_config, load_config

CONFIG = change_config(
    Config(),
    [
        *("iterations=10", "model.max_context_tokens=4096", "engine.sample_batch=8", "engine.train_tokens=1000"),
        *("curriculum.environments=6", "curriculum.plays=4", "curriculum.round_iterations=4"),
        *("designer.max_tokens=1000", "designer.attempts=3", "designer.repair_turns=1"),
        *("designer.hint_max_tokens=50", "designer.hint_attempts=2"),
        *("agent.max_turns=5", "agent.max_reply_tokens=100", "agent.max_episode_tokens=2000"),
        *("checkpoint.keep=2",),
    ],
)
SMALL = ModelShape(
    parameters=1000,
    vocabulary=64,
    context_tokens=4096,
    layers=3,
    attention_layers=2,
    hidden=16,
    heads=4,
    key_heads=2,
    head_width=8,
    intermediate=32,
    linears={"q_proj": Linears(3, 3 * 16, 3 * 32), "up_proj": Linears(3, 3 * 16, 3 * 32)},
)
FLOAT32, BFLOAT16 = 4, 2
TINY = Qwen3Config(
    vocab_size=64,
    hidden_size=64,
    intermediate_size=192,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
)


def test_plays_are_those_of_the_paper() -> None:
    plan = plan_of(load_config("games-qwen3-4b"))
    assert plan.rounds == 100
    assert plan.plain_plays_per_iteration == 24 * 16 == plan.hinted_plays_per_round
    assert plan.plays == 384 * 400 + 384 * 100
    assert plan.attempts_per_round.most == 24 * 5
    assert plan.largest_cohort == 768


def test_a_last_round_of_fewer_iterations_is_a_round() -> None:
    plan = plan_of(CONFIG)
    assert plan.rounds == 3
    assert plan.plays == 24 * 10 + 24 * 3


def test_tokens_by_hand() -> None:
    plan = plan_of(CONFIG)
    # 18 attempts of two replies of 1000, and two hints of 50 each; expected 1.5 * 6 attempts, the program is bounded.
    assert plan.attempts_per_round == Amount(18, 9)
    assert plan.designer_tokens_per_round == Amount(18 * 2 * 1000 + 18 * 2 * 50, 9 * 1000 + 6 * 50)
    # Five turns of at most 100 are 500, and each play may be made twice; 100 also bounds the expected reply.
    assert plan.agent_tokens_per_iteration == Amount(24 * 2 * 500, 24 * 500)
    # An opening of 700 and five turns of 100 and an observation of 120.
    assert plan.episode_tokens == Amount(2000, 700 + 5 * 220)
    assert plan.tokens == Amount(3 * 37_800 + 13 * 24_000, 3 * 9300 + 13 * 12_000)


def test_an_episode_is_bounded_by_the_smaller_of_both_budgets() -> None:
    plan = plan_of(change_config(CONFIG, ["agent.max_turns=1000", "agent.max_episode_tokens=8192"]))
    assert plan.episode_tokens.most == 4096
    assert plan.agent_tokens_per_iteration.most == 24 * 2 * 4096


def test_memory_by_hand() -> None:
    assert dict(held_bytes(CONFIG, SMALL, FLOAT32)) == {
        "weights": 4000,
        "trained weights at the last count of unchanged ones": 4000,
        "moments of the optimiser": 8000,
        "gradients, summed and of one pass": 8000,
    }
    with_kl = held_bytes(change_config(CONFIG, ["learning.kl_coefficient=0.1"]), SMALL, FLOAT32)
    assert sum(with_kl.values()) == 28_000
    # Keys and values: 2 of them, 2 layers, 2 heads, 8 wide, 4 bytes.
    assert cache_bytes_per_token(SMALL, FLOAT32) == 256
    # Three layers of 8 * 16 + 3 * (4 + 2) * 8 + 4 * 32 = 400 numbers.
    assert activation_bytes_per_token(CONFIG, SMALL, FLOAT32) == 4800
    plan = plan_of(CONFIG)
    playing, decoding, training = working_bytes(CONFIG, plan, SMALL, FLOAT32, 1000).values()
    assert playing == Amount(48 * 2000 * 256, 48 * 1800 * 256)
    assert decoding == Amount(8 * 2000 * 256, 8 * 1800 * 256)
    logits = 2 * 4 * 2**22
    assert training == Amount(4096 * 4800 + logits, 1800 * 4800 + logits)


def test_memory_in_bfloat16_by_hand() -> None:
    # Weights and the frozen copy take 2 bytes each; what the optimiser has takes 4.
    config = change_config(CONFIG, ["learning.kl_coefficient=0.1"])
    assert dict(held_bytes(config, SMALL, BFLOAT16)) == {
        "weights": 2000,
        "weights of the optimiser in float32": 4000,
        "weights of the starting policy (KL)": 2000,
        "trained weights at the last count of unchanged ones": 4000,
        "moments of the optimiser": 8000,
        "gradients, summed and of one pass": 8000,
    }
    assert cache_bytes_per_token(SMALL, BFLOAT16) == 128
    assert activation_bytes_per_token(CONFIG, SMALL, BFLOAT16) == 2400


def test_memory_of_an_adapter_by_hand() -> None:
    config = change_config(CONFIG, ["model.lora_rank=2", "learning.kl_coefficient=0.1"])
    # Rank 2, and six layers with 16 inputs and 32 outputs each: 576 weights. The reference is the base itself.
    assert dict(held_bytes(config, SMALL, BFLOAT16)) == {
        "weights": 2000,
        "adapter": 576 * 4,
        "trained weights at the last count of unchanged ones": 576 * 4,
        "moments of the optimiser": 576 * 8,
        "gradients, summed and of one pass": 576 * 8,
    }
    half = change_config(config, ["model.lora_targets=['q_proj']", "model.adapter='mine'"])
    held = held_bytes(half, SMALL, FLOAT32)
    assert held["weights"] == 4000
    assert held["adapter"] == held["adapter at the start"] == 288 * 4
    # Six layers keep 2 numbers between their matrices, and in bfloat16 also their 16 inputs in float32.
    assert activation_bytes_per_token(config, SMALL, FLOAT32) == 4800 + 6 * 2 * 4
    assert activation_bytes_per_token(config, SMALL, BFLOAT16) == 2400 + 6 * (2 + 16) * 4


def test_checkpointing_keeps_one_layer_and_the_inputs_of_all() -> None:
    config = change_config(CONFIG, ["engine.gradient_checkpointing=true"])
    # Three layers with inputs of 16 numbers, and the 400 numbers of one layer.
    assert activation_bytes_per_token(config, SMALL, FLOAT32) == (3 * 16 + 400) * 4
    assert activation_bytes_per_token(config, SMALL, BFLOAT16) == (3 * 16 + 400) * 2


def test_few_of_many_weights_are_remembered_to_be_counted() -> None:
    million = 1_000_000
    held = held_bytes(CONFIG, replace(SMALL, parameters=10 * million), FLOAT32)
    # Every third of ten million, so that at most 2**22 are.
    assert held["trained weights at the last count of unchanged ones"] == 3_333_334 * 4


def test_disk_by_hand() -> None:
    plan = plan_of(CONFIG)
    for weight_bytes in (FLOAT32, BFLOAT16):
        # Weights and moments are kept in float32, and the model is written as it computes.
        disk = footprint_of(CONFIG, plan, SMALL, weight_bytes, 1000)
        assert disk.checkpoint == checkpoint_bytes(CONFIG, SMALL) == 12_000
        assert disk.checkpoints == 3 * 12_000
        assert disk.exported == 1000 * weight_bytes
    plays, environments = 24 * 13, 6 * 3
    assert pool_bytes(plan).expected == (plays * (300 + 1800 * 4 + 500 * 8) + environments * 45_000 + 3 * 9300 * 4)


def test_disk_of_an_adapter_by_hand() -> None:
    merged = change_config(CONFIG, ["model.lora_rank=2"])
    alone = change_config(merged, ["model.lora_export=adapter"])
    found = [footprint_of(config, plan_of(config), SMALL, BFLOAT16, 1000) for config in (merged, alone)]
    assert [disk.checkpoint for disk in found] == [3 * 576 * 4] * 2
    assert [disk.exported for disk in found] == [1000 * 2, 576 * 4]


def test_the_weights_of_a_service_are_not_counted() -> None:
    config = change_config(CONFIG, ["engine={kind='tinker'}"])
    found = footprint_of(config, plan_of(config), SMALL, FLOAT32, 1000)
    assert found.memory == Amount(0, 0)
    assert found.disk == found.pool


def test_an_adapter_has_as_many_weights_as_are_counted() -> None:
    from spadework.cli.footprint import trained_parameters
    from spadework.engines.local.adapter import AdapterSettings, add, weights

    for targets in ((), ("q_proj", "down_proj")):
        network = AutoModelForCausalLM.from_config(TINY)
        add(network, AdapterSettings(4, 32.0, targets, 0))
        config = change_config(CONFIG, ["model.lora_rank=4", f"model.lora_targets={list(targets)}"])
        expected = sum(value.numel() for value in weights(network).values())
        assert trained_parameters(config, shape_of(TINY, Path("tiny"))) == expected


def test_the_published_sizes_are_those_that_the_architecture_has() -> None:
    for name, tied, hidden, intermediate in (
        ("Qwen/Qwen3-4B-Instruct-2507", True, 2560, 9728),
        ("Qwen/Qwen3-8B", False, 4096, 12_288),
    ):
        published = PUBLISHED[name]
        assert published.context_tokens is not None
        config = Qwen3Config(
            vocab_size=published.vocabulary,
            hidden_size=hidden,
            intermediate_size=intermediate,
            num_hidden_layers=published.layers,
            num_attention_heads=published.heads,
            num_key_value_heads=published.key_heads,
            head_dim=published.head_width,
            tie_word_embeddings=tied,
            max_position_embeddings=published.context_tokens,
        )
        assert shape_of(config, Path(name)) == published


@pytest.mark.parametrize(
    ("dtype", "settings"),
    [
        (torch.float32, ()),
        (torch.bfloat16, ()),
        (torch.float32, ("model.lora_rank=8",)),
        (torch.bfloat16, ("model.lora_rank=8",)),
    ],
)
def test_activations_are_estimated_within_a_third_of_what_a_backward_pass_keeps(
    dtype: torch.dtype, settings: tuple[str, ...]
) -> None:
    from spadework.engines.local.adapter import AdapterSettings, add

    config = change_config(CONFIG, settings)
    network = AutoModelForCausalLM.from_config(TINY, attn_implementation="sdpa").to(dtype)
    if config.model.lora_rank:
        add(network, AdapterSettings(config.model.lora_rank, 32.0, (), 0))
    kept: dict[int, int] = {}
    alive = []
    weights = {parameter.data_ptr() for parameter in network.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if tensor.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(storage)
        return tensor

    tokens = 256
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = network.base_model(torch.zeros(1, tokens, dtype=torch.int64), use_cache=False).last_hidden_state
    assert hidden.requires_grad
    estimated = activation_bytes_per_token(config, shape_of(TINY, Path("tiny")), dtype.itemsize) * tokens
    assert estimated == pytest.approx(sum(kept.values()), rel=1 / 3)
