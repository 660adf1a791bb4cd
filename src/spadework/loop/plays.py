"""The plays of one iteration: who plays what from which seeds, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spadework.roles.agent import EpisodeRequest
from spadework.roles.episode import Arm, Episode, ReturnKind, episode_return
from spadework.roles.plays import MatchedReturns, Played, matched_returns
from spadework.seeding import generator
from spadework.store.records import EnvironmentRecord, EpisodeRecord

SEED_RANGE = 2**31
"""Seeds lie below this, as those of the gates do: some libraries take no larger ones."""


def play_seeds(run_seed: int, environment_id: str, iteration: int, count: int) -> tuple[int, ...]:
    """Distinct seeds, the same for both arms."""
    rng = generator(run_seed, "plays", environment_id, iteration)
    return tuple(int(seed) for seed in rng.choice(SEED_RANGE, size=count, replace=False))


def play_requests(
    environments: Sequence[EnvironmentRecord], iteration: int, run_seed: int, plays: int, *, hinted: bool
) -> tuple[EpisodeRequest, ...]:
    """``plays`` plain plays of each environment and, if ``hinted``, as many with its hint from the same seeds."""
    return tuple(
        EpisodeRequest(one.id, one.source, arm, seed, one.hint if arm is Arm.HINTED else None)
        for one in environments
        for arm in ((Arm.PLAIN, Arm.HINTED) if hinted else (Arm.PLAIN,))
        for seed in play_seeds(run_seed, one.id, iteration, plays)
    )


@dataclass(frozen=True)
class Plays:
    """``records`` hold the episodes with their returns, ``retried`` the failed first try of each that was repeated."""

    records: tuple[EpisodeRecord, ...]
    retried: tuple[Episode, ...]

    @classmethod
    def of(cls, played: Played, iteration: int, kind: ReturnKind) -> Plays:
        """Faults of the environment or the host have no return: they are worth nothing, not zero."""
        records = tuple(
            EpisodeRecord(iteration, episode, episode_return(episode, kind) if episode.scored else None)
            for episode in played.episodes
        )
        return cls(records, played.retried)

    def arm(self, arm: Arm) -> tuple[EpisodeRecord, ...]:
        return tuple(record for record in self.records if record.episode.arm is arm)

    def returns(self, arm: Arm) -> dict[str, dict[tuple[str, int], float]]:
        """Returns by environment and by (environment, seed); an environment without any is there, and empty."""
        grouped: dict[str, dict[tuple[str, int], float]] = {}
        for record in self.arm(arm):
            group = grouped.setdefault(record.episode.environment_id, {})
            if record.value is not None:
                group[record.episode.environment_id, record.episode.seed] = record.value
        return grouped

    def matched(self, kind: ReturnKind) -> dict[str, MatchedReturns]:
        """Both arms of every environment that was played in both."""
        arms: dict[str, dict[Arm, list[Episode]]] = {}
        for record in self.records:
            by_arm = arms.setdefault(record.episode.environment_id, {arm: [] for arm in Arm})
            by_arm[record.episode.arm].append(record.episode)
        return {
            id_: matched_returns(by_arm[Arm.PLAIN], by_arm[Arm.HINTED], kind)
            for id_, by_arm in arms.items()
            if by_arm[Arm.HINTED]
        }
