"""What a run costs, from what is assumed of its model and machines and what was measured of the loop.

`python benchmarks/scaling.py` prints the tables of docs/scaling.md. Change an assumption with `--set NAME=VALUE`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields, replace

from spadework.cli.plan import LARGE_MODEL


@dataclass(frozen=True)
class Assumed:
    """Tokens are the model's; those of programs and plays are what `spadework train PRESET --dry-run` assumes.

    What is measured says so.
    """

    iterations: float = 400
    environments: float = 24
    plays: float = 16
    round_iterations: float = 4
    turns: float = LARGE_MODEL.turns
    reply_tokens: float = LARGE_MODEL.reply
    observation_tokens: float = LARGE_MODEL.observation
    opening_tokens: float = LARGE_MODEL.opening
    program_tokens: float = LARGE_MODEL.program
    hint_tokens: float = LARGE_MODEL.hint
    attempts_per_slot: float = LARGE_MODEL.attempts_per_slot
    design_prompt_tokens: float = LARGE_MODEL.design_prompt
    total_params: float = 30.5e9
    active_params: float = 3.3e9
    gpus: float = 8
    gpu_tokens_per_s: float = 4000
    """Sampled by one GPU, its rows together."""
    gpu_flops: float = 989e12
    train_utilisation: float = 0.2
    bytes_per_sampled_token: float = 10.0
    """4.8 for a log-probability of 32 bits and at most 3.8 for an id, both measured; the rest for text."""
    bytes_per_environment: float = 45e3
    """Program, fingerprint and attempts of 285 lines: 34,000, measured; the rest for a document."""
    host_s_per_turn: float = 0.00028
    """Measured: CPU of the process that runs the loop, tokenising included."""
    sandbox_s_per_turn: float = 0.0001
    """Measured: CPU of programs' processes with a program that computes next to nothing, their start included."""


@dataclass(frozen=True)
class Cost:
    environments: float
    plays: float
    turns: float
    sampled_tokens: float
    trained_tokens: float
    sampling_gpu_hours: float
    training_gpu_hours: float
    turns_per_s: float
    pool_bytes: float
    checkpoint_bytes: float


def cost(of: Assumed) -> Cost:
    """The whole run. A play is trained if it is plain; every sequence is passed once, forward and backward."""
    rounds = of.iterations / of.round_iterations
    environments = rounds * of.environments
    plain = of.iterations * of.environments * of.plays
    plays = plain + environments * of.plays
    attempts = environments * of.attempts_per_slot
    sampled = plays * of.turns * of.reply_tokens + attempts * of.program_tokens + environments * of.hint_tokens
    play_tokens = of.opening_tokens + of.turns * (of.reply_tokens + of.observation_tokens)
    trained = plain * play_tokens + attempts * (of.design_prompt_tokens + of.program_tokens)
    train_s = 6 * of.active_params * trained / (of.gpu_flops * of.train_utilisation)
    return Cost(
        environments=environments,
        plays=plays,
        turns=plays * of.turns,
        sampled_tokens=sampled,
        trained_tokens=trained,
        sampling_gpu_hours=sampled / of.gpu_tokens_per_s / 3600,
        training_gpu_hours=train_s / 3600,
        turns_per_s=of.gpus * of.gpu_tokens_per_s / of.reply_tokens,
        pool_bytes=sampled * of.bytes_per_sampled_token + environments * of.bytes_per_environment,
        checkpoint_bytes=of.total_params * (4 + 4 + 4),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    changes = dict(one.split("=", 1) for one in parser.parse_args().set)
    assumed = replace(Assumed(), **{name: float(value) for name, value in changes.items()})
    for field in fields(assumed):
        print(f"{field.name:<26}{getattr(assumed, field.name):>16,g}")
    for reply_tokens in (40, 100, 400, 1000, 4000):
        found = cost(replace(assumed, reply_tokens=reply_tokens))
        host, sandbox = (found.turns_per_s * one for one in (assumed.host_s_per_turn, assumed.sandbox_s_per_turn))
        print(
            f"{reply_tokens:>5} tokens a reply: {found.sampled_tokens / 1e6:,.0f} M sampled, "
            f"{found.trained_tokens / 1e6:,.0f} M trained, GPU hours {found.sampling_gpu_hours:,.0f} + "
            f"{found.training_gpu_hours:,.0f}, {found.turns_per_s:,.0f} turns/s use {host:.2f} of the loop's core and "
            f"{sandbox:.2f} of the sandbox's, pool {found.pool_bytes / 1e9:.1f} GB"
        )
    found = cost(assumed)
    print(f"{found.environments:,.0f} environments, {found.plays:,.0f} plays, {found.turns:,.0f} turns")
    print(f"full checkpoint {found.checkpoint_bytes / 1e9:,.0f} GB")


if __name__ == "__main__":
    main()
