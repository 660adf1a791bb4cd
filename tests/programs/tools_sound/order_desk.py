from typing import Literal

from tool_environment import Instruction, ToolEnv, ToolError, tool

NAMES = ["Abara", "Brandt", "Castillo", "Dubois", "Eriksen", "Fontana", "Grabowski", "Hansen", "Ibarra", "Jansen"]
GOODS = ["kettle", "lamp", "chair", "desk", "rug", "mirror", "clock", "shelf"]


class OrderDeskEnv(ToolEnv):
    """A shop's back end: find an order, cancel it, refund what was paid."""

    max_turns = 12
    briefing = "You work at the service desk of a shop. Use the tools to do what the customer asks."

    def setup(self, rng):
        orders = {}
        customers = rng.sample(NAMES, 6)
        for customer in customers:
            code = f"R{rng.randint(1000, 9999)}"
            orders[code] = {
                "customer": customer,
                "item": rng.choice(GOODS),
                "paid": rng.randint(2000, 90000) / 100,
                "status": "open",
                "refunded": 0.0,
            }
        self.state = {"orders": orders, "notes": []}
        self.code = rng.choice(sorted(orders))
        order = orders[self.code]
        customer = order["customer"]
        self.instructions = [
            Instruction(
                f"I am {customer}. Please cancel my order.",
                lambda state: state["orders"][self.code]["status"] == "cancelled",
            ),
            Instruction(
                "Now give me back everything I paid for it.",
                lambda state: abs(state["orders"][self.code]["refunded"] - order["paid"]) < 0.005,
            ),
        ]

    def final_check(self):
        others = [order for code, order in self.state["orders"].items() if code != self.code]
        return all(order["status"] == "open" and not order["refunded"] for order in others)

    @tool
    def find_order(self, customer: str) -> str:
        """Find the order of a customer.

        customer: family name
        """
        for code, order in self.state["orders"].items():
            if order["customer"] == customer:
                return f"Order {code}: {order['item']}, {order['status']}."
        raise ToolError("No such customer.")

    @tool
    def show_payment(self, code: str) -> str:
        """Show what was paid for an order."""
        return f"Paid: {self._order(code)['paid']:.2f}"

    @tool
    def set_status(self, code: str, status: Literal["open", "shipped", "cancelled"]) -> str:
        """Change the status of an order."""
        self._order(code)["status"] = status
        return f"Order {code} is {status}."

    @tool
    def refund(self, code: str, amount: float) -> str:
        """Pay an amount back. The order must be cancelled."""
        order = self._order(code)
        if order["status"] != "cancelled":
            raise ToolError("The order is not cancelled.")
        if not 0 < amount <= order["paid"]:
            raise ToolError("The amount is not possible.")
        order["refunded"] = amount
        return "Refunded."

    @tool
    def add_note(self, text: str) -> str:
        """Write a note for colleagues."""
        self.state["notes"].append(text)
        return "Noted."

    def _order(self, code):
        if code not in self.state["orders"]:
            raise ToolError("No such order.")
        return self.state["orders"][code]

    def solution(self):
        order = self.state["orders"][self.code]
        return [
            {"name": "find_order", "arguments": {"customer": order["customer"]}},
            {"name": "set_status", "arguments": {"code": self.code, "status": "cancelled"}},
            {"name": "show_payment", "arguments": {"code": self.code}},
            {"name": "refund", "arguments": {"code": self.code, "amount": order["paid"]}},
        ]
