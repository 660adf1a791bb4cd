"""This process and the Ray cluster that it uses."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spadework.sandbox.address import RayAddress
from spadework.sandbox.outcomes import InfrastructureFault

CPUS = 1
"""What an actor takes of its node in Ray's books."""


def join(address: RayAddress) -> None:
    """Connect this process to the cluster, unless it is connected to one already; it stays so until it ends.

    Without a client's address Ray looks for the cluster (`RAY_ADDRESS`, or one that runs on this machine) and starts
    one of this machine alone if there is none. Raises InfrastructureFault.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise InfrastructureFault(
            f"sandbox.address = {address} needs Ray, which is not installed: pip install 'spadework[ray]'"
        ) from None
    if ray.is_initialized():
        return
    try:
        with _own_signal_handlers():
            if address.client:
                ray.init(str(address))
            else:
                ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        said = " ".join(str(error).split())[:300]
        raise InfrastructureFault(
            f"the Ray cluster of sandbox.address = {address} cannot be used: {said}; `ray status` on one of its nodes "
            "shows whether it is well"
        ) from None


def nodes() -> int:
    """Nodes of the cluster that have a CPU for an actor; at least 1."""
    import ray

    return max(1, len([node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= CPUS]))


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """`ray.init` puts in a handler of SIGTERM that ends the process on the spot; a run ends in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if handler is None else handler)
