"""Episodes of tool environments in the real sandbox: what the model is told, what is trained, what is counted."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import groupby

import pytest
from scripted_engine import Script, ScriptedEngine
from shop_program import CODE, SHOP
from small_tokenizers import build_tokenizer
from tool_templates import LLAMA_TOOLS, QWEN3_TOOLS, QWEN25_TOOLS, XML_TOOLS

from spadework.config import AgentConfig
from spadework.environment.tool_formats import ToolFormat
from spadework.roles.agent import EpisodeRequest, Player
from spadework.roles.choosing import open_rendering
from spadework.roles.episode import Arm, Episode, EpisodeEnd, episode_return
from spadework.roles.plays import play_all
from spadework.roles.prompts import full
from spadework.roles.tool_rendering import open_tool_rendering
from spadework.roles.tool_use import CallCounts, call_counts, trained_tokens
from spadework.sandbox import Limits, Sandbox
from spadework.sandbox.outcomes import FaultKind, Outcome

CONFIG = AgentConfig(action_format="tool_call", max_reply_tokens=400, max_episode_tokens=20_000)


def player(template: str = QWEN3_TOOLS, thinking: bool = False) -> Player:
    rendering = open_rendering(build_tokenizer(template), "local", thinking)
    return Player(rendering, full, CONFIG, 20_000, run_seed=7, tools=open_tool_rendering(rendering))


def play(script: Script, player: Player, source: str = SHOP, hint: str | None = None) -> Episode:
    arm = Arm.PLAIN if hint is None else Arm.HINTED

    async def main() -> Episode:
        async with Sandbox(Limits(step_timeout_s=1.0)) as sandbox:
            engine = ScriptedEngine(player.rendering, script)
            played = await play_all([EpisodeRequest("shop", source, arm, 3, hint)], engine, sandbox, player)
            return played.episodes[0]

    return asyncio.run(main())


def written(format: ToolFormat, *calls: tuple[str, dict[str, object]]) -> str:
    """Calls as the model's family writes them."""
    blocks: list[str] = []
    for name, arguments in calls:
        if format is ToolFormat.BARE_JSON:
            blocks.append(json.dumps({"name": name, "parameters": arguments}))
        elif format is ToolFormat.JSON_TAGS:
            blocks.append(f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>")
        else:
            inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
            blocks.append(f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>")
    return "\n".join(blocks)


def replies(*texts: str) -> Script:
    """One reply after the other; the last one again and again."""
    said: list[str] = []

    def script(member: int, prompt: str, params: object) -> str:
        said.append(texts[min(len(said), len(texts) - 1)])
        return said[-1]

    return script


CLOSE: tuple[str, dict[str, object]] = ("set_status", {"code": CODE})
LOG: tuple[str, dict[str, object]] = ("log", {"text": "done"})


@pytest.mark.parametrize(
    ("template", "thinking"),
    [
        (QWEN3_TOOLS, False),
        (QWEN3_TOOLS, True),
        (QWEN25_TOOLS, False),
        (LLAMA_TOOLS, False),
        (XML_TOOLS, False),
    ],
    ids=["qwen3", "qwen3 thinking", "qwen2.5", "llama", "xml"],
)
def test_an_episode_is_won_in_every_family_and_its_stream_is_what_was_sampled(template: str, thinking: bool) -> None:
    seat = player(template, thinking)
    assert seat.tools is not None
    thought = "<think>\nI log as well.\n</think>\n\n" if thinking else ""
    texts = (thought + written(seat.tools.format, LOG, CLOSE), thought + "It is logged already.")
    episode = play(replies(*texts), seat)
    assert (episode.end, episode.outcome) == (EpisodeEnd.TERMINATED, Outcome.OK)
    assert episode_return(episode, "terminal") == 1.0
    runs = [
        list(run) for sampled, run in groupby(range(len(episode.sampled_T)), episode.sampled_T.__getitem__) if sampled
    ]
    said = [seat.rendering.reply_text([episode.token_ids_T[index] for index in run]) for run in runs]
    assert said == list(texts)
    text = seat.rendering.decode(episode.token_ids_T)
    assert f"Close order {CODE}." in text and "Log it." in text
    assert text.index("Log it.") > text.index('"code"')
    assert call_counts(episode) == CallCounts(2, 0, 0)
    assert json.loads(episode.turns[1].action) == {"text": "It is logged already."}


def test_the_model_is_told_what_was_wrong_and_nothing_is_carried_out() -> None:
    seat = player()
    broken = '<tool_call>\n{"name": "set_status", "arguments": {"code": }}\n</tool_call>'
    unknown = written(ToolFormat.JSON_TAGS, ("close", {}))
    wrong = written(ToolFormat.JSON_TAGS, ("set_status", {"code": str(CODE)}), CLOSE)
    episode = play(replies(broken, unknown, wrong, written(ToolFormat.JSON_TAGS, LOG)), seat)
    text = seat.rendering.decode(episode.token_ids_T)
    assert "Not executed: the JSON is not right: Expecting value at character" in text
    assert "Not executed: there is no tool close; there are set_status, log." in text
    assert "Not executed: code must be of type integer, not string." in text
    assert text.index("Not executed: code must be") < text.index("<tool_response>\nok\n</tool_response>")
    assert episode_return(episode, "terminal") == 1.0
    assert call_counts(episode) == CallCounts(calls=5, malformed=1, refused=2)


def test_a_setting_says_whether_replies_with_malformed_calls_are_trained() -> None:
    seat = player()
    broken = "<tool_call>\nset_status\n</tool_call>"
    good = written(ToolFormat.JSON_TAGS, CLOSE)
    episode = play(replies(good, broken, written(ToolFormat.JSON_TAGS, LOG)), seat)
    assert trained_tokens(episode, True) == episode.sampled_T
    marks = trained_tokens(episode, False)
    runs = [list(run) for sampled, run in groupby(range(len(marks)), marks.__getitem__) if sampled]
    said = [seat.rendering.reply_text([episode.token_ids_T[index] for index in run]) for run in runs]
    assert said == [good, written(ToolFormat.JSON_TAGS, LOG)]
    assert all(sampled for sampled, mark in zip(episode.sampled_T, marks, strict=True) if mark)


def test_every_turn_counts_and_the_environment_ends_the_episode() -> None:
    episode = play(replies("I wait."), player())
    assert (episode.end, len(episode.turns)) == (EpisodeEnd.TURN_LIMIT, 5)
    assert call_counts(episode) == CallCounts(0, 0, 0)


def test_the_hint_stands_behind_the_first_request() -> None:
    episode = play(replies("hm"), player(), hint="Close it first.")
    text = player().rendering.decode(episode.token_ids_T)
    assert f"Close order {CODE}.\n\nHINT: Close it first." in text


def test_a_crash_of_a_tool_is_the_environments_fault() -> None:
    crashing = SHOP.replace('self.state["status"] = status', "raise KeyError(status)")
    episode = play(replies(written(ToolFormat.JSON_TAGS, CLOSE)), player(), crashing)
    assert (episode.outcome, episode.fault_kind) == (Outcome.ENVIRONMENT_FAULT, FaultKind.EXCEPTION)


@pytest.mark.parametrize(
    "forged",
    [
        "'Welcome.'",
        "'{}'",
        """'{"messages": [], "tools": []}'""",
        "'[' * 9000",
        """super().reset(seed)[0].replace("Change", chr(92) + "ud800")""",
    ],
)
def test_an_observation_outside_the_notation_is_the_environments_fault(forged: str) -> None:
    source = SHOP + f"\n    def reset(self, seed=None):\n        super().reset(seed)\n        return {forged}, {{}}\n"
    episode = play(replies("hm"), player(), source)
    assert (episode.outcome, episode.fault_kind) == (Outcome.ENVIRONMENT_FAULT, FaultKind.CONTRACT)
    assert "the program sent" in episode.fault_reason


def test_a_game_is_not_played_with_tools_nor_a_tool_environment_without() -> None:
    game = (
        "class AEnv:\n    def reset(self, seed=None): return 'x', {}\n"
        "    def step(self, action): return 'x', 0.0, True, False, {}\n"
    )
    with_tools = play(replies("hm"), player(), game)
    assert with_tools.fault_reason == "the program is no tool environment, and agent.action_format is 'tool_call'"
    seat = player()
    without = play(replies("hm"), replace(seat, config=CONFIG.model_copy(update={"action_format": "boxed"})))
    assert without.fault_reason == "the program is a tool environment, and agent.action_format is 'boxed'"


def test_counts_are_of_tool_environments_only() -> None:
    seat = player()
    episode = play(replies("hm"), seat)
    turns = tuple(replace(turn, observation="You see a door.") for turn in episode.turns)
    assert call_counts(replace(episode, turns=turns)) is None
