"""`spadework doctor`: whether training may run on this machine, and how programs are isolated where they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from spadework.cli.options import AsJson, Overrides

if TYPE_CHECKING:
    from rich.console import Console

    from spadework.cli.machine import Package
    from spadework.sandbox import SandboxConfig
    from spadework.sandbox.probe import Probe

EXAMPLES = "Examples: spadework doctor | spadework doctor --json | spadework doctor --set sandbox.isolation=best-effort"
UNFIT = 1
"""Exit status if training may not run."""
GIBIBYTE = 1 << 30


def doctor(overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Look at this machine: packages, cores, memory, and every layer of isolation around a program.

    With `sandbox.address` the layers are those of the sandbox there.

    Exit status: 0 if training may run, 1 if not.
    """
    import asyncio

    from spadework.cli.machine import packages
    from spadework.cli.output import console, plain, print_json
    from spadework.config import Config
    from spadework.presets import change_config
    from spadework.sandbox.probe import probe

    config = change_config(Config(), overrides or ()).sandbox
    probed = asyncio.run(probe(config))
    found = packages()
    problems = _problems(config, probed, found)
    if as_json:
        print_json(_as_json(config, probed, found, problems))
    else:
        out = console()
        _print_machine(out, found)
        _print_isolation(out, config, probed)
        for problem in problems:
            out.print(plain(f"NO  {problem}", "red"), soft_wrap=True)
        verdict = "training may not run" if problems else "training may run"
        out.print(plain(verdict, "bold red" if problems else "bold green"))
    if problems:
        raise typer.Exit(UNFIT)


def _problems(config: SandboxConfig, probed: Probe, found: tuple[Package, ...]) -> list[str]:
    """A sentence for each reason why training may not run."""
    from spadework.cli.machine import package_problems

    return [*package_problems(found), *isolation_problems(config, probed)]


def isolation_problems(config: SandboxConfig, probed: Probe) -> list[str]:
    """A sentence for each reason why programs may not run."""
    from spadework.sandbox import InfrastructureFault
    from spadework.sandbox.pool import require

    problems = []
    try:
        require(probed.layers, config)
    except InfrastructureFault as fault:
        problems.append(f"{config.address}: {fault}" if config.address else str(fault))
    if probed.failure:
        problems.append(f"a harmless program does not run in the sandbox{_place(config)}: {probed.failure}")
    return problems


def _print_machine(out: Console, found: tuple[Package, ...]) -> None:
    from spadework.cli.machine import cores, memory_bytes
    from spadework.cli.output import plain, table

    out.print(plain(", ".join(f"{name} {value}" for name, value in _versions().items())))
    out.print(plain(f"{cores()} cores, {memory_bytes() / GIBIBYTE:.1f} GiB of memory"))
    rows = [(package.name, package.version, package.failure or "can be used", package.extra) for package in found]
    out.print(table(("package", "version", "state", "extra"), rows))


def _print_isolation(out: Console, config: SandboxConfig, probed: Probe) -> None:
    from spadework.cli.output import plain, table
    from spadework.sandbox.layers import grade

    rows = [
        (layer.name, "yes" if layer.in_force else f"no: {layer.absent_because}", layer.purpose.stops)
        for layer in probed.layers
    ]
    out.print(table(("layer", "in force", "with it a program cannot"), rows))
    required = ", ".join(sorted(config.required_layers())) or "nothing"
    what = f"isolation{_place(config)}: {grade(probed.layers)}; sandbox.isolation requires {required}"
    out.print(plain(what), soft_wrap=True)
    if probed.sandbox_start_s is not None and probed.worker_start_s is not None:
        times = f"{1000 * probed.sandbox_start_s:.0f} ms, and a program in it in {1000 * probed.worker_start_s:.1f} ms"
        out.print(plain(f"a harmless program ran{_place(config)}: the sandbox started in {times}"), soft_wrap=True)


def _place(config: SandboxConfig) -> str:
    """Where programs run, unless that is here."""
    return f" at {config.address}" if config.address else ""


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    return {
        "spadework": version("spadework"),
        "Python": platform.python_version(),
        platform.system(): f"{platform.release()} {platform.machine()}",
    }


def _as_json(config: SandboxConfig, probed: Probe, found: tuple[Package, ...], problems: list[str]) -> dict[str, Any]:
    from dataclasses import asdict

    from spadework.cli.machine import cores, memory_bytes
    from spadework.sandbox.layers import grade

    return {
        "may_train": not problems,
        "problems": problems,
        "versions": _versions(),
        "cores": cores(),
        "memory_bytes": memory_bytes(),
        "packages": [asdict(package) | {"extra": package.extra, "needed": package.needed} for package in found],
        "isolation": {
            "address": config.address,
            "grade": grade(probed.layers),
            "required": sorted(config.required_layers()),
            "layers": [asdict(layer) | {"in_force": layer.in_force} | asdict(layer.purpose) for layer in probed.layers],
        },
        "probe": {
            "failure": probed.failure,
            "sandbox_start_s": probed.sandbox_start_s,
            "worker_start_s": probed.worker_start_s,
        },
    }
