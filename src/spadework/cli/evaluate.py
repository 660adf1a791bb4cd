"""`spadework eval`: the held-out items, played by a run's model, by any other, or by one that is served elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spadework.cli.errors import Refused
from spadework.cli.options import AsJson, Overrides

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.evaluation.results import Evaluation

EXAMPLES = (
    "Examples: spadework eval runs/quickstart --temperature 0 | spadework eval seed --items 4 | "
    "spadework eval --endpoint http://localhost:8000/v1 --model-name Qwen/Qwen3-8B"
)
_SEED_PRESET = "quickstart"


def evaluate(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|MODEL]",
            help="The directory of a run or of a model, or `seed`; leave it out to ask an endpoint.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="How a model that is no run's is asked: a preset or a .toml file.", show_default=False),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask a server of OpenAI-compatible chat completions, for example http://localhost:8000/v1.",
            show_default="endpoint.base_url",
        ),
    ] = None,
    model_name: Annotated[
        str | None, typer.Option(help="The server's name of the model.", show_default="endpoint.model")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Of the plays; 0 takes the most probable token.", show_default="as configured")
    ] = None,
    items: Annotated[
        int | None, typer.Option(help="Items of each family; 0 takes all.", show_default="as configured")
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model on held-out tasks that training never shows: a run's last checkpoint, or a model of your own."""
    import asyncio

    from spadework.evaluation.results import read_results

    asked = {
        "evaluation.temperature": temperature,
        "evaluation.items": items,
        "endpoint.base_url": endpoint,
        "endpoint.model": model_name,
    }
    settings = [*(overrides or ()), *(f"{key}={value}" for key, value in asked.items() if value is not None)]
    if subject is None:
        config = _config_of_endpoint(preset, settings)
        evaluation, of = asyncio.run(_evaluate_endpoint(config))
        before = None
    else:
        if endpoint is not None or model_name is not None:
            raise Refused(
                f"--endpoint and --model-name ask a server and {subject} is asked here; leave one of them out"
            )
        path = Path(subject).expanduser()
        is_run = (path / "run.json").exists()
        config = _config_of_run(path, settings) if is_run else _config_of_model(subject, preset, settings)
        evaluation, of = asyncio.run(_evaluate(config, path if is_run else None))
        before = next(iter(read_results(path).values()), None) if is_run else None
    if as_json:
        _print_json(evaluation, of, config)
    else:
        _print(evaluation, before, of, config)


def _config_of_endpoint(preset: str | None, settings: Sequence[str]) -> Config:
    from spadework.config import Config
    from spadework.presets import change_config, read_config

    config = change_config(Config() if preset is None else read_config(preset), settings)
    for name, value, option in (
        ("endpoint.base_url", config.endpoint.base_url, "--endpoint URL"),
        ("endpoint.model", config.endpoint.model, "--model-name NAME"),
    ):
        if not value:
            raise Refused(f"there is no model to ask: {name} is not set; give a run, a model's directory, or {option}")
    if config.agent.thinking:
        raise Refused("agent.thinking is on, which no endpoint can be told; set agent.thinking=false")
    return config


def _config_of_run(path: Path, settings: Sequence[str]) -> Config:
    from spadework.presets import change_config
    from spadework.store.run_directory import RunDirectory

    return change_config(RunDirectory.open_readonly(path).config, settings)


def _config_of_model(model: str, preset: str | None, settings: Sequence[str]) -> Config:
    from spadework.cli.opening import SEED, model_folder
    from spadework.config import Config
    from spadework.presets import change_config, load_config

    folder = model_folder(model)
    if preset is None and model == SEED:
        preset = _SEED_PRESET
    config = Config() if preset is None else load_config(preset)
    changed: dict[str, object] = {"path": model}
    if preset is None:
        changed["max_context_tokens"] = min(_context_of(folder), config.agent.max_episode_tokens)
    asked = config.model_copy(update={"model": config.model.model_copy(update=changed)})
    return change_config(asked, settings)


def _context_of(folder: Path) -> int:
    """Tokens that the model in ``folder`` was made for, or what is usual if it does not say."""
    import json

    from spadework.config import ModelConfig

    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("max_position_embeddings")
    except (OSError, ValueError, AttributeError):
        found = None  # the engine says what is wrong with it
    return found if isinstance(found, int) else ModelConfig().max_context_tokens


async def _evaluate_endpoint(config: Config) -> tuple[Evaluation, str]:
    """The evaluation, and what was evaluated in words."""
    from spadework.engines.openai.client import open_chat
    from spadework.evaluation.items import load_items, shipped_items, suite_of
    from spadework.evaluation.served import evaluate_served

    items = load_items(shipped_items(suite_of(config.agent.action_format)), config.evaluation.items)
    async with open_chat(config.endpoint, None, lambda trouble: typer.echo(trouble, err=True)) as chat:
        evaluation = await evaluate_served(items, config, chat)
        return evaluation, f"{chat.name} ({chat.ledger.account()})"


async def _evaluate(config: Config, run: Path | None) -> tuple[Evaluation, str]:
    """The evaluation, and what was evaluated in words."""
    from spadework.cli.opening import open_model
    from spadework.evaluation.heldout import HeldOut
    from spadework.store.checkpoint import latest_checkpoint

    checkpoint = None if run is None else latest_checkpoint(run / "checkpoints")
    if run is not None and checkpoint is None:
        raise Refused(f"the run {run} has no checkpoint yet; wait for the end of its first iteration")
    engine, rendering = open_model(config)
    heldout = HeldOut.open(config, engine, rendering)
    if checkpoint is None:
        return await heldout.evaluate(), f"the model {config.model.path}"
    await engine.load(checkpoint.weights)
    iterations = checkpoint.iteration + 1
    return await heldout.evaluate(iterations), f"{run} after {iterations} iterations"


def _print_json(evaluation: Evaluation, of: str, config: Config) -> None:
    from dataclasses import asdict

    from spadework.cli.output import print_json
    from spadework.evaluation.items import Split

    rates = {split.value: evaluation.rate(split, config.evaluation.bootstrap_samples) for split in Split}
    print_json(
        {
            "of": of,
            "rates": {name: None if rate is None else asdict(rate) for name, rate in rates.items()},
            "families": {family: {"solved": s, "asked": n} for family, (s, n) in evaluation.by_family().items()},
            "cut_share": evaluation.cut_share,
            "errors": evaluation.errors,
            "evaluation": asdict(evaluation),
        }
    )


def _print(evaluation: Evaluation, before: Evaluation | None, of: str, config: Config) -> None:
    from spadework.cli.output import console, plain, table
    from spadework.evaluation.items import Split
    from spadework.evaluation.results import gain

    out, samples = console(), config.evaluation.bootstrap_samples
    how = f"temperature {evaluation.temperature:g}, prompts {evaluation.prompts}, rendering {evaluation.renderer}"
    out.print(plain(f"{of} on {evaluation.suite} v{evaluation.version} ({how})"))
    rows = []
    for split in Split:
        rate = evaluation.rate(split, samples)
        if rate is None:
            continue
        same = before is not None and [item.id for item in before.items] == [item.id for item in evaluation.items]
        since = gain(before, evaluation, split, samples) if same and before is not None else None
        told = "" if since is None else f"{since.mean:+.3f} ({since.low:+.3f} to {since.high:+.3f})"
        asked = len(evaluation.solved(split))
        rows.append((split.value, asked, f"{rate.mean:.3f}", f"{rate.low:.3f} to {rate.high:.3f}", told))
    out.print(table(("items", ">asked", ">solved", "95 % interval", "since the start (95 % interval)"), rows))
    families = [(family, solved, asked) for family, (solved, asked) in evaluation.by_family().items()]
    out.print(table(("family", ">solved", ">asked"), families))
    out.print(plain(f"cut by a token budget: {evaluation.cut_share:.1%}; errors: {evaluation.errors}"))
