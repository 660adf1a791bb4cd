"""Opening the model that a configuration names: its directory, its tokenizer's rendering, its engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from spadework.cli.errors import Refused

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.engines.local.engine import LocalEngine
    from spadework.roles.rendering import Rendering, Tokenizer

SEED = "seed"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def model_folder(path: str) -> Path:
    """The directory of `model.path`. Raises SeedModelMissing and Refused."""
    return present_folder(path)


def present_folder(path: str) -> Path:
    """The directory of `model.path` if it is on this machine, perhaps in the hub's cache; nothing is fetched.

    Raises SeedModelMissing and Refused.
    """
    from spadework.seedmodel.shipped import model_directory

    if path == SEED:
        return model_directory()
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise Refused(f"the model {path} is a file; set model.path to the directory of a model, or to `{SEED}`")
    if _HUB_NAME.fullmatch(path) is None:
        raise Refused(f"the model {path} does not exist; set model.path to the directory of a model, or to `{SEED}`")
    cached = _in_hub_cache(path)
    if cached is None:
        raise Refused(
            f"the model {path} does not exist as a directory and is not in the hub's cache on this machine; fetch it "
            f"with `hf download {path}`, or set model.path to the directory of a model, or to `{SEED}`"
        )
    return cached


def open_model(config: Config) -> tuple[LocalEngine, Rendering]:
    """Raises Refused, SeedModelMissing, MissingExtra, RenderingRefused and ModelUnusable."""
    from spadework.engines.open import open_engine
    from spadework.roles.rendering import open_rendering

    folder = model_folder(config.model.path)
    rendering = open_rendering(open_tokenizer(folder), model_name(config, folder), config.agent.thinking)
    return open_engine(config, folder), rendering


def model_name(config: Config, folder: Path) -> str:
    """What the model in ``folder`` is called: by its name on the hub renderers know it."""
    return str(folder) if config.model.path == SEED else config.model.path


def _in_hub_cache(name: str) -> Path | None:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ModuleNotFoundError:
        return None  # it comes with transformers, whose absence is told where it is needed
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


def open_tokenizer(folder: Path) -> Tokenizer:
    """Raises Refused and MissingExtra."""
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
