"""Errors of libraries, cut to what fits into a sentence of our own."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """The first line of its message, or the name of its kind if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
