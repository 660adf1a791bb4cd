"""The supervised start of the seed model: its initial weights, its batches and the update.

What a small model learns last is to copy a word that it has just read, and every game of the grammar needs it. Three
things bring that forward: attention starts as if it copied (*mimetic initialisation*, arXiv 2305.09828), Muon updates
the matrices, and for most of the start many batches are lists of words to repeat and a word weighs more than another
token.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from spadework.seeding import derive_seed, generator

WARM_UP = 0.05
SETTLED = 0.75
"""Share of the steps after which lists are gone and every token weighs the same."""


@dataclass(frozen=True)
class Recipe:
    """Sizes of the supervised start. ``batch_tokens`` counts padded tokens."""

    designs: int = 24_000
    played: int = 10_000
    lists: int = 8_000
    steps: int = 6_500
    batch_tokens: int = 3_072
    lists_share: float = 0.5
    """Of the batches, at the start; falls to nothing."""
    word_weight: float = 12.0
    """Of a word in the loss, at the start; falls to 1."""
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
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            tie_word_embeddings=True,
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
    """A head adds what it attends to and, after the first layer, attends to what is like the token it stands at."""
    model.model.embed_tokens.weight.normal_(0.0, 0.1)
    for index, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        attention.o_proj.weight.copy_(4.0 * attention.v_proj.weight.T)
        if index:
            attention.k_proj.weight.copy_(attention.q_proj.weight)


def supervise(
    model: Qwen3ForCausalLM,
    sequences: Sequence[Rendered],
    lists: Sequence[Rendered],
    words: Collection[int],
    recipe: Recipe,
    seed: int,
) -> None:
    """Train in place. ``words`` are the ids of the words that programs may take from documents."""
    print(f"{model.num_parameters():,} parameters", flush=True)
    optimizers = _optimizers(model, recipe)
    word_V = torch.zeros(model.config.vocab_size, dtype=torch.bool)
    word_V[list(words)] = True
    started, seen, recent, of_words = time.monotonic(), 0, 0.0, 0.0
    for step, (ids_BT, labels_BT) in enumerate(
        _batches(sequences, lists, recipe, seed, model.config.pad_token_id or 0)
    ):
        _set_rate(optimizers, step, recipe)
        hidden_BTD = model.model(input_ids=ids_BT).last_hidden_state
        learned_BT = labels_BT[:, 1:] >= 0
        labels_N = labels_BT[:, 1:][learned_BT]
        logits_NV = model.lm_head(hidden_BTD[:, :-1][learned_BT])
        word_N = word_V[labels_N]
        weight_N = torch.where(word_N, 1.0 + (recipe.word_weight - 1.0) * _unsettled(step, recipe), 1.0)
        loss_N = torch.nn.functional.cross_entropy(logits_NV, labels_N, reduction="none")
        loss = (loss_N * weight_N).sum() / weight_N.sum()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seen += ids_BT.numel()
        recent += (loss_N.detach().mean().item() - recent) / min(step + 1, 50)
        if word_N.any():
            of_words += (loss_N.detach()[word_N].mean().item() - of_words) / min(step + 1, 50)
        if step % 100 == 99 or step == recipe.steps - 1:
            speed = seen / (time.monotonic() - started)
            print(
                f"step {step + 1} of {recipe.steps}  loss {recent:.3f}, of words {of_words:.3f}  {speed:,.0f} tokens/s",
                flush=True,
            )


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


def _unsettled(step: int, recipe: Recipe) -> float:
    """From 1 at the start to 0 at ``SETTLED`` and after."""
    return max(0.0, 1.0 - step / (SETTLED * recipe.steps))


def _batches(
    sequences: Sequence[Rendered], lists: Sequence[Rendered], recipe: Recipe, seed: int, pad: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    rng = generator(seed, "seed-model-batches")
    of_sequences = _epochs(sequences, recipe.batch_tokens, rng)
    of_lists = _epochs(lists, recipe.batch_tokens, rng)
    for step in range(recipe.steps):
        listed = rng.random() < recipe.lists_share * _unsettled(step, recipe)
        yield _padded(next(of_lists if listed else of_sequences), pad)


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
