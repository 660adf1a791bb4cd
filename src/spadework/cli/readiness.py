"""Whether a run would get to its end on this machine: every reason why not, found without writing anything.

What fails for want of something else (a tokenizer's template without a tokenizer) is not told twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from spadework.cli.errors import Refused, sentence_of
from spadework.cli.plan import ModelShape, Plan, held_bytes, kept_bytes, plan_of, pool_bytes, working_bytes

if TYPE_CHECKING:
    from spadework.config import Config
    from spadework.roles.rendering import Rendering

MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30


class Verdict(StrEnum):
    OK = "ok"
    NOTE = "note"
    """The run can go on, but something may not be as wished."""
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """``what`` was looked at, and one sentence about it."""

    what: str
    verdict: Verdict
    text: str


@dataclass
class Readiness:
    """``shape`` is None if nothing is known of the model; ``shape_source`` says where it is from."""

    config: Config
    plan: Plan
    findings: list[Finding] = field(default_factory=list)
    shape: ModelShape | None = None
    shape_source: str = ""

    @property
    def problems(self) -> list[str]:
        return [finding.text for finding in self.findings if finding.verdict is Verdict.PROBLEM]


def examine(config: Config, run: Path) -> Readiness:
    """Look at everything that a run of ``config`` in the directory ``run`` would need."""
    found = Readiness(config, plan_of(config))
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("run directory", lambda: _run_directory(config, run)),
        ("packages", lambda: _packages()),
        ("engine", lambda: _engine(config)),
        ("model", lambda: _model(found)),
        ("endpoint", lambda: _endpoint(config)),
        ("corpus", lambda: _corpus(found)),
        ("sandbox", lambda: _sandbox(config)),
        ("held-out items", lambda: _held_out(config)),
        ("memory", lambda: _memory(found)),
        ("disk", lambda: _disk(found, run)),
    )
    for what, check in checks:
        found.findings += _told(what, check)
    return found


def _told(what: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of ``check``; an error whose message is for people is the last of them."""
    try:
        yield from check()
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        yield Finding(what, Verdict.PROBLEM, sentence)


def _run_directory(config: Config, run: Path) -> Iterator[Finding]:
    from spadework.store.run_directory import RunDirectory, require_same

    if run.exists() and not (run.is_dir() and next(run.iterdir(), None) is None):
        before = RunDirectory.open_readonly(run).config
        require_same(run, before.model_dump(mode="json"), config.model_dump(mode="json"))
        yield Finding("run directory", Verdict.OK, f"{run} holds a run of this configuration, which would be continued")
        return
    place = existing_parent(run)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise Refused(f"the run directory {run} cannot be made: {place} cannot be written; choose another with --run")
    yield Finding("run directory", Verdict.OK, f"{run} would be made")


def existing_parent(path: Path) -> Path:
    """``path``, or the first directory above it that is there."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _packages() -> Iterator[Finding]:
    from spadework.cli.machine import package_problems, packages

    found = packages()
    problems = list(package_problems(found))
    for problem in problems:
        yield Finding("packages", Verdict.PROBLEM, problem)
    if not problems:
        needed = ", ".join(f"{package.name} {package.version}" for package in found if package.needed)
        yield Finding("packages", Verdict.OK, needed)


def _engine(config: Config) -> Iterator[Finding]:
    from spadework.cli.machine import cores

    here = cores()
    threads = config.engine.threads or here
    what = f"{config.engine.kind}: CPU in float32, {threads} of {here} cores"
    if threads > here:
        yield Finding("engine", Verdict.NOTE, f"{what}; engine.threads above the number of cores slows it down")
    else:
        yield Finding("engine", Verdict.OK, what)


def _model(found: Readiness) -> Iterator[Finding]:
    from spadework.cli.model_shape import PUBLISHED
    from spadework.cli.opening import present_folder

    path = found.config.model.path
    try:
        folder = present_folder(path)
    except Refused as refused:
        yield Finding("model", Verdict.PROBLEM, str(refused))
        if path in PUBLISHED:
            found.shape, found.shape_source = PUBLISHED[path], "as published"
            yield from _fits(found, path)
        return
    yield Finding("model", Verdict.OK, f"{path}: {folder}" if str(folder) != path else path)
    yield from _told("model", lambda: _sizes(found, folder))
    yield from _told("tokenizer", lambda: _tokenizer(found, folder))


def _sizes(found: Readiness, folder: Path) -> Iterator[Finding]:
    from spadework.cli.model_shape import missing_weights, read_config, shape_of

    if missing := missing_weights(folder):
        yield Finding("model", Verdict.PROBLEM, missing)
    if not _importable("torch", "transformers"):
        return
    config = read_config(folder)
    found.shape, found.shape_source = shape_of(config, folder), "config.json"
    yield from _fits(found, str(folder))
    if found.shape.attention_layers == found.shape.layers:
        import torch

        from spadework.engines.local.model import cache_shape

        try:
            cache_shape(config, torch.device("cpu"), torch.float32)
        except ValueError as error:
            yield Finding("model", Verdict.PROBLEM, f"the model {folder} does not fit the local engine: {error}")


def _fits(found: Readiness, name: str) -> Iterator[Finding]:
    """What the sizes of a model alone say."""
    shape, context = found.shape, found.config.model.max_context_tokens
    if shape is None:
        return
    if shape.attention_layers < shape.layers:
        yield Finding(
            "model",
            Verdict.PROBLEM,
            f"the model {name} does not fit the local engine: {shape.layers - shape.attention_layers} of its "
            f"{shape.layers} layers are not attention, and the engine knows decoders with attention in every layer",
        )
    if shape.context_tokens is not None and context > shape.context_tokens:
        yield Finding(
            "model",
            Verdict.PROBLEM,
            f"model.max_context_tokens is {context} but the model {name} was made for at most {shape.context_tokens} "
            f"tokens; set it to {shape.context_tokens} or less",
        )


def _tokenizer(found: Readiness, folder: Path) -> Iterator[Finding]:
    from spadework.cli.opening import model_name, open_tokenizer
    from spadework.roles.rendering import open_rendering
    from spadework.roles.tool_rendering import tools_of

    config = found.config
    if not _importable("transformers", "renderers"):
        return
    tokenizer = open_tokenizer(folder)
    tokens = len(tokenizer)
    if found.shape is not None and tokens > found.shape.vocabulary:
        yield Finding(
            "tokenizer",
            Verdict.PROBLEM,
            f"the tokenizer of {folder} has {tokens} tokens but the model only {found.shape.vocabulary}; use the "
            "tokenizer that belongs to the model",
        )
    rendering = open_rendering(tokenizer, model_name(config, folder), config.agent.thinking)
    tools = tools_of(rendering, config.agent.action_format)
    thinks = "on" if config.agent.thinking else "off"
    calls = f", calls as {tools.format}" if tools is not None else ""
    yield Finding("tokenizer", Verdict.OK, f"{tokens} tokens, template of {rendering.name}, thinking {thinks}{calls}")
    yield from _room(config, rendering)


def _room(config: Config, rendering: Rendering) -> Iterator[Finding]:
    """Whether the longest prompt of the designer leaves room for its longest reply."""
    from spadework.curriculum.documents import Document
    from spadework.curriculum.memory import Memory
    from spadework.roles.prompts import prompt_style

    prompts = prompt_style(config.model.prompts, rendering.encode, config.agent.action_format)
    blank = Document("none", "", "a")
    longest = max(config.curriculum.skills, key=len)
    fixed = len(
        rendering.first_prompt(
            prompts.designer_messages(longest, blank, Memory(positives=(), negatives=()), config.designer.difficulty)
        )
    )
    if config.model.prompts == "seed" or config.roles.designer != "self":
        return  # it shows keywords, not documents; a frozen designer's context is its server's
    memory = config.memory.max_tokens if config.memory.enabled else 0
    prompt = fixed + config.corpus.max_tokens + memory
    room = config.model.max_context_tokens - prompt
    if room >= config.designer.max_tokens:
        yield Finding(
            "prompts",
            Verdict.OK,
            f"the longest prompt of the designer has {prompt} tokens and leaves room for designer.max_tokens "
            f"({config.designer.max_tokens})",
        )
    else:
        yield Finding(
            "prompts",
            Verdict.NOTE,
            f"the longest prompt of the designer has {prompt} tokens ({fixed} without document and memory), and a "
            f"context of {config.model.max_context_tokens} then leaves {max(0, room)} of the "
            f"{config.designer.max_tokens} tokens of designer.max_tokens; lower corpus.max_tokens or "
            "memory.max_tokens, or raise model.max_context_tokens",
        )


def _endpoint(config: Config) -> Iterator[Finding]:
    """What can be known without asking the server, which may be paid."""
    from spadework.engines.openai.client import endpoint_key

    if config.endpoint_users:
        endpoint_key(config.endpoint)
        users = ", ".join(config.endpoint_users)
        model, url = config.endpoint.model, config.endpoint.base_url
        yield Finding("endpoint", Verdict.OK, f"{model} at {url} for {users}; whether it answers is not tried")


def _corpus(found: Readiness) -> Iterator[Finding]:
    from spadework.curriculum.corpus import open_corpus

    corpus = open_corpus(found.config.corpus)
    left_out = ", ".join(f"{count} {reason}" for reason, count in corpus.skipped.items())
    draws = found.plan.draws.expected
    what = f"{len(corpus)} documents" + (f"; left out: {left_out}" if left_out else "")
    times = draws / len(corpus)
    if times > 1:
        yield Finding(
            "corpus",
            Verdict.NOTE,
            f"{what}; about {draws} are drawn, so that each is shown about {times:.0f} times; give more documents if "
            "environments should differ",
        )
    else:
        yield Finding("corpus", Verdict.OK, f"{what}; about {draws} are drawn")


def _sandbox(config: Config) -> Iterator[Finding]:
    import asyncio

    from spadework.cli.doctor import isolation_problems
    from spadework.sandbox.layers import grade
    from spadework.sandbox.probe import probe

    probed = asyncio.run(probe(config.sandbox))
    problems = isolation_problems(config.sandbox, probed)
    for problem in problems:
        yield Finding("sandbox", Verdict.PROBLEM, problem)
    if not problems:
        where = f"at {config.sandbox.address}: " if config.sandbox.address else ""
        required = ", ".join(sorted(config.sandbox.required_layers())) or "nothing"
        what = f"{where}isolation {grade(probed.layers)}, required {required}; a harmless program ran"
        yield Finding("sandbox", Verdict.OK, what)


def _held_out(config: Config) -> Iterator[Finding]:
    from spadework.evaluation.items import load_items, shipped_items, suite_of

    items = load_items(shipped_items(suite_of(config.agent.action_format)), config.evaluation.items)
    yield Finding("held-out items", Verdict.OK, f"{len(items.items)} of {items.suite}")


def _memory(found: Readiness) -> Iterator[Finding]:
    from spadework.cli.machine import memory_bytes

    if found.shape is None:
        return
    here = memory_bytes()
    held = sum(held_bytes(found.config, found.shape).values())
    working = sum(amount.expected for amount in working_bytes(found.config, found.plan, found.shape).values())
    if held > here:
        raise Refused(
            f"weights, optimiser and gradients take {size(held)} of memory and this machine has "
            f"{size(here)}; use a smaller model or a larger machine"
        )
    if held + working > here:
        yield Finding(
            "memory",
            Verdict.NOTE,
            f"about {size(held + working)} are needed, {size(working)} of it by what is sampled and trained at "
            f"once, and this machine has {size(here)}; lower curriculum.plays, engine.sample_batch or "
            "engine.train_tokens if it runs out",
        )
    else:
        yield Finding("memory", Verdict.OK, f"about {size(held + working)} of {size(here)}")


def _disk(found: Readiness, run: Path) -> Iterator[Finding]:
    if found.shape is None:
        return
    place = existing_parent(run)
    free = shutil.disk_usage(place).free
    kept = kept_bytes(found.config, found.shape)
    pool = pool_bytes(found.plan).expected
    if kept > free:
        raise Refused(
            f"checkpoints and model take {size(kept)} and {place} has {size(free)} free; put the run "
            "elsewhere with --run, or lower checkpoint.keep"
        )
    if kept + pool > free:
        yield Finding(
            "disk",
            Verdict.NOTE,
            f"about {size(kept + pool)} are needed at the end, {size(pool)} of it by the pool, and {place} has "
            f"{size(free)} free",
        )
    else:
        yield Finding("disk", Verdict.OK, f"about {size(kept + pool)} of {size(free)} free at {place}")


def size(count: int) -> str:
    """Bytes for people."""
    if count < GIBIBYTE:
        return f"{count / MEBIBYTE:.0f} MiB"
    return f"{count / GIBIBYTE:,.{1 if count < 100 * GIBIBYTE else 0}f} GiB"


def _importable(*names: str) -> bool:
    """Whether packages are there; that they are not is told under `packages`."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in names)
