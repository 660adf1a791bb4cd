"""A small tool environment that tests of several rooms play."""

from __future__ import annotations

import random

SHOP = '''
from typing import Literal
from tool_environment import Instruction, ToolEnv, ToolError, tool

class ShopEnv(ToolEnv):
    max_turns = 5

    def setup(self, rng):
        self.code = rng.randint(100, 999)
        self.state = {"status": "open", "log": [], "count": 0}
        self.instructions = [
            Instruction(f"Close order {self.code}.", lambda state: state["status"] == "closed"),
            Instruction("Log it.", lambda state: len(state["log"]) > 0),
        ]

    @tool
    def set_status(self, code: int, status: Literal["open", "closed"] = "closed") -> str:
        """Change the status of an order.

        code: its number
        """
        if code != self.code:
            raise ToolError("No such order.")
        self.state["status"] = status
        return "ok"

    @tool
    def log(self, text: str) -> str:
        """Write a line."""
        self.state["log"].append(text)
        return str(len(self.state["log"]))

    def solution(self):
        return [{"name": "set_status", "arguments": {"code": self.code}}, {"name": "log", "arguments": {"text": "x"}}]
'''

CODE = random.Random(3).randint(100, 999)
"""Of the instance of seed 3."""
