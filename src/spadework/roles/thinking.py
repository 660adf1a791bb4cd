"""Whether a model's thinking can be given a budget."""

from __future__ import annotations

from spadework.config import AgentConfig
from spadework.roles.rendering import Rendering, RenderingRefused


def require_thinking(rendering: Rendering, config: AgentConfig) -> None:
    """Raises RenderingRefused if `agent.max_thinking_tokens` limits the thinking of a model that has none."""
    if config.max_thinking_tokens and not rendering.thinks:
        raise RenderingRefused(
            f"the chat template of {rendering.name} knows no thinking that agent.max_thinking_tokens "
            f"({config.max_thinking_tokens}) could end; set it to 0"
        )
