"""Agents that know nothing: fixed junk, and random actions made of what the observations say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from spadework.environment.gates.plays import Choose, Transcript

JUNK: tuple[str, ...] = (
    "",
    " ",
    "\n\t\r\n",
    "x" * 5000,
    "word " * 400,
    "\x00",
    "\x1b[31mred\x07",
    "naïve čaj 你好 мир",
    "🙂🙃",
    "e\u0301\u200d\u202e\ufffd",
    '{"action": "look", "args": [1, {"deep": null}]}',
    "[1, 2, 3]",
    "0",
    "-1",
    "1.5",
    "99999999999999999999999999",
    "nan",
    "1e999",
    "%s %d %(name)s {} {0} {name!r} $x",
    "\\boxed{look}",
    "\\d+(((",
    "'; DROP TABLE rooms; --",
    "__import__('os').system('true')",
    "None",
    "a,b;c|d:e/f=g",
    "- - -",
)
"""What a confused or hostile agent may say. Lone surrogates arrive as U+FFFD, as from any tokenizer."""

WRONG_ARGUMENTS: tuple[str, ...] = ("", "zzz", "-1", "99999999999999999999", "1 2 3 4", "0.5", "!")

PRYING: tuple[str, ...] = (
    "solution",
    "solution()",
    "self.solution()",
    "self.__dict__",
    "__dict__",
    "vars(self)",
    "state",
    "debug",
    "cheat",
    "reveal",
    "{self.__dict__}",
)
"""Actions that ask a program for its state, as no player is told to."""

_QUOTED = re.compile(r"`([^`\n]{1,40})`|\"([^\"\n]{1,40})\"|(?<!\w)'([^'\n]{1,40})'(?!\w)")
_PATTERN = re.compile(
    r"\b([a-z]+(?:[ _][a-z]+)?)[ :]+(?:<[^>\n]{1,30}>|\{[^}\n]{1,30}\}|\[[^\]\n]{1,30}\]|[A-Z][A-Z_]*\b)"
)
_SLOT = re.compile(r"<[^>\n]{1,30}>|\{[^}\n]{1,30}\}|\[[^\]\n]{1,30}\]|\b[A-Z][A-Z_]*\b")
_WORD = re.compile(r"[^\W\d_][\w'-]*")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.]*\d)")

_MAX_WORDS = 200
_MAX_SPAN = 10**6


def malformed(actions: Sequence[str]) -> tuple[str, ...]:
    """The first words of ``actions`` (at most three different ones) with arguments missing or wrong."""
    verbs = list(dict.fromkeys(words[0] for action in actions if (words := action.split())))[:3]
    return tuple(f"{verb} {argument}".rstrip() for verb in verbs for argument in WRONG_ARGUMENTS)


def random_agent(rng: np.random.Generator) -> Choose:
    """Draws words, numbers and suggested commands from the first and the latest observation.

    Half of the actions follow a quoted command or a pattern such as `say WORD` where the text offers any, with its slot
    filled at random; the rest are one or two words or numbers. Half of the
    numbers are drawn between the smallest and the largest seen.
    """

    def choose(transcript: Transcript) -> str:
        offers = _offers("\n".join(dict.fromkeys((transcript.observations[0], transcript.observations[-1]))))
        if offers.commands and rng.random() < 0.5:
            command: str = offers.commands[int(rng.integers(len(offers.commands)))]
            return _SLOT.sub(lambda _: offers.token(rng), command)
        count = 1 if rng.random() < 0.5 else 2
        return " ".join(offers.token(rng) for _ in range(count))

    return choose


def guesser(rng: np.random.Generator, command: str, options: Sequence[str]) -> Choose:
    """Puts one of ``options`` in the place of `{}` in ``command``, again and again."""

    def choose(transcript: Transcript) -> str:
        return command.replace("{}", options[int(rng.integers(len(options)))])

    return choose


def echo_observation(transcript: Transcript) -> str:
    """Says what it was last told."""
    return transcript.observations[-1]


def echo_last_line(transcript: Transcript) -> str:
    """Says the last line of what it was last told."""
    lines = [line for line in transcript.observations[-1].splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def commands(text: str) -> tuple[str, ...]:
    """What ``text`` quotes, and what it writes as a command with a slot."""
    return _offers(text).commands


class _Offers:
    """What a text gives a random agent to choose from."""

    def __init__(self, text: str) -> None:
        quoted = [next(group for group in match.groups() if group is not None) for match in _QUOTED.finditer(text)]
        patterns = [f"{match[1]} <slot>" for match in _PATTERN.finditer(text)]
        self.commands = tuple(dict.fromkeys([*(text.strip() for text in quoted), *patterns]))
        self.words = tuple(dict.fromkeys(_WORD.findall(text)))[:_MAX_WORDS] or ("a",)
        self.numbers = tuple(dict.fromkeys(int(number) for number in _NUMBER.findall(text)))[:_MAX_WORDS]

    def token(self, rng: np.random.Generator) -> str:
        kinds = len(self.words) + len(self.numbers)
        if self.numbers and (rng.random() < 0.25 or rng.integers(kinds) < len(self.numbers)):
            low, high = min(self.numbers), max(self.numbers)
            if high - low <= _MAX_SPAN and rng.random() < 0.5:
                return str(int(rng.integers(low, high + 1)))
            return str(self.numbers[int(rng.integers(len(self.numbers)))])
        word: str = self.words[int(rng.integers(len(self.words)))]
        return word


@lru_cache(maxsize=256)
def _offers(text: str) -> _Offers:
    return _Offers(text)
