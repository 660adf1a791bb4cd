from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import transformers
from tiny_models import VOCABULARY, open_tiny, save_tiny_model

from spadework.config import Config
from spadework.engines.local.engine import LocalEngine
from spadework.engines.local.model import ModelUnusable
from spadework.engines.open import open_engine


def test_a_configuration_opens_the_local_engine(tiny_qwen3: Path) -> None:
    config = Config.model_validate({"model": {"max_context_tokens": 100}, "engine": {"threads": 1}})
    engine = open_engine(config, tiny_qwen3)
    assert isinstance(engine, LocalEngine)
    assert (engine.max_context_tokens, engine.policy_version) == (100, 0)


def test_importing_the_opener_does_not_import_torch_and_a_missing_torch_is_one_sentence() -> None:
    program = """
import sys
from pathlib import Path
from spadework.config import Config
from spadework.engines.open import MissingExtra, open_engine
assert "torch" not in sys.modules and "transformers" not in sys.modules
sys.modules["torch"] = None
try:
    open_engine(Config(), Path("nowhere"))
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "the local engine needs torch, which is not installed: pip install 'spadework[train]'\n"


def changed(source: Path, target: Path, **config: object) -> Path:
    shutil.copytree(source, target)
    path = target / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return target


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match="not a directory"):
        open_tiny(tmp_path / "nowhere")


def test_a_context_longer_than_the_model_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match="at most 128 tokens"):
        open_tiny(changed(tiny_qwen3, tmp_path / "model", max_position_embeddings=128))


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    directory = changed(tiny_qwen3, tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    tokenizer.add_tokens(["<one more>"])
    tokenizer.save_pretrained(directory)
    with pytest.raises(ModelUnusable, match="has 61 tokens but the model only 60; use the tokenizer that belongs"):
        open_tiny(directory)


def test_a_model_with_a_sliding_window_is_refused_before_it_is_trained_wrongly(
    tiny_qwen3: Path, tmp_path: Path
) -> None:
    directory = changed(
        tiny_qwen3,
        tmp_path / "model",
        use_sliding_window=True,
        sliding_window=64,
        max_window_layers=0,
        layer_types=["sliding_attention", "sliding_attention"],
    )
    with pytest.raises(ModelUnusable, match="64 tokens"):
        open_tiny(directory)


def test_a_model_that_transforms_its_logits_is_refused(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path, "llama")
    config = transformers.CohereConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        logit_scale=0.25,
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    with pytest.raises(ModelUnusable, match="CohereForCausalLM"):
        open_tiny(directory)


def test_a_model_whose_rotary_embedding_changes_with_the_length_is_refused(tiny_qwen3: Path, tmp_path: Path) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    with pytest.raises(ModelUnusable, match="dynamic"):
        open_tiny(changed(tiny_qwen3, tmp_path / "model", rope_parameters=rope))
