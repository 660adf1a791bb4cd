"""A tiny model in a GGUF file."""

from __future__ import annotations

from pathlib import Path

import gguf
import torch
import transformers
from tiny_models import CHAT_TEMPLATE
from tokenizers import pre_tokenizers

TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "he", "<|endoftext|>"]
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


def in_eight_bits(name: str, parameter: torch.Tensor) -> bool:
    return name.startswith("model.layers.") and parameter.ndim == 2


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
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(len(TOKENS) - 1)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, parameter in network.named_parameters():
        values = parameter.detach().numpy()
        if in_eight_bits(name, parameter):
            eight_bits = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name_in_file(name), gguf.quants.quantize(values, eight_bits), raw_dtype=eight_bits)
        else:
            writer.add_tensor(name_in_file(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
