# rejected by: determinism
# because: 100 different seeds give only 4 different instances
import random
from typing import Literal

from tool_environment import Instruction, ToolEnv, ToolError, tool

NAMES = ["Abara", "Brandt", "Castillo", "Dubois", "Eriksen", "Fontana", "Grabowski", "Hansen"]


class TicketDeskEnv(ToolEnv):
    max_turns = 9

    def setup(self, rng):
        rng = random.Random(rng.randint(1, 4))
        self.state = {"tickets": {}, "log": []}
        for name in rng.sample(NAMES, 5):
            self.state["tickets"][f"T{rng.randint(1000, 9999)}"] = {"owner": name, "status": "open", "fee": rng.randint(11, 99), "paid": 0}
        self.code = rng.choice(sorted(self.state["tickets"]))
        ticket = self.state["tickets"][self.code]
        self.fee = ticket["fee"]
        self.instructions = [
            Instruction(f"Close the ticket of {ticket['owner']}.", lambda state: state["tickets"][self.code]["status"] == "closed"),
            Instruction("Then charge its fee.", lambda state: state["tickets"][self.code]["paid"] == self.fee),
        ]

    @tool
    def find_ticket(self, owner: str) -> str:
        """Find the ticket of a person."""
        for code, ticket in self.state["tickets"].items():
            if ticket["owner"] == owner:
                return f"Ticket {code}, fee {ticket['fee']}."
        raise ToolError("No ticket.")

    @tool
    def set_status(self, code: str, status: Literal["open", "closed"]) -> str:
        """Change the status of a ticket."""
        self._ticket(code)["status"] = status
        return "Done."

    @tool
    def charge(self, code: str, amount: int) -> str:
        """Charge an amount."""
        self._ticket(code)["paid"] = amount
        return "Charged."

    @tool
    def count_tickets(self) -> str:
        """Count all tickets."""
        return str(len(self.state["tickets"]))

    def _ticket(self, code):
        if code not in self.state["tickets"]:
            raise ToolError("No such ticket.")
        return self.state["tickets"][code]

    def solution(self):
        return [
            {"name": "find_ticket", "arguments": {"owner": self.state["tickets"][self.code]["owner"]}},
            {"name": "set_status", "arguments": {"code": self.code, "status": "closed"}},
            {"name": "charge", "arguments": {"code": self.code, "amount": self.fee}},
        ]
