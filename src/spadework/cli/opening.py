"""Opening the model that a configuration names: its directory, its tokenizer's rendering, its engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from spadework.cli.errors import Refused
from spadework.errors import first_line

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.engines.base import Engine
    from spadework.roles.rendering import Rendering, Tokenizer

SEED = "seed"


def model_folder(path: str) -> Path:
    """The directory of `model.path`, converted or downloaded if need be.

    Raises SeedModelMissing, MissingExtra, GgufUnusable, NotFetched and Refused.
    """
    from spadework.engines.local import gguf, hub

    file = Path(path).expanduser()
    if file.is_file() and file.suffix == gguf.SUFFIX:
        return gguf.converted(file)
    if is_on_hub(path):
        return hub.snapshot(path)
    return present_folder(path)


def present_folder(path: str) -> Path:
    """The directory of `model.path` if it is on this machine; nothing is converted or fetched.

    Raises SeedModelMissing, MissingExtra and Refused.
    """
    from spadework.engines.local import gguf, hub
    from spadework.seedmodel.shipped import model_directory

    if path == SEED:
        return model_directory()
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_file() and folder.suffix == gguf.SUFFIX:
        converted = gguf.kept(folder)
        if converted is None:
            raise Refused(f"the model {path} was not converted yet, which its first use does; only then can it be read")
        return converted
    if is_on_hub(path):
        cached = hub.cached(path)
        if cached is None:
            raise Refused(
                f"the model {path} does not exist as a directory and is not whole in the hub's cache on this machine; "
                f"fetch it with `hf download {path}`, or set model.path to the directory of a model, or to `{SEED}`"
            )
        return cached
    what = "is a file" if folder.exists() else "does not exist"
    raise Refused(f"the model {path} {what}; set model.path to the directory of a model, or to `{SEED}`")


def is_on_hub(path: str) -> bool:
    """Whether ``path`` is taken for an id on the hub."""
    from spadework.engines.local import hub

    return path != SEED and not Path(path).expanduser().exists() and hub.ID.fullmatch(path) is not None


def open_model(config: Config) -> tuple[Engine, Rendering]:
    """Raises what `model_folder` and `open_engine` raise, and RenderingRefused."""
    from spadework.engines.open import open_engine
    from spadework.roles.choosing import open_rendering
    from spadework.roles.thinking import require_thinking

    folder = model_folder(config.model.path)
    rendering = open_rendering(open_tokenizer(folder), model_name(config, folder), config.agent.thinking)
    require_thinking(rendering, config.agent)
    return open_engine(config, folder), rendering


def model_name(config: Config, folder: Path) -> str:
    """What the model in ``folder`` is called: by its name on the hub renderers know it."""
    return config.model.path if is_on_hub(config.model.path) else str(folder)


def open_tokenizer(folder: Path) -> Tokenizer:
    """Raises Refused and MissingExtra."""
    from spadework.engines.open import MissingExtra

    try:
        from transformers import AutoTokenizer
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "models need transformers, which is not installed: pip install 'spadework[train]'"
        ) from error
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        raise Refused(f"the model {folder} has no tokenizer; save it there with tokenizer.save_pretrained()")
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise Refused(
            f"the tokenizer in {folder} cannot be loaded ({first_line(error)}); save it again with "
            "tokenizer.save_pretrained()"
        ) from error
    tokenizer.model_max_length = sys.maxsize  # how long a text may be is checked here; it would only be warned of
    return cast("Tokenizer", tokenizer)
