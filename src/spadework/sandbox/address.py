"""Where a sandbox is served, as settings write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TCP = re.compile(r"tcp://(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})")
LARGEST_PORT = 65_535


@dataclass(frozen=True)
class TcpAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp://[{self.host}]:{self.port}" if ":" in self.host else f"tcp://{self.host}:{self.port}"


@dataclass(frozen=True)
class UnixAddress:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """Raises ValueError with what an address looks like."""
    if text.startswith("unix:") and text != "unix:" and "\0" not in text:
        return UnixAddress(text.removeprefix("unix:"))
    found = _TCP.fullmatch(text)
    if found is None or int(found["port"]) > LARGEST_PORT:
        raise ValueError(f"{text!r} is no address of a sandbox; it should be tcp://HOST:PORT or unix:PATH")
    return TcpAddress(found["six"] or found["host"], int(found["port"]))
