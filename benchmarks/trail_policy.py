"""What the timed engine says: programs about a trail of places, hints to them, and plays that follow the trail.

A trail has as many turns as asked for: every place but the last is walked, the last is called. Programs differ in their
places, so that each is new; their length is that of programs which a large model writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spadework.roles.rendering import Ids, Rendering
from spadework.seeding import generator

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
PROGRAM = '''"""{title}"""

import random

PLACES = {{
{places}
}}


class {name}Env:
    max_turns = {turns}

    def reset(self, seed=None):
        self.trail = random.Random(seed).sample(sorted(PLACES), self.max_turns)
        self.turn = 0
        self.at = 0
        return (
            f"You stand at {{self.trail[0]}}. `walk PLACE` from where you stand leads on; "
            "`call PLACE` at the end, once: the trail is over then.",
            {{}},
        )

    def step(self, action):
        self.turn += 1
        late = self.turn >= self.max_turns
        verb, _, place = action.strip().partition(" ")
        if verb == "call":
            won = place == self.trail[-1]
            return ("There it ends." if won else "That is not the end."), float(won), True, False, {{}}
        if verb == "walk" and place == self.trail[self.at] and self.at + 1 < len(self.trail):
            self.at += 1
            return f"{{place}} is {{PLACES[place]}} and leads to {{self.trail[self.at]}}.", 0.0, False, late, {{}}
        return "You stay where you are. walk PLACE or call PLACE.", 0.0, False, late, {{}}

    def solution(self):
        return [*(f"walk {{place}}" for place in self.trail[:-1]), f"call {{self.trail[-1]}}"]
'''
FAULTY = ("random.Random(seed)", "random.Random(sed)")
HINT = "Go to each new name that you read, one after the other; only when no turn is left, say that it is over there."
THOUGHT = (
    "What do I know so far? Each answer names one more of them, so I keep a list and check it against what I was told. "
    "Nothing says that two of them are the same, hence I go on with the newest, and count how many turns are left. "
)
_NEXT = re.compile(r"(?:stand at|leads to) (\w+)\.")
_ROLES = {"You help a player": "hint", "You are in a text environment": "agent"}
_HEAD_TOKENS = 80


def trail_program(number: int, turns: int, places: int) -> str:
    """The ``number``-th program: about ``places`` lines longer than its code."""
    rng = generator(number, "trail")
    names = list(dict.fromkeys(_word(rng) for _ in range(2 * places)))[:places]
    lines = [f'    "{name}": "a {_word(rng)} of {_word(rng)} with {_word(rng)}",' for name in names]
    name = _word(rng).title()
    return PROGRAM.format(title=f"The trail of {name}.", places="\n".join(lines), name=name, turns=turns)


def _word(rng: np.random.Generator) -> str:
    return "".join(SYLLABLES[index] for index in rng.integers(0, len(SYLLABLES), size=3))


@dataclass(frozen=True)
class Wordiness:
    """Mean tokens of a reply before its action or program.

    ``spread`` says how much longer or shorter single ones are, programs too: the standard deviation of the logarithm.
    """

    agent: int = 200
    designer_thoughts: int = 200
    spread: float = 0.3


@dataclass
class TrailPolicy:
    """Both roles of a model with ``rendering``.

    ``places`` are the lines of a program beyond its code, ``valid`` is the share of programs without a fault, ``wins``
    that of plays which are won.
    """

    rendering: Rendering
    turns: int = 10
    places: int = 250
    words: Wordiness = field(default_factory=Wordiness)
    valid: float = 0.85
    wins: float = 0.5
    _thoughts: Ids = ()

    def reply(self, new_ids: Sequence[int], turn: int, seed: int) -> Ids:
        rng = generator(seed, "trail reply")
        if turn > 0:
            return self._act(self.rendering.decode(new_ids), turn, rng)
        role = self._role(new_ids)
        if role == "agent":
            return self._act(self.rendering.decode(new_ids), turn, rng)
        if role == "hint":
            return self._said((), f"HINT: {HINT}")
        places = max(2 * self.turns, self._about(self.places, rng))
        source = trail_program(int(rng.integers(2**62)), self.turns, places)
        if rng.random() >= self.valid:
            source = source.replace(*FAULTY)
        return self._said(self._thinking(self.words.designer_thoughts, rng), f"\n```python\n{source}```")

    def _act(self, text: str, turn: int, rng: np.random.Generator) -> Ids:
        place = _NEXT.findall(text)[-1]
        verb = "walk"
        if turn + 1 == self.turns:
            verb = "call"
            if rng.random() >= self.wins:
                place = "nowhere"
        return self._said(self._thinking(self.words.agent, rng), f"\n\\boxed{{{verb} {place}}}")

    def _role(self, ids: Sequence[int]) -> str:
        head = self.rendering.decode(ids[:_HEAD_TOKENS])
        return next((role for words, role in _ROLES.items() if words in head), "designer")

    def _thinking(self, mean: int, rng: np.random.Generator) -> Ids:
        tokens = self._about(mean, rng)
        if not self._thoughts:
            self._thoughts = self.rendering.encode(THOUGHT)
        return (self._thoughts * (tokens // len(self._thoughts) + 1))[:tokens]

    def _about(self, mean: int, rng: np.random.Generator) -> int:
        spread = self.words.spread
        return round(mean * float(np.exp(rng.normal(-spread * spread / 2, spread))))

    def _said(self, thoughts: Ids, text: str) -> Ids:
        return (*thoughts, *self.rendering.encode(text), self.rendering.stop_ids[0])
