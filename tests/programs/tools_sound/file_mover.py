from tool_environment import Instruction, ToolEnv, ToolError, tool

STEMS = ["budget", "minutes", "invoice", "draft", "survey", "roster", "permit", "quote", "ledger", "brief"]
FOLDERS = ["archive", "finance", "legal", "projects", "shared", "travel"]
PEOPLE = ["Mina", "Otto", "Pavel", "Quinn", "Rosa", "Sven"]


class FileMoverEnv(ToolEnv):
    """Files with owners in folders: find one, move it, name it anew."""

    max_turns = 14

    def setup(self, rng):
        folders = rng.sample(FOLDERS, 4)
        files = {}
        for stem in rng.sample(STEMS, 7):
            name = f"{stem}-{rng.randint(100, 999)}.txt"
            files[name] = {"folder": rng.choice(folders), "owner": rng.choice(PEOPLE)}
        self.state = {"files": files, "moved": [], "renamed": {}}
        self.name = rng.choice(sorted(files))
        entry = files[self.name]
        self.start = entry["folder"]
        self.target = rng.choice([folder for folder in folders if folder != self.start])
        self.fresh = f"final-{rng.randint(1000, 9999)}.txt"
        self.stem = self.name.split("-")[0]
        self.instructions = [
            Instruction(
                f"The {self.stem} file is somewhere in {self.start}. Move it to {self.target}.",
                lambda state: state["files"][self.name]["folder"] == self.target if self.name in state["files"] else False,
            ),
            Instruction(
                f"Good. Rename it to {self.fresh}, please.",
                lambda state: state["renamed"].get(self.name) == self.fresh,
            ),
        ]

    @tool
    def list_folder(self, folder: str) -> str:
        """List the files in a folder."""
        found = [name for name, entry in self.state["files"].items() if entry["folder"] == folder]
        return "\n".join(found) or "empty"

    @tool
    def move_file(self, name: str, folder: str) -> str:
        """Move a file to another folder."""
        if name not in self.state["files"]:
            raise ToolError("No such file.")
        if folder not in FOLDERS:
            raise ToolError("No such folder.")
        self.state["files"][name]["folder"] = folder
        self.state["moved"].append(name)
        return "ok"

    @tool(
        parameters={
            "type": "object",
            "properties": {"old": {"type": "string"}, "new": {"type": "string", "minLength": 5}},
            "required": ["old", "new"],
        }
    )
    def rename_file(self, old, new):
        """Give a file another name."""
        if old not in self.state["files"] or new in self.state["files"]:
            raise ToolError("That cannot be done.")
        self.state["files"][new] = self.state["files"].pop(old)
        self.state["renamed"][old] = new
        return {"renamed": old}

    @tool
    def count_files(self) -> int:
        """Count all files."""
        return len(self.state["files"])

    def solution(self):
        return [
            {"name": "list_folder", "arguments": {"folder": self.start}},
            {"name": "move_file", "arguments": {"name": self.name, "folder": self.target}},
            {"name": "rename_file", "arguments": {"old": self.name, "new": self.fresh}},
        ]
