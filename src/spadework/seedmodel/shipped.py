"""Where the seed model lies in the installed package."""

from __future__ import annotations

from pathlib import Path

_FILES = Path(__file__).parent / "files"


class SeedModelMissing(Exception):
    """The package was built without the seed model."""


def model_directory() -> Path:
    """The directory that `from_pretrained` loads. Raises SeedModelMissing."""
    if not (_FILES / "model.safetensors").is_file():
        raise SeedModelMissing(
            "the seed model is not part of this installation; build it with `python -m spadework.seedmodel.build`"
        )
    return _FILES
