"""`solvable`: `solution()` wins on every seed, in time, and nothing seen in any play pays more than winning.

Tool environments must satisfy `tool_criteria` besides.
"""

from __future__ import annotations

from spadework.environment.gates.plays import Transcript, quote
from spadework.environment.gates.results import JSONValue
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
        return {"solution": False}
    if trial.uses_tools:
        await require_reachable(trial)
    solved = await trial.solved(trial.seeds)
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
    }


def _require_win(transcript: Transcript, solution: tuple[str, ...], trial: Trial) -> None:
    seed = transcript.seed
    shown = ", ".join(quote(action) for action in solution[:4]) + (", …" if len(solution) > 4 else "")
    require(bool(solution), f"`solution` returned no actions on seed {seed}")
    require(
        len(transcript.steps) <= trial.solution_limit,
        f"the solution takes {len(transcript.steps)} turns on seed {seed}; a play has {trial.solution_limit}",
    )
    require(
        transcript.ended,
        f"the solution on seed {seed} ({shown}) does not end the episode; after it `step` must return terminated=True",
    )
    last = transcript.steps[-1]
    require(
        last.terminated,
        f"the solution on seed {seed} ({shown}) is cut off at turn {len(transcript.steps)} (truncated, not terminated)",
    )
    require(
        last.reward > 0,
        f"the solution on seed {seed} ({shown}) ends with reward {last.reward:g} and {quote(last.observation)}; "
        "winning must earn a positive reward",
    )


def _require_best(solved: Transcript, trial: Trial) -> None:
    steps = (
        (-step.reward, turn, step.action)
        for transcript in trial.transcripts
        if transcript.seed == solved.seed
        for turn, step in enumerate(transcript.steps, 1)
    )
    loss, turn, action = min(steps)
    require(
        -loss <= solved.terminal_reward + TOLERANCE,
        f"on seed {solved.seed} action {quote(action)} at turn {turn} earns {-loss:g}, more than the solution's "
        f"{solved.terminal_reward:g}; winning must earn the largest reward",
    )
