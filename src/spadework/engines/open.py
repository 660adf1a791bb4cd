"""Opening the engine that a configuration names. torch is imported only here and below."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spadework.config import Config

if TYPE_CHECKING:
    from spadework.engines.local.engine import LocalEngine


class MissingExtra(ImportError):
    """An optional dependency is not installed; the message has the install line."""


def open_engine(config: Config, model_dir: Path) -> LocalEngine:
    """The engine of ``config`` with the model in ``model_dir`` (the resolved ``config.model.path``).

    Raises MissingExtra without torch or transformers, and ModelUnusable for a directory that does not fit.
    """
    try:
        from spadework.engines.local.engine import LocalEngine
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("torch", "transformers", "safetensors"):
            raise
        message = f"the local engine needs {error.name}, which is not installed: pip install 'spadework[train]'"
        raise MissingExtra(message) from error
    return LocalEngine.open(model_dir, config.engine, config.model, config.learning)
