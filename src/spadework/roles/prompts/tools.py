"""Prompts for tool use: the designer writes a back end with tools and a user whose requests come one after the other.

As in `full`, the designer is told the whole contract and everything that the gates check. The document decides the
domain; the variant of the task is drawn from skill and document, so that equal draws give equal prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spadework.environment.actions import ActionFormat
from spadework.roles.messages import Message
from spadework.roles.prompts import full
from spadework.roles.prompts.full import memory_section, repair_messages
from spadework.roles.prompts.skills import describe_skill
from spadework.seeding import derive_seed

if TYPE_CHECKING:
    from spadework.curriculum.documents import Document
    from spadework.curriculum.memory import Memory
    from spadework.roles.prompts import Difficulty

__all__ = [
    "agent_messages",
    "designer_messages",
    "hint_messages",
    "observation_message",
    "repair_messages",
    "variant_of",
    "worked_examples",
]

VARIANTS = {
    "execute": (
        3,
        "Every request can be carried out with what it says and what the tools answer. The difficulty lies in finding "
        "the right records and in doing dependent steps in the right order.",
    ),
    "read, then write": (
        2,
        "Each change depends on something that must be read first: a request names a record by what is known about it "
        "and not by its identifier, or asks for a change by what a lookup returns.",
    ),
    "a value is missing": (
        1,
        "One request leaves out something that no tool knows, such as a date or a choice. There is a tool to ask the "
        "user; asked about the right thing it answers with the value, asked about anything else it says that this was "
        "told already. Acting on an invented value must not satisfy the criterion.",
    ),
    "one request is out of scope": (
        1,
        "One request is none of this back end's business or forbidden by the briefing. There is a tool to decline it, "
        "with the topic and a reason; the criterion asks that it was declined, `final_check` that nothing else was.",
    ),
    "an earlier action is corrected": (
        1,
        "A later request says that an earlier one was a mistake. What was done must be taken back with what the tools "
        "answered at the time, such as the number of a booking, and then be done in the right way.",
    ),
}
"""Name, weight and description of each."""

_SYSTEM = """\
You design simulated back ends in which a language model learns to work for users with tools. You write each of them \
as one complete Python program that generates its own instances, keeps its own state, offers tools and judges success \
exactly. Your programs run unattended on thousands of seeds, so they must be correct on every one of them. A good one \
is one that a capable agent completes sometimes but not always, and completes more often after a good tip."""

_DOCUMENT = """\
The document below decides the domain. Take the objects, operations, parameters and rules that it explains and make \
them the records, tools and preconditions of a back end that somebody would run: if it documents an interface, the \
tools are operations of such an interface; if it describes a procedure, the requests follow it. The agent never sees \
the document. Never mention a document, text, passage or article.

<document title="{title}">
{text}
</document>"""

_NO_DOCUMENT = """\
Choose the domain yourself: a back end that somebody would run, with records, tools and preconditions of its own."""

_EXAMPLE = """\
from typing import Literal

from tool_environment import Instruction, ToolEnv, ToolError, tool


class LendingDeskEnv(ToolEnv):
    max_turns = {max_turns}
    briefing = "You work at the desk of a tool library."

    def setup(self, rng):
        # draw the instance from rng; state holds everything that tools read or change, as plain data
        self.item = f"L{{rng.randint(100, 999)}}"
        self.member = rng.choice(["Noor", "Piet", "Suri", "Tomas"])
        drill = {{"kind": "drill", "holder": self.member, "status": "lent"}}
        self.state = {{"items": {{self.item: drill}}, "reminded": []}}
        self.instructions = [
            Instruction(
                f"{{self.member}} has brought the drill back. Please take it in.",
                lambda state: state["items"][self.item]["status"] == "in stock",
            ),
        ]

    @tool
    def find_item(self, holder: str) -> str:
        \"\"\"Find what somebody has borrowed.

        holder: first name of the member
        \"\"\"
        for code, item in self.state["items"].items():
            if item["holder"] == holder:
                return f"{{code}}: {{item['kind']}}, {{item['status']}}"
        raise ToolError("Nobody of that name has borrowed anything.")

    @tool
    def set_status(self, code: str, status: Literal["lent", "in stock", "lost"]) -> str:
        \"\"\"Change the status of an item.\"\"\"
        if code not in self.state["items"]:
            raise ToolError("There is no such item.")
        self.state["items"][code]["status"] = status
        return f"{{code}} is {{status}} now."

    @tool
    def remind(self, member: str) -> str:
        \"\"\"Remind a member of what is due.\"\"\"
        self.state["reminded"].append(member)
        return "Sent."

    def final_check(self):
        # asked once, when the last criterion holds: was anything changed that should not have been?
        return not self.state["reminded"]

    def solution(self):
        # for the instance of the last reset: the calls that win, in order; a list within the list is one turn
        return [
            {{"name": "find_item", "arguments": {{"holder": self.member}}}},
            {{"name": "set_status", "arguments": {{"code": self.item, "status": "in stock"}}}},
        ]
"""

_TASK = """\
You write one tool environment by these rules; the task comes after them.

# What makes it an environment

- A user makes {requests} requests, one after the other: the next one is told when the criterion of the one before is \
true. The agent is rewarded only if all of them are done. {difficulty_rule}
- Requests are short and natural. They name things as people do, never a tool and never an internal identifier that \
the user could not know.
- There are {tools} tools: some look things up, some change the state and fail politely when a precondition does not \
hold. At least one parameter has a fixed set of values. One or two tools look useful and are not needed.
- Every value that a call needs is said in a request or returned by an earlier call. Nothing is to be guessed, \
computed in the head or phrased freely: no criterion looks at the wording of a text.
- Each seed gives a different instance: draw names, identifiers, amounts and who has what from large enough ranges \
that the calls of one instance do not help with the next.

Not wanted: tools that do the whole request at once; records that must be gone through one by one; real services, \
files, the network or the clock; anything but the standard library.

# The program

Define exactly one class whose name ends in `Env`. `ToolEnv` and the other names come from a module that the program \
may import; `reset` and `step` are theirs and are not written anew. This shows the form; yours is about something else \
and has more tools:

```python
{example}```

- `setup(rng)` is the only place with randomness. `self.state` holds dicts, lists, texts, numbers, booleans and None, \
and nothing else.
- A criterion is a function of the state that only reads. It is false at the start and until its own request is \
carried out; where a request only asks to look something up, the tool notes in the state that it was done. It \
compares with values of the type that the tools write.
- A tool is a method with `@tool`, type hints for all parameters (`str`, `int`, `float`, `bool`, `Literal`, `list`, \
`dict`, `X | None`) and a docstring. It returns text, takes any arguments of those types without crashing, and raises \
`ToolError` with a short message when it cannot do what was asked. No message holds a value that has to be found out.
- Every turn of the agent counts, also one in which it only talks. `solution()` must need at most two thirds of \
`max_turns`.

# What will be checked

Your program is run in a sandbox on several seeds and rejected at the first check it fails:

1. `parse`: the reply holds a complete fenced Python block that compiles and defines one class ending in `Env`.
2. `contract`: setup, tools and criteria have the form that is asked for above.
3. `determinism`: two processes agree on a seed; different seeds give different instances.
4. `termination`: no call whatsoever crashes it, and it ends by `max_turns`.
5. `not-trivial`: agents that know nothing (random arguments of the right types, "done" at once, the calls of another \
seed, values out of error messages) earn next to nothing.
6. `solvable`: on every seed each criterion can be evaluated and is false at the start, some tool writes what it \
reads, the calls of `solution()` make the criteria true in order, and without any one of these calls it does not work.
7. `secret`: each argument in `solution()` stands in a request told before or in the answer to a call of an earlier \
turn; no error message gives one away.
8. `novel`: it is not a rewording of an environment that exists already.

# Before you write

List the records, the tools and the requests. For each request write down which lookups give which arguments, which \
call makes the criterion true and what a hasty agent gets wrong. Then trace `solution()` by hand for one seed, turn by \
turn, with the value of each criterion.

# Task

Write one tool environment that trains **{skill}**: {description}

{grounding}

Kind of task, **{variant}**: {variant_text}
{memory}
Reply with your plan in a few sentences, then the whole program in one block that starts with ```python and ends \
with ```. Only the last block counts."""

_REQUESTS: dict[Difficulty, str] = {"easy": "two", "medium": "three", "hard": "four or five"}
_TOOLS: dict[Difficulty, str] = {"easy": "three or four", "medium": "four to six", "hard": "six to eight"}
_MAX_TURNS: dict[Difficulty, int] = {"easy": 10, "medium": 16, "hard": 24}
_DIFFICULTY_RULES: dict[Difficulty, str] = {
    "easy": "Each takes one or two calls.",
    "medium": "Each takes one to three calls, and at least one depends on what was done for an earlier one.",
    "hard": "Most take several dependent calls, tools refuse in the wrong order, and later requests build on earlier "
    "ones.",
}

_HINT_SYSTEM = """\
You help an agent that works for a user with tools. You can read the program of its environment; the agent cannot, and \
sees only the tools, the requests and what the tools answer. You write a tip that improves how it goes about it, so \
that it would help on every instance."""

_HINT_TASK = """\
Here is the program:

```python
{source}
```

Write a hint for its agent.

- Two or three sentences, fewer than 100 words, plain text: no headings, lists or code.
- Give a plan of steps: what to look up first and with which kind of tool, what its answer is needed for, in which \
order to change things, which tools are not needed, what to ask for or to decline.
- Name no value: no person, identifier, amount, date, status or setting that occurs in any instance. Say "the status \
that the request asks for" and "the amount that the lookup returns".
- Write out no call and do not list the arguments of one.
- Do not mention the program, its variables, the seed or rewards.

Reply with the hint alone."""


def variant_of(skill: str, document_id: str) -> str:
    """The kind of task for a document: drawn by weight, equal for equal arguments."""
    drawn = derive_seed(0, "variant", skill, document_id) % sum(weight for weight, _ in VARIANTS.values())
    for name, (weight, _) in VARIANTS.items():
        drawn -= weight
        if drawn < 0:
            return name
    raise AssertionError("weights do not add up to their sum")


def designer_messages(skill: str, document: Document, memory: Memory, difficulty: Difficulty) -> list[Message]:
    variant = variant_of(skill, document.id)
    task = _TASK.format(
        skill=skill,
        description=describe_skill(skill),
        grounding=full.grounding(document, _DOCUMENT, _NO_DOCUMENT),
        variant=variant,
        variant_text=VARIANTS[variant][1],
        memory=memory_section(memory),
        requests=_REQUESTS[difficulty],
        tools=_TOOLS[difficulty],
        example=_worked_example(difficulty),
        difficulty_rule=_DIFFICULTY_RULES[difficulty],
    )
    return [Message("system", _SYSTEM), Message("user", task)]


def worked_examples(difficulty: Difficulty) -> tuple[str, ...]:
    return (_worked_example(difficulty),)


def hint_messages(source: str) -> list[Message]:
    return [Message("system", _HINT_SYSTEM), Message("user", _HINT_TASK.format(source=source.strip()))]


def agent_messages(observation: str, hint: str | None, action_format: ActionFormat) -> list[Message]:
    return full.agent_messages(observation, hint, action_format)


def observation_message(observation: str) -> Message:
    return full.observation_message(observation)


def _worked_example(difficulty: Difficulty) -> str:
    return _EXAMPLE.format(max_turns=_MAX_TURNS[difficulty])
