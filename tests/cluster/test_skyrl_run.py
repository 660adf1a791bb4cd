"""The whole loop at a real server: designs, plays, updates, checkpoints, and going on after the server was ended."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import transformers
from half_scripted import HalfScripted
from selfplay_world import save_corpus
from skyrl_world import Server, tinker_config

from spadework.config import Config
from spadework.engines.open import open_engine
from spadework.engines.tinker.engine import TinkerEngine
from spadework.progress import Silent
from spadework.roles.choosing import open_rendering
from spadework.selfplay import TrainingSummary, train
from spadework.store.metrics import read_metrics
from spadework.store.run_directory import RunDirectory

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def run_config(server: Server, corpus: Path, iterations: int) -> Config:
    return tinker_config(
        server.url,
        server.model,
        seed=2,
        iterations=iterations,
        corpus={"source": str(corpus), "max_tokens": 80},
        designer={"max_tokens": 480, "attempts": 3, "hint_max_tokens": 60},
        agent={"action_format": "raw", "max_turns": 6, "max_reply_tokens": 16, "max_episode_tokens": 400},
        curriculum={"environments": 3, "plays": 6, "round_iterations": 2, "skills_per_round": 1},
        memory={"positives": 1, "negatives": 1, "max_tokens": 100},
        gates={"seeds": 2, "random_plays": 2, "similarity_threshold": 1.0},
        learning={"learning_rate": 1e-3},
    )


def go_on(path: Path, config: Config) -> tuple[TrainingSummary, HalfScripted]:
    model = Path(config.model.path)
    engine = open_engine(config, model)
    assert isinstance(engine, TinkerEngine)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    policy = HalfScripted(engine, open_rendering(tokenizer, model, thinking=False))
    with RunDirectory.create_or_open(path, config) as run:
        rendering = policy.rendering
        return asyncio.run(train(run, config, policy, Silent(), rendering=rendering, tensorboard=False)), policy


def test_a_run_learns_at_the_server_and_goes_on_after_the_server_was_started_again(
    server: Server, tmp_path: Path
) -> None:
    corpus, path = save_corpus(tmp_path / "corpus.jsonl"), tmp_path / "run"
    server.restart()  # other tests may have taken all of its slots
    summary, policy = go_on(path, run_config(server, corpus, 2))
    assert summary.first_iteration == 0 and policy.own_replies > 10
    server.restart()
    summary, _ = go_on(path, run_config(server, corpus, 4))
    assert summary.first_iteration == 2
    rows = read_metrics(path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3]
    # Two minibatches an iteration, each with a part of every role.
    assert [row["policy_version"] for row in rows] == [2, 4, 6, 8] and summary.policy_version == 8
    for row in rows:
        assert row["learning/skipped"] == 0 and row["learning/grad_norm"] > 0
        assert row["learning/agent_tokens"] > 0
        assert row["learning/logprob_mismatch_max"] < 1e-3, "sampler and trainer agree"
        assert row["learning/ratio"] == pytest.approx(1.0, abs=1e-3)
        assert not row.keys() & {"learning/weights_checksum", "learning/agent_grad_norm"}
    assert sum(row["learning/designer_tokens"] for row in rows) > 0
    kept = sorted(path.glob("checkpoints/*/weights/tinker.json"))
    assert [json.loads(file.read_text())["policy_version"] for file in kept] == [6, 8]
