"""Opening the model that a configuration names: its directory, its tokenizer's rendering, its engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from spadework.cli.errors import Refused

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.engines.base import Engine
    from spadework.roles.rendering import Rendering, Tokenizer

SEED = "seed"


def model_folder(path: str) -> Path:
    """The directory of `model.path`. Raises SeedModelMissing and Refused."""
    from spadework.seedmodel.shipped import model_directory

    if path == SEED:
        return model_directory()
    folder = Path(path).expanduser()
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise Refused(f"the model {path} {what}; set model.path to the directory of a model, or to `{SEED}`")
    return folder


def open_model(config: Config) -> tuple[Engine, Rendering]:
    """Raises Refused, SeedModelMissing, MissingExtra, RenderingRefused, ModelUnusable and EngineFault."""
    from spadework.engines.open import open_engine
    from spadework.roles.rendering import open_rendering

    folder = model_folder(config.model.path)
    rendering = open_rendering(_tokenizer(folder), folder, config.agent.thinking)
    return open_engine(config, folder), rendering


def _tokenizer(folder: Path) -> Tokenizer:
    from spadework.engines.open import MissingExtra

    try:
        from transformers import AutoTokenizer
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "models need transformers, which is not installed: pip install 'spadework[train]'"
        ) from error
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")):
        raise Refused(f"the model {folder} has no tokenizer; save it there with tokenizer.save_pretrained()")
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise Refused(
            f"the tokenizer in {folder} cannot be loaded ({first}); save it again with tokenizer.save_pretrained()"
        ) from error
    return cast("Tokenizer", tokenizer)
