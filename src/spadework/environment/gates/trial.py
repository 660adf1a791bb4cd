"""One program on trial: its scripted plays, each made once and shared by all gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spadework.environment.actions import ParsedAction, parse_action
from spadework.environment.gates.plays import (
    Choose,
    GateFailed,
    OpenProgram,
    PlayFault,
    Transcript,
    ask_solution,
    play_out,
    scripted,
    together,
)
from spadework.environment.gates.scripted import random_agent
from spadework.environment.program import Program
from spadework.seeding import derive_seed, generator

CONFIRMING_SEEDS = 8
"""More seeds that a suspicion is tried on before it becomes a verdict."""


def gate_seed(run_seed: int, index: int) -> int:
    """The ``index``-th seed that gates use, in [0, 2^31): plain 42 or 0 would meet programs made for them."""
    return derive_seed(run_seed, "gate", index) % 2**31


@dataclass
class Trial:
    """Plays of one opened program. Every method may raise PlayFault."""

    program: Program
    opened: OpenProgram
    run_seed: int
    seeds: tuple[int, ...]
    turn_limit: int
    """Turns after which an episode must have ended."""
    solution_limit: int
    """Turns in which a solution must win: no more than a play may have."""
    has_solution: bool
    transcripts: list[Transcript] = field(default_factory=list)
    """Every play so far."""
    _solutions: dict[int, tuple[str, ...] | PlayFault] = field(default_factory=dict)
    _solved: dict[int, Transcript] = field(default_factory=dict)
    _random: dict[tuple[int, int], Transcript] = field(default_factory=dict)

    @property
    def confirming_seeds(self) -> tuple[int, ...]:
        first = len(self.seeds)
        return tuple(gate_seed(self.run_seed, index) for index in range(first, first + CONFIRMING_SEEDS))

    async def play(self, plays: Sequence[tuple[int | None, Choose]]) -> list[Transcript]:
        """Plays of (seed, agent) pairs, at once, in order."""

        async def one(play: tuple[int | None, Choose]) -> Transcript:
            return await play_out(self.opened, *play, self.turn_limit)

        made = await together(one, plays)
        self.transcripts += made
        return made

    async def random_plays(self, seeds: Sequence[int], count: int) -> dict[tuple[int, int], Transcript]:
        """``count`` plays per seed of the random agent, by (seed, number)."""
        wanted = [(seed, number) for seed in seeds for number in range(count)]
        missing = [key for key in wanted if key not in self._random]
        made = await self.play(
            [
                (seed, random_agent(generator(self.run_seed, "random-agent", self.program.id, seed, number)))
                for seed, number in missing
            ]
        )
        self._random.update(zip(missing, made, strict=True))
        return {key: self._random[key] for key in wanted}

    async def solution(self, seed: int) -> tuple[str, ...]:
        """The actions of `solution()` as the program would get them from an agent: unboxed and stripped."""
        await self.ask_solutions([seed])
        answer = self._solutions[seed]
        if isinstance(answer, PlayFault):
            raise answer
        return answer

    async def solutions(self, seeds: Sequence[int]) -> list[tuple[str, ...]]:
        await self.ask_solutions(seeds)
        return [await self.solution(seed) for seed in seeds]

    async def ask_solutions(self, seeds: Sequence[int]) -> bool:
        """Ask for solutions and keep answers and faults. Whether all of them were given."""

        async def ask(seed: int) -> tuple[str, ...] | PlayFault:
            try:
                return tuple(_unboxed(action) for action in await ask_solution(self.opened, seed))
            except PlayFault as fault:
                return fault

        missing = [seed for seed in dict.fromkeys(seeds) if seed not in self._solutions]
        answers = await together(ask, missing)
        self._solutions.update(zip(missing, answers, strict=True))
        return all(isinstance(self._solutions[seed], tuple) for seed in seeds)

    async def solved(self, seeds: Sequence[int]) -> list[Transcript]:
        """The solution of each seed, played on its seed."""
        solutions = await self.solutions(seeds)
        missing = [(seed, scripted(actions)) for seed, actions in zip(seeds, solutions, strict=True)]
        missing = [(seed, choose) for seed, choose in missing if seed not in self._solved]
        made = await self.play(missing)
        self._solved.update((seed, made_one) for (seed, _), made_one in zip(missing, made, strict=True))
        return [self._solved[seed] for seed in seeds]

    async def win_reward(self) -> float:
        """The smallest reward of a winning solution, in (0, 1]; 1 where no solution is known to win."""
        if not self.has_solution or not await self.ask_solutions(self.seeds):
            return 1.0
        rewards = [transcript.terminal_reward for transcript in await self.solved(self.seeds)]
        return min([1.0, *(reward for reward in rewards if reward > 0)])

    async def wins(self, seed: int, transcript: Transcript) -> bool:
        """Whether ``transcript`` earned at its end what the solution earns on ``seed``, or more."""
        (solved,) = await self.solved([seed])
        return transcript.terminal_reward > 0 and transcript.terminal_reward >= solved.terminal_reward


def require(condition: bool, reason: str) -> None:
    """Raise GateFailed unless ``condition`` holds."""
    if not condition:
        raise GateFailed(reason)


def _unboxed(action: str) -> str:
    r"""Programs that teach the `\boxed{}` format may put their solutions in it; actions arrive without."""
    parsed = parse_action(action, "boxed")
    return parsed.action if isinstance(parsed, ParsedAction) else action.strip()
