"""What programs in the wild import as `tool_use_base_env`: a base class of the surface that they were written for.

Such a program fills `_tools`, `_state` and `_expected_answer` in its `reset`, has one method `tool_NAME` per tool, and
tells its instructions one after the other in the answers of its tools. Its own criteria cannot be seen from outside, so
that the gates know only what any play shows. Different from what these programs knew: every turn uses up the budget,
arguments are checked against the schema before a tool is called, and nothing reveals the solution at the end.
"""

from __future__ import annotations

import re
from typing import Any

from spadework.sandbox.inside import schemas, tool_notation
from spadework.sandbox.inside.contract import Breach, type_name
from spadework.sandbox.inside.tool_notation import Call
from spadework.sandbox.inside.tool_state import copy_plain

MAX_TURNS = 25
"""Where the program declares none: tool calls count as well here, and such programs need several of them."""

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class ToolUseBaseEnv:
    """Base class. Its constructor resets, as programs expect."""

    def __init__(self, max_turns: int = MAX_TURNS, **options: Any) -> None:
        self.max_turns = max_turns
        self.turn_count = 0
        self._tools: dict[str, dict[str, Any]] = {}
        self._state: dict[str, Any] = {}
        self._expected_answer: Any = ""
        self.reset()

    def reset(self, seed: int | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no method reset")

    def get_tools(self) -> list[dict[str, object]]:
        """The schemas of all tools."""
        return [
            {"type": "function", "function": {"name": name, "description": described, "parameters": parameters}}
            for name, (described, parameters) in _tool_table(self).items()
        ]

    def execute_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the tool answers as `output`, and 0 as `returncode`, or 1 if it does not exist or raised."""
        method = getattr(self, f"tool_{name}", None)
        if not callable(method):
            return {"output": f"There is no tool {name}.", "returncode": 1}
        try:
            return {"output": tool_notation.result_text(method(**arguments), name), "returncode": 0}
        except Breach:
            raise
        except Exception as error:
            return {"output": f"Error: {error}", "returncode": 1}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        self.turn_count += 1
        calls = tool_notation.read_calls(action)
        table = _tool_table(self)
        messages: list[dict[str, object]] = []
        for call in calls:
            problem = _problem(call, table)
            content = f"Not executed: {problem}" if problem else self.execute_tool(call.name, call.arguments)["output"]
            messages.append(tool_notation.result_message(call, content, executed=not problem))
        won = False
        if not calls:
            answer = _ANSWER.search(tool_notation.read_text(action))
            won = answer is not None and bool(self._check_answer(answer[1].strip()))
            said = "Correct." if won else "That is not right yet." if answer else "Call a tool, or give your <answer>."
            messages.append(tool_notation.user_message(said))
        truncated = not won and self.turn_count >= self.max_turns
        return tool_notation.encode_observation(messages), float(won), won, truncated, {}

    def _check_answer(self, answer: str) -> bool:
        """Equal but for case, or equal numbers."""
        expected = str(self._expected_answer).strip()
        if answer.lower() == expected.lower():
            return True
        try:
            return abs(_number(answer) - _number(expected)) < 0.01
        except ValueError:
            return False


def first_observation(instance: ToolUseBaseEnv, text: str) -> str:
    """What the program's `reset` said, in the notation of tool environments."""
    instance.turn_count = 0
    return tool_notation.encode_observation([tool_notation.user_message(text)], instance.get_tools())


def inspect(instance: ToolUseBaseEnv) -> dict[str, Any]:
    """The state alone: what the instructions are, and what makes them true, only the program itself knows."""
    state = copy_plain(instance._state, "_state", for_json=True)
    return {"position": 0, "instructions": [], "criteria": [], "state": state}


def _problem(call: Call, table: dict[str, tuple[str, dict[str, Any]]]) -> str:
    if call.problem:
        return call.problem
    if call.name not in table:
        return f"there is no tool {call.name}. There are {', '.join(table)}."
    problem = schemas.value_problem(call.arguments, table[call.name][1])
    return "" if problem is None else f"{problem}."


def _tool_table(instance: ToolUseBaseEnv) -> dict[str, tuple[str, dict[str, Any]]]:
    """Description and parameters by name. Raises Breach for a table that is none."""
    table: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, entry in instance._tools.items():
        if not isinstance(entry, dict):
            raise Breach("contract", f"the tool {name} is described by {type_name(entry)}; it must be a dict")
        parameters = entry.get("parameters") or {"type": "object", "properties": {}}
        if problem := schemas.parameters_problem(parameters):
            raise Breach("contract", f"the schema of the tool {name} {problem}")
        table[name] = str(entry.get("description", "")), parameters
    if not table:
        raise Breach("contract", "reset set no tools")
    return table


def _number(text: str) -> float:
    return float(text.replace("$", "").replace(",", "").strip())
