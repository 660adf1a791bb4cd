"""How calls, results and messages travel as the texts that actions and observations are.

An action is a JSON object, `{"calls": [{"id", "name", "arguments"}, …]}` or `{"text": "…"}`; any other text is what
the agent says and calls nothing. A call that could not be read has `"problem"` in place of its arguments: it is
answered with it. An observation is `{"messages": [{"role": "user", "content"}, {"role": "tool", "id", "name",
"content", "executed"}, …]}`; the first one has `"tools"` as well.
So the wire carries two texts per step as for every program, and the actions of a play alone repeat it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spadework.sandbox.inside.contract import Breach, type_name

MAX_NAME_CHARS = 100
MAX_PROBLEM_CHARS = 600
MAX_RESULT_CHARS = 20_000


@dataclass(frozen=True)
class Call:
    """``problem`` says why it cannot be carried out; empty if nothing is wrong with it as it was written."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def chars(self) -> int:
        """Length of the arguments as JSON."""
        return len(_dump(self.arguments))


def encode_calls(calls: Sequence[Call]) -> str:
    """The action that makes ``calls``: equal calls have equal texts."""
    entries = [
        {"id": call.id, "name": call.name, **({"problem": call.problem} if call.problem else _arguments(call))}
        for call in calls
    ]
    return _dump({"calls": entries}, sort=True)


def encode_text(text: str) -> str:
    """The action that says ``text`` and calls nothing."""
    return _dump({"text": text}, sort=True)


def read_calls(action: str) -> list[Call]:
    """The calls of an action; none if it is a text. Nothing is raised, whatever ``action`` is."""
    try:
        value = json.loads(action, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, dict) or set(value) != {"calls"} or not isinstance(value["calls"], list):
        return []
    return [_call(entry, number) for number, entry in enumerate(value["calls"], 1)]


def read_text(action: str) -> str:
    """What an action without calls says."""
    try:
        value = json.loads(action)
    except (ValueError, RecursionError):
        return action
    said = value.get("text") if isinstance(value, dict) and set(value) == {"text"} else None
    return _clean(said) if isinstance(said, str) else action


def user_message(content: str) -> dict[str, object]:
    return {"role": "user", "content": content}


def result_message(call: Call, content: str, executed: bool) -> dict[str, object]:
    return {"role": "tool", "id": call.id, "name": call.name, "content": content, "executed": executed}


def encode_observation(messages: Sequence[Mapping[str, object]], tools: Sequence[object] | None = None) -> str:
    value: dict[str, object] = {"messages": list(messages)}
    if tools is not None:
        value["tools"] = list(tools)
    return _dump(value)


def result_text(value: object, name: str) -> str:
    """What a tool returned, as text: itself, or JSON. Raises Breach for what JSON does not know, or is too long."""
    if isinstance(value, str):
        text = str.__str__(value)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise Breach("contract", f"the tool {name} returned {type_name(value)}; it must return text") from None
    if len(text) > MAX_RESULT_CHARS:
        raise Breach("output", f"the tool {name} returned {len(text)} characters; at most {MAX_RESULT_CHARS} fit")
    return text


def solution_actions(value: object) -> object:
    """What `solution` returned, as actions: each item is a call, a list of calls of one turn, or an action.

    A call is `{"name": …, "arguments": {…}}`. What is neither stays as it is.
    """
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        return value
    return [_action(item) for item in value]


def _action(item: object) -> object:
    entries: list[Any] = list(item) if isinstance(item, list | tuple) else [item]
    if not entries or not all(isinstance(entry, Mapping) and "name" in entry for entry in entries):
        return item
    calls = [
        {"id": f"call_{number}", "name": entry["name"], "arguments": entry.get("arguments", {})}
        for number, entry in enumerate(entries, 1)
    ]
    try:
        return _dump({"calls": calls}, sort=True)
    except (TypeError, ValueError):
        raise Breach("contract", "solution returned a call with arguments that are no JSON") from None


def _call(entry: object, number: int) -> Call:
    default = f"call_{number}"
    if not isinstance(entry, dict):
        return Call(default, "", problem="a call must be an object with a name and arguments.")
    id_, name = entry.get("id", default), entry.get("name")
    id_ = id_[:MAX_NAME_CHARS] if isinstance(id_, str) and id_ else default
    problem = entry.get("problem")
    if isinstance(problem, str) and problem:
        return Call(id_, name[:MAX_NAME_CHARS] if isinstance(name, str) else "", problem=problem[:MAX_PROBLEM_CHARS])
    if not isinstance(name, str) or not name:
        return Call(id_, "", problem="the call has no name.")
    arguments = entry.get("arguments")
    if not isinstance(arguments, dict):
        return Call(id_, name[:MAX_NAME_CHARS], problem="the call has no object of arguments.")
    return Call(id_, name[:MAX_NAME_CHARS], _clean(arguments))


def _clean(value: Any) -> Any:
    """``value`` with lone surrogates replaced: `"\\ud800"` is JSON, but no text."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value


def _arguments(call: Call) -> dict[str, object]:
    return {"arguments": call.arguments}


def _dump(value: object, sort: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=sort, separators=(",", ":"))


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
