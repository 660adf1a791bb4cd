"""Whether a run would get to its end on this machine: every reason why not, found without writing anything.

What fails for want of something else (a tokenizer's template without a tokenizer) is not told twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spadework.cli.engine_readiness import engine
from spadework.cli.errors import Refused
from spadework.cli.files import existing_parent
from spadework.cli.findings import Finding, Readiness, Verdict, size, told
from spadework.cli.model_readiness import model
from spadework.cli.plan import endpoint_use, plan_of

if TYPE_CHECKING:
    from spadework.config import Config


def examine(config: Config, run: Path) -> Readiness:
    """Look at everything that a run of ``config`` in the directory ``run`` would need."""
    found = Readiness(config, plan_of(config))
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("run directory", lambda: _run_directory(config, run)),
        ("packages", lambda: _packages()),
        ("engine", lambda: engine(found)),
        ("model", lambda: model(found)),
        ("endpoint", lambda: _endpoint(config)),
        ("corpus", lambda: _corpus(found)),
        ("sandbox", lambda: _sandbox(config)),
        ("held-out items", lambda: _held_out(config)),
        ("memory", lambda: _memory(found)),
        ("disk", lambda: _disk(found, run)),
    )
    for what, check in checks:
        found.findings += told(what, check)
    return found


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


def _packages() -> Iterator[Finding]:
    from spadework.cli.machine import package_problems, packages

    found = packages()
    problems = list(package_problems(found))
    for problem in problems:
        yield Finding("packages", Verdict.PROBLEM, problem)
    if not problems:
        needed = ", ".join(f"{package.name} {package.version}" for package in found if package.needed)
        yield Finding("packages", Verdict.OK, needed)


def _endpoint(config: Config) -> Iterator[Finding]:
    """What can be known without asking the server, which may be paid."""
    from spadework.engines.openai.client import endpoint_key

    if not config.endpoint_users:
        return
    endpoint_key(config.endpoint)
    users, endpoint = ", ".join(config.endpoint_users), config.endpoint
    use = endpoint_use(config)
    cost, tokens = use.cost(endpoint), use.prompts + use.replies
    expected = f"about {use.prompts:,} tokens of prompts and {use.replies:,} of replies"
    expected += f", cost about {cost:,.2f}" if cost else ""
    where = f"{endpoint.model} at {endpoint.base_url} for {users}: {expected}"
    for setting, needed, budget in (
        ("budget", cost, endpoint.budget),
        ("budget_tokens", float(tokens), endpoint.budget_tokens),
    ):
        if budget is not None and needed > budget:
            text = f"{where}; the run will stop at endpoint.{setting} = {budget:,g} and can be continued with more"
            yield Finding("endpoint", Verdict.NOTE, text)
            return
    yield Finding("endpoint", Verdict.OK, f"{where}; whether it answers is not tried")


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
    if found.config.engine.kind == "tinker":
        yield Finding("memory", Verdict.OK, "weights, optimiser and what is sampled are the service's")
        return
    footprint, here = found.footprint, found.memory
    if footprint is None or not here:
        return
    held, needed = sum(footprint.held.values()), footprint.memory.expected
    if held > here:
        remedy = "" if found.config.model.lora_rank else "set model.lora_rank to train an adapter alone, or "
        raise Refused(
            f"weights, optimiser and gradients take {size(held)} of memory and {found.where} has {size(here)}; "
            f"{remedy}use a smaller model or a larger machine"
        )
    if needed > here:
        samples_here = found.config.engine.sampler == "local"
        settings = f"lower {'curriculum.plays, engine.sample_batch or ' if samples_here else ''}engine.train_tokens"
        if not found.config.engine.gradient_checkpointing:
            settings += ", or set engine.gradient_checkpointing=true,"
        yield Finding(
            "memory",
            Verdict.NOTE,
            f"about {size(needed)} are needed, {size(needed - held)} of it by what is sampled and trained at once, and "
            f"{found.where} has {size(here)}; {settings} if it runs out",
        )
    else:
        yield Finding("memory", Verdict.OK, f"about {size(needed)} of {size(here)} of {found.where}")


def _disk(found: Readiness, run: Path) -> Iterator[Finding]:
    footprint = found.footprint
    if footprint is None:
        return
    place = existing_parent(run)
    free = shutil.disk_usage(place).free
    kept, needed = footprint.checkpoints + footprint.exported, footprint.disk.expected
    if kept > free:
        raise Refused(
            f"checkpoints and model take {size(kept)} and {place} has {size(free)} free; put the run "
            "elsewhere with --run, or lower checkpoint.keep"
        )
    if needed > free:
        yield Finding(
            "disk",
            Verdict.NOTE,
            f"about {size(needed)} are needed at the end, {size(footprint.pool.expected)} of it by the pool, and "
            f"{place} has {size(free)} free",
        )
    else:
        yield Finding("disk", Verdict.OK, f"about {size(needed)} of {size(free)} free at {place}")
