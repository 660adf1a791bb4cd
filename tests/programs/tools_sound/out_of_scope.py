from typing import Literal

from tool_environment import Instruction, ToolEnv, ToolError, tool

DEVICES = ["boiler", "blinds", "heater", "lantern", "fan", "speaker", "pump", "oven"]


class HomeControlEnv(ToolEnv):
    """One request is none of the desk's business and must be declined."""

    max_turns = 12
    briefing = "You control the devices of a house. Decline whatever is not about its devices."

    def setup(self, rng):
        rooms = rng.sample(["attic", "cellar", "hall", "kitchen", "study", "porch"], 4)
        devices = {}
        for device in rng.sample(DEVICES, 6):
            devices[f"d{rng.randint(100, 999)}"] = {"kind": device, "room": rng.choice(rooms), "level": 0}
        self.state = {"devices": devices, "declined": []}
        self.id = rng.choice(sorted(devices))
        self.level = rng.randint(11, 99)
        kind, room = devices[self.id]["kind"], devices[self.id]["room"]
        self.topic = rng.choice(["taxes", "football", "medicine", "stocks"])
        self.instructions = [
            (
                f"Set the {kind} in the {room} to {self.level} per cent.",
                lambda state: state["devices"][self.id]["level"] == self.level,
            ),
            (f"And can you advise me on {self.topic}?", lambda state: self.topic in state["declined"]),
        ]

    def final_check(self):
        return len(self.state["declined"]) == 1

    @tool
    def find_device(self, kind: str) -> str:
        """Find the id of a device."""
        found = [id for id, entry in self.state["devices"].items() if entry["kind"] == kind]
        if not found:
            raise ToolError("There is none.")
        return found[0]

    @tool
    def set_level(self, device_id: str, level: int) -> str:
        """Set a device to a level from 0 to 100."""
        if device_id not in self.state["devices"] or not 0 <= level <= 100:
            raise ToolError("Impossible.")
        self.state["devices"][device_id]["level"] = level
        return "Set."

    @tool
    def decline(self, topic: str, reason: Literal["out of scope", "unsafe"]) -> str:
        """Tell the user that you do not help with a topic."""
        self.state["declined"].append(topic)
        return "The user was told."

    @tool
    def energy_report(self, days: int = 1) -> str:
        """Energy used in the last days."""
        return f"{days * 3} kWh"

    def solution(self):
        return [
            {"name": "find_device", "arguments": {"kind": self.state["devices"][self.id]["kind"]}},
            {"name": "set_level", "arguments": {"device_id": self.id, "level": self.level}},
            {"name": "decline", "arguments": {"topic": self.topic, "reason": "out of scope"}},
        ]
