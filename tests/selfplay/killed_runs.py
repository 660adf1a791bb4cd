"""Runs one small run unbroken and one that is killed at ten instants; both are left in the directory that is given.

A script of its own, because it forks: each try is a real process that SIGKILL ends, or that comes to its end. It
prints, per try, the signal that ended it (0: none).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Slow imports, made once before forking; none of them starts a thread.
import renderers  # noqa: F401
import transformers.models.qwen3.modeling_qwen3  # noqa: F401
from selfplay_world import ScriptedPolicy, open_policy, run_once, save_corpus, save_model, small_config

from spadework.config import Config
from spadework.engines.base import Datum, ForwardBackward, OptimStep
from spadework.learning.loss import PolicyLoss
from spadework.progress import Silent, Stage


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Instant:
    """When to die: ``after_s`` seconds into the stage, or inside the engine's ``call`` that comes ``nth`` in it."""

    iteration: int
    stage: Stage
    after_s: float = 0.0
    call: str = ""
    nth: int = 1


INSTANTS = (
    Instant(-1, Stage.EVALUATION, 0.05),
    Instant(0, Stage.DESIGN, 0.2),
    Instant(0, Stage.UPDATE),
    Instant(0, Stage.CHECKPOINT, call="save"),
    Instant(1, Stage.PLAY, 0.06),
    Instant(1, Stage.STORE, 0.001),
    Instant(2, Stage.UPDATE, call="optim_step", nth=2),
    Instant(2, Stage.CHECKPOINT, 0.004),
    Instant(3, Stage.EVALUATION, 0.05),
    Instant(4, Stage.UPDATE, call="forward_backward", nth=3),
)


class Killer(Silent):
    """Watches for the instant."""

    def __init__(self, instant: Instant) -> None:
        self.instant = instant
        self.is_due = False
        self.calls = 0

    def stage_started(self, iteration: int, stage: Stage) -> None:
        if (iteration, stage) == (self.instant.iteration, self.instant.stage):
            self.is_due = True
            if not self.instant.call:
                threading.Timer(self.instant.after_s, kill).start()

    def called(self, name: str) -> None:
        if self.is_due and name == self.instant.call:
            self.calls += 1
            if self.calls == self.instant.nth:
                kill()


class MortalPolicy(ScriptedPolicy):
    """Tells the killer of every call that changes or writes something; `save` once its files are half there."""

    killer: Killer

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        self.killer.called("forward_backward")
        return await super().forward_backward(data, loss)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        self.killer.called("optim_step")
        return await super().optim_step(learning_rate)

    async def save(self, directory: Path) -> None:
        (directory / "half.safetensors").write_bytes(b"half")
        self.killer.called("save")
        (directory / "half.safetensors").unlink()
        await super().save(directory)


async def evaluate(iterations: int) -> Mapping[str, float]:
    await asyncio.sleep(0.1)
    return {"heldout/in_family": iterations / 10}


def attempt(path: Path, config: Config, instant: Instant) -> None:
    policy = open_policy(config)
    mortal = MortalPolicy(policy.engine, policy.rendering)
    mortal.killer = Killer(instant)
    run_once(path, config, mortal, mortal.killer, evaluate)


def in_a_process(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a run failed")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def make_world(directory: Path) -> None:
    save_model(directory / "model")
    save_corpus(directory / "corpus.jsonl")


def main(directory: Path) -> None:
    in_a_process(lambda: make_world(directory))
    config = small_config(directory / "model", directory / "corpus.jsonl", checkpoint={"every": 1, "keep": 2})
    config = config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"every": 2})})
    never = Instant(-9, Stage.DESIGN)
    print(in_a_process(lambda: attempt(directory / "unbroken", config, never)), flush=True)
    for instant in (*INSTANTS, never):
        print(in_a_process(lambda instant=instant: attempt(directory / "broken", config, instant)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
