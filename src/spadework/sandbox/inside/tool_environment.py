"""What programs import as `tool_environment`: the base class of tool environments.

    from typing import Literal

    from tool_environment import Instruction, ToolEnv, ToolError, tool


    class ParcelDeskEnv(ToolEnv):
        max_turns = 12

        def setup(self, rng):
            self.code = f"P{rng.randint(100, 999)}"
            self.state = {"parcels": {self.code: {"status": "held"}}}
            self.instructions = [
                Instruction(
                    f"Please release parcel {self.code}.",
                    lambda state: state["parcels"][self.code]["status"] == "released",
                )
            ]

        @tool
        def set_status(self, code: str, status: Literal["held", "released"]) -> str:
            \"\"\"Change the status of a parcel.

            code: the parcel's code
            \"\"\"
            if code not in self.state["parcels"]:
                raise ToolError("There is no such parcel.")
            self.state["parcels"][code]["status"] = status
            return "Changed."

        def solution(self):
            return [{"name": "set_status", "arguments": {"code": self.code, "status": "released"}}]

Such a program is an environment like any other: its actions and observations are texts, in the notation of
`tool_notation`. A turn is one action: its calls are carried out in order, then the criterion of the current
instruction is looked at; if it holds, the next instruction is told. So at most one instruction is done in a turn.
Every action uses up a turn. When the last criterion holds, `final_check` decides between reward 1 and 0.

Whose fault what is: a call that names no tool, or whose arguments do not fit, is not carried out, and its result says
why. A tool that raises `ToolError` refuses a call; one that raises anything else has crashed, and the program with it.
A criterion sees a copy of the state; one that changes it has broken the contract.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from spadework.sandbox.inside import schemas, tool_notation
from spadework.sandbox.inside.contract import Breach, type_name
from spadework.sandbox.inside.tool_notation import Call
from spadework.sandbox.inside.tool_signatures import Tool, ToolMark, tool_of
from spadework.sandbox.inside.tool_state import Plain, Recorder, copy_plain

F = TypeVar("F", bound=Callable[..., object])

NOT_DONE = "That is not done yet. Use the tools to do what I asked for."
ALL_DONE = "Thank you, that was all."
ALL_DONE_BADLY = "That was all, but something is not as it should be now."

MAX_CALLS_PER_TURN = 8
"""Further calls of one turn are not carried out: many guesses at once would make the turn budget meaningless."""
MAX_ANSWERED_CALLS = 16
"""Still further ones are not even answered, so that no agent can make an observation too long."""
MAX_ARGUMENTS_CHARS = 2000
"""Of one call, as JSON; what a tool repeats of them must fit into an observation, eight times."""
MAX_PROBLEM_CHARS = 600

MAX_INSTRUCTIONS = 12


class ToolError(Exception):
    """Raised by a tool that cannot do what it was asked to; the agent is told the message."""


@dataclass(frozen=True)
class Instruction:
    """What the user asks for, and whether it is done: ``criterion(state)`` is true then."""

    text: str
    criterion: Callable[[Any], object]


@dataclass
class Session:
    """What the base class keeps of an instance, apart from what the program does."""

    asked: list[Instruction]
    tools: dict[str, Tool]
    position: int = 0
    """Instructions that are done."""
    turns: int = 0


def tool(
    function: F | None = None, *, parameters: Mapping[str, Any] | None = None, description: str | None = None
) -> Any:
    """Makes a method a tool, as `@tool` or `@tool(parameters={...})`.

    ``parameters`` is a JSON Schema of type object; without it one is made from the type hints. ``description`` is the
    first paragraph of the docstring unless it is given.
    """

    def mark(marked: F) -> F:
        marked.__tool__ = ToolMark(parameters, description)  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)


class ToolEnv:
    """Base class. A program defines `setup`, tools and `solution`, and may define `final_check` and `briefing`."""

    max_turns = 20
    briefing = ""
    """What the agent is told before the first instruction, such as whom it works for and what it must not do."""

    state: dict[str, Any]
    """Everything that tools change: plain data (dict, list, tuple, set, text, number, bool, None)."""
    instructions: Sequence[Instruction | tuple[str, Callable[[Any], object]]]

    def setup(self, rng: random.Random) -> None:
        """Draw an instance from ``rng`` and set `state` and `instructions`."""
        raise NotImplementedError(f"{type(self).__name__} has no method setup(self, rng)")

    def final_check(self) -> bool:
        """Whether nothing was done that should not have been; asked once, when the last criterion holds."""
        return True

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, object]]:
        self.state, self.instructions = {}, ()
        self.setup(random.Random(0 if seed is None else seed))
        asked = _asked(self.instructions)
        copy_plain(self.state, "state")
        tools = {found.name: found for found in map(tool_of, _marked(type(self)))}
        if not tools:
            raise Breach("contract", f"{type(self).__name__} has no tools; mark methods with @tool")
        self._session = Session(asked, tools)
        first = "\n\n".join(part for part in (str(self.briefing).strip(), asked[0].text) if part)
        told = [found.schema() for found in tools.values()]
        return tool_notation.encode_observation([tool_notation.user_message(first)], told), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        session = self._session
        session.turns += 1
        calls = tool_notation.read_calls(action)
        messages: list[dict[str, object]] = []
        used: set[str] = set()
        for number, call in enumerate(calls[:MAX_ANSWERED_CALLS]):
            problem = self._problem(call, number, used)
            used.add(call.id)
            content = problem if problem is not None else self._carried_out(call)
            messages.append(tool_notation.result_message(call, content, executed=problem is None))
        if len(calls) > MAX_ANSWERED_CALLS:
            left = len(calls) - MAX_ANSWERED_CALLS
            messages.append(tool_notation.user_message(f"{left} more calls of this turn were ignored."))
        reward, terminated = 0.0, False
        if session.position < len(session.asked) and self.holds(session.position):
            session.position += 1
            if session.position < len(session.asked):
                messages.append(tool_notation.user_message(session.asked[session.position].text))
            else:
                terminated = True
                reward = 1.0 if self.final_check() else 0.0
                messages.append(tool_notation.user_message(ALL_DONE if reward else ALL_DONE_BADLY))
        elif not calls:
            messages.append(tool_notation.user_message(NOT_DONE))
        truncated = not terminated and session.turns >= self.max_turns
        return tool_notation.encode_observation(messages), reward, terminated, truncated, {}

    def holds(self, number: int, state: Any = None) -> bool:
        """Whether the criterion of instruction ``number`` (from 0) is true of ``state``, or of a copy of the state.

        Raises Breach if the criterion changes what it is shown, and whatever the criterion raises.
        """
        real = self.state
        shown = copy_plain(real, "state") if state is None else state
        self.state = shown  # criteria may read the attribute instead of their argument
        try:
            answer = bool(self._session.asked[number].criterion(shown))
        finally:
            replaced, self.state = self.state is not shown, real
        if replaced or shown != real:
            raise Breach("contract", f"the criterion of instruction {number + 1} changes the state; it must only read")
        return answer

    def _problem(self, call: Call, number: int, used: set[str]) -> str | None:
        """Why ``call`` is not carried out, or None."""
        found = self._session.tools.get(call.name)
        if call.problem:
            reason = call.problem
        elif number >= MAX_CALLS_PER_TURN:
            reason = f"at most {MAX_CALLS_PER_TURN} calls are carried out in one turn"
        elif call.id in used:
            reason = f"the id {call.id} is that of an earlier call of this turn"
        elif found is None:
            reason = f"there is no tool {call.name}; there are {', '.join(self._session.tools)}"
        elif call.chars > MAX_ARGUMENTS_CHARS:
            reason = f"the arguments have more than {MAX_ARGUMENTS_CHARS} characters"
        else:
            problem = schemas.value_problem(call.arguments, found.parameters)
            if problem is None:
                return None
            reason = problem
        return f"Not executed: {reason[:MAX_PROBLEM_CHARS].rstrip('.')}."

    def _carried_out(self, call: Call) -> str:
        found = self._session.tools[call.name]
        try:
            value = found.function(self, **call.arguments)
        except ToolError as error:
            return f"Error: {error}"
        return tool_notation.result_text(value, call.name)


def inspect(instance: object) -> dict[str, Plain]:
    """What the gates look at: position, the texts of the instructions, what each criterion says and reads, the state.

    Nothing of it is ever shown to an agent. Raises Breach if ``instance`` is no tool environment after a reset.
    """
    if not isinstance(instance, ToolEnv) or not hasattr(instance, "_session"):
        raise Breach("contract", f"{type_name(instance)} is no tool environment that was reset")
    session = instance._session
    return {
        "position": session.position,
        "instructions": [asked.text for asked in session.asked],
        "criteria": [_criterion_report(instance, number) for number in range(len(session.asked))],
        "state": copy_plain(instance.state, "state", for_json=True),
    }


def _criterion_report(instance: ToolEnv, number: int) -> dict[str, Plain]:
    recorder = Recorder()
    holds: bool | None = None
    problem = ""
    try:
        holds = instance.holds(number, recorder.watched(instance.state))
    except Breach as breach:
        problem = breach.reason
    except Exception as error:
        problem = f"the criterion of instruction {number + 1} raised {type(error).__name__}: {str(error)[:120]}"
    return {"holds": holds, "problem": problem, "reads": [list(path) for path in recorder.paths()]}


def _asked(instructions: object) -> list[Instruction]:
    if not isinstance(instructions, list | tuple):
        raise Breach("contract", f"instructions is of type {type_name(instructions)}; it must be a list")
    if not 0 < len(instructions) <= MAX_INSTRUCTIONS:
        raise Breach("contract", f"setup set {len(instructions)} instructions; there must be 1 to {MAX_INSTRUCTIONS}")
    return [_instruction(item, number) for number, item in enumerate(instructions, 1)]


def _instruction(item: object, number: int) -> Instruction:
    if isinstance(item, Instruction):
        text, criterion = item.text, item.criterion
    elif isinstance(item, tuple | list) and len(item) == 2:
        text, criterion = item
    else:
        raise Breach(
            "contract", f"instruction {number} has no criterion; write Instruction(text, criterion) for each of them"
        )
    if not isinstance(text, str) or not text.strip():
        raise Breach("contract", f"instruction {number} has no text")
    if not callable(criterion):
        raise Breach("contract", f"the criterion of instruction {number} is {type_name(criterion)}, not a function")
    return Instruction(text.strip(), criterion)


def _marked(owner: type) -> list[Callable[..., object]]:
    """The tools of a class, in the order of their definition, those of its bases first."""
    found: dict[str, Callable[..., object]] = {}
    for part in reversed(owner.__mro__):
        for name, value in vars(part).items():
            if isinstance(getattr(value, "__tool__", None), ToolMark):
                found[name] = value
    return list(found.values())
