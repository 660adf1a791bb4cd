"""What a program may be and may answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest
from both import ALL, Where, sandbox_at

from spadework.sandbox import EnvironmentFault, FaultKind, Limits, ProgramHandle, ProgramInfo, Transition

T = TypeVar("T")


class Laboratory:
    """One sandbox for all tests of this module."""

    def __init__(self, where: Where) -> None:
        self._runner = asyncio.Runner()
        self._end = AsyncExitStack()
        limits = Limits(max_observation_chars=1000)
        self._sandbox = self._runner.run(self._end.enter_async_context(sandbox_at(where, limits)))

    def use(self, source: str, use: Callable[[ProgramHandle], Awaitable[T]]) -> T:
        async def run() -> T:
            async with await self._sandbox.open(source) as program:
                return await use(program)

        return self._runner.run(run())

    def fault_of_opening(self, source: str) -> EnvironmentFault:
        async def nothing(program: ProgramHandle) -> None: ...

        with pytest.raises(EnvironmentFault) as caught:
            self.use(source, nothing)
        return caught.value

    def close(self) -> None:
        self._runner.run(self._end.aclose())
        self._runner.close()


@pytest.fixture(scope="module", params=ALL)
def lab(request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    laboratory = Laboratory(request.param)
    yield laboratory
    laboratory.close()


async def one_step(program: ProgramHandle) -> tuple[ProgramInfo, str, Transition]:
    play, first = await program.reset(3)
    answer = await play.step("go")
    return program.info, first, answer


def env(body: str, top: str = "") -> str:
    """A program whose step evaluates ``body``."""
    return f"""{top}
class SomeEnv:
    def reset(self, seed=None, options=None):
        return "ready", {{}}

    def step(self, action):
        return {body}
"""


def test_a_game_is_played_to_its_end(guess: str, lab: Laboratory) -> None:
    async def use(program: ProgramHandle) -> None:
        assert program.info == ProgramInfo("GuessEnv", 7, True, ())
        play, first = await program.reset(3)
        target = random.Random(3).randint(1, 100)
        assert first == "Guess a number from 1 to 100."
        assert await play.solution() == (str(target),)
        assert await play.step("x") == Transition("A number, please.", 0.0, False, False, {})
        assert await play.step(str(target)) == Transition("Yes.", 1.0, True, False, {"turns": 2})

    lab.use(guess, use)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class X:\n    pass", "no class whose name ends in Env"),
        ("class AEnv:\n    pass\nclass BEnv:\n    pass", "AEnv and BEnv"),
        ("def broken(:\n    pass", "line 1: invalid syntax"),
        ("import torch\nclass AEnv:\n    pass", "module torch is not available in the sandbox"),
        ("import msgpack\nclass AEnv:\n    pass", "module msgpack is not available in the sandbox"),
        ("import spadework\nclass AEnv:\n    pass", "module spadework is not available in the sandbox"),
        ("import unittest.__main__\nclass AEnv:\n    pass", "module unittest.__main__ is not available in the sandbox"),
        ("import asyncio.__init__\nclass AEnv:\n    pass", "asyncio.__init__"),
        ("from . import x\nclass AEnv:\n    pass", "loading raised ImportError"),
        ("x = 1 / 0\nclass AEnv:\n    pass", "loading raised ZeroDivisionError: division by zero"),
        ("class AEnv:\n    def __init__(self, size):\n        pass", "loading raised TypeError"),
        ("\0", "null bytes"),
        ("(" * 5000, "line 1: too many nested parentheses"),
        ("x = " + "-" * 90_000 + "1", "nested too deeply"),
    ],
)
def test_a_program_that_cannot_be_loaded_is_a_load_fault(source: str, words: str, lab: Laboratory) -> None:
    fault = lab.fault_of_opening(source)
    assert fault.kind is FaultKind.LOAD
    assert words in fault.reason


def test_an_imported_class_is_not_the_environment(lab: Laboratory) -> None:
    source = "from dataclasses import dataclass\n@dataclass\nclass State:\n    x: int = 0\n" + env(
        '"x", 0.0, True, False, {}'
    )
    assert lab.use(source + "\nAlias = SomeEnv\n", one_step)[0].class_name == "SomeEnv"


def test_standard_modules_are_there_in_every_form_of_import(lab: Laboratory) -> None:
    top = """
import xml.etree.ElementTree as tree, sqlite3
from concurrent import futures
from datetime import datetime
from collections import (
    deque,
    OrderedDict,
)
try:
    import torch
except ImportError:
    torch = None
"""
    body = """(
            "%s %s" % (tree.fromstring("<a b='1'/>").get("b"), datetime.strptime("2020", "%Y").year),
            0.0, deque is None, futures is None, {})"""
    assert lab.use(env(body, top), one_step)[2].observation == "1 2020"


def test_a_missing_module_inside_a_call_is_named(lab: Laboratory) -> None:
    with pytest.raises(EnvironmentFault, match="module torch is not available in the sandbox"):
        lab.use(env('__import__("torch"), 0.0, True, False, {}'), one_step)


@pytest.mark.parametrize(
    ("reward", "expected"), [("True", 1.0), ("2", 2.0), ("-0.5", -0.5), ("np.float32(0.5)", 0.5), ("np.int64(3)", 3.0)]
)
def test_rewards_of_one_meaning_become_floats(reward: str, expected: float, lab: Laboratory) -> None:
    top = "import numpy as np" if "np" in reward else ""
    answer = lab.use(env(f'"x", {reward}, False, False, {{}}', top), one_step)[2]
    assert type(answer.reward) is float
    assert answer.reward == expected


def test_subclasses_of_builtin_types_are_reduced_to_them(lab: Laboratory) -> None:
    top = "class Text(str):\n    pass\nclass Number(float):\n    pass\nclass Info(dict):\n    pass\n"
    answer = lab.use(env('Text("x"), Number(0.5), False, False, Info(a=Text("b"))', top), one_step)[2]
    assert answer == Transition("x", 0.5, False, False, {"a": "b"})
    assert [type(part) for part in (answer.observation, answer.reward, answer.info)] == [str, float, dict]


def test_info_becomes_plain_data_and_says_what_was_lost(lab: Laboratory) -> None:
    body = '"x", 0.0, False, False, {"s": {1}, 2: (1, None), "o": object(), "big": 10**30, "n": np.arange(2)}'
    info, _, answer = lab.use(env(body, "import numpy as np"), one_step)
    assert answer.info == {"s": [1], "2": [1, None], "o": "<object>", "big": "<int>", "n": [0, 1]}
    assert info.adaptations == (
        "info holds <int>, recorded by its type alone",
        "info holds <object>, recorded by its type alone",
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('"x", 0.0, 1, False, {}', "terminated of type int; it must be a bool"),
        ('"x", 0.0, False, None, {}', "truncated of type NoneType"),
        ('"x", 0.0, False, False, None', "info of type NoneType"),
        ('"x", None, False, False, {}', "reward of type NoneType"),
        ('b"x", 0.0, False, False, {}', "observation of type bytes"),
        ('"x"', "value of type str"),
        ('["x", 0.0, False, False, {}]', "value of type list"),
        ('"x", np.array([1.0, 2.0]), False, False, {}', "reward of type ndarray"),
    ],
)
def test_a_step_of_wrong_types_is_a_contract_fault_that_names_them(body: str, words: str, lab: Laboratory) -> None:
    with pytest.raises(EnvironmentFault, match=words) as caught:
        lab.use(env(body, "import numpy as np" if "np." in body else ""), one_step)
    assert caught.value.kind is FaultKind.CONTRACT


def test_an_observation_at_its_limit_passes_and_one_above_does_not(lab: Laboratory) -> None:
    assert lab.use(env('"é" * 1000, 0.0, False, False, {}'), one_step)[2].observation == "é" * 1000
    with pytest.raises(EnvironmentFault, match="1001 characters; at most 1000 fit") as caught:
        lab.use(env('"é" * 1001, 0.0, False, False, {}'), one_step)
    assert caught.value.kind is FaultKind.OUTPUT


def test_an_exception_is_reported_with_the_programs_own_frames(lab: Laboratory) -> None:
    top = "def helper(action):\n    return {}[action]\n"
    with pytest.raises(EnvironmentFault) as caught:
        lab.use(env("helper(action), 0.0, True, False, {}", top), one_step)
    fault = caught.value
    assert (fault.kind, fault.reason) == (FaultKind.EXCEPTION, "step raised KeyError: 'go'")
    lines = fault.trace.splitlines()
    assert lines[0].endswith("in step: return helper(action), 0.0, True, False, {}")
    assert lines[1] == "line 2, in helper: return {}[action]"


@pytest.mark.parametrize("value", ["'a'", "['a']", "('a',)"])
def test_a_solution_is_an_action_or_a_list_of_actions(value: str, lab: Laboratory) -> None:
    async def use(program: ProgramHandle) -> tuple[str, ...]:
        play, _ = await program.reset(None)
        return await play.solution()

    source = env('"x", 0.0, True, False, {}') + f"\n    def solution(self):\n        return {value}\n"
    assert lab.use(source, use) == ("a",)


@pytest.mark.parametrize("value", ["[1]", "None", "{'a'}", "[['a']]"])
def test_a_solution_of_anything_else_is_a_contract_fault(value: str, lab: Laboratory) -> None:
    async def use(program: ProgramHandle) -> None:
        play, _ = await program.reset(None)
        with pytest.raises(EnvironmentFault) as caught:
            await play.solution()
        assert caught.value.kind is FaultKind.CONTRACT

    lab.use(env('"x", 0.0, True, False, {}') + f"\n    def solution(self):\n        return {value}\n", use)


def test_asking_for_a_missing_solution_is_a_contract_fault(lab: Laboratory) -> None:
    async def use(program: ProgramHandle) -> None:
        assert not program.info.has_solution
        play, _ = await program.reset(1)
        with pytest.raises(EnvironmentFault, match="SomeEnv has no method solution") as caught:
            await play.solution()
        assert caught.value.kind is FaultKind.CONTRACT

    lab.use(env('"x", 0.0, True, False, {}'), use)


@pytest.mark.parametrize("value", ["0", "-3", "'five'", "2.5", "True"])
def test_max_turns_must_be_a_positive_integer(value: str, lab: Laboratory) -> None:
    source = env('"x", 0.0, True, False, {}').replace("    def reset", f"    max_turns = {value}\n\n    def reset", 1)
    fault = lab.fault_of_opening(source)
    assert fault.kind is FaultKind.CONTRACT
    assert "max_turns" in fault.reason


def test_a_bare_observation_is_accepted_and_noted(lab: Laboratory) -> None:
    info, first, _ = lab.use(env('"x", 0.0, True, False, {}').replace('"ready", {}', '"ready"'), one_step)
    assert first == "ready"
    assert info.adaptations == ("reset returns a bare observation",)


@pytest.mark.parametrize(
    ("parameters", "notes"),
    [
        ("seed=None", ()),
        ("seed", ()),
        ("*, seed=None, **rest", ()),
        ("seed, options", ("reset requires options; None is passed",)),
        ("", ("reset takes no seed; only the global random state depends on it",)),
    ],
)
def test_every_way_to_take_a_seed_gives_the_same_play(parameters: str, notes: tuple[str, ...], lab: Laboratory) -> None:
    source = f"""
import random
class OldEnv:
    def __init__(self):
        self.reset({"1, None" if "options" in parameters else "seed=1" if "seed" in parameters else ""})

    def reset(self, {parameters}):
        {"random.seed(seed)" if "seed" in parameters else ""}
        return str(random.random()), {{}}

    def step(self, action):
        return str(random.random()), 0.0, False, False, {{}}
"""

    async def use(program: ProgramHandle) -> list[str]:
        (a, first), (b, other), (c, again) = [await program.reset(seed) for seed in (4, 5, 4)]
        assert first == again != other
        interleaved = [await play.step("x") for _ in range(3) for play in (a, b, c)]
        assert interleaved[::3] == interleaved[2::3] != interleaved[1::3]
        assert program.info.adaptations == notes
        return [first]

    assert lab.use(source, use) == lab.use(source, use)


def test_seeds_outside_the_range_are_the_callers_error(guess: str, lab: Laboratory) -> None:
    async def use(program: ProgramHandle) -> None:
        await program.reset(2**64 - 1)
        with pytest.raises(ValueError, match="not within"):
            await program.reset(2**64)
        play, _ = await program.reset(0)
        with pytest.raises(TypeError, match="an action is a str"):
            await play.step(3)  # type: ignore[arg-type]
        assert (await play.step("\ud800")).observation == "A number, please."

    lab.use(guess, use)
