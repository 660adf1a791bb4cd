"""Ctrl-C and SIGTERM end a run where it can go on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from selfplay_world import open_policy, run_once, save_corpus, save_model, small_config, without_times

from spadework.config import Config
from spadework.loop.interruption import SIGNALS, Interruption
from spadework.progress import Silent, Stage
from spadework.selfplay import Interrupted
from spadework.store.checkpoint import latest_checkpoint


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    place = tmp_path_factory.mktemp("world")
    config = small_config(save_model(place / "model"), save_corpus(place / "corpus.jsonl"))
    return config.model_copy(update={"iterations": 3})


@pytest.fixture(scope="module")
def unbroken(config: Config, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    return without_times(run_once(tmp_path_factory.mktemp("unbroken") / "run", config).rows)


class Disturber(Silent):
    """Sends this process a signal when a stage begins."""

    def __init__(self, iteration: int, stage: Stage, number: signal.Signals) -> None:
        self.moment = (iteration, stage)
        self.number = number

    def stage_started(self, iteration: int, stage: Stage) -> None:
        if (iteration, stage) == self.moment:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("iteration", "stage", "number", "saved"),
    [
        (0, Stage.DESIGN, signal.SIGINT, None),
        (1, Stage.PLAY, signal.SIGTERM, 0),
        (2, Stage.UPDATE, signal.SIGINT, 1),
        (1, Stage.CHECKPOINT, signal.SIGINT, 1),
    ],
)
def test_a_run_ends_with_its_last_checkpoint_and_goes_on_as_if_nothing_had_been(
    config: Config,
    unbroken: list[dict[str, object]],
    tmp_path: Path,
    iteration: int,
    stage: Stage,
    number: signal.Signals,
    saved: int | None,
) -> None:
    before = [signal.getsignal(one) for one in SIGNALS]
    with pytest.raises(Interrupted, match=f"interrupted \\({number.name}\\).*the same command") as interrupted:
        run_once(tmp_path / "run", config, observer=Disturber(iteration, stage, number))
    assert interrupted.value.saved == saved
    found = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert (None if found is None else found.iteration) == saved
    assert [signal.getsignal(one) for one in SIGNALS] == before
    assert without_times(run_once(tmp_path / "run", config).rows) == unbroken


def test_a_cancelled_run_is_cancelled_not_interrupted(config: Config, tmp_path: Path) -> None:
    class Cancelling(Silent):
        def stage_started(self, iteration: int, stage: Stage) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        run_once(tmp_path / "run", config, open_policy(config), Cancelling())


def test_handlers_come_back_after_the_first_signal_so_that_the_second_stops_at_once() -> None:
    received: list[int] = []
    handler: Callable[[int, object], None] = lambda number, frame: received.append(number)  # noqa: E731
    previous = signal.signal(signal.SIGTERM, handler)

    async def main() -> None:
        with Interruption(saved=4) as interruption, interruption.finishing():
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            assert received == []
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            assert received == [signal.SIGTERM]

    try:
        with pytest.raises(Interrupted, match="everything up to iteration 4 is saved"):
            asyncio.run(main())
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, previous)
