"""Who plays which role in a run: the policy, or a frozen model at an endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from spadework.config import Config
from spadework.engines.base import Engine
from spadework.roles.agent import Player
from spadework.roles.author import Author
from spadework.roles.judge import Judge
from spadework.roles.prompts import prompt_style
from spadework.roles.rendering import Rendering
from spadework.roles.tool_rendering import tools_of
from spadework.roles.writer import ChatWriter, PolicyWriter, Writer


@dataclass(frozen=True)
class Cast:
    """``readings`` gives metrics of what was used at the endpoint since the last call; none without one."""

    author: Author
    player: Player
    readings: Callable[[], Mapping[str, float]]


@asynccontextmanager
async def open_cast(
    config: Config, engine: Engine, rendering: Rendering, replies: Path, notice: Callable[[str], None]
) -> AsyncIterator[Cast]:
    """The cast that ``config`` asks for; the endpoint is opened if anybody uses it, with its ``replies`` so far.

    Raises MissingExtra, EndpointError and RenderingRefused.
    """
    format, context = config.agent.action_format, config.model.max_context_tokens
    prompts = prompt_style(config.model.prompts, rendering.encode, format)
    writers: dict[str, Writer] = {"self": PolicyWriter(engine, rendering, prompts, context)}
    readings: Callable[[], Mapping[str, float]] = dict
    async with AsyncExitStack() as stack:
        if config.endpoint_users:
            from spadework.engines.openai.client import open_chat

            chat = await stack.enter_async_context(open_chat(config.endpoint, replies, notice))
            writers["endpoint"] = ChatWriter(chat, prompt_style(config.endpoint.prompts, rendering.encode, format))
            readings = chat.ledger.readings
        judge = writers.get(config.gates.judge)
        author = Author(
            rendering,
            config.designer,
            config.seed,
            programs=writers[config.roles.designer],
            hints=writers[config.roles.hint_writer],
            judge=None if judge is None else Judge.of(judge, config.gates, config.seed, config.agent.max_turns),
        )
        player = Player(rendering, prompts, config.agent, context, config.seed, tools_of(rendering, format))
        yield Cast(author, player, readings)
