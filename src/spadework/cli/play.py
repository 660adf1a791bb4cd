"""`spadework play`: a person in the agent's seat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from spadework.sandbox import Program

EXAMPLES = "Examples: spadework play maze.py | spadework play maze.py --seed 7 --cheat"
FAULTY = 1
"""Exit status when the program failed."""


def play(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Source file of one program.")],
    seed: Annotated[int, typer.Option(help="Which instance to play.")] = 0,
    cheat: Annotated[bool, typer.Option("--cheat", help="Show the program's own solution first.")] = False,
) -> None:
    """Play a program yourself, in the sandbox. An action is one line, as it stands; Ctrl-D gives up.

    In a tool environment `NAME {"PARAMETER": VALUE}` calls a tool, and any other line is said.

    Exit status: 0 whether you win or lose, 1 if the program failed.
    """
    import asyncio

    from spadework.cli.errors import Refused
    from spadework.cli.files import read_program
    from spadework.sandbox.outcomes import EnvironmentFault

    source = read_program(file)
    if not -(2**63) <= seed < 2**64:
        raise Refused(f"--seed {seed} is out of range; give one in [-2^63, 2^64)")
    try:
        asyncio.run(_play(source, seed, cheat))
    except EnvironmentFault as fault:
        from spadework.cli.output import printable

        trace = f"\n{printable(fault.trace.rstrip())}" if fault.trace else ""
        typer.echo(f"The program failed ({fault.kind}): {printable(fault.reason)}{trace}", err=True)
        raise typer.Exit(FAULTY) from None


async def _play(source: str, seed: int, cheat: bool) -> None:
    from spadework.environment.adaptation import adapt
    from spadework.sandbox import Sandbox

    adapted, _ = adapt(source)
    async with Sandbox() as sandbox, await sandbox.open(adapted) as program:
        print(await _episode(program, seed, cheat))


async def _episode(program: Program, seed: int, cheat: bool) -> str:
    """Play to the end; returns the line that tells it."""
    from spadework.cli.output import printable
    from spadework.config import AgentConfig

    limit = program.info.max_turns or AgentConfig().max_turns
    uses_tools = program.info.uses_tools
    game, observation = await program.reset(seed)
    print(f"{program.info.class_name}, seed {seed}, at most {limit} turns; one action a line, Ctrl-D gives up\n")
    if cheat:
        solution = await game.solution() if program.info.has_solution else ()
        print(f"Solution: {' | '.join(map(printable, solution)) or 'the program has none'}\n")
    for turn in range(1, limit + 1):
        print(_shown(observation, uses_tools, first=turn == 1))
        action = _ask(f"[{turn}/{limit}] > ")
        if action is None:
            return f"\nYou gave up after {turn - 1} turns."
        transition = await game.step(_typed(action, turn) if uses_tools else action)
        observation = transition.observation
        if transition.terminated or transition.truncated:
            print(_shown(observation, uses_tools))
            return _ending(transition.terminated, transition.reward, turn)
    print(_shown(observation, uses_tools))
    return _ending(False, 0.0, limit)


def _shown(observation: str, uses_tools: bool, first: bool = False) -> str:
    from spadework.cli.output import printable

    if not uses_tools:
        return printable(observation)
    from spadework.environment.tool_calls import NotToolObservation, decode_observation, said
    from spadework.sandbox.outcomes import EnvironmentFault, FaultKind

    try:
        told = decode_observation(observation, first)
    except NotToolObservation as error:
        raise EnvironmentFault(FaultKind.CONTRACT, f"the program sent {error}") from None
    lines = [_signature(tool["function"]) for tool in told.tools]
    return printable("\n".join([*lines, *([""] if lines else []), said(told.messages)]))


def _signature(function: dict[str, Any]) -> str:
    parameters = function["parameters"]
    required = parameters.get("required", [])
    names = [name if name in required else f"[{name}]" for name in parameters.get("properties", {})]
    return f"{function['name']}({', '.join(names)}): {function['description']}"


def _typed(line: str, turn: int) -> str:
    """A call or what is said, as an action."""
    import json

    from spadework.environment.tool_calls import Call, encode_calls, encode_text

    name, brace, rest = line.strip().partition("{")
    if not brace or not name.strip().isidentifier():
        return encode_text(line)
    try:
        arguments = json.loads(brace + rest)
    except ValueError as error:
        return encode_calls([Call(f"call_{turn}_1", name.strip(), problem=f"the JSON is not right: {error}")])
    return encode_calls([Call(f"call_{turn}_1", name.strip(), arguments)])


def _ask(prompt: str) -> str | None:
    """A line, or None if the person gives up. The event loop waits: no process does anything meanwhile."""
    import signal

    # The loop's own handler would only take note of Ctrl-C and let `input` go on.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt):
        return None
    finally:
        signal.signal(signal.SIGINT, handler)


def _ending(terminated: bool, reward: float, turns: int) -> str:
    if not terminated:
        return f"You lost: the {turns} turns are used up."
    return f"You {'won' if reward > 0 else 'lost'} after {turns} turns, with a reward of {reward:g}."
