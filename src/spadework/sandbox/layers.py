"""The layers that hold a worker: which there are, what each stops, and whether it is in force.

Each is probed where it is put in force, in `inside/`. This module imports only the standard library, since the
processes of the sandbox use it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class LayerName(StrEnum):
    """From the weakest to the strongest."""

    PROCESS = "process"
    RESOURCE_LIMITS = "resource-limits"
    DIES_WITH_HOST = "dies-with-host"
    CONTROL_GROUP = "control-group"
    USER_NOBODY = "user-nobody"
    NO_CAPABILITIES = "no-capabilities"
    NO_NEW_PRIVILEGES = "no-new-privileges"
    UTS_NAMESPACE = "uts-namespace"
    IPC_NAMESPACE = "ipc-namespace"
    USER_NAMESPACE = "user-namespace"
    PID_NAMESPACE = "pid-namespace"
    NETWORK_NAMESPACE = "network-namespace"
    EMPTY_ROOT = "empty-root"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"


@dataclass(frozen=True)
class Purpose:
    """``stops`` ends the sentence "a program cannot"; ``needs`` ends "to have the layer,"."""

    stops: str
    needs: str


_ALLOW_NAMESPACES = (
    "run outside a container, or in one that allows namespaces (CAP_SYS_ADMIN for root; for other users unprivileged "
    "user namespaces)"
)

PURPOSES: Mapping[LayerName, Purpose] = MappingProxyType(
    {
        LayerName.PROCESS: Purpose("touch the memory, environment or descriptors of the trainer", "run spadework"),
        LayerName.RESOURCE_LIMITS: Purpose("use more memory, CPU time or descriptors than it is given", "run on Linux"),
        LayerName.DIES_WITH_HOST: Purpose("live on when spadework has ended", "run on Linux"),
        LayerName.CONTROL_GROUP: Purpose(
            "use up the memory of the machine together with others",
            "run on Linux where control groups of version 2 are delegated to this user, as with `systemd-run --user "
            "--scope -p Delegate=yes`",
        ),
        LayerName.USER_NOBODY: Purpose("act as the user that runs spadework", "run as a root that may change its user"),
        LayerName.NO_CAPABILITIES: Purpose("use a privilege of root or of a user namespace", "run on Linux"),
        LayerName.NO_NEW_PRIVILEGES: Purpose("gain rights through a set-user-id program", "run on Linux"),
        LayerName.UTS_NAMESPACE: Purpose("learn or change the host's name", _ALLOW_NAMESPACES),
        LayerName.IPC_NAMESPACE: Purpose("reach shared memory or queues of other processes", _ALLOW_NAMESPACES),
        LayerName.USER_NAMESPACE: Purpose(
            "hold a right over anything outside, even with every capability",
            "run as an ordinary user where unprivileged user namespaces are allowed",
        ),
        LayerName.PID_NAMESPACE: Purpose("see, trace or signal processes of the host", _ALLOW_NAMESPACES),
        LayerName.NETWORK_NAMESPACE: Purpose("reach a network or a local service", _ALLOW_NAMESPACES),
        LayerName.EMPTY_ROOT: Purpose(
            "name a file of the host", "run as root, or where unprivileged user namespaces are allowed"
        ),
        LayerName.LANDLOCK: Purpose(
            "open, create or run a file, or use TCP", "run on Linux 5.13 or later, booted with Landlock enabled"
        ),
        LayerName.SECCOMP: Purpose(
            "make any system call but the few that computing needs: no files, sockets, processes or threads",
            "run on Linux with seccomp, on x86-64 or ARM64",
        ),
    }
)

SWITCHED_OFF = "switched off"


@dataclass(frozen=True)
class Layer:
    """One layer of a worker. ``absent_because`` is empty if it is in force."""

    name: LayerName
    absent_because: str = ""

    @property
    def in_force(self) -> bool:
        return not self.absent_because

    @property
    def purpose(self) -> Purpose:
        return PURPOSES[self.name]


def in_force(layers: Iterable[Layer]) -> frozenset[LayerName]:
    """The names of those that are."""
    return frozenset(layer.name for layer in layers if layer.in_force)


def grade(layers: Iterable[Layer]) -> str:
    """How strong the layers are together, in words."""
    names = in_force(layers)
    if not names:
        return "unknown: no program could be started"
    if LayerName.SECCOMP not in names:
        return "weak: nothing filters system calls, so that a hostile program can do harm"
    if LayerName.LANDLOCK not in names:
        return "good: the system-call filter stands alone"
    if not names >= {LayerName.PID_NAMESPACE, LayerName.NETWORK_NAMESPACE}:
        return "strong: system-call filter and Landlock"
    return "strongest: system-call filter, Landlock and namespaces"
