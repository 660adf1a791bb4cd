"""Fast and slow moving averages per skill: the memory of the learning-potential reward.

Kanitscheider et al. 2021 (arXiv 2106.14876) take the distance of two moving averages of an agent's success at different
rates as its learning progress. Here there is one pair per skill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Averages:
    """Two moving averages of returns; the fast one gives the newest value the larger share."""

    fast: float
    slow: float

    def after(self, value: float, fast_rate: float, slow_rate: float) -> Averages:
        """mean <- (1 - rate) * mean + rate * value, for each of the two."""
        return Averages(
            fast=(1.0 - fast_rate) * self.fast + fast_rate * value,
            slow=(1.0 - slow_rate) * self.slow + slow_rate * value,
        )

    def potential(self, fast_rate: float, slow_rate: float) -> float:
        """|fast - slow| / (2 (fast_rate - slow_rate)): in [0, 1] after a value of [-1, 1] met equal averages."""
        return abs(self.fast - self.slow) / (2.0 * (fast_rate - slow_rate))


@dataclass(frozen=True)
class SkillAverages:
    """The averages of every skill seen so far. Frozen: an update gives a new one."""

    skills: Mapping[str, Averages] = field(default_factory=dict)

    def of(self, skill: str, first_value: float) -> Averages:
        """The averages of ``skill``; a skill without any starts with both at ``first_value``."""
        return self.skills.get(skill, Averages(first_value, first_value))

    def after(self, means: Mapping[str, float], fast_rate: float, slow_rate: float) -> SkillAverages:
        """Add one mean return per skill, after everything of the round was scored against the averages before it."""
        new = {skill: self.of(skill, mean).after(mean, fast_rate, slow_rate) for skill, mean in means.items()}
        return SkillAverages({**self.skills, **new})

    def to_json(self) -> dict[str, list[float]]:
        return {skill: [averages.fast, averages.slow] for skill, averages in sorted(self.skills.items())}

    @classmethod
    def from_json(cls, value: Mapping[str, list[float]]) -> SkillAverages:
        return cls({skill: Averages(fast, slow) for skill, (fast, slow) in value.items()})
