import random

from tool_use_base_env import ToolUseBaseEnv

NAMES = ["Abara", "Brandt", "Castillo", "Dubois", "Eriksen", "Fontana"]


class LedgerEnv(ToolUseBaseEnv):
    """Written for the base class that programs in the wild use: two lookups, and an answer."""

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count = 0
        accounts = {name: f"A-{rng.randint(1000, 9999)}" for name in NAMES}
        self._state = {"accounts": accounts, "totals": {code: rng.randint(1000, 99999) for code in accounts.values()}}
        self._name = rng.choice(NAMES)
        self._expected_answer = str(self._state["totals"][accounts[self._name]])
        text = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        code = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
        self._tools = {
            "find_account": {"description": "Find somebody's account.", "parameters": text},
            "read_total": {"description": "Read the total of an account.", "parameters": code},
            "close_account": {"description": "Close an account.", "parameters": code},
        }
        return f"What is the total of {self._name}? Give it as <answer>NUMBER</answer>.", {}

    def solution(self):
        code = self._state["accounts"][self._name]
        return [
            {"name": "find_account", "arguments": {"name": self._name}},
            {"name": "read_total", "arguments": {"code": code}},
            f"<answer>{self._expected_answer}</answer>",
        ]

    def tool_find_account(self, name):
        return self._state["accounts"][name]

    def tool_read_total(self, code):
        return f"Total: {self._state['totals'][code]}"

    def tool_close_account(self, code):
        del self._state["totals"][code]
        return "Closed."
