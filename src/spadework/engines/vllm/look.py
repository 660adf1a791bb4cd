"""Whether the server of a configuration can serve it, as far as that can be told without weights."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from spadework.config import Config
from spadework.engines.base import EngineFault
from spadework.engines.vllm.launch import launch_line
from spadework.engines.vllm.server import Server


def require_ready(config: Config, server: Server, model: str) -> None:
    """Raises EngineFault, with the line that starts a server that would do, with ``model``, the model's directory.

    Nothing is loaded or sampled. It blocks, and may be called inside an event loop.
    """
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _require_ready(config, server, model)).result()


async def _require_ready(config: Config, server: Server, model: str) -> None:
    wanted = config.engine.vllm.model
    launch = launch_line(config, model)
    async with server.connected() as connection:
        cards = await connection.look(launch)
        bases = {card.name: card for card in cards if card.parent is None}
        if wanted not in bases:
            raise EngineFault(
                f"the vLLM server at {server.url} has no base model {wanted} (engine.vllm.model); it has "
                f"{', '.join(sorted(bases)) or 'none'}"
            )
        held, needed = bases[wanted].max_tokens, config.model.max_context_tokens
        if held is not None and held < needed:
            raise EngineFault(
                f"the vLLM server at {server.url} holds {held} tokens and model.max_context_tokens is {needed}; "
                f"stop it and start it with: {launch}"
            )
        if not await connection.takes_adapters(launch):
            raise EngineFault(
                f"the vLLM server at {server.url} takes no adapters while it runs; stop it and start it with: {launch}"
            )
