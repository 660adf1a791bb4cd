"""The local engine's own update code with the adapter of a service in its model: what the service should compute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.utils import parametrize

from spadework.engines.base import Datum
from spadework.engines.local import update
from spadework.engines.local.model import Model, open_model
from spadework.engines.local.placement import place
from spadework.learning.loss import PolicyLoss

TOKENS = 4096


class Adapter(torch.nn.Module):
    """W + scale * B A, with A and B to be trained."""

    def __init__(self, a: Tensor, b: Tensor, scale: float) -> None:
        super().__init__()
        self.a, self.b, self.scale = torch.nn.Parameter(a.clone()), torch.nn.Parameter(b.clone()), scale

    def pair(self) -> tuple[Tensor, Tensor]:
        return self.a.detach(), self.b.detach()

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.scale * self.b @ self.a


class LocalWithAdapter:
    """The model of ``directory``, frozen, with the adapter that `TinkerEngine.export` wrote to ``adapter``."""

    def __init__(self, directory: Path, adapter: Path, *, context: int, alpha: float) -> None:
        self.model: Model = open_model(directory, context, place("cpu", "float32")).model
        for parameter in self.model.parameters().values():
            parameter.requires_grad_(False)
        self.adapters: dict[str, Adapter] = {}
        for name, (a, b) in read_adapter(adapter).items():
            layer = self.model.network.get_submodule(name)
            self.adapters[name] = Adapter(a, b, alpha / a.shape[0])
            parametrize.register_parametrization(layer, "weight", self.adapters[name])

    def score(self, data: Sequence[Datum]) -> tuple[tuple[float, ...], ...]:
        return update.score(self.model, data, TOKENS)

    def gradient(self, passes: Sequence[Sequence[Datum]], loss: PolicyLoss) -> float:
        """Leave the gradient of our loss over all passes on the adapters; its norm."""
        for parameter in self.parameters():
            parameter.grad = None
        for data in passes:
            update.backward(self.model, data, TOKENS, loss)
        return float(torch.nn.utils.get_total_norm([p.grad for p in self.parameters() if p.grad is not None]))

    def parameters(self) -> list[torch.nn.Parameter]:
        return [parameter for adapter in self.adapters.values() for parameter in (adapter.a, adapter.b)]


def read_adapter(directory: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """A and B by the name of the layer that they change."""
    tensors = load_file(directory / "adapter_model.safetensors")
    found = {}
    for name, a in tensors.items():
        layer, _, kind = name.removeprefix("base_model.model.").partition(".lora_")
        if kind == "A.weight":
            found[layer] = (a.float(), tensors[name.replace("lora_A", "lora_B")].float())
    return found
