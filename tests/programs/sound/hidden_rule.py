import random
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    ADD = "add"
    TIMES = "times"


@dataclass
class Rule:
    kind: Kind
    number: int

    def apply(self, value: int) -> int:
        return value + self.number if self.kind is Kind.ADD else value * self.number


class MachineEnv:
    max_turns = 6

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.rule = Rule(rng.choice(list(Kind)), rng.randint(2, 40))
        self.question = rng.randint(50, 90)
        self.turns = 0
        return f"A machine changes numbers by a rule. Feed it with `try N`. What does it make of {self.question}? `answer N`.", {}

    def step(self, action):
        self.turns += 1
        late = self.turns >= self.max_turns
        verb, _, rest = action.partition(" ")
        if not rest.isdecimal() or len(rest) > 6:
            return "Use try or answer with a number.", 0.0, False, late, {}
        value = int(rest)
        if verb == "answer":
            won = value == self.rule.apply(self.question)
            return "Yes." if won else "No.", 1.0 if won else 0.0, True, False, {}
        if value == self.question:
            return "The machine refuses that number.", 0.0, False, late, {}
        return f"The machine makes {self.rule.apply(value)} of it.", 0.0, False, late, {}

    def solution(self):
        return ["try 1", "try 2", f"answer {self.rule.apply(self.question)}"]
