"""One program on trial: its scripted plays, each made once and shared by all gates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from spadework.config import GatesConfig
from spadework.environment.actions import ParsedAction, parse_action
from spadework.environment.gates.plays import (
    Choose,
    GateFailed,
    Inspected,
    OpenProgram,
    PlayFault,
    Transcript,
    ask_solution,
    attempt,
    play_inspected,
    play_out,
    scripted,
    together,
    working,
)
from spadework.environment.gates.scripted import random_agent
from spadework.environment.gates.tool_agents import random_caller
from spadework.environment.program import Program
from spadework.environment.tool_calls import Inspection
from spadework.sandbox import ProgramHandle
from spadework.seeding import derive_seed, generator

SeededAgent = tuple[int | None, Choose]

MAX_PLAYS_AT_ONCE = 48
"""Below the number of plays that share a process by default: one program is checked in one process."""

CONFIRMING_SEEDS = 8
"""More seeds that a suspicion is tried on before it becomes a verdict."""


def gate_seed(run_seed: int, program_id: str, index: int) -> int:
    """The ``index``-th seed that gates use for a program, in [0, 2^31).

    Plain 42 or 0 would meet programs made for them. Were the seeds the same for all programs of a run, what is alike
    on them by chance would be alike for every program of a kind: a run would reject the kind.
    """
    return derive_seed(run_seed, "gate", program_id, index) % 2**31


@dataclass
class Trial:
    """Plays of one opened program.

    Methods that return plays raise PlayFault if the program failed in one of them. Those named `try_…` return the fault
    in its place: a gate that only compares leaves it to the gate whose business it is.
    """

    program: Program
    opened: OpenProgram
    run_seed: int
    seeds: tuple[int, ...]
    turn_limit: int
    """Turns after which an episode must have ended."""
    solution_limit: int
    """Turns in which a solution must win: no more than a play may have."""
    has_solution: bool
    uses_tools: bool
    """Whether actions and observations are in the notation of tool environments."""
    survey: tuple[int, ...]
    """The tested seeds and further ones, on which the program is started but not played."""
    transcripts: list[Transcript] = field(default_factory=list)
    """Every play so far."""
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_PLAYS_AT_ONCE))
    _openings: dict[int | None, str] = field(default_factory=dict)
    _solutions: dict[int, tuple[str, ...] | PlayFault] = field(default_factory=dict)
    _solved: dict[int, Transcript | PlayFault] = field(default_factory=dict)
    _random: dict[tuple[int, int], Transcript | PlayFault] = field(default_factory=dict)
    _inspected: list[Inspected] | None = None

    @classmethod
    def of(cls, program: Program, opened: ProgramHandle, config: GatesConfig, run_seed: int, max_turns: int) -> Trial:
        """``max_turns`` is what a play may have where the program declares no limit of its own."""
        declared = opened.info.max_turns or max_turns
        survey = tuple(
            gate_seed(run_seed, program.id, index) for index in range(max(config.seeds, config.instance_seeds))
        )
        return cls(
            program=program,
            opened=opened,
            run_seed=run_seed,
            seeds=survey[: config.seeds],
            turn_limit=declared,
            solution_limit=min(declared, max_turns),
            has_solution=opened.info.has_solution,
            uses_tools=opened.info.uses_tools,
            survey=survey,
        )

    @property
    def confirming_seeds(self) -> tuple[int, ...]:
        return self.further_seeds(0, CONFIRMING_SEEDS)

    def further_seeds(self, start: int, count: int) -> tuple[int, ...]:
        """Seeds ``start`` to ``start + count`` of those behind the tested ones."""
        first = len(self.seeds) + start
        return tuple(gate_seed(self.run_seed, self.program.id, index) for index in range(first, first + count))

    async def play(self, plays: Sequence[SeededAgent]) -> list[Transcript]:
        """Plays of (seed, agent) pairs, at once, in order."""
        return working(await self.try_play(plays))

    async def try_play(self, plays: Sequence[SeededAgent]) -> list[Transcript | PlayFault]:
        async def one(play: SeededAgent) -> Transcript:
            async with self._free:
                return await play_out(self.opened, *play, self.turn_limit)

        made = await attempt(one, plays)
        played = [transcript for transcript in made if isinstance(transcript, Transcript)]
        self.transcripts += played
        self._openings.update((transcript.seed, transcript.first_observation) for transcript in played)
        return made

    async def first_observations(self, seeds: Sequence[int]) -> list[str]:
        """What `reset` shows on each seed, from any play of it."""
        missing = [seed for seed in dict.fromkeys(seeds) if seed not in self._openings]
        await self.play([(seed, scripted(())) for seed in missing])
        return [self._openings[seed] for seed in seeds]

    async def survey_openings(self) -> list[str]:
        """What `reset` shows on each surveyed seed. Solutions, where they are known, are asked for on the way."""
        if await self.knows_solutions(self.seeds):
            await self.try_solutions(self.survey)
        return await self.first_observations(self.survey)

    async def random_plays(self, seeds: Sequence[int], count: int) -> list[Transcript]:
        """``count`` plays per seed of the random agent."""
        return working(await self.try_random_plays(seeds, count))

    async def try_random_plays(self, seeds: Sequence[int], count: int) -> list[Transcript | PlayFault]:
        wanted = [(seed, number) for seed in seeds for number in range(count)]
        missing = [key for key in wanted if key not in self._random]
        agent = random_caller if self.uses_tools else random_agent
        made = await self.try_play(
            [
                (seed, agent(generator(self.run_seed, "random-agent", self.program.id, seed, number)))
                for seed, number in missing
            ]
        )
        self._random.update(zip(missing, made, strict=True))
        return [self._random[key] for key in wanted]

    async def knows_solutions(self, seeds: Sequence[int]) -> bool:
        """Whether `solution()` exists and answers on all ``seeds``."""
        return self.has_solution and not any(
            isinstance(answer, PlayFault) for answer in await self.try_solutions(seeds)
        )

    async def solutions(self, seeds: Sequence[int]) -> list[tuple[str, ...]]:
        """The actions of `solution()` as the program would get them from an agent: unboxed and stripped."""
        return working(await self.try_solutions(seeds))

    async def solved(self, seeds: Sequence[int]) -> list[Transcript]:
        """The solution of each seed, played on its seed."""
        return working(await self.try_solved(seeds))

    async def try_solved(self, seeds: Sequence[int]) -> list[Transcript | PlayFault]:
        answers = dict(zip(seeds, await self.try_solutions(seeds), strict=True))
        scripts = {seed: answer for seed, answer in answers.items() if not isinstance(answer, PlayFault)}
        missing = [seed for seed in scripts if seed not in self._solved]
        made = await self.try_play([(seed, scripted(scripts[seed])) for seed in missing])
        self._solved.update(zip(missing, made, strict=True))
        faults = {seed: answer for seed, answer in answers.items() if isinstance(answer, PlayFault)}
        return [faults[seed] if seed in faults else self._solved[seed] for seed in seeds]

    async def try_solutions(self, seeds: Sequence[int]) -> list[tuple[str, ...] | PlayFault]:
        async def ask(seed: int) -> tuple[str, ...]:
            async with self._free:
                self._openings[seed], answer = await ask_solution(self.opened, seed)
            if isinstance(answer, PlayFault):
                raise answer
            return answer if self.uses_tools else tuple(_unboxed(action) for action in answer)

        missing = [seed for seed in dict.fromkeys(seeds) if seed not in self._solutions]
        self._solutions.update(zip(missing, await attempt(ask, missing), strict=True))
        return [self._solutions[seed] for seed in seeds]

    async def known_last_actions(self) -> list[str]:
        """The last action of each surveyed seed's solution; none if solutions are not known."""
        if not await self.knows_solutions(self.seeds):
            return []
        known = [answer for answer in await self.try_solutions(self.survey) if isinstance(answer, tuple)]
        return [actions[-1] for actions in known if actions]

    async def inspections(self, seeds: Sequence[int]) -> list[Inspection]:
        """A tool environment from inside, on each seed, before anything is done."""

        async def look(seed: int) -> Inspection:
            async with self._free:
                return (await play_inspected(self.opened, seed, ())).inspections[0]

        return await together(look, seeds)

    async def inspected_solutions(self) -> list[Inspected]:
        """The solution of each tested seed, carried out and looked into."""
        if self._inspected is None:

            async def carry_out(seed: int) -> Inspected:
                (actions,) = await self.solutions([seed])
                async with self._free:
                    return await play_inspected(self.opened, seed, actions[: self.turn_limit])

            self._inspected = await together(carry_out, self.seeds)
        return self._inspected

    async def win_reward(self) -> float:
        """The smallest reward of a winning solution, in (0, 1]; 1 where no solution is known to win."""
        if not await self.knows_solutions(self.seeds):
            return 1.0
        solved = [play for play in await self.try_solved(self.seeds) if isinstance(play, Transcript)]
        return min([1.0, *(play.terminal_reward for play in solved if play.terminal_reward > 0)])

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
