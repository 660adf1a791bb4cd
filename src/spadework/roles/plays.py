"""Many plays at once, and what the two arms of an environment are worth side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from spadework.engines.base import Engine
from spadework.roles.agent import EpisodeRequest, OpenProgram, Player, fault_episode, play_episode
from spadework.roles.episode import Arm, Episode, ReturnKind, episode_return
from spadework.roles.together import all_of
from spadework.sandbox.outcomes import EnvironmentFault, InfrastructureFault


class ProgramOpener(Protocol):
    """The part of a sandbox that plays need."""

    async def open(self, source: str) -> OpenProgram: ...


@dataclass(frozen=True)
class Played:
    """``episodes`` in the order of their requests; ``retried`` holds the failed first try of each play tried again."""

    episodes: tuple[Episode, ...]
    retried: tuple[Episode, ...] = ()


@dataclass(frozen=True)
class MatchedReturns:
    """Returns of the seeds (S of them, in order) whose plays have a return in both arms."""

    seeds_S: tuple[int, ...]
    plain_S: tuple[float, ...]
    hinted_S: tuple[float, ...]


PlayOne = Callable[[EpisodeRequest, OpenProgram, int], Awaitable[Episode]]
"""(request, its program, number of the request) -> its episode, whatever happened in it."""


async def play_all(
    requests: Sequence[EpisodeRequest], engine: Engine, sandbox: ProgramOpener, player: Player
) -> Played:
    """Play every request at once, as one cohort whose members are the requests in order; see `play_together`.

    Nothing in the result depends on how long a sandbox takes: the engine samples in member order, and an episode
    whose program hangs holds the others back by its deadlines only.
    """
    if not requests:
        return Played(())
    async with engine.cohort(len(requests)) as cohort:

        async def play(request: EpisodeRequest, program: OpenProgram, member: int) -> Episode:
            return await play_episode(request, program, cohort, member, player)

        return await play_together(requests, sandbox, play, cohort.leave)


async def play_together(
    requests: Sequence[EpisodeRequest], sandbox: ProgramOpener, play: PlayOne, leave: Callable[[int], None]
) -> Played:
    """Play every request at once; ``leave`` is told when one is over.

    Each distinct environment is opened once. A play that fails, by the program's fault or the host's, is tried once
    more on its seed; programs that cannot be opened (tried twice as well) fail all their plays.

    Raises ValueError if one environment id comes with two sources, and what ``play`` raises.
    """
    async with _opened(_distinct_sources(requests), sandbox) as programs:
        tries = await all_of(
            _play_member(request, programs[request.environment_id], member, play, leave)
            for member, request in enumerate(requests)
        )
    return Played(
        episodes=tuple(episodes[-1] for episodes in tries),
        retried=tuple(episode for episodes in tries for episode in episodes[:-1]),
    )


def matched_returns(plain: Iterable[Episode], hinted: Iterable[Episode], kind: ReturnKind) -> MatchedReturns:
    """Pair the arms of one environment by seed; a seed whose play failed in either arm is dropped from both.

    Raises ValueError if the episodes are not one play per seed, of one environment, over equal seeds in both arms.
    """
    plain_by_seed, hinted_by_seed = _by_seed(plain, Arm.PLAIN), _by_seed(hinted, Arm.HINTED)
    if plain_by_seed.keys() != hinted_by_seed.keys():
        alone = sorted(plain_by_seed.keys() ^ hinted_by_seed.keys())
        raise ValueError(f"the arms are not matched: seeds {alone} were played in one arm only")
    if len({episode.environment_id for episode in (*plain_by_seed.values(), *hinted_by_seed.values())}) > 1:
        raise ValueError("the arms are not matched: they belong to more than one environment")
    pairs = [(plain_by_seed[seed], hinted_by_seed[seed]) for seed in sorted(plain_by_seed)]
    valid = [(one, other) for one, other in pairs if one.scored and other.scored]
    return MatchedReturns(
        seeds_S=tuple(one.seed for one, _ in valid),
        plain_S=tuple(episode_return(one, kind) for one, _ in valid),
        hinted_S=tuple(episode_return(other, kind) for _, other in valid),
    )


async def _play_member(
    request: EpisodeRequest,
    opening: asyncio.Task[OpenProgram],
    member: int,
    play: PlayOne,
    leave: Callable[[int], None],
) -> list[Episode]:
    """The tries of one play: one, or two if the first failed."""
    try:
        try:
            program = await asyncio.shield(opening)
        except (EnvironmentFault, InfrastructureFault) as fault:
            return [fault_episode(request, fault)]
        first = await play(request, program, member)
        if first.scored:
            return [first]
        return [first, await play(request, program, member)]
    finally:
        leave(member)


@asynccontextmanager
async def _opened(
    sources: Mapping[str, str], sandbox: ProgramOpener
) -> AsyncIterator[dict[str, asyncio.Task[OpenProgram]]]:
    """Start opening every program; close all of them at the end, whatever happened."""
    openings = {name: asyncio.create_task(_open(source, sandbox)) for name, source in sources.items()}
    try:
        yield openings
    finally:
        for opening in openings.values():
            opening.cancel()
        for outcome in await asyncio.gather(*openings.values(), return_exceptions=True):
            if not isinstance(outcome, BaseException):
                await outcome.close()


async def _open(source: str, sandbox: ProgramOpener) -> OpenProgram:
    try:
        return await sandbox.open(source)
    except (EnvironmentFault, InfrastructureFault):
        return await sandbox.open(source)


def _distinct_sources(requests: Sequence[EpisodeRequest]) -> dict[str, str]:
    sources: dict[str, str] = {}
    for request in requests:
        if sources.setdefault(request.environment_id, request.source) != request.source:
            raise ValueError(f"environment {request.environment_id} was requested with two different programs")
    return sources


def _by_seed(episodes: Iterable[Episode], arm: Arm) -> dict[int, Episode]:
    by_seed: dict[int, Episode] = {}
    for episode in episodes:
        if episode.arm is not arm:
            raise ValueError(f"an episode of the {episode.arm.value} arm was given as {arm.value}")
        if episode.seed in by_seed:
            raise ValueError(f"seed {episode.seed} of {episode.environment_id} was played twice in the {arm.value} arm")
        by_seed[episode.seed] = episode
    return by_seed
