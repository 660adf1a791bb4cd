"""What a run comes to before it starts: plays and tokens, as arithmetic on its settings.

`most` is a bound that the settings enforce. `expected` rests on `Assumptions` and is as good as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from spadework.config import Config
from spadework.engines.settings import EndpointConfig

TRIES = 2
"""A play that fails is made once more."""
INSTRUCTIONS, VERDICT = 600, 1000
"""Tokens that a hint writer or judge is told beside the program, and those of a verdict with its reasons; guesses."""


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
    design_prompt: int
    program: int
    hint: int
    turns: int
    reply: int
    thinking_reply: int
    opening: int
    """Of the first prompt of an episode."""
    observation: int


LARGE_MODEL = Assumptions(
    attempts_per_slot=1.5,
    design_prompt=12_000,
    program=4000,
    hint=150,
    turns=9,
    reply=400,
    thinking_reply=2000,
    opening=700,
    observation=120,
)
"""Programs of about 320 lines and episodes of 8 to 10 turns are the paper's; the rest is a guess."""
SEED_MODEL = Assumptions(
    attempts_per_slot=1.05,
    design_prompt=43,
    program=61,
    hint=21,
    turns=4,
    reply=5,
    thinking_reply=5,
    opening=60,
    observation=8,
)
"""Measured in a run of the preset `quickstart`."""


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
    expected = assumed.thinking_reply if agent.thinking else assumed.reply
    if agent.max_thinking_tokens:
        expected = min(expected, agent.max_thinking_tokens + assumed.reply)
    reply = min(agent.max_reply_tokens, expected)
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


@dataclass(frozen=True)
class EndpointUse:
    """Tokens that a whole run is expected to use at its endpoint."""

    prompts: int
    replies: int

    def cost(self, prices: EndpointConfig) -> float:
        """In the currency of the prices; 0 without prices."""
        paid = self.prompts * prices.price_per_million_input + self.replies * prices.price_per_million_output
        return paid / 1_000_000


def endpoint_use(config: Config) -> EndpointUse:
    """What the endpoint's roles come to; nothing if it has none. Repairs are not counted."""
    assumed = SEED_MODEL if config.endpoint.prompts == "seed" else LARGE_MODEL
    designer = config.designer
    slots = -(-config.iterations // config.curriculum.round_iterations) * config.curriculum.environments
    attempts = round(slots * min(float(designer.attempts), assumed.attempts_per_slot))
    read = min(designer.max_tokens, assumed.program) + INSTRUCTIONS
    asked = {
        "roles.designer": (attempts, assumed.design_prompt, min(designer.max_tokens, assumed.program)),
        "roles.hint_writer": (slots, read, min(designer.hint_max_tokens, assumed.hint)),
        "gates.judge": (slots, read, min(config.gates.judge_max_tokens, VERDICT)),
    }
    uses = [asked[user] for user in config.endpoint_users]
    return EndpointUse(
        prompts=sum(count * prompt for count, prompt, _ in uses),
        replies=sum(count * reply for count, _, reply in uses),
    )
