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

    Raises MissingExtra without torch or transformers, and what `LocalEngine.open` raises.
    """
    try:
        from spadework.engines.local.engine import LocalEngine

        return LocalEngine.open(model_dir, config.engine, config.model, config.learning, config.seed)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("torch", "transformers", "safetensors", "peft"):
            raise
        message = f"the local engine needs {error.name}, which is not installed: pip install 'spadework[train]'"
        raise MissingExtra(message) from error
