"""How services that speak the Tinker API differ where the API says nothing, and what of a configuration they cannot do.

Nothing here is asked of a server, because none tells: the configuration names the backend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spadework.config import Config
from spadework.engines.base import EngineFault


@dataclass(frozen=True)
class Backend:
    """``reduction`` is what becomes of the per-token losses of a step: their sum, or the mean over sequences of each
    sequence's mean over its trained tokens. ``clips`` says whose gradient norm limit holds; ``adam`` whose other
    optimiser settings do. ``trains_everything`` tells whether rank 0 (no adapter) works. ``keeps_base`` tells whether
    the base model stays available for sampling while an adapter is trained. ``takes_mask`` tells whether the clipped
    loss takes a mask of trained tokens; without one, zero advantages alone keep the others out of a sum.
    ``decays_all`` tells whether one adapter's weight decay acts on every adapter of the server.
    """

    reduction: Literal["sum", "mean of means"]
    clips: Literal["request", "never", "server"]
    adam: Literal["request", "server"]
    trains_everything: bool
    keeps_base: bool
    takes_mask: bool
    decays_all: bool = False


BACKENDS = {
    "hosted": Backend("sum", "request", "request", trains_everything=False, keeps_base=True, takes_mask=False),
    "skyrl-jax": Backend(
        "mean of means", "never", "request", trains_everything=False, keeps_base=True, takes_mask=True, decays_all=True
    ),
    "skyrl-fsdp": Backend("sum", "server", "server", trains_everything=True, keeps_base=False, takes_mask=True),
    "skyrl-megatron": Backend("sum", "server", "server", trains_everything=True, keeps_base=False, takes_mask=True),
}


def backend_of(config: Config) -> Backend:
    return BACKENDS[config.engine.tinker.backend]


def require_possible(config: Config) -> None:
    """Raises EngineFault for the first setting that the backend would ignore or cannot do."""
    name, backend, learning = config.engine.tinker.backend, backend_of(config), config.learning
    if not config.engine.tinker.model:
        raise EngineFault("engine.tinker.model is empty; set it to the base model's name at the service")
    if config.engine.tinker.base_url is None and name != "hosted":
        raise EngineFault(
            f"engine.tinker.base_url is none, but engine.tinker.backend {name} is a server of your own; "
            "set it to the server's address, such as http://127.0.0.1:8000"
        )
    for setting, temperature in (
        ("agent.temperature", config.agent.temperature),
        ("designer.temperature", config.designer.temperature),
    ):
        if temperature != 1:
            raise EngineFault(
                f"{setting} is {temperature:g}, but services of the Tinker API score at temperature 1 whatever a token "
                f"was sampled at; set {setting}=1 or train with the local engine"
            )
    if backend.clips == "never" and learning.max_grad_norm is not None:
        raise EngineFault(
            f"learning.max_grad_norm is {learning.max_grad_norm:g}, but the backend {name} never clips gradients; "
            "set learning.max_grad_norm=none"
        )
    if backend.clips == "server" and learning.max_grad_norm is None:
        raise EngineFault(
            f"learning.max_grad_norm is none, but the backend {name} always clips gradients; "
            "set it to the limit that the server was started with"
        )
    if config.model.lora_rank == 0 and not backend.trains_everything:
        raise EngineFault(
            f"model.lora_rank is 0, but the backend {name} trains adapters only; set it to at least 1, 32 for example"
        )
    if learning.kl_coefficient > 0 and not backend.keeps_base:
        raise EngineFault(
            f"learning.kl_coefficient is {learning.kl_coefficient:g}, but the backend {name} may sample the trained "
            "weights under the base model's name, so there is no reference to score with; set it to 0"
        )


def notes(config: Config) -> tuple[str, ...]:
    """What the person who starts the run must see to, because the service can neither be told nor asked."""
    backend, learning = backend_of(config), config.learning
    found = []
    if backend.adam == "server":
        betas = ", ".join(f"{beta:g}" for beta in learning.betas)
        found.append(
            f"the server's own weight decay, betas and gradient norm limit apply, not learning.weight_decay "
            f"({learning.weight_decay:g}), learning.betas ({betas}) and learning.max_grad_norm "
            f"({learning.max_grad_norm:g}): start it with these (docs/cluster.md)"
        )
    if backend.decays_all and learning.weight_decay > 0:
        found.append(
            f"the backend {config.engine.tinker.backend} applies learning.weight_decay ({learning.weight_decay:g}) to "
            "every adapter of the server: let no other run use it, or set learning.weight_decay=0"
        )
    return tuple(found)
