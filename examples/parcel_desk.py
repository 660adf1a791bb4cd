from typing import Literal

from tool_environment import Instruction, ToolEnv, ToolError, tool

OWNERS = ["Ines", "Jon", "Kaja", "Lew", "Mara", "Nils", "Olga", "Pia"]


class ParcelDeskEnv(ToolEnv):
    """Parcels wait for their owners: one is handed out, and what it costs is charged."""

    max_turns = 9

    def setup(self, rng):
        parcels = {}
        for owner in rng.sample(OWNERS, 5):
            parcels[f"P{rng.randint(1000, 9999)}"] = {
                "owner": owner,
                "status": "held",
                "due": rng.randint(12, 98),
                "charged": 0,
            }
        self.state = {"parcels": parcels, "reminded": []}
        self.code = rng.choice(sorted(parcels))
        self.owner, self.due = parcels[self.code]["owner"], parcels[self.code]["due"]
        self.instructions = [
            Instruction(
                f"{self.owner} is here for a parcel. Please hand it out.",
                lambda state: state["parcels"][self.code]["status"] == "handed out",
            ),
            Instruction(
                "Thank you. Now charge what is due for it.",
                lambda state: state["parcels"][self.code]["charged"] == self.due,
            ),
        ]

    def final_check(self):
        others = [parcel for code, parcel in self.state["parcels"].items() if code != self.code]
        return all(parcel["status"] == "held" and not parcel["charged"] for parcel in others)

    @tool
    def find_parcel(self, owner: str) -> str:
        """Find the parcel of a person.

        owner: first name
        """
        for code, parcel in self.state["parcels"].items():
            if parcel["owner"] == owner:
                return f"{code}, {parcel['due']} are due for it."
        raise ToolError("There is no parcel for that name.")

    @tool
    def set_status(self, code: str, status: Literal["held", "handed out", "returned"]) -> str:
        """Change the status of a parcel."""
        self._parcel(code)["status"] = status
        return "Changed."

    @tool
    def charge(self, code: str, amount: int) -> str:
        """Charge the owner of a parcel that was handed out."""
        parcel = self._parcel(code)
        if parcel["status"] != "handed out":
            raise ToolError("The parcel was not handed out.")
        parcel["charged"] = amount
        return "Charged."

    @tool
    def remind(self, owner: str) -> str:
        """Remind somebody of a parcel."""
        self.state["reminded"].append(owner)
        return "Reminded."

    def solution(self):
        return [
            {"name": "find_parcel", "arguments": {"owner": self.owner}},
            {"name": "set_status", "arguments": {"code": self.code, "status": "handed out"}},
            {"name": "charge", "arguments": {"code": self.code, "amount": self.due}},
        ]

    def _parcel(self, code):
        if code not in self.state["parcels"]:
            raise ToolError("There is no such parcel.")
        return self.state["parcels"][code]
