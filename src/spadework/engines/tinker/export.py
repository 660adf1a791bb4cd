"""An adapter as a service hands it out, made into one that `peft` and `transformers` load."""

from __future__ import annotations

import json
import shutil
import struct
import tarfile
from pathlib import Path

from spadework.engines.base import EngineFault

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)


def write_adapter(archive: Path, directory: Path, base_model: str, model_dir: Path) -> None:
    """Unpack weights and configuration of ``archive`` (a tar) and copy the tokenizer of ``model_dir`` beside them.

    The configuration is given what services leave out: the base model's name and which modules the adapter changes.
    Raises EngineFault for an archive that holds no adapter.
    """
    try:
        with tarfile.open(archive) as tar:
            for name in (WEIGHTS, CONFIG):
                _unpack(tar, name, directory / name)
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        modules = sorted({name.split(".lora_")[0].rpartition(".")[2] for name in _tensor_names(directory / WEIGHTS)})
    except (tarfile.TarError, ValueError, KeyError, struct.error) as error:
        raise EngineFault(
            f"what the service gave as weights is no adapter that can be exported ({error}); "
            "fetch them with the service's own tools"
        ) from error
    config["base_model_name_or_path"] = config.get("base_model_name_or_path") or base_model
    config["target_modules"] = config.get("target_modules") or modules
    config["task_type"] = config.get("task_type") or "CAUSAL_LM"
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in TOKENIZER:
        if (model_dir / name).is_file():
            shutil.copyfile(model_dir / name, directory / name)


def _unpack(tar: tarfile.TarFile, name: str, target: Path) -> None:
    # By its last name only: where an archive would put its files is not its business.
    members = [member for member in tar.getmembers() if member.isfile() and Path(member.name).name == name]
    if len(members) != 1:
        raise KeyError(f"it holds {len(members)} files called {name}")
    source = tar.extractfile(members[0])
    assert source is not None
    with source, target.open("wb") as file:
        shutil.copyfileobj(source, file)


def _tensor_names(path: Path) -> list[str]:
    """From the header of a safetensors file: its length in 8 bytes, then JSON."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return [name for name in json.loads(file.read(length)) if name != "__metadata__"]
