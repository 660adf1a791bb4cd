"""Play the held-out items with the present weights.

Every item is played once by the plain arm, with draws keyed by the item alone: a checkpoint is asked the same
questions with the same luck as any other, whatever the seed of its run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spadework.config import Config
from spadework.engines.base import Engine
from spadework.evaluation.items import Item, ItemList, load_items, shipped_items, suite_of
from spadework.evaluation.results import Evaluation, ItemResult, readings, write_result
from spadework.roles.agent import EpisodeRequest, Player
from spadework.roles.episode import Arm, Episode, episode_return
from spadework.roles.plays import Played, play_all
from spadework.roles.prompts import prompt_style
from spadework.roles.rendering import Rendering
from spadework.roles.tool_rendering import tools_of
from spadework.sandbox import ProgramHost, open_sandbox
from spadework.sandbox.limits import SandboxConfig

WAVE = 128
"""Items played at once: each has a process of its own, of some 4 MB."""
DRAWS_SEED = 0


@dataclass(frozen=True)
class HeldOut:
    """Held-out evaluation of one run; ``run`` is where results are kept, None to keep none."""

    items: ItemList
    config: Config
    engine: Engine
    rendering: Rendering
    run: Path | None = None

    @classmethod
    def open(cls, config: Config, engine: Engine, rendering: Rendering, run: Path | None = None) -> HeldOut:
        """With the items that the configuration asks for. Raises ItemsUnusable."""
        path = shipped_items(suite_of(config.agent.action_format))
        return cls(load_items(path, config.evaluation.items), config, engine, rendering, run)

    async def __call__(self, iterations: int) -> Mapping[str, float]:
        """Play all items after so many iterations, keep the results in the run, and give them as metrics."""
        evaluation = await self.evaluate(iterations)
        if self.run is not None:
            write_result(self.run, evaluation)
        return readings(evaluation, self.config.evaluation.bootstrap_samples)

    async def evaluate(self, iterations: int | None = None) -> Evaluation:
        config = self.config
        agent = config.agent.model_copy(update={"temperature": config.evaluation.temperature})
        prompts = prompt_style(config.model.prompts, self.rendering.encode, agent.action_format)
        tools = tools_of(self.rendering, agent.action_format)
        player = Player(self.rendering, prompts, agent, config.model.max_context_tokens, DRAWS_SEED, tools)

        async def play(requests: Sequence[EpisodeRequest], sandbox: ProgramHost) -> Played:
            return await play_all(requests, self.engine, sandbox, player)

        episodes = await play_items(self.items, config.sandbox, play)
        return Evaluation(
            suite=self.items.suite,
            version=self.items.version,
            sha256=self.items.sha256,
            renderer=self.rendering.name,
            prompts=config.model.prompts,
            thinking=config.agent.thinking,
            temperature=config.evaluation.temperature,
            policy_version=self.engine.policy_version,
            iterations=iterations,
            items=results_of(self.items, episodes),
        )


PlayWave = Callable[[Sequence[EpisodeRequest], ProgramHost], Awaitable[Played]]


async def play_items(items: ItemList, config: SandboxConfig, play: PlayWave) -> list[Episode]:
    """One plain episode of each item, in order."""
    requests = [EpisodeRequest(item.id, item.source, Arm.PLAIN, item.seed) for item in items.items]
    episodes: list[Episode] = []
    async with open_sandbox(config) as sandbox:
        for start in range(0, len(requests), WAVE):
            played = await play(requests[start : start + WAVE], sandbox)
            episodes += played.episodes
    return episodes


def results_of(items: ItemList, episodes: Sequence[Episode]) -> tuple[ItemResult, ...]:
    """``episodes`` in the order of the items."""
    return tuple(map(_result, items.items, episodes))


def _result(item: Item, episode: Episode) -> ItemResult:
    solved = episode.scored and episode_return(episode, "terminal") > 0
    return ItemResult(item.id, item.split, item.family, solved, len(episode.turns), episode.end, episode.outcome)
