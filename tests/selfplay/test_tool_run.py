"""A whole tool-use run in small: a script designs back ends and works in them, everything else is real."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import transformers
from selfplay_world import NAMES, Trained, open_policy, run_once, save_corpus, save_model, small_config
from tool_templates import QWEN25_TOOLS

from spadework.config import TOOL_SKILLS, Config
from spadework.engines.base import SamplingParams
from spadework.environment.tool_calls import decode_observation
from spadework.roles.episode import Arm, Episode
from spadework.roles.rendering import RenderingRefused
from spadework.seeding import generator
from spadework.store.reader import PoolReader

DESK = (Path(__file__).parent.parent / "programs" / "tools_sound" / "ticket_desk.py").read_text()
HINT = "Look the record up by its owner first, then change its status, and charge what the lookup told you."


def script(prompt: str, params: SamplingParams) -> str:
    """One program in four is a game; one reply in six cannot be read, one charge in four is too much."""
    asked = prompt.split("<|im_start|>user\n")[1]
    rng = generator(params.seed, "script")
    if asked.startswith("hint:"):
        return HINT
    if asked.startswith("design "):
        name = NAMES[int(rng.integers(len(NAMES)))]
        source = DESK.replace("Ticket", name.title()).replace("ticket", name)
        if rng.random() < 1 / 4:
            source = "class AEnv:\n    def reset(self, seed=None): ...\n    def step(self, action): ...\n"
        return f"```python\n{source}```"
    if rng.random() < 1 / 6:
        return "<tool_call>\n{'name': 'look'}\n</tool_call>"
    owner = re.search(r"Close the (\w+) of (\w+)\.", prompt)
    assert owner is not None
    found = re.search(rf"{owner[1].title()} (T\d+), fee (\d+)\.", prompt)
    if found is None:
        return call(f"find_{owner[1]}", owner=owner[2])
    if "Then charge its fee." not in prompt:
        return call("set_status", code=found[1], status="closed")
    return call("charge", code=found[1], amount=int(found[2]) + int(rng.random() < 1 / 4))


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    place = tmp_path_factory.mktemp("tools")
    schema = '{"type": "function", "function": {"name": "", "description": "", "parameters": {"type": "object", '
    model = save_model(place / "model", (DESK, QWEN25_TOOLS, schema), vocabulary=1200)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = QWEN25_TOOLS
    tokenizer.save_pretrained(model)
    agent = {"action_format": "tool_call", "train_malformed_calls": False, "max_turns": 5, "max_reply_tokens": 120}
    return small_config(
        model,
        save_corpus(place / "corpus.jsonl"),
        iterations=3,
        agent={**agent, "max_episode_tokens": 2000},
        curriculum={"environments": 2, "skills": TOOL_SKILLS},
        designer={"max_tokens": 1800, "attempts": 5},
        memory={"enabled": False},
    )


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "run"


@pytest.fixture(scope="module")
def trained(config: Config, run_path: Path) -> Trained:
    return run_once(run_path, config, open_policy(config, script))


def episodes(path: Path) -> list[Episode]:
    with PoolReader.open(path / "pool.sqlite") as pool:
        ids = [environment.id for round_ in (0, 1) for environment in pool.environments(round_)]
        rows = [one.row for id_ in ids for one in pool.episodes(id_, Arm.PLAIN)]
        return [pool.episode(row).episode for row in rows]


def test_environments_are_designed_played_and_learnt_from(trained: Trained, run_path: Path) -> None:
    with PoolReader.open(run_path / "pool.sqlite") as pool:
        counts = pool.attempt_counts()
    assert counts["accepted", None] == 4
    assert trained.rows[0]["agent/plain_return"] > 0
    assert trained.summary.policy_version > 0
    assert {row["environments/faults"] for row in trained.rows} == {0}


def test_calls_are_counted(trained: Trained) -> None:
    assert all(row["agent/calls"] >= 3 for row in trained.rows)
    assert any(0 < row["agent/malformed_calls"] < 0.5 for row in trained.rows)


def test_requests_arrive_one_after_the_other(trained: Trained, run_path: Path) -> None:
    won = [episode for episode in episodes(run_path) if episode.turns[-1].reward == 1.0]
    assert won
    for episode in won:
        first, *later = [turn.observation for turn in episode.turns]
        assert "charge its fee" not in "".join(decode_observation(first, first=True).told)
        assert any("Then charge its fee." in decode_observation(text).told for text in later)


def test_replies_with_malformed_calls_are_not_trained_where_the_setting_says_so(
    trained: Trained, config: Config
) -> None:
    decode = trained.policy.rendering.decode
    texts = [
        decode([token for token, weight in zip(datum.token_ids_T, datum.weights_T, strict=True) if weight > 0])
        for data in trained.policy.trained
        for datum in data
    ]
    assert any('"name": "charge"' in text for text in texts)
    assert not any("{'name': 'look'}" in text for text in texts)


def test_a_template_without_tools_is_refused_before_anything_is_designed(config: Config, tmp_path: Path) -> None:
    model = config.model.model_copy(update={"path": str(save_model(tmp_path / "model"))})
    plain = config.model_copy(update={"model": model})
    with pytest.raises(RenderingRefused, match="does not show schemas of tools"):
        run_once(tmp_path / "run", plain, open_policy(plain, script))
