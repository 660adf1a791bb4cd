"""What this machine has: packages that can be imported, cores, memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

TRAIN = "train"
EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "torch": TRAIN,
        "transformers": TRAIN,
        "tokenizers": TRAIN,
        "safetensors": TRAIN,
        "renderers": TRAIN,
        "tensorboard": TRAIN,
        "matplotlib": TRAIN,
        "peft": TRAIN,
        "httpx": "endpoint",
        "tinker": "tinker",
        "gguf": "gguf",
        "pyarrow": "parquet",
        "ray": "ray",
    }
)
"""Packages that are not in the base, and the extra that brings them."""

CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

# In a process of its own: a build that does not suit the machine may end the process that imports it.
IMPORT = """
import importlib, json, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        problem = ""
    except Exception as error:
        problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    print(json.dumps([name, problem]), flush=True)
"""


@dataclass(frozen=True)
class Package:
    """``version`` is None if it is not installed. ``failure`` says why it cannot be imported; empty if it can."""

    name: str
    version: str | None
    failure: str

    @property
    def extra(self) -> str:
        return EXTRAS[self.name]

    @property
    def needed(self) -> bool:
        """Whether training needs it."""
        return self.extra == TRAIN


def packages() -> tuple[Package, ...]:
    """Those that extras bring, each after importing it."""
    versions = {name: _version(name) for name in EXTRAS}
    installed = [name for name, found in versions.items() if found is not None]
    done = subprocess.run([sys.executable, "-P", "-c", IMPORT, *installed], capture_output=True, text=True)
    told = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith('["'))
    broken_off = f"the process ended with status {done.returncode} here or before"
    return tuple(
        Package(name, found, "not installed" if found is None else told.get(name, broken_off))
        for name, found in versions.items()
    )


def package_problems(found: Iterable[Package]) -> Iterator[str]:
    """A sentence with the remedy for what keeps training from running."""
    broken = [package for package in found if package.needed and package.failure]
    install = f"pip install 'spadework[{TRAIN}]'"
    absent = [package.name for package in broken if package.version is None]
    if absent:
        yield f"training needs {', '.join(absent)}, not installed: {install}"
    for package in broken:
        if package.version is not None:
            what = f"{package.name} {package.version} cannot be imported ({package.failure})"
            yield f"{what}; install it again: pip install --force-reinstall {package.name}=={package.version}"


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def memory_bytes() -> int:
    """Memory of the machine, or of the container around this process where that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in CGROUP_LIMITS:
        try:
            found = min(found, int(path.read_text()))
        except (OSError, ValueError):
            continue  # there is no such file, or it says that there is no limit
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
