# no imports, a bare first observation, the global random state, integer rewards
class WarehouseEnv:
    def __init__(self, max_turns=10):
        self.max_turns = max_turns
        self.shelves = defaultdict(list)

    def reset(self, seed=None):
        if seed is not None:
            random.seed(seed)
        self.turns = 0
        self.shelves = defaultdict(list)
        self.stock: Dict[str, int] = {}
        for name in ["north", "south", "east", "west"]:
            self.stock[name] = random.randint(10, 500)
        self.best = max(self.stock, key=lambda name: self.stock[name])
        return (
            "Four shelves: north, south, east, west. Reply with \\boxed{inspect SHELF} to count a shelf, and with "
            "\\boxed{ship SHELF TOTAL} to send the fullest one, with the square root of its count rounded down."
        )

    def step(self, action: str):
        self.turns += 1
        match = re.fullmatch(r"(inspect|ship) (\w+)(?: (\d{1,6}))?", action.strip())
        done = self.turns >= self.max_turns
        if not match or match[2] not in self.stock:
            return "Unknown command.", 0, False, done, {}
        self.shelves[match[1]].append(match[2])
        if match[1] == "inspect":
            return f"Shelf {match[2]} holds {self.stock[match[2]]}.", 0, False, done, {}
        won = match[2] == self.best and match[3] == str(math.isqrt(self.stock[self.best]))
        return ("Shipped." if won else "The customer complains."), int(won), True, False, {}

    def solution(self):
        inspections = [f"\\boxed{{inspect {name}}}" for name in self.stock]
        return inspections + [f"\\boxed{{ship {self.best} {math.isqrt(self.stock[self.best])}}}"]
