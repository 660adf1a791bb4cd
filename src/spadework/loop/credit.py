"""Who earned what: the plays' and the designer's samples with their advantages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spadework.config import Config, DesignerRewardConfig
from spadework.curriculum.averages import SkillAverages
from spadework.curriculum.estimates import NothingMeasured
from spadework.curriculum.measuring import window_of
from spadework.curriculum.rewards import Window, designer_reward, updated_averages
from spadework.learning.advantages import agent_advantages, designer_advantages
from spadework.learning.batch import TrainingSample
from spadework.learning.delay import Released
from spadework.loop.plays import Plays
from spadework.loop.schedule import Schedule
from spadework.loop.writing import attempt_key
from spadework.roles.episode import Arm
from spadework.roles.tool_use import trained_tokens
from spadework.sandbox.outcomes import Outcome
from spadework.store.reader import PoolReader
from spadework.store.records import AttemptRecord


@dataclass(frozen=True)
class AgentCredit:
    """``dead`` names the environments whose plays all earned the same."""

    samples: tuple[TrainingSample, ...]
    dead: tuple[str, ...]


@dataclass(frozen=True)
class DesignerCredit:
    """``rewards`` has every judged attempt by key, ``valid`` those that became environments.

    ``unjudged`` were neither measured nor at fault, or are invalid and dropped by configuration. ``averages`` are those
    after the rounds that were judged, ``delays`` the iterations that each sample waited.
    """

    samples: tuple[TrainingSample, ...]
    rewards: dict[str, float]
    valid: dict[str, float]
    dead: tuple[str, ...]
    unjudged: int
    averages: SkillAverages
    delays: tuple[int, ...] = field(default=())


def credit_agent(plays: Plays, config: Config) -> AgentCredit:
    """Advantages of the plain plays within their environment; the hinted arm is measured, never trained.

    Faults take no part. A play that ended before its first reply counts in its group, and has nothing to train.
    """
    advantages = agent_advantages(plays.returns(Arm.PLAIN), normalise=config.learning.normalise_agent)
    episodes = [record.episode for record in plays.arm(Arm.PLAIN)]
    samples = tuple(
        TrainingSample(
            token_ids_T=episode.token_ids_T,
            sampled_T=trained_tokens(episode, config.agent.train_malformed_calls),
            logprobs_T=episode.logprobs_T,
            advantage=advantages.by_member[episode.environment_id, episode.seed],
            role="agent",
            temperature=config.agent.temperature,
            key=f"agent/{episode.environment_id}/{episode.seed}",
        )
        for episode in episodes
        if (episode.environment_id, episode.seed) in advantages.by_member
        and any(trained_tokens(episode, config.agent.train_malformed_calls))
    )
    return AgentCredit(samples, advantages.dead)


def credit_designer(
    released: Sequence[Released],
    pool: PoolReader,
    schedule: Schedule,
    config: DesignerRewardConfig,
    averages: SkillAverages,
    iteration: int,
) -> DesignerCredit:
    """Judge the attempts that left the delay buffer by what the pool says of their windows, round by round.

    An accepted attempt earns its environment's reward; where a share of the plays ended in the environment's faults,
    that share of the reward gives way to what an invalid attempt earns. A rejected attempt earns ``config.invalid``.
    """
    judged = _Judged(pool, config, averages)
    samples = {held.sample.key: held for held in released}
    for round_ in sorted({schedule.round_of(held.added) for held in released}):
        judged.round([record for record in pool.attempts(round_) if attempt_key(record) in samples], schedule)
    advantages = designer_advantages(judged.groups)
    trained = [samples[key] for key in samples if key in advantages.by_member]
    return DesignerCredit(
        samples=tuple(
            held.sample.with_advantage(advantages.by_member[held.sample.key], delayed=held.added < iteration)
            for held in trained
        ),
        rewards={key: reward for group in judged.groups.values() for key, reward in group.items()},
        valid=judged.valid,
        dead=advantages.dead,
        unjudged=len(samples) - sum(len(group) for group in judged.groups.values()),
        averages=judged.averages,
        delays=tuple(iteration - held.added for held in trained),
    )


class _Judged:
    """Rewards so far, by round and skill."""

    def __init__(self, pool: PoolReader, config: DesignerRewardConfig, averages: SkillAverages) -> None:
        self.groups: dict[str, dict[str, float]] = {}
        self.valid: dict[str, float] = {}
        self.averages = averages
        self._pool = pool
        self._config = config

    def round(self, attempts: Iterable[AttemptRecord], schedule: Schedule) -> None:
        windows: list[Window] = []
        for record in attempts:
            reward = self._config.invalid
            if record.environment_id is not None:
                iterations = schedule.window(record.round)
                windows.append(window_of(self._pool, record.environment_id, record.skill, iterations))
                reward = self._reward(record.environment_id, windows[-1])
                if reward is not None:
                    self.valid[attempt_key(record)] = reward
            if reward is not None:
                self.groups.setdefault(f"{record.round}/{record.skill}", {})[attempt_key(record)] = reward
        self.averages = updated_averages(self._config, windows, self.averages)

    def _reward(self, environment_id: str, window: Window) -> float | None:
        faulty = self._fault_share(environment_id)
        try:
            reward = designer_reward(self._config, window, self.averages).value
        except NothingMeasured:
            return self._config.invalid if faulty > 0 else None
        return reward if self._config.invalid is None else (1.0 - faulty) * reward + faulty * self._config.invalid

    def _fault_share(self, environment_id: str) -> float:
        """Share of plays that the environment failed, of those that the host did not fail; 0 without any."""
        outcomes = [episode.outcome for episode in self._pool.episodes(environment_id)]
        counted = [outcome for outcome in outcomes if outcome is not Outcome.INFRASTRUCTURE_FAULT]
        return sum(outcome is Outcome.ENVIRONMENT_FAULT for outcome in counted) / max(1, len(counted))
