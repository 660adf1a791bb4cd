"""`spadework sandbox serve`: sandboxed programs for runs of other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spadework.cli.options import Overrides

if TYPE_CHECKING:
    from spadework.sandbox import Limits
    from spadework.sandbox.address import ServerAddress

EXAMPLES = (
    "Examples: spadework sandbox serve --unix sandbox.sock | "
    "spadework sandbox serve --host 10.0.0.7 --set sandbox.memory_mb=1024"
)
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8471
LOOPBACK = ("127.0.0.1", "localhost", "::1")

commands = typer.Typer(help="Run sandboxed programs for others.", no_args_is_help=True, epilog=EXAMPLES)


@commands.callback()
def group() -> None:
    """Run sandboxed programs for others."""


@commands.command("serve", epilog=EXAMPLES)
def serve(
    host: Annotated[str, typer.Option(help="Address of this machine to listen at.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(help="TCP port; 0 takes a free one.", min=0, max=65535)] = DEFAULT_PORT,
    unix: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Listen at a Unix socket instead.", show_default=False)
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Run the sandbox of runs whose `sandbox.address` is this machine, until Ctrl-C.

    A TCP port asks for the token in SPADEWORK_SANDBOX_TOKEN, or in the file that SPADEWORK_SANDBOX_TOKEN_FILE names.
    The settings of the section `sandbox` are the most that a client may ask for.
    """
    import asyncio

    from spadework.cli.errors import Refused
    from spadework.config import Config
    from spadework.presets import change_config
    from spadework.sandbox.address import TcpAddress, UnixAddress
    from spadework.sandbox.remote.token import read_token

    for override in overrides or ():
        if not override.startswith("sandbox."):
            raise Refused(f"--set {override}: a server has the settings of the section sandbox alone")
    limits = change_config(Config(), overrides or ()).sandbox
    if limits.address:
        raise Refused("sandbox.address says where a run finds its sandbox; a server takes --host and --port, or --unix")
    if unix is None:
        asyncio.run(_serve(TcpAddress(host, port), limits, read_token()))
    else:
        asyncio.run(_serve(UnixAddress(str(unix)), limits, ""))


async def _serve(address: ServerAddress, limits: Limits, token: str) -> None:
    import asyncio
    import signal

    from spadework.sandbox.address import TcpAddress
    from spadework.sandbox.remote.server import SandboxServer

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with SandboxServer(address, limits, token, _say) as server:
        _say(f"in force: {', '.join(layer.name for layer in server.level if layer.in_force)}")
        if isinstance(address, TcpAddress) and address.host not in LOOPBACK:
            _say("the connection is not encrypted: on a network where others listen, use an SSH tunnel to 127.0.0.1")
        _say(f"listening; a run comes here with --set sandbox.address={server.address}")
        await stopped.wait()
    _say("stopped")


def _say(line: str) -> None:
    from spadework.cli.output import printable

    print(printable(line), flush=True)
