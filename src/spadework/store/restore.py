"""Taking a run up where its last complete checkpoint left it.

An iteration goes to the pool first, to the metrics second and to a checkpoint last. So whatever the moment at which a
run was stopped, pool and metrics are at least as far as the checkpoint, and what is later than it is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass

from spadework.store.checkpoint import Checkpoint, latest_checkpoint
from spadework.store.errors import StoreError
from spadework.store.metrics import MetricsLog
from spadework.store.pool import Pool
from spadework.store.run_directory import RunDirectory

BEFORE_THE_FIRST = -1


@dataclass(frozen=True)
class Restored:
    """An open pool and log that end with the iteration of ``checkpoint``; both empty where there is none yet."""

    checkpoint: Checkpoint | None
    pool: Pool
    metrics: MetricsLog

    @property
    def next_iteration(self) -> int:
        return 0 if self.checkpoint is None else self.checkpoint.iteration + 1


def restore(run: RunDirectory, *, tensorboard: bool = True) -> Restored:
    """Open what the loop writes to. ``run`` must be open for writing.

    Raises StoreError if there are checkpoints and none is complete, or if pool or metrics end before the checkpoint.
    """
    checkpoint = latest_checkpoint(run.checkpoints)
    last = BEFORE_THE_FIRST if checkpoint is None else checkpoint.iteration
    pool = Pool.open(run.pool)
    try:
        pool.rollback_to(last)
        metrics = MetricsLog.open(run.metrics, after=last, tensorboard=run.tensorboard if tensorboard else None)
    except BaseException:
        pool.close()
        raise
    if checkpoint is not None and metrics.last != last:
        pool.close()
        metrics.close()
        raise StoreError(
            f"the metrics {run.metrics} end before iteration {last}, of which there is a checkpoint; "
            "restore the whole run directory from one copy or start a new run"
        )
    return Restored(checkpoint, pool, metrics)
