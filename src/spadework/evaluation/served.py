"""The held-out items, played by a model that is served at an endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from spadework.config import Config
from spadework.engines.chat import ChatModel
from spadework.evaluation.heldout import DRAWS_SEED, play_items, results_of
from spadework.evaluation.items import ItemList
from spadework.evaluation.results import Evaluation
from spadework.roles.agent import EpisodeRequest
from spadework.roles.plays import Played
from spadework.roles.prompts import prompt_style
from spadework.roles.text_agent import TextPlayer, play_all_texts
from spadework.sandbox import ProgramHost


async def evaluate_served(items: ItemList, config: Config, model: ChatModel) -> Evaluation:
    """Ask what `HeldOut` asks, with the same draws, in the words that `endpoint.prompts` names.

    The server renders the conversation: whether the model thinks is its affair, and is recorded as not asked for.
    Raises EndpointError and BudgetSpent.
    """
    agent = config.agent.model_copy(update={"temperature": config.evaluation.temperature})
    prompts = prompt_style(config.endpoint.prompts, _no_tokens)
    player = TextPlayer(model, prompts, agent, agent.action_format, DRAWS_SEED)

    async def play(requests: Sequence[EpisodeRequest], sandbox: ProgramHost) -> Played:
        return await play_all_texts(requests, sandbox, player)

    episodes = await play_items(items, config.sandbox, play)
    return Evaluation(
        suite=items.suite,
        version=items.version,
        sha256=items.sha256,
        renderer=model.name,
        prompts=config.endpoint.prompts,
        thinking=False,
        temperature=config.evaluation.temperature,
        policy_version=0,
        iterations=None,
        items=results_of(items, episodes),
    )


def _no_tokens(text: str) -> Sequence[int]:
    """Only prompts of the designer look at tokens."""
    raise NotImplementedError("an endpoint has no tokeniser here")
