from tool_environment import Instruction, ToolEnv, ToolError, tool


class AccountTransferEnv(ToolEnv):
    """A transfer goes out, and then turns out to have been wrong: it must be taken back and made anew."""

    max_turns = 14

    def setup(self, rng):
        people = rng.sample(["Ada", "Bela", "Cyril", "Dora", "Emil", "Fay", "Gus"], 4)
        self.state = {
            "accounts": {f"ACC-{rng.randint(10000, 99999)}": {"owner": name, "balance": rng.randint(500, 900)} for name in people},
            "transfers": {},
        }
        codes = list(self.state["accounts"])
        self.sender, self.wrong, self.right = rng.sample(codes, 3)
        self.amount = rng.randint(21, 480)
        self.serial = rng.randint(100, 999)
        owner = lambda code: self.state["accounts"][code]["owner"]
        names = owner(self.sender), owner(self.wrong), owner(self.right)

        def sent(state, receiver):
            return any(
                [one["from"], one["to"], one["amount"], one["open"]] == [self.sender, receiver, self.amount, True]
                for one in state["transfers"].values()
            )

        def taken_back(state):
            return any(one["to"] == self.wrong and not one["open"] for one in state["transfers"].values())

        self.instructions = [
            Instruction(f"Send {self.amount} from {names[0]} to {names[1]}.", lambda state: sent(state, self.wrong)),
            Instruction("Oh no, that was the wrong person. Take that transfer back.", taken_back),
            Instruction(f"It should have gone to {names[2]}.", lambda state: sent(state, self.right)),
        ]

    @tool
    def account_of(self, owner: str) -> dict:
        """Find somebody's account."""
        for code, account in self.state["accounts"].items():
            if account["owner"] == owner:
                return {"account": code}
        raise ToolError("No such person.")

    @tool
    def transfer(self, sender: str, receiver: str, amount: int) -> str:
        """Send money between accounts. Answers with the number of the transfer."""
        accounts = self.state["accounts"]
        if sender not in accounts or receiver not in accounts or not 0 < amount <= accounts[sender]["balance"]:
            raise ToolError("Not possible.")
        self.serial += 7
        key = f"T{self.serial}"
        self.state["transfers"][key] = {"from": sender, "to": receiver, "amount": amount, "open": True}
        return f"Transfer {key} is on its way."

    @tool
    def take_back(self, transfer: str) -> str:
        """Take a transfer back."""
        if transfer not in self.state["transfers"]:
            raise ToolError("No such transfer.")
        self.state["transfers"][transfer]["open"] = False
        return "Taken back."

    @tool
    def interest_rate(self) -> str:
        """Today's interest rate."""
        return "2.1 per cent"

    def solution(self):
        owner = lambda code: self.state["accounts"][code]["owner"]
        return [
            [{"name": "account_of", "arguments": {"owner": owner(code)}} for code in (self.sender, self.wrong)],
            {"name": "transfer", "arguments": {"sender": self.sender, "receiver": self.wrong, "amount": self.amount}},
            {"name": "take_back", "arguments": {"transfer": f"T{self.serial + 7}"}},
            {"name": "account_of", "arguments": {"owner": owner(self.right)}},
            {"name": "transfer", "arguments": {"sender": self.sender, "receiver": self.right, "amount": self.amount}},
        ]
