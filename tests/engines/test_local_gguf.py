from __future__ import annotations

import sys
from pathlib import Path

import gguf
import pytest
import torch
import transformers
from gguf_files import TOKENS, in_eight_bits, save_gguf, tiny_network
from tiny_models import CHAT_TEMPLATE, open_tiny

from spadework.engines.local.gguf import GgufUnusable, converted
from spadework.engines.open import MissingExtra


def test_a_gguf_file_becomes_a_directory_with_its_weights_and_tokenizer(tmp_path: Path) -> None:
    network = tiny_network()
    directory = converted(save_gguf(tmp_path / "tiny.gguf", network))
    assert directory == tmp_path / "tiny.gguf.converted"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf", "tiny.gguf.converted"]
    ids = torch.arange(2, 40).view(2, 19)
    with torch.no_grad():
        exact = network(ids).logits
        for name, parameter in network.named_parameters():
            if in_eight_bits(name, parameter):
                kind = gguf.GGMLQuantizationType.Q8_0
                rounded = gguf.quants.dequantize(gguf.quants.quantize(parameter.numpy(), kind), kind)
                parameter.copy_(torch.from_numpy(rounded))
        expected = network(ids).logits
        found = transformers.AutoModelForCausalLM.from_pretrained(directory)(ids).logits
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert (exact - expected).abs().max() > 0.01
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
