"""Reading the files that a person names."""

from __future__ import annotations

from pathlib import Path

from spadework.cli.errors import Refused


def read_program(path: Path) -> str:
    """The text of a program's file. Raises Refused."""
    if path.is_dir():
        raise Refused(f"{path} is a directory; name files, for example {path / '*.py'}")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise Refused(f"there is no file {path}; name a file with a program") from None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    try:
        # As Python reads it: a mark of the byte order is not part of the text, and any line end is one.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 text (byte {error.start}); give the source text of a program") from None
    return text.replace("\r\n", "\n")


def existing_parent(path: Path) -> Path:
    """``path``, or the first directory above it that is there."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
