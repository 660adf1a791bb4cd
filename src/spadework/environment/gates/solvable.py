"""`solvable`: `solution()` wins in time, and nothing seen in any play pays as much as winning does.

It is played on the tested seeds, and must answer on all surveyed ones. No step that does not end the episode may earn
what the solution's last one earns, no step more, and no play that does not win more in sum than the solution's.
Tool environments must satisfy `tool_criteria` besides.
"""

from __future__ import annotations

from collections.abc import Sequence

from spadework.environment.gates.plays import Transcript, quote, scripted
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.tool_agents import decoded
from spadework.environment.gates.tool_criteria import require_economical, require_judgeable, require_reachable
from spadework.environment.gates.trial import Trial, require

TOLERANCE = 1e-9


async def solvable(trial: Trial, require_solution: bool, distractors: int) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault. Without a solution there is nothing more to check if none is required.

    ``distractors``: tools that the solutions of a tool environment must do without, at least.
    """
    if trial.uses_tools:
        await require_judgeable(trial)
    if not trial.has_solution:
        require(
            not require_solution,
            "the program has no `solution`; add solution(self) that returns the actions that win the current instance",
        )
        return {"solution": False, **await _asked(trial)}
    if trial.uses_tools:
        await require_reachable(trial)
    solved = await trial.solved(trial.seeds)
    for seed, solution in zip(trial.survey, await trial.solutions(trial.survey), strict=True):
        require(bool(solution), f"`solution` returned no actions on seed {seed}")
    for transcript, solution in zip(solved, await trial.solutions(trial.seeds), strict=True):
        _require_win(transcript, solution, trial)
    for transcript in solved:
        _require_best(transcript, trial)
    if trial.uses_tools:
        await require_economical(trial, distractors)
    lengths = [len(transcript.steps) for transcript in solved]
    return {
        "solution": True,
        "solution_length": max(lengths),
        "win_reward": min(transcript.terminal_reward for transcript in solved),
        **await _asked(trial),
    }


async def _asked(trial: Trial) -> dict[str, JSONValue]:
    """The tools and the instructions of one instance, for whoever judges the program; nothing for games."""
    if not trial.uses_tools:
        return {}
    (inside,) = await trial.inspections(trial.seeds[:1])
    (opened,) = await trial.play([(trial.seeds[0], scripted(()))])
    tools = [str(tool["function"]["name"]) for tool in decoded(opened)[0].tools]
    return {"tools": [*tools], "instructions": [*inside.instructions]}


def _require_win(transcript: Transcript, solution: tuple[str, ...], trial: Trial) -> None:
    seed = transcript.seed
    require(
        len(transcript.steps) <= trial.solution_limit,
        f"the solution takes {len(transcript.steps)} turns on seed {seed}; a play has {trial.solution_limit}",
    )
    whose = f"the solution on seed {seed} ({_shown(solution)})"
    require(transcript.ended, f"{whose} does not end the episode; after it `step` must return terminated=True")
    last = transcript.steps[-1]
    require(last.terminated, f"{whose} is cut off at turn {len(transcript.steps)} (truncated, not terminated)")
    require(
        last.reward > 0,
        f"{whose} ends with reward {last.reward:g} and {quote(last.observation)}; winning must earn a positive reward",
    )


def _require_best(solved: Transcript, trial: Trial) -> None:
    seed, win = solved.seed, solved.terminal_reward
    seen = [transcript for transcript in trial.transcripts if transcript.seed == seed]
    loss, ends, turn, action = min(
        (-step.reward, step.terminated, turn, step.action)
        for transcript in seen
        for turn, step in enumerate(transcript.steps, 1)
    )
    where = f"on seed {seed} action {quote(action)} at turn {turn} earns {-loss:g}"
    require(
        -loss <= win + TOLERANCE, f"{where}, more than the solution's {win:g}; winning must earn the largest reward"
    )
    require(
        ends or -loss < win - TOLERANCE, f"{where} without ending the episode; progress must earn less than winning"
    )
    total = sum(step.reward for step in solved.steps)
    for transcript in seen:
        earned = sum(step.reward for step in transcript.steps)
        require(
            transcript.terminal_reward >= win - TOLERANCE or earned <= total + TOLERANCE,
            f"on seed {seed} {len(transcript.steps)} actions that do not win ({_shown(transcript.actions)}) earn "
            f"{earned:g} in sum, more than the solution's {total:g}; pay for progress once, not for every repetition",
        )


def _shown(actions: Sequence[str]) -> str:
    return ", ".join(quote(action) for action in actions[:4]) + (", …" if len(actions) > 4 else "")
