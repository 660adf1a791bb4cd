"""Weights as a service hands them out, made into a directory that `from_pretrained` loads: an adapter or a model."""

from __future__ import annotations

import json
import shutil
import struct
import tarfile
from pathlib import Path

from spadework.engines.base import EngineFault

ADAPTER, ADAPTER_CONFIG, MODEL_CONFIG = "adapter_model.safetensors", "adapter_config.json", "config.json"
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


def write_weights(archive: Path, directory: Path, base_model: str, model_dir: Path) -> None:
    """Unpack ``archive`` (a tar) into ``directory`` and copy the tokenizer of ``model_dir`` beside it.

    An adapter's configuration is given what services leave out: the base model's name and which modules it changes.
    Raises EngineFault for an archive that holds neither an adapter nor a model.
    """
    try:
        names = _unpack(archive, directory)
        if {ADAPTER, ADAPTER_CONFIG} <= names:
            _complete_adapter(directory, base_model)
        elif MODEL_CONFIG not in names:
            raise ValueError(f"it holds {', '.join(sorted(names)) or 'nothing'}")
    except (tarfile.TarError, EOFError, ValueError, KeyError, struct.error) as error:
        raise EngineFault(
            f"what the service gave as weights is neither an adapter nor a model ({error}); "
            "fetch them with the service's own tools"
        ) from error
    for name in TOKENIZER:
        if (model_dir / name).is_file():
            shutil.copyfile(model_dir / name, directory / name)


def _unpack(archive: Path, directory: Path) -> set[str]:
    """Write every file by its last name: where an archive would put its files is not its business."""
    names: set[str] = set()
    with tarfile.open(archive) as tar:
        for member in tar:
            source = tar.extractfile(member) if member.isfile() else None
            if source is None:
                continue
            name = Path(member.name).name
            if name in names or name == archive.name:
                raise ValueError(f"it holds two files called {name}")
            with source, (directory / name).open("wb") as file:
                shutil.copyfileobj(source, file)
            names.add(name)
    return names


def _complete_adapter(directory: Path, base_model: str) -> None:
    config = json.loads((directory / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    modules = {name.split(".lora_")[0].rpartition(".")[2] for name in _tensor_names(directory / ADAPTER)}
    config["base_model_name_or_path"] = config.get("base_model_name_or_path") or base_model
    config["target_modules"] = config.get("target_modules") or sorted(modules)
    config["task_type"] = config.get("task_type") or "CAUSAL_LM"
    (directory / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _tensor_names(path: Path) -> list[str]:
    """From the header of a safetensors file: its length in 8 bytes, then JSON."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return [name for name in json.loads(file.read(length)) if name != "__metadata__"]
