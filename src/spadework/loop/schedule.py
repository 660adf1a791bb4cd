"""When what happens: iterations, rounds of k iterations, and the windows that judge a round."""

from __future__ import annotations

from dataclasses import dataclass

from spadework.config import Config


@dataclass(frozen=True)
class Schedule:
    """Iterations count from 0; round r has the iterations r * k to r * k + k - 1, the last round perhaps fewer."""

    iterations: int
    round_iterations: int
    evaluation_every: int
    checkpoint_every: int

    @classmethod
    def of(cls, config: Config) -> Schedule:
        return cls(
            config.iterations, config.curriculum.round_iterations, config.evaluation.every, config.checkpoint.every
        )

    def round_of(self, iteration: int) -> int:
        return iteration // self.round_iterations

    def starts_round(self, iteration: int) -> bool:
        return iteration % self.round_iterations == 0

    def is_last(self, iteration: int) -> bool:
        return iteration == self.iterations - 1

    def window(self, round_: int) -> range:
        """The iterations whose plays judge the round."""
        first = round_ * self.round_iterations
        return range(first, min(first + self.round_iterations, self.iterations))

    def evaluates_after(self, iteration: int) -> bool:
        every = self.evaluation_every
        return self.is_last(iteration) or (every > 0 and (iteration + 1) % every == 0)

    def checkpoints_after(self, iteration: int) -> bool:
        return self.is_last(iteration) or (iteration + 1) % self.checkpoint_every == 0
