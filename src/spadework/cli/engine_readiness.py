"""Whether the engine that a configuration names can work here: device, adapter and sampler, or service and key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spadework.cli.findings import Finding, Readiness, Verdict, importable, told
from spadework.cli.footprint import FLOAT_BYTES

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.engines.local.placement import Placement

BFLOAT_BYTES = 2
LOOK_TIMEOUT_S = 4.0
"""For a server of the Tinker API to answer in."""


def engine(found: Readiness) -> Iterator[Finding]:
    """Looks at the engine; ``found`` then says where the model will lie, how large its weights are and what is free."""
    if found.config.engine.kind == "tinker":
        yield from _tinker(found.config)
        return
    yield from told("engine", lambda: _placement(found))
    if found.config.model.lora_rank:
        yield from told("adapter", lambda: _adapter(found.config))
    if found.config.engine.sampler == "vllm":
        yield from told("sampler", lambda: _vllm(found.config))


def _placement(found: Readiness) -> Iterator[Finding]:
    from spadework.cli.machine import memory_bytes

    asked = found.config.engine
    wide = asked.dtype == "float32" or (asked.dtype == "auto" and asked.device != "cuda")
    found.weight_bytes = FLOAT_BYTES if wide else BFLOAT_BYTES  # as asked, if it is not to be had here
    found.train_tokens = asked.train_tokens_on("cpu" if asked.device == "auto" else asked.device)
    if not importable("torch"):
        return
    from spadework.engines.local.placement import place

    placement = place(asked.device, asked.dtype)
    found.weight_bytes = placement.dtype.itemsize
    found.train_tokens = asked.train_tokens_on(placement.device.type)
    precision = str(placement.dtype).removeprefix("torch.")
    if placement.device.type == "cuda":
        import torch

        device = torch.cuda.get_device_properties(placement.device)
        found.memory, found.where = device.total_memory, device.name
        yield Finding("engine", Verdict.OK, f"local: {device.name} in {precision}")
        return
    found.memory = memory_bytes()
    yield _threads(found.config, placement, precision)


def _threads(config: Config, placement: Placement, precision: str) -> Finding:
    from spadework.cli.machine import cores

    here = cores()
    threads = config.engine.threads or here
    what = f"local: {placement.device.type.upper()} in {precision}, {threads} of {here} cores"
    if threads > here:
        return Finding("engine", Verdict.NOTE, f"{what}; engine.threads above the number of cores slows it down")
    return Finding("engine", Verdict.OK, what)


def _adapter(config: Config) -> Iterator[Finding]:
    from spadework.engines.open import MissingExtra

    model = config.model
    if not importable("peft"):
        raise MissingExtra("the local engine needs peft, which is not installed: pip install 'spadework[train]'")
    if not importable("torch"):
        return
    start = "a new one"
    if model.adapter:
        from spadework.engines.local.adapter import AdapterSettings, described_base

        folder = Path(model.adapter).expanduser()
        settings = AdapterSettings(model.lora_rank, model.lora_alpha, model.lora_targets, config.seed)
        base = described_base(folder, settings)
        start = f"from {folder}, of the base {base}; whether it fits the weights is seen when they are opened"
    yield Finding("adapter", Verdict.OK, f"rank {model.lora_rank}, {start}")


def _vllm(config: Config) -> Iterator[Finding]:
    """Nothing is loaded or sampled."""
    from spadework.engines.vllm.look import require_ready
    from spadework.engines.vllm.server import Server

    server = Server(config.engine.vllm)
    require_ready(config, server, _model_of(config))
    yield Finding(
        "sampler",
        Verdict.OK,
        f"vLLM at {server.url} has {config.engine.vllm.model} and takes adapters; that it computes the same is seen "
        "when one is loaded",
    )


def _model_of(config: Config) -> str:
    """The directory of the model if it is here, else what was written; why it is not is told with the model."""
    from spadework.cli.errors import Refused
    from spadework.cli.opening import present_folder
    from spadework.engines.open import MissingExtra
    from spadework.seedmodel.shipped import SeedModelMissing

    try:
        return str(present_folder(config.model.path))
    except (MissingExtra, Refused, SeedModelMissing):
        return str(Path(config.model.path).expanduser())


def _tinker(config: Config) -> Iterator[Finding]:
    from spadework.engines.open import notes_of

    yield from told("engine", lambda: _possible(config))
    for note in notes_of(config):
        yield Finding("engine", Verdict.NOTE, note)
    yield from told("service", lambda: _service(config))


def _possible(config: Config) -> Iterator[Finding]:
    from spadework.engines.tinker.backends import require_possible

    require_possible(config)
    trained = f"an adapter of rank {config.model.lora_rank}" if config.model.lora_rank else "all weights"
    service = config.engine.tinker
    yield Finding("engine", Verdict.OK, f"tinker: {trained} of {service.model} at the backend {service.backend}")


def _service(config: Config) -> Iterator[Finding]:
    """Nothing is asked that a service may charge for, and no key is sent."""
    from spadework.engines.open import MissingExtra

    if not importable("tinker"):
        raise MissingExtra(
            "the tinker engine needs tinker, which is not installed: pip install 'spadework[train,tinker]'"
        )
    from spadework.engines.tinker.sdk import TinkerService

    service = TinkerService(config.engine.tinker, takes_mask=False)
    service.require_answer(LOOK_TIMEOUT_S)
    yield Finding("service", Verdict.OK, f"{service.url} answers; whether it serves the model is not asked")
