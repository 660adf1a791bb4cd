"""Prompts for models that can follow long instructions.

The designer is told the whole environment contract and everything that the gates check, since it is judged by both.
The tag pairs in these texts only delimit what is shown; replies are read from fenced blocks and boxes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spadework.curriculum.documents import Document
from spadework.environment.actions import ActionFormat
from spadework.roles.messages import Message
from spadework.roles.prompts.skills import describe_skill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spadework.curriculum.memory import Example, Memory
    from spadework.roles.prompts import Difficulty

_DESIGNER_SYSTEM = """\
You design interactive environments in which a language model learns to reason by acting. You write each environment \
as one complete Python program that generates its own instances, keeps its own state and judges success exactly. \
Your programs run unattended on thousands of seeds, so they must be correct on every one of them. A good environment \
is one that a capable player wins sometimes but not always, and wins more often after a good tip."""

_DOCUMENT = """\
Ground it in the document below. Take a concept, mechanism, procedure or rule that the document explains and make it \
what the player has to understand or apply in order to win. Use its terms for the things in the environment. Where \
the document describes software, make a game of what that software does; do not use or rewrite the software. The \
player never sees the document: whatever it needs must be in the observations or be discoverable by acting. Never \
mention a document, text, passage or article.

<document title="{title}">
{text}
</document>"""

_NO_DOCUMENT = """\
Choose a concept, mechanism, procedure or rule yourself and make it what the player has to understand or apply in \
order to win. Whatever the player needs must be in the observations or be discoverable by acting."""

_EXAMPLE = """\
import random


class MusicBoxEnv:
    def __init__(self):
        self.max_turns = {max_turns}

    def reset(self, seed=None):
        self.rng = random.Random(seed)
        self.turns = 0
        self.levers = self.rng.sample(["brass", "copper", "iron", "silver", "tin", "zinc"], 3)
        self.moves = {{lever: self.rng.randint(3, 40) for lever in self.levers}}
        self.plan = self.levers + self.rng.choices(self.levers, k={repeats})
        self.drum = 0
        self.mark = sum(self.moves[lever] for lever in self.plan)
        names = ", ".join(self.levers)
        observation = (
            f"The drum of a music box stands at 0 and must stand at {{self.mark}}. Levers: {{names}}. Each turns it on "
            f"by a number of its own. Say `pull LEVER`, or once, at the end, `play`. You have {{self.max_turns}} turns."
        )
        return observation, {{}}

    def step(self, action):
        self.turns += 1
        truncated = self.turns >= self.max_turns
        words = action.lower().split()
        if words == ["play"]:
            if self.drum == self.mark:
                return "The music box plays.", 1.0, True, False, {{}}
            return f"It screeches: {{self.drum}} is not {{self.mark}}.", 0.0, True, False, {{}}
        if len(words) == 2 and words[0] == "pull" and words[1] in self.moves:
            self.drum += self.moves[words[1]]
            return f"The drum stands at {{self.drum}} of {{self.mark}}.", 0.0, False, truncated, {{}}
        return "Nothing moves. Say `pull LEVER` or `play`.", 0.0, False, truncated, {{}}

    def solution(self):
        return [f"pull {{lever}}" for lever in self.plan] + ["play"]
"""

_RULES = """\
You are given tasks, one after the other. For each you write one environment by these rules.

# What makes an environment

- It is played over several turns. Every action changes the state or reveals something, and the next observation \
shows what it did. Winning takes at least {least_turns} well-chosen actions: {difficulty_rule}
- Something that matters is hidden at first and can be found out by acting: by probing, measuring, comparing, \
looking up, trying a rule out or moving.
- At most turns there are two or more sensible actions with different consequences, and some are clearly better. A \
player that plans beats a player that guesses.
- Each seed gives a different instance: draw the hidden values, sizes, positions and names from large enough ranges \
that remembering one instance does not help with the next.

Not wanted: a question that one answer settles; a puzzle that is fully stated at the start and merely retried; \
counting through all candidates; a wall of numbers that only long arithmetic can process; anything that needs input(), \
files, the network, the clock or other packages than the standard library.

# The program

- One class whose name ends in `Env`, with `reset`, `step` and `solution`. `max_turns` is {max_turns}.
- `reset` returns `(observation, info)`; `step` returns `(observation, reward, terminated, truncated, info)` on every \
path. Observations are non-empty strings, rewards are finite floats, `terminated` and `truncated` are `True` or \
`False`, `info` is a dict and may be empty.
- All randomness comes from `self.rng`, and `reset` sets every attribute anew. Equal seeds and equal actions must give \
equal episodes in another process: no module-level `random` calls, no clock, no `hash()` of strings, no reliance on \
the order of a set.
- `step` receives any text at all: empty, very long, wrongly spelled, in another alphabet, numbers out of range. \
Answer what cannot be used with reward 0.0 and a short reminder of the valid commands; it still uses up a turn. Never \
raise.
- `step` counts turns. When `max_turns` is reached without an end, it returns `truncated=True`.
- `solution()` returns, for the instance of the last `reset`, the actions that win, in order: first those of a careful \
player that find out what is hidden, then those that use it. It must win well within `max_turns` on any seed, also \
right after `reset`. It is the method; store nothing under that name.
- Mind the usual slips: division by zero, empty ranges, indices off by one, braces inside f-strings, names that were \
never defined.

# Observations

- The first one states the situation, the goal, every valid command with its exact form, and the number of turns. \
Write commands as `step` reads them, for example `measure 3`; the player is told elsewhere how to mark its command.
- Each later one says what the last action did and what is visible now, in a few short lines. Do not repeat the rules.
- No observation, error message or reminder contains the hidden values before the player has earned them.

# Rewards

- Success ends the episode with reward 1.0 and `terminated=True`. No other step may earn as much.
- A definite loss ends it with reward 0.0 and `terminated=True`. Running out of turns ends it with `truncated=True`.
- Real progress may earn a little on the way, less than 0.3 in all. Progress is only what brings the goal closer: \
nothing is earned for merely acting, repeating an action or undoing one.

# What will be checked

Your program is run in a sandbox on several seeds and rejected at the first check it fails:

1. `parse`: the reply holds a complete fenced Python block that compiles and defines one class ending in `Env`.
2. `contract`: construction, reset, step and a second reset work and return what is asked for above.
3. `determinism`: two processes agree on a seed; different seeds give many different instances.
4. `termination`: random and nonsensical actions never crash it and it ends by `max_turns`.
5. `not-trivial`: players that know nothing (random, constant, empty or echoing actions, answers that are \
incomplete or name everything) earn next to nothing.
6. `solvable`: the actions of `solution()` win on every seed, and nothing else earns as much.
7. `secret`: what the success check compares with is not in the first observation, in error messages or in the \
answer to a question for the program's state, and some sequence of actions reveals it.
8. `novel`: it is not a rewording of an environment that exists already, those of earlier tasks included.

# Your reply

Decide what is hidden, which actions reveal it, and what a player who understands the concept does differently from \
one who does not. Trace the program by hand for seed 0: reset, three different actions, the actions of `solution()`. \
Check that each observation follows from the state and that the last reward is 1.0.

Begin with a plan of three lines: `Class:` a name that tells the subject, `Hidden:` what has to be found out and what \
each seed draws anew, `Won by:` what the commands show and which of them wins when. Then comes the whole program in \
one block that starts with ```python and ends with ```: imports from the standard library and the class, no tests, no \
example calls. Nothing follows it. If there is more than one block, the last counts.

Environments of different tasks have nothing in common but this form: each hides another thing, has other commands and \
is won in another way. They may be longer than the first."""

_TASK = """\
# Task

Write one environment that trains **{skill}**: {description}

{grounding}
{memory}"""

_FIRST_DOCUMENT = Document(
    "",
    "Music boxes",
    "The drum of a music box is turned on by levers. A lever always turns it by the same number of pins, but each "
    "lever by another. The tune starts only if the drum stands exactly at its mark; a drum never turns back.",
)
_FIRST_REPLY = """\
Class: MusicBoxEnv
Hidden: by how many pins each lever turns the drum; levers, numbers and mark are drawn for each seed.
Won by: `pull LEVER` shows how far it turns the drum; `play` wins when the drum stands exactly at the mark.

```python
{example}```"""

_NEXT = """\
{task}
Now write another environment, for this task. Reply in the same form: the three lines, then the whole program."""

_LEAST_TURNS: dict[Difficulty, int] = {"easy": 2, "medium": 4, "hard": 7}
_REPEATS: dict[Difficulty, int] = {"easy": 2, "medium": 2, "hard": 4}
"""Pulls of the worked example beyond one of each lever, for `_LEAST_TURNS`."""
_MAX_TURNS: dict[Difficulty, int] = {"easy": 8, "medium": 12, "hard": 20}
_DIFFICULTY_RULES: dict[Difficulty, str] = {
    "easy": "one thing is hidden, and an attentive player sees how to find it.",
    "medium": "two pieces of information must be found and combined, and a careless order of actions wastes turns.",
    "hard": "several hidden parts interact, early choices limit later ones, and turns are scarce for a player "
    "without a plan.",
}

_POSITIVES = """\
These were at the edge of what players can do: sometimes won, and more often with a hint. Write one that is as \
demanding and as sound but works differently: another hidden thing, other actions, another way to find out."""

_NEGATIVES = """\
These taught nothing. Avoid what made them so."""

_REPAIR = """\
Your program was rejected by the check `{gate}`: {reason}
{where}
It would be rejected again as it is. Find the cause, correct it without making the environment simpler, and reply with \
the whole corrected program in one block that starts with ```python and ends with ```."""

_WHERE = """
It failed here:

{trace}
"""
_SHOWN_FRAMES = 3

_HINT_SYSTEM = """\
You help a player of a text environment. You can read the environment's program; the player cannot, and sees only its \
observations. You write a tip that improves how the player thinks, so that it would help on every instance."""

_HINT_TASK = """\
Here is the program:

```python
{source}
```

Write a hint for its player.

- One to three sentences, fewer than 100 words, plain text: no headings, lists or code.
- Say what the key insight is and in which order to go about it: what to find out first, how to read what comes \
back, when to commit. Mention a trap if there is one.
- Speak only of what the player can see or do, in the words of the observations.
- The hint must hold for every seed. Give no answer, no hidden value, no concrete argument of a winning action and \
no complete list of actions; describe how to find them instead.
- Do not mention the program, its variables, the seed or rewards.

Reply with the hint alone."""

_FRAME = {
    "boxed": """\
You are in a text environment that you act in over several turns. Each turn you see an observation; you answer with \
one action, and the next observation shows what it did.

{observation}

Think about what you know, what you still have to find out and what each action would tell you. Then end your reply \
with exactly one action, written as a command inside \\boxed{{}}. If there is more than one box, the last counts.""",
    "raw": """\
You are in a text environment that you act in over several turns. Each turn you see an observation; you answer with \
one action, and the next observation shows what it did.

{observation}

Reply with one action and nothing else: your whole reply is taken as the command.""",
    "tool_call": """\
You act for a user with the tools that you are given. What the user wants comes in several requests, one after the \
other: the next one arrives when the one before is done. Look up what you do not know, never invent a value, and \
change nothing that you were not asked to change.

{observation}""",
}


def designer_messages(skill: str, document: Document, memory: Memory, difficulty: Difficulty) -> list[Message]:
    """The rules and a first task with its reply are the same for all environments of a run, so they come first."""
    rules = _RULES.format(
        least_turns=_LEAST_TURNS[difficulty],
        max_turns=_MAX_TURNS[difficulty],
        difficulty_rule=_DIFFICULTY_RULES[difficulty],
    )
    first_document = _FIRST_DOCUMENT if document.text else document
    first_task = _task("mathematical reasoning", grounding(first_document, _DOCUMENT, _NO_DOCUMENT), "")
    next_task = _task(skill, grounding(document, _DOCUMENT, _NO_DOCUMENT), memory_section(memory))
    return [
        Message("system", _DESIGNER_SYSTEM),
        Message("user", f"{rules}\n\n{first_task}"),
        Message("assistant", _FIRST_REPLY.format(example=_worked_example(difficulty))),
        Message("user", _NEXT.format(task=next_task)),
    ]


def _task(skill: str, grounded: str, memory: str) -> str:
    return _TASK.format(skill=skill, description=describe_skill(skill), grounding=grounded, memory=memory)


def grounding(document: Document, shown: str, absent: str) -> str:
    """What is asked of the ``document``; ``absent`` if it is blank."""
    if not document.text:
        return absent
    text = document.text.replace("</document", "< /document").strip()
    return shown.format(title=document.title.replace('"', "'"), text=text)


def worked_examples(difficulty: Difficulty) -> tuple[str, ...]:
    return (_worked_example(difficulty),)


def repair_messages(gate: str, reason: str, trace: str) -> list[Message]:
    frames = trace.splitlines()[-_SHOWN_FRAMES:]
    where = _WHERE.format(trace="\n".join(frames)) if frames else ""
    return [Message("user", _REPAIR.format(gate=gate, reason=reason, where=where))]


def hint_messages(source: str) -> list[Message]:
    return [Message("system", _HINT_SYSTEM), Message("user", _HINT_TASK.format(source=source.strip()))]


def agent_messages(observation: str, hint: str | None, action_format: ActionFormat) -> list[Message]:
    shown = observation if hint is None else f"{observation}\n\nHINT: {hint}"
    return [Message("user", _FRAME[action_format].format(observation=shown))]


def observation_message(observation: str) -> Message:
    return Message("user", observation)


def memory_section(memory: Memory) -> str:
    """What the designer is shown of earlier environments; empty if that is nothing."""
    parts: list[str] = []
    if memory.positives:
        parts += [_POSITIVES, *_shown(memory.positives)]
    if memory.negatives:
        parts += [_NEGATIVES, *_shown(memory.negatives)]
    return "\n" + "\n\n".join(["# Earlier environments for this skill", *parts]) + "\n" if parts else ""


def _worked_example(difficulty: Difficulty) -> str:
    return _EXAMPLE.format(max_turns=_MAX_TURNS[difficulty], repeats=_REPEATS[difficulty])


def _shown(examples: Sequence[Example]) -> list[str]:
    texts = [example.text.replace("</environment", "< /environment").strip() for example in examples]
    return [f"<environment>\n{text}\n</environment>" for text in texts]
