"""The arithmetic of a plan, worked out by hand."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from spadework.cli.model_shape import PUBLISHED, shape_of
from spadework.cli.plan import (
    Amount,
    ModelShape,
    checkpoint_bytes,
    held_bytes,
    kept_bytes,
    plan_of,
    pool_bytes,
    working_bytes,
)
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
    assert dict(held_bytes(CONFIG, SMALL)) == {
        "weights": 4000,
        "weights at the last count of unchanged ones": 4000,
        "moments of the optimiser": 8000,
        "gradients, summed and of one pass": 8000,
    }
    with_kl = held_bytes(change_config(CONFIG, ["learning.kl_coefficient=0.1"]), SMALL)
    assert sum(with_kl.values()) == 28_000
    # Keys and values: 2 of them, 2 layers, 2 heads, 8 wide, 4 bytes.
    assert SMALL.cache_bytes_per_token == 256
    # Three layers of 8 * 16 + 3 * (4 + 2) * 8 + 4 * 32 = 400 numbers.
    assert SMALL.activation_bytes_per_token == 4800
    plan = plan_of(CONFIG)
    playing, decoding, training = working_bytes(CONFIG, plan, SMALL).values()
    assert playing == Amount(48 * 2000 * 256, 48 * 1800 * 256)
    assert decoding == Amount(8 * 2000 * 256, 8 * 1800 * 256)
    logits = 3 * 4 * 2**22
    assert training == Amount(4096 * 4800 + logits, 1800 * 4800 + logits)


def test_disk_by_hand() -> None:
    assert checkpoint_bytes(SMALL) == 12_000
    assert kept_bytes(CONFIG, SMALL) == 3 * 12_000 + 4000
    plays, environments = 24 * 13, 6 * 3
    assert pool_bytes(plan_of(CONFIG)).expected == (
        plays * (300 + 1800 * 4 + 500 * 8) + environments * 10_000 + 3 * 9300 * 4
    )


def test_the_published_sizes_are_those_that_the_architecture_has(tmp_path: object) -> None:
    for name, tied, hidden, intermediate in (
        ("Qwen/Qwen3-4B-Instruct-2507", True, 2560, 9728),
        ("Qwen/Qwen3-8B", False, 4096, 12_288),
    ):
        published = PUBLISHED[name]
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
        assert shape_of(config, tmp_path) == published  # type: ignore[arg-type]


def test_activations_are_estimated_within_a_third_of_what_a_backward_pass_keeps() -> None:
    config = Qwen3Config(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
    )
    network = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    kept: dict[int, int] = {}
    weights = {parameter.data_ptr() for parameter in network.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if tensor.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = 256
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = network.base_model(torch.zeros(1, tokens, dtype=torch.int64), use_cache=False).last_hidden_state
    assert hidden.requires_grad
    from pathlib import Path

    estimated = shape_of(config, Path("small")).activation_bytes_per_token * tokens
    assert estimated == pytest.approx(sum(kept.values()), rel=1 / 3)
