"""AdamW with a global clip that refuses gradients that are not finite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Step:
    """``grad_norm`` is the norm before the clip."""

    grad_norm: float
    applied: bool


class Optimiser:
    """Accumulates gradients and applies them.

    Matrices decay; vectors (norms, biases) do not. Without ``max_grad_norm`` nothing is clipped.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        *,
        betas: tuple[float, float],
        weight_decay: float,
        max_grad_norm: float | None,
    ) -> None:
        self._parameters = dict(parameters)
        self._max_grad_norm = max_grad_norm
        self._accumulated: list[Tensor] | None = None
        matrices = [value for value in self._parameters.values() if value.ndim >= 2]
        vectors = [value for value in self._parameters.values() if value.ndim < 2]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        self._adam = torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0, betas=betas)

    @property
    def has_gradient(self) -> bool:
        return self._accumulated is not None

    def accumulate(self) -> float:
        """Move the parameters' ``grad`` into the accumulated gradient; the norm of what was moved."""
        moved = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters.values()]
        self.drop_grads()
        norm = _norm(moved)
        if self._accumulated is None:
            self._accumulated = moved
        else:
            for total, part in zip(self._accumulated, moved, strict=True):
                total.add_(part)
        return norm

    def drop_grads(self) -> None:
        """Forget what is on the parameters (of a pass that failed half-way, for instance)."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def step(self, learning_rate: float) -> Step:
        """Apply and clear the accumulated gradient, clipped to the norm limit.

        A gradient that is not finite is cleared too, but changes neither weights nor moments. Raises ValueError if
        there is none.
        """
        if self._accumulated is None:
            raise ValueError("no gradient to apply: call forward_backward before optim_step")
        gradient, self._accumulated = self._accumulated, None
        norm = _norm(gradient)
        if not norm < float("inf"):
            return Step(norm, applied=False)
        limit = self._max_grad_norm
        scale = min(1.0, limit / norm) if limit is not None and norm > 0 else 1.0
        for parameter, value in zip(self._parameters.values(), gradient, strict=True):
            parameter.grad = value.mul_(scale)
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        self._adam.step()
        self.drop_grads()
        return Step(norm, applied=True)

    def state(self) -> dict[str, Tensor]:
        """Both moments and the step count of every parameter, by name; empty before the first step."""
        found: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            for key, value in self._adam.state.get(parameter, {}).items():
                found[f"{key}.{name}"] = value.detach().clone()
        return found

    def fits(self, state: Mapping[str, Tensor]) -> bool:
        """Whether ``state`` belongs to these parameters."""
        expected = {f"{key}.{name}": value.shape for name, value in self._parameters.items() for key in MOMENTS}
        expected |= {f"step.{name}": torch.Size(()) for name in self._parameters}
        return not state or {key: value.shape for key, value in state.items()} == expected

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave, which must fit; the accumulated gradient is dropped."""
        self._accumulated = None
        self._adam.state.clear()
        for name, parameter in self._parameters.items():
            if state:
                self._adam.state[parameter] = {key: state[f"{key}.{name}"].clone() for key in ("step", *MOMENTS)}


def _norm(gradients: list[Tensor]) -> float:
    return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in gradients])))
