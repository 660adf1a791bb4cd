"""Runs every hostile program, each beside a well-behaved neighbour.

`python tests/sandbox/attacking.py` prints how many are contained by which layers, as this user and as an ordinary one.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from ordinary_user import ordinary_python
from small_programs import GUESS

from spadework.sandbox import (
    EnvironmentFault,
    FaultKind,
    InfrastructureFault,
    LayerName,
    Limits,
    ProgramHandle,
    ProgramHost,
    Sandbox,
)
from spadework.sandbox.layers import in_force

FOLDER = Path(__file__).parent.parent / "attacks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
ESCAPED = (Path("/tmp/spadework_escaped"), Path("/dev/shm/spadework_escaped"))
CANARY = Path("/tmp/spadework_canary")
SECRET = "SPADEWORK_SECRET"
AT_ONCE = 6
LIMITS = Limits(load_timeout_s=1.0, reset_timeout_s=0.5, step_timeout_s=0.4, memory_mb=300)

NAMESPACES = (
    LayerName.USER_NAMESPACE,
    LayerName.UTS_NAMESPACE,
    LayerName.IPC_NAMESPACE,
    LayerName.PID_NAMESPACE,
    LayerName.NETWORK_NAMESPACE,
)
LAYER_SETS: Mapping[str, tuple[LayerName, ...]] = MappingProxyType(
    {
        "all layers": (),
        "without namespaces": NAMESPACES,
        "without Landlock": (LayerName.LANDLOCK,),
        "without namespaces and Landlock": (*NAMESPACES, LayerName.LANDLOCK),
        "without seccomp": (LayerName.SECCOMP,),
    }
)
"""What is switched off in each. Layers that are built on one that is off are off too."""


@dataclass(frozen=True)
class Outcome:
    """What became of one hostile program. ``kind`` is None if it answered."""

    kind: FaultKind | None
    text: str
    neighbour_unharmed: bool

    @property
    def contained(self) -> bool:
        return self.neighbour_unharmed and not self.text.startswith("ESCAPED")


async def attack_all(sandbox: ProgramHost, well_behaved: str = GUESS) -> dict[str, Outcome]:
    """The outcome of every program in ``sandbox``. At the end the neighbour plays as at the beginning."""
    outcomes: dict[str, Outcome] = {}
    neighbour = await sandbox.open(well_behaved)
    alone = await _transcript(neighbour)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with gate:
            beside = asyncio.ensure_future(_transcript(neighbour))
            kind, text = await asyncio.wait_for(_attack(sandbox, name), 60)
            (seen,) = await asyncio.gather(beside, return_exceptions=True)
            outcomes[name] = Outcome(kind, text, seen == alone)

    await asyncio.gather(*(one(name) for name in NAMES))
    assert await _transcript(neighbour) == alone
    return outcomes


@contextmanager
def bait() -> Iterator[None]:
    """What the programs look for: a file to delete, a secret to read, and no trace of an earlier escape."""
    for path in ESCAPED:
        path.unlink(missing_ok=True)
    CANARY.write_text("alive")
    os.environ[SECRET] = SECRET
    try:
        yield
    finally:
        del os.environ[SECRET]
        CANARY.unlink(missing_ok=True)


def untouched() -> bool:
    """Whether the bait is as it was laid."""
    return not any(path.exists() for path in ESCAPED) and CANARY.read_text() == "alive"


@dataclass(frozen=True)
class Result:
    """Of all programs at one set of layers."""

    through: list[str]
    """Names of those that did what they tried, or harmed their neighbour or the host."""
    in_force: list[str]
    """Names of the layers."""


def attack_here(without: tuple[LayerName, ...]) -> Result:
    """With the rights of this process."""

    async def run() -> tuple[dict[str, Outcome], list[str]]:
        limits = LIMITS.model_copy(update={"isolation": "best-effort"})
        async with Sandbox(limits, without=without) as sandbox:
            return await attack_all(sandbox), sorted(in_force(sandbox.level()))

    with bait():
        outcomes, layers = asyncio.run(run())
        harm = [f"{name} harms its neighbour" for name, outcome in outcomes.items() if not outcome.neighbour_unharmed]
        if not untouched():
            harm.append("something harms the host")
    through = [name for name, outcome in outcomes.items() if outcome.text.startswith("ESCAPED")]
    return Result(sorted(through) + sorted(harm), layers)


def attack_as_ordinary_user(without: tuple[LayerName, ...]) -> Result:
    """Without rights. Skips the test where no such process can be started."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import attacking; attacking.tell(sys.argv[2:])"
    process = ordinary_python(code, str(Path(__file__).parent), *without)
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return Result(**json.loads(out))


def tell(without: list[str]) -> None:
    """What `attack_as_ordinary_user` reads."""
    print(json.dumps(asdict(attack_here(tuple(LayerName(name) for name in without)))))


async def _transcript(program: ProgramHandle) -> list[object]:
    play, first = await program.reset(5)
    answers: list[object] = [first]
    for action in ("50", "25", "x", "75"):
        answers.append(await play.step(action))
        await asyncio.sleep(0.005)
    await play.close()
    return answers


async def _attack(sandbox: ProgramHost, name: str) -> tuple[FaultKind | None, str]:
    try:
        async with await sandbox.open((FOLDER / f"{name}.py").read_text()) as program:
            play, _ = await program.reset(1)
            answer = await play.step("go")
            await play.close()
            return None, answer.observation
    except EnvironmentFault as fault:
        return fault.kind, fault.reason
    except InfrastructureFault as fault:
        return None, f"ESCAPED: the host was hit: {fault}"


def main() -> None:
    users = {"root" if os.geteuid() == 0 else "this user": attack_here}
    if os.geteuid() == 0:
        users["ordinary user"] = attack_as_ordinary_user
    print(f"contained of {len(NAMES)} tried")
    for layers, without in LAYER_SETS.items():
        for user, attempt in users.items():
            through = attempt(without).through
            names = f"   through: {', '.join(through)}" if through else ""
            print(f"{layers:<32} {user:<14} {len(NAMES) - len(through):>3}{names}", flush=True)


if __name__ == "__main__":
    main()
