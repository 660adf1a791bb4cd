"""The supervised start of the seed model: its initial weights, its batches and the update.

What a small model learns last is to copy a word that it has just read, and every game of the grammar needs it. Four
things bring that forward: the initial weights are near an induction head, Muon updates the matrices, the first batches
are lists of words to repeat, and a word weighs more than another token for most of the start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from spadework.seeding import derive_seed, generator

WARM_UP = 0.05
ROPE_THETA = 10_000.0
PREVIOUS_TOKEN_HEADS = 3
SLOWEST_FREQUENCY = 0.05
"""Radians per token of the rotary dimensions that tell a token from its neighbour."""
LISTS_UNTIL = 0.25
"""Share of the steps after which no batch is of lists."""
WORDS_UNTIL = 0.75
"""Share of the steps after which every token weighs the same."""


@dataclass(frozen=True)
class Recipe:
    """Sizes of the supervised start. ``batch_tokens`` counts padded tokens."""

    designs: int = 30_000
    played: int = 20_000
    steps: int = 9_000
    batch_tokens: int = 3_072
    lists_share: float = 1.0
    """Of the batches, at the start; falls to nothing at ``LISTS_UNTIL``."""
    word_weight: float = 12.0
    """Of a word in the loss, at the start; falls to 1 at ``WORDS_UNTIL``."""
    matrix_rate: float = 0.02
    embedding_rate: float = 0.002
    gain_rate: float = 0.005
    hidden: int = 160
    layers: int = 4
    heads: int = 5
    intermediate: int = 400


@dataclass(frozen=True)
class Rendered:
    """One conversation as ids; ``learned_T`` marks the assistant's tokens."""

    ids_T: list[int]
    learned_T: list[bool]


def new_model(tokenizer: PreTrainedTokenizerFast, recipe: Recipe, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(derive_seed(seed, "seed-model-init"))
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.hidden,
            intermediate_size=recipe.intermediate,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            head_dim=recipe.hidden // recipe.heads,
            max_position_embeddings=1024,
            rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
            tie_word_embeddings=True,
            attention_bias=True,
            initializer_range=0.03,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )
    _start_copying(model)
    return model


@torch.no_grad()
def _start_copying(model: Qwen3ForCausalLM) -> None:
    """Start near an induction head (arXiv 2209.11895): previous-token heads, then heads that look for likeness.

    Every head adds what it attends to, and later layers attend to what is like their own token (both as in mimetic
    initialisation, arXiv 2305.09828). In the first layer some heads attend to the token before, whatever it is, so
    that a later one finds what follows an earlier occurrence of its token.
    """
    model.model.embed_tokens.weight.normal_(0.0, 0.1)
    for index, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        attention.o_proj.weight.copy_(4.0 * attention.v_proj.weight.T)
        if index:
            attention.k_proj.weight.copy_(attention.q_proj.weight)
    _attend_to_previous(model.model.layers[0].self_attn, model.config)


def _attend_to_previous(attention: Qwen3Attention, config: Qwen3Config) -> None:
    """Biases that rotary position embedding turns into a peak one token back, in its fast dimensions alone."""
    frequency = ROPE_THETA ** (-torch.arange(0, config.head_dim, 2) / config.head_dim)
    fast = (frequency > SLOWEST_FREQUENCY).float()
    heads = slice(0, PREVIOUS_TOKEN_HEADS * config.head_dim)
    key = torch.cat([fast, torch.zeros_like(fast)])
    query = torch.cat([fast * frequency.cos(), -fast * frequency.sin()])
    for projection, bias in ((attention.k_proj, key), (attention.q_proj, query)):
        projection.weight[heads] *= 0.1
        projection.bias[heads] = bias.repeat(PREVIOUS_TOKEN_HEADS)
    attention.q_norm.weight.fill_(3.0)


def supervise(
    model: Qwen3ForCausalLM,
    sequences: Sequence[Rendered],
    words: Sequence[int],
    recipe: Recipe,
    seed: int,
) -> None:
    """Train in place. ``words`` are the ids of the words that programs may take from documents."""
    print(f"{model.num_parameters():,} parameters", flush=True)
    optimizers = _optimizers(model, recipe)
    word_V = torch.zeros(model.config.vocab_size, dtype=torch.bool)
    word_V[words] = True
    started, seen = time.monotonic(), 0
    recent: dict[str, float] = {}
    for step, (kind, ids_BT, labels_BT) in enumerate(_batches(model.config, sequences, words, recipe, seed)):
        _set_rate(optimizers, step, recipe)
        hidden_BTD = model.model(input_ids=ids_BT).last_hidden_state
        learned_BT = labels_BT[:, 1:] >= 0
        labels_N = labels_BT[:, 1:][learned_BT]
        logits_NV = model.lm_head(hidden_BTD[:, :-1][learned_BT])
        word_N = word_V[labels_N]
        weight_N = torch.where(word_N, 1.0 + (recipe.word_weight - 1.0) * _fading(step, WORDS_UNTIL, recipe), 1.0)
        loss_N = torch.nn.functional.cross_entropy(logits_NV, labels_N, reduction="none")
        loss = (loss_N * weight_N).sum() / weight_N.sum()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seen += ids_BT.numel()
        losses_N = {kind: loss_N.detach()}
        if kind == "sequences" and word_N.any():
            losses_N["words of sequences"] = loss_N.detach()[word_N]
        for name, of_kind in losses_N.items():
            recent[name] = 0.95 * recent.get(name, of_kind.mean().item()) + 0.05 * of_kind.mean().item()
        if step % 100 == 99 or step == recipe.steps - 1:
            speed = seen / (time.monotonic() - started)
            losses = ", ".join(f"{name} {value:.3f}" for name, value in sorted(recent.items()))
            print(f"step {step + 1} of {recipe.steps}  loss: {losses}  {speed:,.0f} tokens/s", flush=True)


def _optimizers(model: Qwen3ForCausalLM, recipe: Recipe) -> list[torch.optim.Optimizer]:
    embedding = model.model.embed_tokens.weight
    matrices = [weight for weight in model.parameters() if weight.ndim == 2 and weight is not embedding]
    gains = [weight for weight in model.parameters() if weight.ndim < 2]
    adam = torch.optim.AdamW(
        [
            {"params": [embedding], "lr": recipe.embedding_rate, "weight_decay": 0.05},
            {"params": gains, "lr": recipe.gain_rate, "weight_decay": 0.0},
        ],
        betas=(0.9, 0.98),
    )
    muon = torch.optim.Muon(matrices, lr=recipe.matrix_rate, weight_decay=0.05, adjust_lr_fn="original")
    for group in (*adam.param_groups, *muon.param_groups):
        group["peak"] = group["lr"]
    return [adam, muon]


def _set_rate(optimizers: Sequence[torch.optim.Optimizer], step: int, recipe: Recipe) -> None:
    """Linear warm-up, then a cosine to a fiftieth of the peak."""
    warm = max(1, int(recipe.steps * WARM_UP))
    progress = (step - warm) / max(1, recipe.steps - warm)
    factor = (step + 1) / warm if step < warm else 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor


def _fading(step: int, until: float, recipe: Recipe) -> float:
    """From 1 at the start to 0 at the share ``until`` of the steps, and after."""
    return max(0.0, 1.0 - step / (until * recipe.steps))


def _batches(
    config: Qwen3Config, sequences: Sequence[Rendered], words: Sequence[int], recipe: Recipe, seed: int
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Kind, ids and labels of every step."""
    rng = generator(seed, "seed-model-batches")
    of_sequences = _epochs(sequences, recipe.batch_tokens, rng)
    for step in range(recipe.steps):
        if rng.random() < recipe.lists_share * _fading(step, LISTS_UNTIL, recipe):
            yield "lists", *list_batch(np.asarray(words), config.vocab_size, recipe.batch_tokens, rng)
        else:
            yield "sequences", *_padded(next(of_sequences), config.pad_token_id or 0)


def list_batch(
    words: NDArray[np.int64], vocabulary: int, batch_tokens: int, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Words among noise, and later the same words once more: the second time is learned. No list comes twice."""
    before, between, length = (int(rng.integers(low, high)) for low, high in ((0, 5), (0, 17), (3, 17)))
    rows = max(1, batch_tokens // (before + between + 2 * length))
    words_BL = rng.choice(words, (rows, length))
    noise = rng.integers(vocabulary, size=(rows, before + between))
    ids_BT = np.concatenate([noise[:, :before], words_BL, noise[:, before:], words_BL], axis=1)
    labels_BT = np.full_like(ids_BT, -100)
    labels_BT[:, before + between + length + 1 :] = words_BL[:, 1:]
    return torch.from_numpy(ids_BT), torch.from_numpy(labels_BT)


def _epochs(sequences: Sequence[Rendered], batch_tokens: int, rng: np.random.Generator) -> Iterator[list[Rendered]]:
    """Batches of sequences of similar length and about ``batch_tokens``, epoch after epoch."""
    while True:
        jitter = rng.random(len(sequences))
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i].ids_T) * (1 + 0.2 * float(jitter[i])))
        groups: list[list[Rendered]] = [[]]
        longest = 0
        for index in order:
            longest = max(longest, len(sequences[index].ids_T))
            if groups[-1] and longest * (len(groups[-1]) + 1) > batch_tokens:
                groups.append([])
                longest = len(sequences[index].ids_T)
            groups[-1].append(sequences[index])
        for index in rng.permutation(len(groups)):
            yield groups[int(index)]


def _padded(batch: Sequence[Rendered], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(sequence.ids_T) for sequence in batch)
    ids_BT = np.full((len(batch), longest), pad)
    labels_BT = np.full((len(batch), longest), -100)
    for row, sequence in enumerate(batch):
        ids = np.asarray(sequence.ids_T)
        ids_BT[row, : len(ids)] = ids
        labels_BT[row, : len(ids)] = np.where(sequence.learned_T, ids, -100)
    return torch.from_numpy(ids_BT), torch.from_numpy(labels_BT)
