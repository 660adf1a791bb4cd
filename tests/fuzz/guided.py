"""Searches for inputs that reach new code, with atheris: `python tests/fuzz/guided.py TARGET [libFuzzer options]`.

Starts from the inputs in `corpus/TARGET/` and keeps what it finds in the folder that it names. An input that breaks a
promise is written to the working directory; put it into the corpus with the mend.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["spadework"]):
    from fuzz_targets import TARGETS


def main() -> None:
    if sys.argv[1:2] == [] or sys.argv[1] not in TARGETS:
        sys.exit(f"guided.py: name a target: {', '.join(TARGETS)}")
    name = sys.argv[1]
    found = tempfile.mkdtemp(prefix=f"spadework-{name}-")
    print(f"new inputs go to {found}", flush=True)
    arguments = [sys.argv[0], found, str(Path(__file__).parent / "corpus" / name), *sys.argv[2:]]
    atheris.Setup(arguments, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
