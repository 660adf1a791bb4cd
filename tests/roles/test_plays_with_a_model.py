"""A real model, a real sandbox and the local engine: what is recorded is what the model sampled."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from families import FAMILIES
from guessing_game import GUESS
from small_tokenizers import CHATML, build_tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

from spadework.config import AgentConfig, EngineConfig, LearningConfig, ModelConfig
from spadework.engines.base import Datum
from spadework.engines.local.engine import LocalEngine
from spadework.roles.agent import EpisodeRequest, Player
from spadework.roles.choosing import open_rendering
from spadework.roles.episode import Arm
from spadework.roles.plays import Played, play_all
from spadework.roles.prompts import full
from spadework.sandbox import Sandbox

CONTEXT = 512


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer(CHATML)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        # Opinions, the strongest of them on when to stop: replies differ in length and many end.
        model.lm_head.weight *= 20
        model.lm_head.weight[tokenizer.convert_tokens_to_ids("<|im_end|>")] *= 4
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


PLAIN_TALK = Player(
    rendering=open_rendering(build_tokenizer(CHATML), "local", False),
    prompts=full,
    config=AgentConfig(temperature=0.8, max_reply_tokens=24),
    max_context_tokens=CONTEXT,
    run_seed=3,
)
THINKING = replace(
    PLAIN_TALK,
    rendering=open_rendering(FAMILIES["Nemotron-3 thinking"].tokenizer(), "local", True),
    config=AgentConfig(temperature=0.8, max_reply_tokens=24, thinking=True, max_thinking_tokens=6),
)
IN_TWO_REQUESTS = replace(THINKING, rendering=open_rendering(FAMILIES["Qwen3 thinking"].tokenizer(), "local", True))
"""The model opens thinking seldom: what goes on behind the budget of thinking is the reply itself."""
each_player = pytest.mark.parametrize(
    "player", [PLAIN_TALK, THINKING, IN_TWO_REQUESTS], ids=["plain", "thinking within a budget", "in two requests"]
)


def play(model_dir: Path, player: Player) -> tuple[Played, tuple[tuple[float, ...], ...]]:
    requests = [
        EpisodeRequest("guess", GUESS, arm, seed, "Halve the range." if arm is Arm.HINTED else None)
        for arm in Arm
        for seed in range(12)
    ]

    async def main() -> tuple[Played, tuple[tuple[float, ...], ...]]:
        engine = LocalEngine.open(
            model_dir, EngineConfig(threads=1), ModelConfig(max_context_tokens=CONTEXT), LearningConfig()
        )
        async with Sandbox() as sandbox:
            played = await play_all(requests, engine, sandbox, player)
        data = [
            Datum(
                token_ids_T=episode.token_ids_T,
                weights_T=tuple(float(flag) for flag in episode.sampled_T),
                logprobs_T=episode.logprobs_T,
                advantages_T=(0.0,) * len(episode.token_ids_T),
                temperature=player.config.temperature,
            )
            for episode in played.episodes
        ]
        return played, await engine.score(data)

    return asyncio.run(main())


@each_player
def test_the_trainer_scores_the_recorded_stream_as_the_sampler_did(model_dir: Path, player: Player) -> None:
    played, scored = play(model_dir, player)
    assert max(len(episode.turns) for episode in played.episodes) >= 3
    ended = [turn.thinking_ended for episode in played.episodes for turn in episode.turns]
    assert any(ended) or player is not THINKING
    assert not all(ended) or player is THINKING
    for episode, logprobs in zip(played.episodes, scored, strict=True):
        assert any(episode.sampled_T)
        assert logprobs == pytest.approx(episode.logprobs_T, abs=1e-4)


@each_player
def test_equal_seeds_play_equal_episodes(model_dir: Path, player: Player) -> None:
    assert play(model_dir, player)[0] == play(model_dir, player)[0]
