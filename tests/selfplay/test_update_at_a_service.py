"""The loop's update with the tinker engine: the loop does not know which engine it has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from fake_service import Edges, FakeService, save_facts, table_config

from spadework.engines.tinker.engine import TinkerEngine
from spadework.learning.batch import Role, TrainingSample
from spadework.loop.update import update_policy
from spadework.loop.weights import weight_readings


def sample(
    key: str, advantage: float, role: Role = "agent", length: int = 9, *, delayed: bool = False
) -> TrainingSample:
    ids = tuple((5 * place + sum(key.encode())) % 12 for place in range(length))
    sampled = (False,) * 3 + (True,) * (length - 3)
    return TrainingSample(ids, sampled, (0.0,) * 3 + (-2.4,) * (length - 3), advantage, role, 1.0, key, delayed)


SAMPLES = [
    *(sample(f"agent/{n}", a, length=6 + 4 * n) for n, a in enumerate((1.0, -1.0, 0.5, -0.5))),
    *(sample(f"designer/{n}", a, "designer", 20, delayed=True) for n, a in enumerate((0.3, -0.3))),
]


@pytest.mark.parametrize("kl", [0.0, 0.2])
def test_an_update_is_the_same_whether_the_service_sums_or_averages(tmp_path: Path, kl: float) -> None:
    model = save_facts(tmp_path / "model")

    async def update(averages: bool) -> tuple[np.ndarray, dict[str, float], FakeService]:
        service = FakeService(Edges(averages=averages))
        learning = {"learning_rate": 1e-2, "kl_coefficient": kl}
        config = table_config("skyrl-jax" if averages else "hosted", learning=learning)
        engine = TinkerEngine.open(config, service, model)
        found = await update_policy(engine, SAMPLES, config.learning, 0, 0)
        found |= await weight_readings(engine)
        return service.trainers[0].table, found, service

    averaged, readings, service = asyncio.run(update(True))
    summed, other_readings, _ = asyncio.run(update(False))
    np.testing.assert_allclose(averaged, summed, atol=1e-12)
    assert np.abs(averaged - service.base).max() > 1e-2
    assert readings == pytest.approx(other_readings)
    assert readings["policy_version"] == 2 and readings["learning/skipped"] == 0
    assert (readings["learning/agent_tokens"], readings["learning/designer_tokens"]) == (36, 34)
    assert ("learning/kl" in readings) == (kl > 0) == ("base_logprobs" in service.calls)
    # What this engine cannot measure is left out.
    assert not readings.keys() & {
        "learning/agent_grad_norm",
        "learning/agent_grad_share",
        "learning/weights_checksum",
        "learning/unchanged_weights",
    }
    steps = [call for call in service.calls if call in ("forward_backward", "step")]
    assert steps == ["forward_backward", "step"] * 2, "one request for both roles"
