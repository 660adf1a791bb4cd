"""Where a sandbox is served, as settings write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TCP = re.compile(r"tcp://(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})")
_RAY = re.compile(r"ray(?:://(?P<client>[^\s/]+:\d{1,5}))?")
RAY = "ray"
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


@dataclass(frozen=True)
class RayAddress:
    """``client`` is HOST:PORT of a cluster's Ray Client server; empty for the cluster that Ray finds by itself."""

    client: str = ""

    def __str__(self) -> str:
        return f"{RAY}://{self.client}" if self.client else RAY


ServerAddress = TcpAddress | UnixAddress
Address = ServerAddress | RayAddress


def parse_address(text: str) -> Address:
    """Raises ValueError with what an address looks like."""
    if text.startswith("unix:") and text != "unix:" and "\0" not in text:
        return UnixAddress(text.removeprefix("unix:"))
    if (ray := _RAY.fullmatch(text)) is not None:
        return RayAddress(ray["client"] or "")
    tcp = _TCP.fullmatch(text)
    if tcp is None or int(tcp["port"]) > LARGEST_PORT:
        raise ValueError(
            f"{text!r} is no address of a sandbox; it should be tcp://HOST:PORT, unix:PATH, ray or ray://HOST:PORT"
        )
    return TcpAddress(tcp["six"] or tcp["host"], int(tcp["port"]))


def parse_server_address(text: str) -> ServerAddress:
    """Raises ValueError for what is no address of `spadework sandbox serve`."""
    address = parse_address(text)
    if isinstance(address, RayAddress):
        raise ValueError(f"{text!r} is a Ray cluster and no served sandbox; use RaySandbox, or open_sandbox")
    return address
