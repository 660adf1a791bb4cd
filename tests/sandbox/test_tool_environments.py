"""Tool environments in the real sandbox: what a turn does, and whose fault a wrong input is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from both import ALL, Where, sandbox_at
from shop_program import CODE, SHOP

from spadework.environment.adaptation import adapt
from spadework.environment.tool_calls import (
    Call,
    Inspection,
    ToolObservation,
    decode_inspection,
    decode_observation,
    encode_calls,
    encode_text,
)
from spadework.sandbox import EnvironmentFault, FaultKind, Limits, PlayHandle, ProgramInfo, Sandbox, Transition

SOUND = sorted((Path(__file__).parent.parent / "programs" / "tools_sound").glob("*.py"))

Use = Callable[[PlayHandle, ToolObservation], Awaitable[Any]]


class Laboratory:
    """One sandbox for all tests of this module."""

    def __init__(self, where: Where) -> None:
        self._runner = asyncio.Runner()
        self._end = AsyncExitStack()
        sandbox = sandbox_at(where, Limits(step_timeout_s=0.4))
        self._sandbox = self._runner.run(self._end.enter_async_context(sandbox))

    def run(self, source: str, use: Use, seed: int = 3) -> Any:
        async def main() -> Any:
            async with await self._sandbox.open(source) as program:
                self.info = program.info
                play, observation = await program.reset(seed)
                return await use(play, decode_observation(observation, first=program.info.uses_tools))

        return self._runner.run(main())

    def say(self, source: str, *actions: str) -> list[Transition]:
        async def use(play: PlayHandle, first: ToolObservation) -> list[Transition]:
            return [await play.step(action) for action in actions]

        transitions: list[Transition] = self.run(source, use)
        return transitions

    def fault(self, source: str, *actions: str) -> EnvironmentFault:
        with pytest.raises(EnvironmentFault) as caught:
            self.say(source, *actions)
        return caught.value

    def close(self) -> None:
        self._runner.run(self._end.aclose())
        self._runner.close()


@pytest.fixture(scope="module", params=ALL)
def lab(request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    laboratory = Laboratory(request.param)
    yield laboratory
    laboratory.close()


def call(name: str, id: str = "call_1", **arguments: object) -> Call:
    return Call(id, name, arguments)


def calling(*calls: Call) -> str:
    return encode_calls(calls)


def contents(transition: Transition) -> list[str]:
    return [message.content for message in decode_observation(transition.observation).messages]


CLOSE = calling(call("set_status", code=CODE))


def test_the_first_observation_tells_tools_and_the_first_instruction_only(lab: Laboratory) -> None:
    async def use(play: PlayHandle, first: ToolObservation) -> ToolObservation:
        return first

    first = lab.run(SHOP, use)
    assert first.told == (f"Close order {CODE}.",)
    assert [tool["function"]["name"] for tool in first.tools] == ["set_status", "log"]
    assert first.tools[0]["function"] == {
        "name": "set_status",
        "description": "Change the status of an order.",
        "parameters": {
            "type": "object",
            "properties": {
                "code": {"type": "integer", "description": "its number"},
                "status": {"enum": ["open", "closed"]},
            },
            "required": ["code"],
            "additionalProperties": False,
        },
    }


def test_an_instruction_is_told_when_the_one_before_holds_and_the_last_wins(lab: Laboratory) -> None:
    closed, logged = lab.say(SHOP, CLOSE, calling(call("log", text="done")))
    assert contents(closed) == ["ok", "Log it."]
    assert (closed.reward, closed.terminated) == (0.0, False)
    assert contents(logged) == ["1", "Thank you, that was all."]
    assert (logged.reward, logged.terminated, logged.truncated) == (1.0, True, False)


def test_one_turn_does_one_instruction_however_many_calls_it_makes(lab: Laboratory) -> None:
    both = calling(call("set_status", code=CODE), call("log", "call_2", text="early"))
    first, second = lab.say(SHOP, both, encode_text("Done already."))
    assert contents(first) == ["ok", "1", "Log it."]
    assert not first.terminated
    assert second.terminated and second.reward == 1.0


def test_parallel_calls_are_carried_out_in_order_each_with_its_own_result(lab: Laboratory) -> None:
    calls = calling(call("log", "b", text="one"), call("log", "a", text="two"), call("nothing", "c"))
    (transition,) = lab.say(SHOP, calls)
    results = decode_observation(transition.observation).results
    assert [(result.id, result.content, result.executed) for result in results] == [
        ("b", "1", True),
        ("a", "2", True),
        ("c", "Not executed: there is no tool nothing; there are set_status, log.", False),
    ]


def test_every_turn_counts_whatever_is_done_in_it(lab: Laboratory) -> None:
    wrong = calling(call("log", text=7))
    transitions = lab.say(SHOP, encode_text("Hello?"), calling(call("log", text="x")), wrong, "junk", "")
    assert [transition.truncated for transition in transitions] == [False] * 4 + [True]
    assert contents(transitions[0]) == ["That is not done yet. Use the tools to do what I asked for."]


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        ({"name": "close_order", "arguments": {}}, "there is no tool close_order; there are set_status, log."),
        ({"name": "set_status", "arguments": {}}, "code missing."),
        ({"name": "set_status", "arguments": {"code": str(CODE)}}, "code must be of type integer, not string."),
        ({"name": "set_status", "arguments": {"code": CODE, "to": 1}}, "to is not a known parameter"),
        ({"name": "set_status", "arguments": {"code": CODE, "status": "x"}}, "status must be one of 'open', 'closed'"),
        ({"name": "set_status", "arguments": json.dumps({"code": CODE})}, "the call has no object of arguments."),
        ({"name": "set_status"}, "the call has no object of arguments."),
        ({"name": 7, "arguments": {}}, "the call has no name."),
        ({"name": "log", "arguments": {"text": {"name": "log", "arguments": {}}}}, "text must be of type string"),
        ("set_status", "a call must be an object"),
        ({"name": "set_status", "problem": "the JSON ends early"}, "the JSON ends early"),
    ],
)
def test_a_call_that_does_not_fit_is_answered_and_not_carried_out(lab: Laboratory, entry: object, answer: str) -> None:
    async def use(play: PlayHandle, first: ToolObservation) -> tuple[Transition, Inspection]:
        transition = await play.step(json.dumps({"calls": [entry]}))
        return transition, decode_inspection(await play.inspect())

    transition, inside = lab.run(SHOP, use)
    (result,) = decode_observation(transition.observation).messages
    assert not result.executed
    assert result.content.startswith("Not executed: ") and answer in result.content
    assert inside.state == {"status": "open", "log": [], "count": 0}


def test_a_second_call_of_the_same_id_is_not_carried_out(lab: Laboratory) -> None:
    (transition,) = lab.say(SHOP, calling(call("log", text="a"), call("log", text="b")))
    results = decode_observation(transition.observation).results
    assert [result.executed for result in results] == [True, False]
    assert "the id call_1 is that of an earlier call" in results[1].content


def test_guesses_beyond_the_calls_of_a_turn_are_not_carried_out(lab: Laboratory) -> None:
    guesses = [call("set_status", f"c{code}", code=code) for code in range(100, 1000) if code != CODE]
    (transition,) = lab.say(SHOP, calling(*guesses))
    messages = decode_observation(transition.observation).messages
    assert [message.executed for message in messages] == [True] * 8 + [False] * 8 + [True]
    assert "at most 8 calls" in messages[8].content
    assert messages[-1].content == "883 more calls of this turn were ignored."


def test_no_call_can_make_an_observation_too_long(lab: Laboratory) -> None:
    echoing = SHOP.replace('return str(len(self.state["log"]))', "return text")
    assert "return text" in echoing
    most = calling(*(call("log", f"{n}" * 90, text="x" * 1900) for n in range(9)))
    too_much = calling(call("log", text="x" * 10_000), call("x" * 10_000), Call("a", "log", {"y" * 1500: 1}))
    transitions = lab.say(echoing, most, too_much, calling(Call("b", "log", {}, "z" * 10_000)))
    assert len(transitions[0].observation) > 15_000
    assert "more than 2000 characters" in contents(transitions[1])[0]


@pytest.mark.parametrize(
    "action", ["", "close", '{"calls": 3}', '{"calls": [', "[1]", '{"text": 5}', "\x00", "9" * 5000]
)
def test_any_other_text_calls_nothing(lab: Laboratory, action: str) -> None:
    (transition,) = lab.say(SHOP, action)
    assert contents(transition) == ["That is not done yet. Use the tools to do what I asked for."]


@pytest.mark.parametrize(
    "arguments", ['{"text": "\\ud800x"}', '{"text": "x", "\\udfff": 1}', '{"text": NaN}', '{"text": 1e999}']
)
def test_odd_json_of_an_agent_is_never_the_environments_fault(lab: Laboratory, arguments: str) -> None:
    (transition,) = lab.say(SHOP, f'{{"calls": [{{"name": "log", "arguments": {arguments}}}]}}')
    assert not transition.terminated


def test_a_refused_call_is_told_and_a_crash_is_the_programs_fault(lab: Laboratory) -> None:
    (transition,) = lab.say(SHOP, calling(call("set_status", code=CODE + 1)))
    (result,) = decode_observation(transition.observation).results
    assert (result.content, result.executed) == ("Error: No such order.", True)
    crashing = SHOP.replace('raise ToolError("No such order.")', "raise KeyError(code)")
    raised = lab.fault(crashing, calling(call("set_status", code=CODE + 1)))
    assert raised.kind is FaultKind.EXCEPTION
    assert "KeyError" in raised.reason


@pytest.mark.parametrize(
    ("returned", "content"),
    [("{'a': [1, None]}", '{"a": [1, null]}'), ("7", "7"), ("None", "null"), ("''", ""), ("['é']", '["é"]')],
)
def test_what_a_tool_returns_becomes_text(lab: Laboratory, returned: str, content: str) -> None:
    (transition,) = lab.say(SHOP.replace('return "ok"', f"return {returned}"), CLOSE)
    assert contents(transition) == [content, "Log it."]


def replaced(old: str, new: str) -> str:
    assert old in SHOP
    return SHOP.replace(old, new)


CRITERION = 'lambda state: state["status"] == "closed"'
HINTS = "code: int, status"


@pytest.mark.parametrize(
    ("source", "kind", "reason"),
    [
        (replaced('return "ok"', "return object()"), FaultKind.CONTRACT, "the tool set_status returned object"),
        (replaced('return "ok"', "return {1, 2}"), FaultKind.CONTRACT, "the tool set_status returned set"),
        (replaced('return "ok"', "return float('nan')"), FaultKind.CONTRACT, "the tool set_status returned float"),
        (replaced('return "ok"', "return 'x' * 10**7"), FaultKind.OUTPUT, "characters; at most 20000 fit"),
        (replaced('return "ok"', "while True: pass"), FaultKind.TIMEOUT, "step took longer than 0.4 s"),
        (replaced(CRITERION, 'lambda state: state["missing"]'), FaultKind.EXCEPTION, "step raised KeyError"),
        (replaced(CRITERION, "lambda state: any(iter(int, 1))"), FaultKind.TIMEOUT, "took longer"),
        (
            replaced(CRITERION, 'lambda state: state["log"].append(1)'),
            FaultKind.CONTRACT,
            "the criterion of instruction 1 changes the state",
        ),
        (
            replaced(CRITERION, "lambda state: self.state.update(count=1)"),
            FaultKind.CONTRACT,
            "the criterion of instruction 1 changes the state",
        ),
        (
            replaced(CRITERION, 'lambda state: setattr(self, "state", {})'),
            FaultKind.CONTRACT,
            "the criterion of instruction 1 changes the state",
        ),
        (replaced('"count": 0', '"count": object()'), FaultKind.CONTRACT, "state['count'] is of type object"),
        (replaced(f", {CRITERION}", ", True"), FaultKind.CONTRACT, "the criterion of instruction 1 is bool"),
        (
            replaced('Instruction("Log it.", lambda state: len(state["log"]) > 0)', '"Log it."'),
            FaultKind.CONTRACT,
            "instruction 2 has no criterion",
        ),
        (replaced('Instruction("Log it."', 'Instruction(" "'), FaultKind.CONTRACT, "instruction 2 has no text"),
        (replaced("self.instructions = [", "self.others = ["), FaultKind.CONTRACT, "setup set 0 instructions"),
        (replaced("@tool\n    def ", "def "), FaultKind.CONTRACT, "ShopEnv has no tools"),
        (replaced(HINTS, "code, status"), FaultKind.CONTRACT, "parameter code of the tool set_status has no type hint"),
        (replaced(HINTS, "code: bytes, status"), FaultKind.CONTRACT, "which no JSON Schema is made of"),
        (replaced(HINTS, "code: 'Nothing', status"), FaultKind.CONTRACT, "type hints of the tool set_status"),
        (
            replaced("@tool\n    def set", '@tool(parameters={"type": "objekt"})\n    def set'),
            FaultKind.CONTRACT,
            "the schema of the tool set_status has the type 'objekt'",
        ),
        (
            replaced("@tool\n    def set", '@tool(parameters={"type": "object"})\n    def set'),
            FaultKind.CONTRACT,
            "needs code, which its schema does not list as required",
        ),
        (replaced("def setup(self, rng)", "def prepare(self, rng)"), FaultKind.EXCEPTION, "has no method setup"),
    ],
)
def test_a_program_that_breaks_its_side_is_at_fault(lab: Laboratory, source: str, kind: FaultKind, reason: str) -> None:
    raised = lab.fault(source, CLOSE)
    assert (raised.kind, reason in raised.reason) == (kind, True), raised.reason


def test_a_final_check_that_fails_ends_the_episode_without_reward(lab: Laboratory) -> None:
    source = SHOP + "\n    def final_check(self):\n        return self.state['count'] > 0\n"
    _, last = lab.say(source, CLOSE, calling(call("log", text="x")))
    assert (last.reward, last.terminated) == (0.0, True)
    assert contents(last)[-1] == "That was all, but something is not as it should be now."


def test_an_inspection_tells_criteria_what_they_read_and_the_state_and_changes_nothing(lab: Laboratory) -> None:
    async def use(play: PlayHandle, first: ToolObservation) -> list[Inspection]:
        before = decode_inspection(await play.inspect())
        await play.step(CLOSE)
        return [before, decode_inspection(await play.inspect()), decode_inspection(await play.inspect())]

    before, after, again = lab.run(SHOP, use)
    assert (before.position, after.position) == (0, 1)
    assert [criterion.holds for criterion in before.criteria] == [False, False]
    assert [criterion.reads for criterion in before.criteria] == [(("status",),), (("log",),)]
    assert [criterion.holds for criterion in after.criteria] == [True, False]
    assert after.state == {"status": "closed", "log": [], "count": 0}
    assert after == again


def test_an_inspection_names_a_criterion_that_raises_and_goes_on(lab: Laboratory) -> None:
    async def use(play: PlayHandle, first: ToolObservation) -> Inspection:
        return decode_inspection(await play.inspect())

    inside = lab.run(replaced(CRITERION, 'lambda state: state["missing"]'), use)
    assert [criterion.holds for criterion in inside.criteria] == [None, False]
    assert inside.criteria[0].problem == "the criterion of instruction 1 raised KeyError: 'missing'"


def test_a_program_that_is_no_tool_environment_cannot_be_inspected() -> None:
    game = (
        "class AEnv:\n    def reset(self, seed=None): return 'x', {}\n"
        "    def step(self, action): return 'x', 0.0, True, False, {}\n"
    )

    async def main() -> None:
        async with Sandbox() as sandbox, await sandbox.open(game) as program:
            assert not program.info.uses_tools
            play, _ = await program.reset(0)
            await play.inspect()

    with pytest.raises(EnvironmentFault, match="is no tool environment"):
        asyncio.run(main())


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.stem)
def test_solutions_win(lab: Laboratory, path: Path) -> None:
    async def use(play: PlayHandle, first: ToolObservation) -> list[Transition]:
        return [await play.step(action) for action in await play.solution()]

    for seed in range(4):
        transitions = lab.run(path.read_text(), use, seed)
        assert transitions[-1].reward == 1.0, [contents(transition) for transition in transitions]
        assert not any(transition.terminated for transition in transitions[:-1])


def test_plays_share_nothing_and_a_play_can_be_repeated() -> None:
    async def main() -> tuple[list[str], list[str]]:
        async with Sandbox() as sandbox, await sandbox.open(SHOP) as program:
            assert program.info == ProgramInfo("ShopEnv", 5, True, (), uses_tools=True)
            plays = [(await program.reset(3))[0] for _ in range(2)]
            first = [(await plays[0].step(action)).observation for action in (CLOSE, calling(call("log", text="a")))]
            second = [(await plays[1].step(action)).observation for action in (CLOSE, calling(call("log", text="a")))]
            return first, second

    first, second = asyncio.run(main())
    assert first == second


def test_names_that_are_not_imported_are_found(lab: Laboratory) -> None:
    source = SHOP.replace("from tool_environment import Instruction, ToolEnv, ToolError, tool\n", "")
    adapted, changes = adapt(source)
    assert changes == ("from tool_environment import Instruction, ToolEnv, ToolError, tool",)
    assert lab.say(adapted, CLOSE)[0].reward == 0.0


WILD = """
class LedgerEnv(ToolUseBaseEnv):
    def reset(self, seed=None):
        self.turn_count = 0
        rng = random.Random(seed)
        self._state = {"total": rng.randint(100, 999), "read": False}
        self._expected_answer = str(self._state["total"])
        self._tools = {
            "read_total": {
                "description": "Read the total.",
                "parameters": {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]},
            },
            "fail": {"description": "Fails.", "parameters": {"type": "object", "properties": {}}},
        }
        return "What is the total? Answer in <answer> tags.", {}

    def solution(self):
        return [{"name": "read_total", "arguments": {"year": 2024}}]

    def tool_read_total(self, year):
        self._state["read"] = True
        return f"The total of {year} is {self._state['total']}."

    def tool_fail(self):
        return 1 / 0
"""


def test_programs_of_the_base_class_in_the_wild_are_played(lab: Laboratory) -> None:
    adapted, changes = adapt(WILD)
    assert changes == ("import random", "from tool_use_base_env import ToolUseBaseEnv")

    async def use(play: PlayHandle, first: ToolObservation) -> tuple[ToolObservation, list[Transition]]:
        read = await play.step(calling(call("read_total", year=2024)))
        failed = await play.step(calling(call("fail"), call("read_total", "b", year="2024")))
        silent = await play.step(encode_text("hm"))
        wrong = await play.step(encode_text("<answer>1</answer>"))
        total = contents(read)[0].split()[-1].rstrip(".")
        return first, [read, failed, silent, wrong, await play.step(encode_text(f"It is <answer>{total}.0</answer>"))]

    first, (_, failed, silent, wrong, right) = lab.run(adapted, use)
    assert first.told == ("What is the total? Answer in <answer> tags.",)
    assert [tool["function"]["name"] for tool in first.tools] == ["read_total", "fail"]
    assert contents(failed) == ["Error: division by zero", "Not executed: year must be of type integer, not string."]
    assert contents(silent) == ["Call a tool, or give your <answer>."]
    assert (wrong.reward, wrong.terminated) == (0.0, False)
    assert (right.reward, right.terminated) == (1.0, True)
