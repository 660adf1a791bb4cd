"""AdamW in float32 with a global clip that refuses gradients that are not finite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

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

    Matrices decay; vectors (norms, biases) do not. Without ``max_grad_norm`` nothing is clipped. Gradients, moments and
    the weights that are stepped are float32: a parameter of another type has a master weight here, which it is rounded
    from after every step.
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
        self._masters = {name: _master(parameter) for name, parameter in self._parameters.items()}
        self._max_grad_norm = max_grad_norm
        self._accumulated: list[Tensor] | None = None
        self._widened: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            if parameter.dtype is not torch.float32:
                parameter.register_post_accumulate_grad_hook(partial(self._widen, name))  # type: ignore[no-untyped-call]
        matrices = [value for value in self._masters.values() if value.ndim >= 2]
        vectors = [value for value in self._masters.values() if value.ndim < 2]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        self._adam = torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0, betas=betas)

    @property
    def has_gradient(self) -> bool:
        return self._accumulated is not None

    @property
    def weights(self) -> Mapping[str, torch.nn.Parameter]:
        """What is stepped, float32, by name: the parameters themselves or their master weights."""
        return self._masters

    def accumulate(self) -> float:
        """Move the parameters' gradients into the accumulated one; the norm of what was moved."""
        moved = [self._take(name, parameter) for name, parameter in self._parameters.items()]
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
        self._widened.clear()
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
        for master, value in zip(self._masters.values(), gradient, strict=True):
            master.grad = value.mul_(scale)
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        self._adam.step()
        for master in self._masters.values():
            master.grad = None
        self.round_masters()
        return Step(norm, applied=True)

    def round_masters(self) -> None:
        """Copy master weights into the parameters that they stand for."""
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                if parameter is not self._masters[name]:
                    parameter.copy_(self._masters[name])

    def state(self) -> dict[str, Tensor]:
        """Both moments and the step count of every parameter, by name; empty before the first step."""
        found: dict[str, Tensor] = {}
        for name, master in self._masters.items():
            for key, value in self._adam.state.get(master, {}).items():
                found[f"{key}.{name}"] = value.detach().to("cpu", copy=True)
        return found

    def fits(self, state: Mapping[str, Tensor]) -> bool:
        """Whether ``state`` belongs to these parameters."""
        expected = {f"{key}.{name}": value.shape for name, value in self._masters.items() for key in MOMENTS}
        expected |= {f"step.{name}": torch.Size(()) for name in self._masters}
        return not state or {key: value.shape for key, value in state.items()} == expected

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave, which must fit; the accumulated gradient is dropped."""
        self._accumulated = None
        self._adam.state.clear()
        for name, master in self._masters.items():
            if state:
                moments = {key: state[f"{key}.{name}"].to(master.device, copy=True) for key in MOMENTS}
                self._adam.state[master] = {"step": state[f"step.{name}"].clone(), **moments}

    def _widen(self, name: str, parameter: Tensor) -> None:
        """Move what one backward pass left on a parameter into its float32 sum over passes."""
        assert parameter.grad is not None
        gradient, parameter.grad = parameter.grad.float(), None
        known = self._widened.get(name)
        self._widened[name] = gradient if known is None else known.add_(gradient)

    def _take(self, name: str, parameter: torch.nn.Parameter) -> Tensor:
        found = self._widened.get(name) if parameter.dtype is not torch.float32 else parameter.grad
        return torch.zeros_like(self._masters[name]) if found is None else found


def _master(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    if parameter.dtype is torch.float32:
        return parameter
    return torch.nn.Parameter(parameter.detach().float())


def _norm(gradients: list[Tensor]) -> float:
    return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in gradients])))
