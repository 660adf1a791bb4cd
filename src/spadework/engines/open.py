"""Opening the engine that a configuration names. torch and tinker are imported only here and below."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spadework.config import Config
from spadework.engines.base import Engine

if TYPE_CHECKING:
    from spadework.engines.local.engine import LocalEngine
    from spadework.engines.tinker.engine import TinkerEngine
    from spadework.engines.vllm.engine import VllmEngine


class MissingExtra(ImportError):
    """An optional dependency is not installed; the message has the install line."""


def open_engine(config: Config, model_dir: Path) -> Engine:
    """The engine of ``config`` with the model in ``model_dir`` (the resolved ``config.model.path``).

    Raises MissingExtra without the packages that it needs, what `LocalEngine.open` raises, and EngineFault for a
    service that cannot be used.
    """
    if config.engine.kind == "tinker":
        return _open_tinker(config, model_dir)
    return _open_vllm(config, model_dir) if config.engine.sampler == "vllm" else _open_local(config, model_dir)


def notes_of(config: Config) -> tuple[str, ...]:
    """What the person who starts the run must see to, because the engine cannot."""
    if config.engine.kind != "tinker":
        return ()
    from spadework.engines.tinker.backends import notes

    return notes(config)


def _open_local(config: Config, model_dir: Path) -> LocalEngine:
    try:
        from spadework.engines.local.engine import LocalEngine

        return LocalEngine.open(model_dir, config.engine, config.model, config.learning, config.seed)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("torch", "transformers", "safetensors", "peft"):
            raise
        message = f"the local engine needs {error.name}, which is not installed: pip install 'spadework[train]'"
        raise MissingExtra(message) from error


def _open_vllm(config: Config, model_dir: Path) -> VllmEngine:
    from spadework.engines.vllm.look import require_ready
    from spadework.engines.vllm.server import Server

    server = Server(config.engine.vllm)
    require_ready(config, server, str(model_dir))  # before the weights are read, which may take long
    local = _open_local(config, model_dir)
    from spadework.engines.vllm.engine import VllmEngine

    return VllmEngine(config, local, server)


def _open_tinker(config: Config, model_dir: Path) -> TinkerEngine:
    from spadework.engines.tinker.backends import backend_of, require_possible
    from spadework.engines.tinker.engine import TinkerEngine

    require_possible(config)
    try:
        from spadework.engines.tinker.sdk import TinkerService
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "tinker":
            raise
        message = "the tinker engine needs tinker, which is not installed: pip install 'spadework[train,tinker]'"
        raise MissingExtra(message) from error
    service = TinkerService.open(config.engine.tinker, takes_mask=backend_of(config).takes_mask)
    return TinkerEngine.open(config, service, model_dir)
