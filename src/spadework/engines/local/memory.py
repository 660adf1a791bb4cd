"""A setting of the C library's allocator that spares a third of the time, and what to do when no memory is left."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""Parameter numbers of glibc's malloc.h."""
MEBIBYTE = 1 << 20
_CPU_REFUSALS = ("can't allocate memory", "not enough memory")
"""Parts of what torch says when the CPU has no memory left; it has an exception of its own for devices alone."""


class OutOfMemory(RuntimeError):
    """The memory of the device does not suffice; the message says which setting to change."""


@contextmanager
def explained(doing: str, remedy: str) -> Iterator[None]:
    """Raise OutOfMemory with ``remedy`` if memory ends within."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if is_full(error):
            raise OutOfMemory(f"there is not enough memory for {doing}; {remedy}") from error
        raise


def is_full(error: BaseException) -> bool:
    """Whether ``error`` says that memory ended."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in _CPU_REFUSALS)


def keep_freed_memory() -> None:
    """Ask glibc to keep freed memory for the next tensor instead of giving it back to the kernel.

    A forward pass frees and takes the same few megabytes hundreds of times, and fresh pages cost more than the
    arithmetic on them. Results are the same with or without; other C libraries lack the call and are left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_MMAP_THRESHOLD, 32 * MEBIBYTE)
    mallopt(_M_TRIM_THRESHOLD, 512 * MEBIBYTE)
    mallopt(_M_TOP_PAD, 64 * MEBIBYTE)
