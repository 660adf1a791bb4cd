from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from tiny_models import CHAT_TEMPLATE, open_tiny
from tokenizers import pre_tokenizers

from spadework.engines.local.gguf import GgufUnusable, converted
from spadework.engines.open import MissingExtra

TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "he", "llo", "<|endoftext|>"]
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def tiny_network() -> torch.nn.Module:
    config = transformers.Qwen2Config(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.15,
        tie_word_embeddings=True,
    )
    torch.manual_seed(1)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def name_in_file(name: str) -> str:
    known = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in known:
        return known[name]
    _, _, layer, rest = name.split(".", 3)
    module, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{NAMES[module]}.{kind}"


def save_gguf(file: Path, network: torch.nn.Module) -> Path:
    """As llama.cpp's converter writes it: matrices of layers in eight bits (Q8_0), the rest in float32."""
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(256)
    writer.add_block_count(2)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([1] * (len(TOKENS) - 1) + [3])
    writer.add_token_merges(["h e", "l l", "ll o"][:1])
    writer.add_eos_token_id(len(TOKENS) - 1)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, parameter in network.named_parameters():
        values = parameter.detach().numpy()
        if name.startswith("model.layers.") and values.ndim == 2:
            eight_bits = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name_in_file(name), gguf.quants.quantize(values, eight_bits), raw_dtype=eight_bits)
        else:
            writer.add_tensor(name_in_file(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_gguf_file_becomes_a_directory_with_its_weights_and_tokenizer(tmp_path: Path) -> None:
    network = tiny_network()
    directory = converted(save_gguf(tmp_path / "tiny.gguf", network))
    assert directory == tmp_path / "tiny.gguf.converted"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf", "tiny.gguf.converted"]
    ids = torch.arange(2, 40).view(2, 19)
    with torch.no_grad():
        expected = network(ids).logits
        found = transformers.AutoModelForCausalLM.from_pretrained(directory)(ids).logits
    assert found.dtype is torch.float32
    # Eight bits round a weight by at most 1/254 of the largest of its block of 32.
    assert 0 < (found - expected).abs().max() < 0.15 * expected.std()
    engine = open_tiny(directory)
    assert engine.vocabulary == len(TOKENS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    assert tokenizer("he").input_ids == [TOKENS.index("he")]
    assert tokenizer.eos_token == "<|endoftext|>"
    assert tokenizer.chat_template == CHAT_TEMPLATE


def test_a_file_is_converted_once_and_again_only_if_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny_network()
    file = save_gguf(tmp_path / "tiny.gguf", network)
    weights = converted(file) / "model.safetensors"
    first = weights.read_bytes()
    with monkeypatch.context() as patch:
        # Nothing is read but the directory: the package is not even needed.
        patch.setitem(sys.modules, "gguf", None)
        assert converted(file) == weights.parent
    assert weights.read_bytes() == first
    with torch.no_grad():
        network.get_input_embeddings().weight.mul_(1.5)
    save_gguf(file, network)
    assert converted(file) == weights.parent
    assert weights.read_bytes() != first


def test_an_interrupted_conversion_is_made_anew(tmp_path: Path) -> None:
    file = save_gguf(tmp_path / "tiny.gguf", tiny_network())
    for name in ("tiny.gguf.unfinished", "tiny.gguf.converted"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{")
    open_tiny(converted(file))
    assert not (tmp_path / "tiny.gguf.unfinished").exists()


def test_without_the_package_the_install_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save_gguf(tmp_path / "tiny.gguf", tiny_network())
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra, match=r"needs gguf, which is not installed: pip install 'spadework\[gguf\]'"):
        converted(file)


@pytest.mark.parametrize("kept", [0, 3, 2000])
def test_a_damaged_file_is_named(tmp_path: Path, kept: int) -> None:
    file = save_gguf(tmp_path / "tiny.gguf", tiny_network())
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(GgufUnusable, match="cannot be converted") as caught:
        converted(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "tiny.gguf.converted").exists()


def test_blocks_of_eight_bits_are_what_the_writer_made(tmp_path: Path) -> None:
    """Guards the test above against a writer that would keep float32."""
    reader = gguf.GGUFReader(save_gguf(tmp_path / "tiny.gguf", tiny_network()))
    kinds = {tensor.tensor_type.name for tensor in reader.tensors}
    assert kinds == {"Q8_0", "F32"}
    assert np.prod(next(t for t in reader.tensors if t.name == "blk.0.attn_q.weight").shape) == 32 * 32
