"""Where a model lies and in which precision it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class DeviceUnavailable(ValueError):
    """A device or precision that this machine, or this installation of torch, does not have."""


@dataclass(frozen=True)
class Placement:
    """``dtype`` is that of weights and activations. Whatever it is, the optimiser computes in float32."""

    device: torch.device
    dtype: torch.dtype


def place(device: Literal["auto", "cpu", "cuda", "mps"], dtype: Literal["auto", "float32", "bfloat16"]) -> Placement:
    """What ``engine.device`` and ``engine.dtype`` come to here. Raises DeviceUnavailable with the remedy.

    `auto` takes CUDA, then MPS, then the CPU, and bfloat16 on CUDA alone.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if device == "cuda" and not cuda:
        raise DeviceUnavailable(f"engine.device is cuda, but {_no_cuda()}, or set engine.device=cpu")
    if device == "mps" and not mps:
        raise DeviceUnavailable(
            "engine.device is mps, but torch finds no Apple GPU on this machine; set engine.device=auto or cpu"
        )
    kind = device if device != "auto" else "cuda" if cuda else "mps" if mps else "cpu"
    if kind == "mps" and dtype == "bfloat16":
        raise DeviceUnavailable(
            "engine.dtype is bfloat16, but on MPS the local engine computes in float32 alone; set engine.dtype=auto"
        )
    if kind == "cuda" and dtype == "bfloat16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise DeviceUnavailable(
            f"engine.dtype is bfloat16, but {torch.cuda.get_device_name()} has no bfloat16; set engine.dtype=float32"
        )
    return Placement(torch.device(kind), _automatic(kind) if dtype == "auto" else DTYPES[dtype])


def _automatic(kind: str) -> torch.dtype:
    if kind == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32


def _no_cuda() -> str:
    if torch.version.cuda is None:
        return f"the installed torch {torch.__version__} is built without CUDA; install a CUDA build of torch"
    return "torch finds no NVIDIA GPU on this machine; check `nvidia-smi` and the driver"
