"""Runs Python as a user without rights: this one, or `nobody` if the tests run as root."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgpack
import pytest

import spadework

NOBODY = 65534
PATHS = (str(Path(spadework.__file__).parents[1]), str(Path(msgpack.__file__).parents[1]))
INTERPRETERS = (
    sys.executable,
    *(f"{folder}/python3.{sys.version_info.minor}" for folder in ("/usr/bin", "/usr/local/bin")),
)


def ordinary_python(code: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
    """Starts ``code`` with pipes for its output. Skips the test if no interpreter can be started by the user."""
    command = [_interpreter(), "-c", code, *arguments]
    return subprocess.Popen(
        command, **_identity(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@cache
def _interpreter() -> str:
    for path in INTERPRETERS:
        try:
            done = subprocess.run([path, "-c", "import spadework.config, numpy"], **_identity(), capture_output=True)
        except OSError:
            continue
        if done.returncode == 0:
            return path
    pytest.skip("no interpreter of this version with these packages can be started by user nobody")


def _identity() -> dict[str, object]:
    identity: dict[str, object] = {
        "cwd": "/",
        "env": {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(PATHS), "PYTHONDONTWRITEBYTECODE": "1"},
    }
    if os.geteuid() == 0:
        identity |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return identity
