"""A soak in small: `benchmarks/soak.py` makes a million steps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
def test_twenty_thousand_steps_with_hostile_programs_leave_nothing_behind() -> None:
    done = subprocess.run([sys.executable, SOAK, "--steps", "20000"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "faults: babble 1, crash 1, deaf 1, explode 1, leave 1, loop 2, sleep 1" in done.stdout
    assert "left behind: 0 processes, 0 descriptors\nnothing leaked and nothing was lost" in done.stdout
