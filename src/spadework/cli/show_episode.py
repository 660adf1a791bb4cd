"""One episode, turn by turn."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console

from spadework.cli.errors import Refused
from spadework.cli.output import plain, print_json
from spadework.cli.show_rounds import number
from spadework.environment.tool_calls import readable
from spadework.store.reader import PoolReader
from spadework.store.records import EnvironmentRecord


def show_episode(console: Console, pool: PoolReader, row: int, environment: EnvironmentRecord, as_json: bool) -> None:
    """Raises StoreError if there is no such episode, Refused if it is another environment's."""
    record = pool.episode(row)
    episode = record.episode
    if episode.environment_id != environment.id:
        raise Refused(
            f"episode {row} is of environment {episode.environment_id[:12]}, not of {environment.id[:12]}; "
            "name that one"
        )
    if as_json:
        print_json(asdict(record))
        return
    console.print(plain(f"episode {row} of {environment.class_name} {environment.id[:12]}", "bold"))
    console.print(
        plain(
            f"iteration {record.iteration}, {episode.arm} arm, seed {episode.seed}: {episode.end} after "
            f"{len(episode.turns)} turns, return {number(record.value)}, {sum(episode.sampled_T)} tokens sampled"
        )
    )
    if episode.fault_reason:
        console.print(plain(f"fault ({episode.fault_kind}): {episode.fault_reason}", "red"))
    for position, turn in enumerate(episode.turns, 1):
        by = "" if turn.policy_version is None else f", by the weights after {turn.policy_version} optimiser steps"
        console.print(plain(f"\nturn {position}{by}", "bold"))
        console.print(plain(readable(turn.observation), "cyan"))
        console.print(plain(turn.reply))
        console.print(plain(f"action {turn.action!r}, reward {turn.reward:g}", "dim"))
    if episode.final_observation:
        console.print(plain(f"\n{readable(episode.final_observation)}", "cyan"))
