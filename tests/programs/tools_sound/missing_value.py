from tool_environment import Instruction, ToolEnv, ToolError, tool

ROOMS = ["Alder", "Beech", "Cedar", "Dogwood", "Elm", "Fir"]
MONTHS = ["March", "April", "May", "June", "July"]


class RoomBookingEnv(ToolEnv):
    """The user leaves out a date: it must be asked for before a room can be booked."""

    max_turns = 12
    briefing = "You book meeting rooms. If something that you need is missing, ask the user with the tool for it."

    def setup(self, rng):
        self.date = f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"
        seats = rng.sample(range(4, 60), len(ROOMS))
        self.state = {
            "rooms": {room: {"seats": count, "booked": ""} for room, count in zip(ROOMS, seats)},
            "asked": [],
            "invited": [],
        }
        self.room = rng.choice(ROOMS)
        self.seats = self.state["rooms"][self.room]["seats"]
        self.guest = f"{rng.choice('abcdefgh')}{rng.randint(10, 99)}@example.org"
        self.instructions = [
            Instruction(
                f"Book the room with exactly {self.seats} seats for me.",
                lambda state: state["rooms"][self.room]["booked"] == self.date,
            ),
            Instruction(
                f"And invite {self.guest} to it.",
                lambda state: [self.room, self.guest] in state["invited"],
            ),
        ]

    @tool
    def list_rooms(self) -> list:
        """List rooms and their seats."""
        return [{"room": room, "seats": entry["seats"]} for room, entry in self.state["rooms"].items()]

    @tool
    def ask_user(self, about: str) -> str:
        """Ask the user for something that is missing.

        about: one word, such as date, room or guest
        """
        self.state["asked"].append(about)
        return f"The {self.date}, please." if about.strip().lower() == "date" else "That I have told you already."

    @tool
    def book_room(self, room: str, date: str) -> str:
        """Book a room for a day."""
        if room not in self.state["rooms"]:
            raise ToolError("No such room.")
        self.state["rooms"][room]["booked"] = date
        return "Booked."

    @tool
    def invite(self, room: str, address: str) -> str:
        """Invite somebody to a booked room."""
        if not self.state["rooms"].get(room, {}).get("booked"):
            raise ToolError("The room is not booked.")
        self.state["invited"].append([room, address])
        return "Sent."

    @tool
    def cleaning_plan(self) -> str:
        """When the rooms are cleaned."""
        return "Every evening."

    def solution(self):
        return [
            [
                {"name": "list_rooms", "arguments": {}},
                {"name": "ask_user", "arguments": {"about": "date"}},
            ],
            {"name": "book_room", "arguments": {"room": self.room, "date": self.date}},
            {"name": "invite", "arguments": {"room": self.room, "address": self.guest}},
        ]
