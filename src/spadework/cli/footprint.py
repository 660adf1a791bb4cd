"""Memory and disk that a run takes, as arithmetic on its settings and the sizes of its model.

Memory is that of the local engine. With `engine.kind` "tinker" the model and its optimiser are the service's, and
nothing is counted for them; what a vLLM server takes that samples is not counted either. ``weight_bytes`` is what one
weight or activation takes: 4 in float32, 2 in bfloat16. ``train_tokens`` is the token budget of a micro-batch where the
model lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spadework.cli.plan import Amount, Plan
from spadework.config import Config

FLOAT_BYTES = 4
LOGIT_ELEMENTS, LOGIT_TOKENS = 1 << 22, 128
"""Of one table of logits in an update: its elements, but at least so many tokens."""
LOGIT_TABLES = 2
"""Logits in float32, which become their own gradient, and both in the precision of a head that has another."""
COUNTED = 1 << 22
"""Weights, at most, that are remembered to count those that did not change."""
EPISODE_BYTES, TOKEN_BYTES, SAMPLED_BYTES = 300, 4, 8
"""Of a stored episode: its row, per token (id and text, compressed) and per sampled token (log-probability)."""
ENVIRONMENT_BYTES = 45_000
"""Of a stored environment of some 300 lines with its attempts and document, besides the replies (docs/scaling.md)."""


@dataclass(frozen=True)
class Linears:
    """Linear layers of one name: how many there are, and the sums of their inputs and of their outputs."""

    layers: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model. ``intermediate`` is the width that one token passes through, of all its experts.

    ``linears`` are the layers that can have adapters, by the last part of their names; empty if not known.
    """

    parameters: int
    vocabulary: int
    context_tokens: int | None
    layers: int
    attention_layers: int
    hidden: int
    heads: int
    key_heads: int
    head_width: int
    intermediate: int
    linears: Mapping[str, Linears]


@dataclass(frozen=True)
class Footprint:
    """Bytes. ``held`` is memory that is taken whatever is sampled, ``working`` depends on lengths, each by what for."""

    held: Mapping[str, int]
    working: Mapping[str, Amount]
    checkpoint: int
    checkpoints: int
    """Those kept, and the next one while it is written."""
    exported: int
    pool: Amount

    @property
    def memory(self) -> Amount:
        held = sum(self.held.values())
        return sum(self.working.values(), Amount(held, held))

    @property
    def disk(self) -> Amount:
        kept = self.checkpoints + self.exported
        return Amount(kept, kept) + self.pool


def footprint_of(config: Config, plan: Plan, shape: ModelShape, weight_bytes: int, train_tokens: int) -> Footprint:
    if config.engine.kind == "tinker":
        return Footprint({}, {}, 0, 0, 0, pool_bytes(plan))
    checkpoint = checkpoint_bytes(config, shape)
    return Footprint(
        held=held_bytes(config, shape, weight_bytes),
        working=working_bytes(config, plan, shape, weight_bytes, train_tokens),
        checkpoint=checkpoint,
        checkpoints=(config.checkpoint.keep + 1) * checkpoint,
        exported=exported_bytes(config, shape, weight_bytes),
        pool=pool_bytes(plan),
    )


def adapted(config: Config, shape: ModelShape) -> Linears:
    """The layers with an adapter, all names together. Names that the model does not have count nothing."""
    names = config.model.lora_targets or tuple(shape.linears)
    found = [shape.linears[name] for name in names if name in shape.linears]
    return Linears(
        layers=sum(linears.layers for linears in found),
        inputs=sum(linears.inputs for linears in found),
        outputs=sum(linears.outputs for linears in found),
    )


def trained_parameters(config: Config, shape: ModelShape) -> int:
    """All of the model's, or those of its adapter: two matrices a layer, of rank times inputs and outputs."""
    if config.model.lora_rank == 0:
        return shape.parameters
    layers = adapted(config, shape)
    return config.model.lora_rank * (layers.inputs + layers.outputs)


def held_bytes(config: Config, shape: ModelShape, weight_bytes: int) -> Mapping[str, int]:
    """Memory that is taken whatever is sampled, by what it is for. All that the optimiser has is float32."""
    weights, trained = shape.parameters * weight_bytes, trained_parameters(config, shape)
    held = {"weights": weights}
    if config.model.lora_rank:
        held["adapter"] = trained * FLOAT_BYTES
        if config.model.adapter:
            held["adapter at the start"] = trained * FLOAT_BYTES
    else:
        if weight_bytes < FLOAT_BYTES:
            held["weights of the optimiser in float32"] = trained * FLOAT_BYTES
        if config.learning.kl_coefficient > 0:
            held["weights of the starting policy (KL)"] = weights
    counted = -(-trained // (1 + trained // COUNTED))
    return held | {
        "trained weights at the last count of unchanged ones": counted * FLOAT_BYTES,
        "moments of the optimiser": 2 * trained * FLOAT_BYTES,
        "gradients, summed and of one pass": 2 * trained * FLOAT_BYTES,
    }


def working_bytes(
    config: Config, plan: Plan, shape: ModelShape, weight_bytes: int, train_tokens: int
) -> Mapping[str, Amount]:
    """Memory that depends on lengths, by what it is for."""
    rows = min(config.engine.sample_batch, plan.largest_cohort)
    longest = max(train_tokens, config.model.max_context_tokens)
    training = Amount(longest, max(train_tokens, plan.episode_tokens.expected))
    cached = cache_bytes_per_token(shape, weight_bytes)
    logits = LOGIT_TABLES * max(LOGIT_TOKENS, LOGIT_ELEMENTS // shape.vocabulary) * shape.vocabulary * FLOAT_BYTES
    kept = training.times(activation_bytes_per_token(config, shape, weight_bytes)) + Amount(logits, logits)
    update = {f"activations of a micro-batch of {train_tokens:,} tokens": kept}
    if config.engine.sampler != "local":
        return update
    return {
        f"keys and values of {plan.largest_cohort} plays under way": plan.episode_tokens.times(
            plan.largest_cohort * cached
        ),
        f"keys and values of {rows} rows that decode": plan.episode_tokens.times(rows * cached),
        **update,
    }


def cache_bytes_per_token(shape: ModelShape, weight_bytes: int) -> int:
    """Keys and values of one token in all layers."""
    return 2 * shape.attention_layers * shape.key_heads * shape.head_width * weight_bytes


def activation_bytes_per_token(config: Config, shape: ModelShape, weight_bytes: int) -> int:
    """What a training pass keeps of one token until the backward pass; an estimate for gated decoders.

    Per layer: eight vectors of the hidden size, queries, keys, values and the attention's result before and after
    their norms, and four vectors of the feed-forward part. An adapter keeps what is between its matrices, and its
    input in float32 unless that is float32 anyway. With checkpointing there are the inputs of all layers, and one
    layer at a time.
    """
    attention = 3 * (shape.heads + shape.key_heads) * shape.head_width
    kept = shape.layers * (8 * shape.hidden + attention + 4 * shape.intermediate) * weight_bytes
    if config.model.lora_rank:
        layers = adapted(config, shape)
        kept += config.model.lora_rank * layers.layers * FLOAT_BYTES
        kept += layers.inputs * FLOAT_BYTES if weight_bytes < FLOAT_BYTES else 0
    if config.engine.gradient_checkpointing:
        return shape.layers * shape.hidden * weight_bytes + -(-kept // shape.layers)
    return kept


def checkpoint_bytes(config: Config, shape: ModelShape) -> int:
    """One checkpoint on disk: what is trained and both of its moments, in float32."""
    return 3 * trained_parameters(config, shape) * FLOAT_BYTES


def exported_bytes(config: Config, shape: ModelShape, weight_bytes: int) -> int:
    """The model at the end of the run on disk, or its adapter alone."""
    if config.model.lora_rank and config.model.lora_export == "adapter":
        return trained_parameters(config, shape) * FLOAT_BYTES
    return shape.parameters * weight_bytes


def pool_bytes(plan: Plan) -> Amount:
    """Disk that the pool takes at the end of the run: every episode is kept, token for token."""
    sampled = plan.agent_tokens_per_iteration.times(plan.iterations) + plan.hinted_tokens_per_round.times(plan.rounds)
    episodes = plan.episode_tokens.times(plan.plays * TOKEN_BYTES) + sampled.times(SAMPLED_BYTES)
    rows = plan.plays * EPISODE_BYTES + plan.rounds * plan.environments_per_round * ENVIRONMENT_BYTES
    replies = plan.designer_tokens_per_round.times(plan.rounds * TOKEN_BYTES)
    return episodes + replies + Amount(rows, rows)
