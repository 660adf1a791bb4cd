"""The update of one iteration, with a real engine where its numbers matter."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from selfplay_world import save_model

from spadework.config import EngineConfig, LearningConfig, ModelConfig
from spadework.engines.base import Datum, ForwardBackward, OptimStep
from spadework.engines.local.engine import LocalEngine
from spadework.learning.batch import Role, TrainingSample
from spadework.learning.loss import PolicyLoss
from spadework.loop.update import update_policy

LEARNING = LearningConfig(learning_rate=1e-2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


def open_engine(model: Path, learning: LearningConfig = LEARNING) -> LocalEngine:
    return LocalEngine.open(model, EngineConfig(threads=1), ModelConfig(max_context_tokens=256), learning)


def sample(key: str, advantage: float, role: Role = "agent", *, delayed: bool = False) -> TrainingSample:
    """Ten tokens that ``key`` chooses, of which the last six were sampled."""
    ids = tuple(20 + (7 * place + sum(key.encode())) % 200 for place in range(10))
    sampled = (False,) * 4 + (True,) * 6
    return TrainingSample(ids, sampled, (0.0,) * 4 + (-6.0,) * 6, advantage, role, 1.0, key, delayed)


async def on_policy(engine: LocalEngine, samples: Sequence[TrainingSample]) -> list[TrainingSample]:
    """The samples as if the engine had sampled them just now."""
    data = [
        Datum(s.token_ids_T, tuple(map(float, s.sampled_T)), s.logprobs_T, (0.0,) * len(s.token_ids_T), s.temperature)
        for s in samples
    ]
    rows = await engine.score(data)
    return [replace(one, logprobs_T=row) for one, row in zip(samples, rows, strict=True)]


SAMPLES = [
    *(sample(f"agent/{number}", advantage) for number, advantage in enumerate((1.0, -1.0, 0.5, -0.5))),
    *(sample(f"designer/{number}", advantage, "designer") for number, advantage in enumerate((0.3, -0.3))),
]


def test_both_roles_are_trained_in_two_steps_and_measured_apart(model: Path) -> None:
    async def main() -> tuple[dict[str, float], int]:
        engine = open_engine(model)
        found = await update_policy(engine, await on_policy(engine, SAMPLES), LEARNING, 0, 0)
        return found, engine.policy_version

    found, version = asyncio.run(main())
    assert version == 2
    assert (found["learning/agent_sequences"], found["learning/agent_tokens"]) == (4, 24)
    assert (found["learning/designer_sequences"], found["learning/designer_tokens"]) == (2, 12)
    # 6 tokens each: 6 * (1 + 1 + 0.5 + 0.5 + 0.3 + 0.3) / 36
    assert found["learning/mean_abs_advantage"] == pytest.approx(0.6)
    assert found["learning/agent_grad_share"] + found["learning/designer_grad_share"] == pytest.approx(1.0)
    assert found["learning/ratio"] == pytest.approx(1.0, abs=1e-4)
    assert found["learning/logprob_mismatch_max"] < 1e-4
    assert (found["learning/skipped"], found["learning/refused_steps"]) == (0, 0)


def test_a_large_first_step_makes_the_clip_act_in_the_second(model: Path) -> None:
    async def main(learning_rate: float) -> float:
        learning = LEARNING.model_copy(update={"learning_rate": learning_rate})
        engine = open_engine(model, learning)
        samples = [replace(sample("agent", 1.0), key=f"agent/{number}") for number in range(4)]
        found = await update_policy(engine, await on_policy(engine, samples), learning, 0, 0)
        return found["learning/clipped_share"]

    assert asyncio.run(main(1e-6)) == 0.0
    # All are the same tokens, and only the second of the two equal minibatches can be clipped.
    assert 0.3 < asyncio.run(main(0.03)) <= 0.5


def test_a_role_without_weight_is_left_out(model: Path) -> None:
    async def main() -> dict[str, float]:
        learning = LEARNING.model_copy(update={"designer_weight": 0.0})
        engine = open_engine(model, learning)
        return await update_policy(engine, await on_policy(engine, SAMPLES), learning, 0, 0)

    found = asyncio.run(main())
    assert found["learning/designer_sequences"] == 0 and found["learning/agent_grad_share"] == 1.0


def test_nothing_to_train_skips_the_step(model: Path) -> None:
    async def main() -> tuple[dict[str, float], int]:
        engine = open_engine(model)
        return await update_policy(engine, [], LEARNING, 0, 0), engine.policy_version

    found, version = asyncio.run(main())
    assert version == 0
    assert (found["learning/skipped"], found["learning/agent_tokens"], found["learning/designer_tokens"]) == (1, 0, 0)


def test_a_gradient_that_is_not_finite_is_refused_and_counted_and_the_weights_stay(model: Path) -> None:
    async def main() -> tuple[dict[str, float], list[str], int]:
        engine = open_engine(model)
        before = await engine.weight_checksum()
        poisoned = [replace(one, advantage=one.advantage * 1e38) for one in await on_policy(engine, SAMPLES)]
        found = await update_policy(engine, poisoned, LEARNING, 0, 0)
        return found, [before, await engine.weight_checksum()], engine.policy_version

    found, (before, after), version = asyncio.run(main())
    assert found["learning/refused_steps"] == 2
    assert before == after and version == 0
    assert not math.isfinite(found["learning/grad_norm"])


def test_delayed_samples_are_weighted_by_how_far_the_policy_moved_and_no_more_than_the_cap(model: Path) -> None:
    """Sampled where the policy of then gave each token e^-6: today's weight is exp(score + 6), at most 2."""

    async def main() -> tuple[dict[str, float], list[Datum], tuple[tuple[float, ...], ...]]:
        engine = Listening(open_engine(model))
        late = [sample(f"designer/{number}", 0.5, "designer", delayed=True) for number in range(4)]
        shifted = [
            replace(one, logprobs_T=tuple(logprob - shift if logprob else 0.0 for logprob in one.logprobs_T))
            for one, shift in zip(await on_policy(engine.engine, late), (0.0, 0.1, -0.1, 3.0), strict=True)
        ]
        found = await update_policy(engine, shifted, LEARNING, 0, 0)
        return found, engine.first, await open_engine(model).score(engine.first)

    found, first, scores = asyncio.run(main())
    weights = [1.0, math.exp(0.1), math.exp(-0.1), 2.0]
    assert found["learning/tis_weight"] == pytest.approx(sum(weights) / 4, rel=1e-4)
    assert found["learning/tis_capped_share"] == pytest.approx(0.25)
    for datum, proximal in zip(first, scores, strict=True):
        assert datum.logprobs_T == pytest.approx(proximal, abs=1e-5)
        assert any(datum.advantages_T[-1] == pytest.approx(0.5 * weight, rel=1e-4) for weight in weights)
    assert "learning/ratio" not in found


def test_the_penalty_pulls_towards_the_starting_policy_and_is_measured(model: Path) -> None:
    """At the start the divergence is 0; after an update it is not."""

    async def main() -> list[dict[str, float]]:
        learning = LEARNING.model_copy(update={"kl_coefficient": 0.5})
        engine = open_engine(model, learning)
        return [
            await update_policy(engine, await on_policy(engine, SAMPLES), learning, 0, iteration)
            for iteration in range(2)
        ]

    first, second = asyncio.run(main())
    assert first["learning/kl"] == pytest.approx(0.0, abs=1e-6)
    assert second["learning/kl"] > 1e-6


@dataclass
class Listening:
    """An engine that keeps what the first minibatch was trained on."""

    engine: LocalEngine
    first: list[Datum] = field(default_factory=list)

    @property
    def policy_version(self) -> int:
        return self.engine.policy_version

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        return await self.engine.score(data, reference=reference)

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        self.first = self.first or list(data)
        return await self.engine.forward_backward(data, loss)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        return await self.engine.optim_step(learning_rate)
