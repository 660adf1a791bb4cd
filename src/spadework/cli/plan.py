"""What a run comes to before it starts: plays, tokens, memory and disk, as arithmetic on its settings.

`most` is a bound that the settings enforce. `expected` rests on `Assumptions` and is as good as they are. Memory is
that of the local engine, which holds everything in float32. Units are in the names or in the docstrings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spadework.config import Config

FLOAT_BYTES = 4
LOGIT_BYTES = 3 * (1 << 22) * FLOAT_BYTES
"""Logits of one chunk of an update, their softmax and their gradient."""
TRIES = 2
"""A play that fails is made once more."""
EPISODE_BYTES, TOKEN_BYTES, SAMPLED_BYTES = 300, 4, 8
"""Of a stored episode: its row, per token (id and text, compressed) and per sampled token (log-probability)."""
ENVIRONMENT_BYTES = 10_000
"""Of a stored environment and its attempts, besides the replies."""


@dataclass(frozen=True)
class Amount:
    """A bound and what is expected."""

    most: int
    expected: int

    def times(self, count: int) -> Amount:
        return Amount(self.most * count, self.expected * count)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.most + other.most, self.expected + other.expected)


@dataclass(frozen=True)
class Assumptions:
    """Averages that expectations rest on; tokens unless a name says otherwise. Settings bound each of them."""

    attempts_per_slot: float
    program: int
    hint: int
    turns: int
    reply: int
    thinking_reply: int
    opening: int
    """Of the first prompt of an episode."""
    observation: int


LARGE_MODEL = Assumptions(
    attempts_per_slot=1.5, program=4000, hint=150, turns=9, reply=400, thinking_reply=2000, opening=700, observation=120
)
"""Programs of about 320 lines and episodes of 8 to 10 turns are the paper's; the rest is a guess."""
SEED_MODEL = Assumptions(
    attempts_per_slot=1.05, program=61, hint=21, turns=4, reply=5, thinking_reply=5, opening=60, observation=8
)
"""Measured in a run of the preset `quickstart`."""


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model. ``intermediate`` is the width that one token passes through, of all its experts."""

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

    @property
    def cache_bytes_per_token(self) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.attention_layers * self.key_heads * self.head_width * FLOAT_BYTES

    @property
    def activation_bytes_per_token(self) -> int:
        """What a training pass keeps of one token until the backward pass; an estimate for gated decoders.

        Per layer: eight vectors of the hidden size, queries, keys, values and the attention's result before and after
        their norms, and four vectors of the feed-forward part.
        """
        attention = 3 * (self.heads + self.key_heads) * self.head_width
        return self.layers * (8 * self.hidden + attention + 4 * self.intermediate) * FLOAT_BYTES


@dataclass(frozen=True)
class Plan:
    """Counts and sampled tokens. Totals are of the whole run."""

    iterations: int
    rounds: int
    environments_per_round: int
    attempts_per_round: Amount
    plain_plays_per_iteration: int
    hinted_plays_per_round: int
    plays: int
    episode_tokens: Amount
    """Prompt, replies and observations of one episode."""
    designer_tokens_per_round: Amount
    """Programs and hints."""
    agent_tokens_per_iteration: Amount
    """Of the plain arm."""
    hinted_tokens_per_round: Amount
    tokens: Amount

    @property
    def draws(self) -> Amount:
        """Documents drawn in the whole run: one for each attempt."""
        return self.attempts_per_round.times(self.rounds)

    @property
    def largest_cohort(self) -> int:
        """Plays under way at once: both arms in a round's first iteration."""
        return self.plain_plays_per_iteration + self.hinted_plays_per_round


def assumptions_of(config: Config) -> Assumptions:
    return SEED_MODEL if config.model.prompts == "seed" else LARGE_MODEL


def plan_of(config: Config) -> Plan:
    """What ``config`` asks for, whatever its model."""
    assumed, agent, designer, curriculum = assumptions_of(config), config.agent, config.designer, config.curriculum
    rounds = -(-config.iterations // curriculum.round_iterations)
    plays = curriculum.environments * curriculum.plays
    slots = curriculum.environments
    attempts = Amount(
        slots * designer.attempts, round(slots * min(float(designer.attempts), assumed.attempts_per_slot))
    )
    replies = 1 + designer.repair_turns
    programs = Amount(
        attempts.most * replies * designer.max_tokens, attempts.expected * min(designer.max_tokens, assumed.program)
    )
    hints = Amount(
        attempts.most * designer.hint_attempts * designer.hint_max_tokens,
        slots * min(designer.hint_max_tokens, assumed.hint),
    )
    budget = min(agent.max_episode_tokens, config.model.max_context_tokens)
    turns = min(agent.max_turns, assumed.turns)
    reply = min(agent.max_reply_tokens, assumed.thinking_reply if agent.thinking else assumed.reply)
    episode = Amount(budget, min(budget, assumed.opening + turns * (reply + assumed.observation)))
    sampled = Amount(
        TRIES * min(budget, agent.max_turns * agent.max_reply_tokens), min(episode.expected, turns * reply)
    )
    per_round, per_iteration = programs + hints, sampled.times(plays)
    return Plan(
        iterations=config.iterations,
        rounds=rounds,
        environments_per_round=slots,
        attempts_per_round=attempts,
        plain_plays_per_iteration=plays,
        hinted_plays_per_round=plays,
        plays=plays * (config.iterations + rounds),
        episode_tokens=episode,
        designer_tokens_per_round=per_round,
        agent_tokens_per_iteration=per_iteration,
        hinted_tokens_per_round=per_iteration,
        tokens=per_round.times(rounds) + per_iteration.times(config.iterations + rounds),
    )


def held_bytes(config: Config, shape: ModelShape) -> Mapping[str, int]:
    """Memory that the local engine takes whatever is sampled, by what it is for."""
    weights = shape.parameters * FLOAT_BYTES
    held = {
        "weights": weights,
        "weights at the last count of unchanged ones": weights,
        "moments of the optimiser": 2 * weights,
        "gradients, summed and of one pass": 2 * weights,
    }
    return held | ({"weights of the starting policy (KL)": weights} if config.learning.kl_coefficient > 0 else {})


def working_bytes(config: Config, plan: Plan, shape: ModelShape) -> Mapping[str, Amount]:
    """Memory that depends on lengths, by what it is for."""
    rows = min(config.engine.sample_batch, plan.largest_cohort)
    longest = max(config.engine.train_tokens, config.model.max_context_tokens)
    training = Amount(longest, max(config.engine.train_tokens, plan.episode_tokens.expected))
    return {
        f"keys and values of {plan.largest_cohort} plays under way": plan.episode_tokens.times(
            plan.largest_cohort * shape.cache_bytes_per_token
        ),
        f"keys and values of {rows} rows that decode": plan.episode_tokens.times(rows * shape.cache_bytes_per_token),
        "activations of a micro-batch": training.times(shape.activation_bytes_per_token)
        + Amount(LOGIT_BYTES, LOGIT_BYTES),
    }


def checkpoint_bytes(shape: ModelShape) -> int:
    """One checkpoint on disk: weights and both moments."""
    return 3 * shape.parameters * FLOAT_BYTES


def kept_bytes(config: Config, shape: ModelShape) -> int:
    """Disk that checkpoints and the model at the end take: those kept, and the next one while it is written."""
    return (config.checkpoint.keep + 1) * checkpoint_bytes(shape) + shape.parameters * FLOAT_BYTES


def pool_bytes(plan: Plan) -> Amount:
    """Disk that the pool takes at the end of the run: every episode is kept, token for token."""
    sampled = plan.agent_tokens_per_iteration.times(plan.iterations) + plan.hinted_tokens_per_round.times(plan.rounds)
    episodes = plan.episode_tokens.times(plan.plays * TOKEN_BYTES) + sampled.times(SAMPLED_BYTES)
    rows = plan.plays * EPISODE_BYTES + plan.rounds * plan.environments_per_round * ENVIRONMENT_BYTES
    replies = plan.designer_tokens_per_round.times(plan.rounds * TOKEN_BYTES)
    return episodes + replies + Amount(rows, rows)
