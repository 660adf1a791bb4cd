from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from spadework.config import EngineConfig, LearningConfig, ModelConfig
from spadework.engines.base import Datum
from spadework.engines.local.engine import LocalEngine
from spadework.learning.loss import PolicyLoss

VOCABULARY = 60
SETTINGS = PolicyLoss()
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def save_tiny_model(directory: Path, kind: str, *, tied: bool = True) -> Path:
    """A random model of two layers with a word-level tokenizer; its weights are large enough to have opinions."""
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.15,
        "tie_word_embeddings": tied,
    }
    config = transformers.Qwen3Config(**sizes, head_dim=16) if kind == "qwen3" else transformers.LlamaConfig(**sizes)
    torch.manual_seed(1)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1", unk_token="w0")
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(directory)
    return directory


def open_tiny(
    directory: Path,
    *,
    sample_batch: int = 512,
    train_tokens: int = 256,
    engine: Mapping[str, object] | None = None,
    model: Mapping[str, object] | None = None,
    **learning: object,
) -> LocalEngine:
    return LocalEngine.open(
        directory,
        EngineConfig(sample_batch=sample_batch, train_tokens=train_tokens, threads=1, **(engine or {})),
        ModelConfig(**{"path": str(directory), "max_context_tokens": 200, **(model or {})}),
        LearningConfig(**{"learning_rate": 1e-3, **learning}),
    )


def some_data(count: int = 6, seed: int = 0) -> list[Datum]:
    """Ragged sequences with several spans of sampled tokens, off-policy enough for the clip to act."""
    draws = np.random.default_rng(seed)
    data = []
    for number in range(count):
        length = int(draws.integers(4, 60))
        sampled = draws.random(length) < 0.4
        sampled[0], sampled[-1] = False, True
        advantages = np.where(sampled, draws.normal(size=length), 0.0)
        data.append(
            Datum(
                token_ids_T=tuple(draws.integers(2, VOCABULARY, length).tolist()),
                weights_T=tuple(np.where(sampled, 0.01, 0.0).tolist()),
                logprobs_T=tuple(np.where(sampled, draws.normal(-4, 1, length), 0.0).tolist()),
                advantages_T=tuple(advantages.tolist()),
                temperature=(1.0, 0.7)[number % 2],
            )
        )
    return data
