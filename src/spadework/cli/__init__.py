"""The command line: one module per command. Each imports what it needs when it is called, so that help is immediate."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The console script. What is expected to go wrong ends in a sentence on stderr and exit status 2."""
    from spadework.cli.app import app
    from spadework.cli.errors import REFUSED, sentence_of

    try:
        app(prog_name="spadework")
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        for line in sentence.splitlines():
            print(f"spadework: {line}", file=sys.stderr)
        raise SystemExit(REFUSED) from None
