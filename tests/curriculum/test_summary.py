"""A summary is short, says how the environment opens and what it keeps, and always reaches `step`."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spadework.curriculum.summary import MAX_CHARS, summarise
from spadework.environment.program import ProgramRejected

CAVE = '''
import random

class Base:
    def _won(self, word):
        if word == "light":
            return "Daylight!", 1.0, True, False, {}
        return self._look(), 0.25, False, self.turns >= self.max_turns, {"near": True}

class CaveEnv(Base):
    """Find the way out of a cave.

    More than that need not be said.
    """

    def __init__(self, max_turns=14):
        self.max_turns = max_turns
        self.here, self.goal = None, None

    def _look(self):
        return f"You are in the {self.here} room."

    def reset(self, seed=None):
        self.rng = random.Random(seed)
        self.map: dict = {}
        text = self._look() + " Reply: go ROOM."
        return text, {}

    def step(self, action):
        words = action.split("go ")
        if not words or action in ("shout", "wait"):
            return "Nothing.", -0.1, False, False, {}
        match action.upper():
            case "DIG":
                return "Too hard.", 0.0, False, True, {}
        return self._won(words[-1])
'''


def test_a_summary_names_everything_a_designer_needs() -> None:
    assert summarise(CAVE) == "\n".join(
        [
            "CaveEnv: Find the way out of a cave.",
            "max_turns: 14",
            "opens with: You are in the {self.here} room. Reply: go ROOM.",
            "state: here; goal; rng = random.Random(seed); map = {}",
            "step looks for: 'go ', 'shout', 'wait', 'DIG', 'light'",
            "step pays:",
            "- reward -0.1, goes on, when not words or action in ('shout', 'wait')",
            "- reward 1.0, terminated, when word == 'light'",
            "- reward 0.25, truncated if self.turns >= self.max_turns",
            "- reward 0.0, truncated, when action.upper() is 'DIG'",
        ]
    )


def test_rewards_that_are_assembled_in_a_variable_are_found() -> None:
    source = (
        "class SumEnv:\n  max_turns = 3\n  def reset(self, seed=None):\n    return 'go', {}\n"
        "  def step(self, action):\n    reward = 0.0\n    if action == 'win':\n      reward += 1.0\n"
        "    elif action == 'lose':\n      reward = -1.0\n    return 'ok', reward, True, False, {}\n"
    )
    lines = summarise(source).splitlines()
    assert "- reward += 1.0, when action == 'win'" in lines
    assert "- reward -1.0, when action == 'lose'" in lines


def test_tools_are_listed_with_their_arguments() -> None:
    source = (
        "class ShopEnv(ToolUseBaseEnv):\n  def reset(self, seed=None):\n    return 'Buy milk.', {}\n"
        "  def tool_find(self, name, limit=3): ...\n  def tool_buy(self, item): ...\n"
    )
    text = summarise(source)
    assert "tools: find(name, limit), buy(item)" in text
    assert text.endswith("step pays:\n- what cannot be read off its source")


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "programs" / "sound").glob("*.py")), ids=lambda p: p.stem
)
def test_every_sound_program_has_a_summary_that_reaches_step(path: Path) -> None:
    text = summarise(path.read_text())
    assert len(text) <= MAX_CHARS
    assert "opens with: " in text
    assert "- reward" in text.split("step pays:\n")[1]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 400), st.integers(0, 3000))
def test_no_program_is_too_long_for_its_summary(attributes: int, actions: int, outcomes: int, words: int) -> None:
    lines = ["class BigEnv:", f'    """{"word " * words}"""', "    def reset(self, seed=None):"]
    lines += [f"        self.attribute_{number} = {'x' * 50!r}" for number in range(attributes)]
    lines += [f"        return {'o' * words!r}, {{}}", "    def step(self, action):"]
    lines += [f"        if action == 'action {number}': pass" for number in range(actions)]
    lines += [f"        if self.n == {n}: return '', {n}.5, True, False, {{}}" for n in range(outcomes)]
    text = summarise("\n".join([*lines, "        return '', 1.0, True, False, {}"]))
    assert len(text) <= MAX_CHARS
    assert "- reward" in text.split("step pays:\n")[1]


def test_what_pays_comes_before_what_does_not() -> None:
    body = "".join(f"    if self.n == {n}:\n      return '', 0.0, False, False, {{}}\n" for n in range(100))
    source = (
        "class LongEnv:\n  def reset(self, seed=None):\n    return '', {}\n  def step(self, action):\n"
        f"{body}    return '', 1.0, True, False, {{}}\n"
    )
    lines = summarise(source).split("step pays:\n")[1].splitlines()
    assert lines[0] == "- reward 1.0, terminated"
    assert lines[-1].startswith("- and ")


def test_what_is_not_a_program_is_refused() -> None:
    with pytest.raises(ProgramRejected):
        summarise("class Broken(:")
    with pytest.raises(ValueError, match="no class whose name ends in Env"):
        summarise("x = 1")
