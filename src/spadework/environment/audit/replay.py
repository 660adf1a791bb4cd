"""Does the log of a play's actions reproduce it? In a fresh process, one play after the other, nothing else running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spadework.environment.audit.attack import Attacked, AttackKind, Bench
from spadework.environment.gates.determinism import first_difference
from spadework.environment.gates.plays import OpenProgram, PlayFault, Transcript, play_out, quote, scripted

MAX_REPLAYS = 24


@dataclass(frozen=True)
class ActionLog:
    """A recorded play: the actions from ``seed`` that the program was stepped with, and what each earned."""

    seed: int
    actions: tuple[str, ...]
    rewards: tuple[float, ...]
    terminated: bool
    """Whether the program ended it as won or lost."""


async def replay(bench: Bench) -> list[Attacked]:
    """Plays that the other attacks made."""
    trial = bench.trial
    await trial.try_random_plays(trial.seeds, 1)
    if await trial.knows_solutions(trial.seeds):
        await trial.try_solved(trial.seeds)
    made = [transcript for transcript in trial.transcripts if transcript.steps]
    chosen = made[:: -(-len(made) // MAX_REPLAYS) or 1]
    program = await bench.open_again()
    for transcript in chosen:
        again = await _again(program, transcript.seed, transcript.actions, trial.turn_limit)
        difference = again if isinstance(again, str) else first_difference(transcript, again)
        if difference:
            return [_unequal(len(chosen), transcript.seed, transcript.actions, difference)]
    return [_equal("plays of this audit", len(chosen))]


async def replay_logs(bench: Bench, logs: Sequence[ActionLog]) -> list[Attacked]:
    """Plays that were recorded before: each step must earn the same and the end must be of the same kind."""
    program = await bench.open_again()
    for log in logs:
        again = await _again(program, log.seed, log.actions, bench.trial.turn_limit)
        difference = again if isinstance(again, str) else _unlike_log(log, again)
        if difference:
            return [_unequal(len(logs), log.seed, log.actions, difference)]
    return [_equal("recorded episodes", len(logs))]


async def _again(program: OpenProgram, seed: int | None, actions: Sequence[str], turn_limit: int) -> Transcript | str:
    try:
        return await play_out(program, seed, scripted(actions), max(turn_limit, len(actions)))
    except PlayFault as fault:
        return f"the program fails: {fault.reason}"


def _unlike_log(log: ActionLog, again: Transcript) -> str:
    earned = tuple(step.reward for step in again.steps)
    if earned != log.rewards:
        return f"the rewards are {_listed(earned)}, not {_listed(log.rewards)}"
    terminated = bool(again.steps) and again.steps[-1].terminated
    if terminated != log.terminated:
        return f"the program {'ends' if terminated else 'does not end'} the episode"
    return ""


def _listed(rewards: Sequence[float]) -> str:
    return "[" + ", ".join(f"{reward:g}" for reward in rewards) + "]"


def _equal(what: str, plays: int) -> Attacked:
    return Attacked(AttackKind.REPLAY, f"replays {what}", plays, None)


def _unequal(plays: int, seed: int | None, actions: Sequence[str], difference: str) -> Attacked:
    said = ", ".join(map(quote, actions[:4])) + (", …" if len(actions) > 4 else "")
    return Attacked(
        AttackKind.REPLAY,
        "replays a play",
        plays,
        None,
        f"the actions of a play do not give it again: seed {seed}, actions {said}: {difference}; draw everything from "
        "random.Random(seed) and keep no state outside the instance",
    )
