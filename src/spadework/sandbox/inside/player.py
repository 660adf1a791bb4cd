"""Holds one program and its plays.

Each play executes the compiled program in a module of its own, so that plays share neither globals nor class
attributes, and has its own global random state.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from spadework.sandbox.inside import contract, tool_environment, tool_notation, wild_tools
from spadework.sandbox.inside.contract import Breach
from spadework.sandbox.inside.faults import FILE_NAME
from spadework.sandbox.inside.randomness import RandomStates, State, switch_to

MODULE = "program"


@dataclass(slots=True)
class LoadedPlay:
    module: ModuleType
    random_state: State
    instance: Any


class Player:
    """Answers the calls on one program. Every method but `__init__` may run the program and raise anything."""

    def __init__(self, source: str, limits: Mapping[str, int]) -> None:
        self.lines = source.splitlines()
        self.notes: set[str] = set()
        self._source = source
        self._max_observation = limits["max_observation_chars"]
        self._max_info = limits["max_info_chars"]
        self._uses_tools = False
        self._random = RandomStates()
        self._plays: dict[int, LoadedPlay] = {}
        self._current: LoadedPlay | None = None
        self._code: CodeType | None = None
        self._class_name = ""
        self._takes_seed = True
        self._extra: dict[str, None] = {}

    def load(self) -> list[object]:
        """[class name, max_turns or None, whether there is a solution, whether it is a tool environment]."""
        try:
            self._code = compile(self._source, FILE_NAME, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OverflowError):
            raise
        except (MemoryError, RecursionError):
            raise Breach("load", "the source is nested too deeply to compile") from None
        self._source = ""
        play = self._begin(None)
        self._class_name = _environment_class(play.module)
        instance = self._construct(play)
        for name in ("reset", "step"):
            if not callable(getattr(instance, name, None)):
                raise Breach("contract", f"{self._class_name} has no method {name}")
        self._read_signature(instance.reset)
        solution = callable(getattr(instance, "solution", None))
        self._uses_tools = isinstance(instance, (tool_environment.ToolEnv, wild_tools.ToolUseBaseEnv))
        return [self._class_name, _max_turns(instance), solution, self._uses_tools]

    def reset(self, play_id: int, seed: int | None) -> str:
        """Starts the play ``play_id`` on a new instance. Returns its first observation."""
        play = self._begin(seed)
        self._plays[play_id] = play
        play.instance = self._construct(play)
        result = self._call(play.instance.reset, seed)
        text = contract.reset_result(result, self._max_observation, self._max_info, self.notes)
        if isinstance(play.instance, wild_tools.ToolUseBaseEnv):
            self.notes.add("written for tool_use_base_env; every turn counts, instructions are its own affair")
            text = wild_tools.first_observation(play.instance, text)
            return contract.observation(text, "reset", self._max_observation)
        return text

    def step(self, play_id: int, action: str) -> list[object]:
        result = self._switch(play_id).instance.step(action)
        return contract.step_result(result, self._max_observation, self._max_info, self.notes)

    def solution(self, play_id: int, _: None) -> list[str]:
        method = getattr(self._switch(play_id).instance, "solution", None)
        if not callable(method):
            raise Breach("contract", f"{self._class_name} has no method solution")
        actions = method()
        if self._uses_tools:
            actions = tool_notation.solution_actions(actions)
        return contract.solution_actions(actions, self._max_observation)

    def inspect(self, play_id: int, _: None) -> str:
        """JSON of what the gates look at in a tool environment."""
        instance = self._switch(play_id).instance
        wild = isinstance(instance, wild_tools.ToolUseBaseEnv)
        inside = wild_tools.inspect(instance) if wild else tool_environment.inspect(instance)
        text = json.dumps(inside, ensure_ascii=True)
        limit = self._max_observation + self._max_info
        if len(text) > limit:
            raise Breach("output", f"state and instructions have {len(text)} characters; at most {limit} fit")
        return text

    def close(self, play_id: int, _: None) -> None:
        """Forgets the play. Its destructors run here, under the deadline."""
        self._current = None
        self._plays.pop(play_id, None)

    def _begin(self, seed: int | None) -> LoadedPlay:
        """A fresh module with the program's globals, under a fresh random state."""
        assert self._code is not None
        play = LoadedPlay(ModuleType(MODULE), self._random.new(seed), None)
        self._make_current(play)
        exec(self._code, play.module.__dict__)
        return play

    def _switch(self, play_id: int) -> LoadedPlay:
        play = self._plays[play_id]
        if play is not self._current:
            self._make_current(play)
        return play

    def _make_current(self, play: LoadedPlay) -> None:
        sys.modules[MODULE] = play.module
        switch_to(play.random_state)
        self._current = play

    def _construct(self, play: LoadedPlay) -> Any:
        return play.module.__dict__[self._class_name]()

    def _read_signature(self, reset: Callable[..., object]) -> None:
        try:
            parameters = inspect.signature(reset).parameters
        except (TypeError, ValueError):
            return
        kinds = {parameter.kind for parameter in parameters.values()}
        self._takes_seed = "seed" in parameters or inspect.Parameter.VAR_KEYWORD in kinds
        if not self._takes_seed:
            self.notes.add("reset takes no seed; only the global random state depends on it")
        options = parameters.get("options")
        if options is not None and options.default is inspect.Parameter.empty and options.kind in _NAMED:
            self._extra = {"options": None}
            self.notes.add("reset requires options; None is passed")

    def _call(self, reset: Callable[..., object], seed: int | None) -> object:
        return reset(seed=seed, **self._extra) if self._takes_seed else reset(**self._extra)


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _environment_class(module: ModuleType) -> str:
    """The name of the one class that the program defines and whose name ends in Env."""
    found: dict[str, object] = {}
    for name, value in vars(module).items():
        own = isinstance(value, type) and value.__module__ == MODULE
        if own and value.__name__.endswith("Env") and not any(value is other for other in found.values()):
            found[name] = value
    if not found:
        raise Breach("load", "no class whose name ends in Env is defined")
    if len(found) > 1:
        names = " and ".join(list(found)[:4])
        raise Breach("load", f"{names} all end in Env; a program defines exactly one such class")
    return next(iter(found))


def _max_turns(instance: Any) -> int | None:
    value = getattr(instance, "max_turns", None)
    if value is None:
        return None
    if type(value).__module__ == "numpy":
        value = value.item()
    if type(value) is not int or not 0 < value < 2**31:
        raise Breach("contract", f"max_turns is of type {contract.type_name(value)}; it must be a positive int")
    return value
