"""Models in GGUF files: de-quantised once into a directory beside the file, and read from there ever after."""

from __future__ import annotations

import errno
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

from spadework.errors import first_line

SUFFIX = ".gguf"
SOURCE = "source.json"
"""Which file a converted directory was made from; written last."""


class GgufUnusable(ValueError):
    """A GGUF file that cannot be converted; the message says why and what to do."""


def converted(file: Path) -> Path:
    """The directory ``FILE.converted`` with the weights (float32, four bytes each) and the tokenizer of a GGUF file.

    It is made if it is not there, or was made from a file of another size or date; a conversion that was interrupted
    leaves nothing that would be taken for a whole one. Raises MissingExtra and GgufUnusable.
    """
    done = kept(file)
    if done is not None:
        return done
    target = _target(file)
    unfinished = file.with_name(file.name + ".unfinished")
    try:
        for directory in (target, unfinished):
            if directory.exists():
                shutil.rmtree(directory)
        unfinished.mkdir()
    except OSError as error:
        raise GgufUnusable(
            f"{file} cannot be converted beside itself ({error}); move it to a directory that can be written"
        ) from error
    _convert(file, unfinished)
    (unfinished / SOURCE).write_text(json.dumps(_stamp(file)) + "\n", encoding="utf-8")
    unfinished.rename(target)
    return target


def kept(file: Path) -> Path | None:
    """The directory that was made from ``file`` as it is now, or None."""
    target = _target(file)
    return target if _source_of(target) == _stamp(file) else None


def _target(file: Path) -> Path:
    return file.with_name(file.name + ".converted")


def _stamp(file: Path) -> dict[str, int]:
    status = file.stat()
    return {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def _forget_quantisation(network: Any) -> None:
    """Its weights are plain float32 now; a model that remembers how they were stored refuses to be saved."""
    network.hf_quantizer = None
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config


def _source_of(directory: Path) -> object:
    try:
        return json.loads((directory / SOURCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _convert(file: Path, directory: Path) -> None:
    from spadework.engines.open import MissingExtra

    for package, extra in (("transformers", "train"), ("torch", "train"), ("gguf", "gguf")):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"{file} needs {package}, which is not installed: pip install 'spadework[{extra}]'")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from spadework.engines.local.memory import is_full

    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        network: Any = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, local_files_only=True
        )
        _forget_quantisation(network)
        network.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
    # Damaged files fail in whatever way their bytes happen to mislead the reader.
    except Exception as error:
        if is_full(error):
            raise
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise GgufUnusable(
                f"there is no room to convert {file} beside itself; make some: it takes four bytes a weight"
            ) from error
        raise GgufUnusable(
            f"{file} cannot be converted ({first_line(error)}); take a GGUF file of a model that transformers can "
            "read, or its safetensors"
        ) from error
