"""Every hostile program is contained, and a well-behaved program beside it plays as if alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from attacking import (
    LAYER_SETS,
    LIMITS,
    NAMES,
    Outcome,
    Result,
    attack_all,
    attack_as_ordinary_user,
    attack_here,
    bait,
    untouched,
)
from both import BOTH, sandbox_at

from spadework.sandbox import FaultKind, LayerName

EXPECTED = {
    "channel_flood": FaultKind.PROTOCOL, "channel_forged": FaultKind.PROTOCOL, "channel_garbage": FaultKind.PROTOCOL,
    "channel_huge_array": FaultKind.PROTOCOL, "channel_nested": FaultKind.PROTOCOL,
    "channel_types": FaultKind.PROTOCOL, "channel_half": FaultKind.TIMEOUT, "channel_read": FaultKind.TIMEOUT,
    "exit_abort": FaultKind.EXIT, "exit_channel": FaultKind.EXIT, "exit_kill": FaultKind.EXIT,
    "exit_os": FaultKind.EXIT, "exit_segfault": FaultKind.EXIT, "exit_sys": FaultKind.EXIT,
    "hook_exit": FaultKind.EXIT, "namespace": FaultKind.EXIT, "parent_trace": FaultKind.EXIT,
    "wipe_builtins": FaultKind.EXIT, "exit_generator": FaultKind.EXCEPTION, "exit_interrupt": FaultKind.EXCEPTION,
    "recursion": FaultKind.EXCEPTION, "file_import": FaultKind.LOAD, "info_endless": FaultKind.OUTPUT,
    "info_huge": FaultKind.OUTPUT, "observation_huge": FaultKind.OUTPUT,
    "observation_surrogate": FaultKind.CONTRACT, "reward_huge": FaultKind.CONTRACT,
    "reward_infinite": FaultKind.CONTRACT, "reward_nan": FaultKind.CONTRACT, "reward_text": FaultKind.CONTRACT,
    "shape_wrong": FaultKind.CONTRACT, "types_wrong": FaultKind.CONTRACT, "memory_at_once": FaultKind.MEMORY,
    "loop_blocked": FaultKind.TIMEOUT, "loop_deaf": FaultKind.TIMEOUT, "loop_import": FaultKind.TIMEOUT,
    "loop_init": FaultKind.TIMEOUT, "loop_message": FaultKind.TIMEOUT, "loop_regex": FaultKind.TIMEOUT,
    "loop_repr": FaultKind.TIMEOUT, "loop_reset": FaultKind.TIMEOUT, "loop_step": FaultKind.TIMEOUT,
    "loop_swallow": FaultKind.TIMEOUT, "sleep": FaultKind.TIMEOUT, "stop_itself": FaultKind.TIMEOUT,
    "exit_converting": None, "patch_os": None, "patch_random": None, "print_binary": None, "print_flood": None,
    "wipe_modules": None, "loop_del": None, "descriptors": None, "secret_environ": None, "secret_heap": None,
    "proc_fork_bomb": None, "file_exists": None, "frames": None, "reward_object": FaultKind.CONTRACT,
}  # fmt: skip
"""What must become of a program; None if it answers. Those not listed raise what the refused call raised."""


EXHAUSTING = ("memory_growing", "memory_small", "loop_in_c", "recursion_in_c")
"""What ends them first depends on the machine."""


@pytest.fixture(scope="module", params=BOTH)
def attacked(guess: str, request: pytest.FixtureRequest) -> tuple[dict[str, Outcome], bool]:
    """What became of every program, and whether nothing outside had changed after them."""

    async def run() -> dict[str, Outcome]:
        async with sandbox_at(request.param, LIMITS) as sandbox:
            return await attack_all(sandbox, guess)

    with bait():
        return asyncio.run(run()), untouched()


@pytest.fixture(scope="module")
def outcomes(attacked: tuple[dict[str, Outcome], bool]) -> dict[str, Outcome]:
    return attacked[0]


@pytest.mark.parametrize("name", NAMES)
def test_attack_is_contained(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    assert outcome.contained, outcome
    if name in EXPECTED:
        assert outcome.kind is EXPECTED[name], outcome
    elif name in EXHAUSTING:
        assert outcome.kind in (FaultKind.MEMORY, FaultKind.TIMEOUT, FaultKind.EXIT, FaultKind.EXCEPTION)
    elif name == "memory_held":
        assert outcome.kind in (None, FaultKind.MEMORY, FaultKind.TIMEOUT, FaultKind.EXIT)
    else:
        assert outcome.kind is FaultKind.EXCEPTION, outcome


def test_nothing_outside_has_changed(attacked: tuple[dict[str, Outcome], bool]) -> None:
    outcomes, nothing_changed = attacked
    assert len(outcomes) == len(NAMES) > 80
    assert nothing_changed


REACH_NOTHING = {
    "memory_executable", "memory_file", "net_unix", "parent_limits", "parent_priority", "signal_everybody",
    "signal_owner",
}  # fmt: skip
"""Calls that succeed without the filter, on the program itself or on nobody: in its namespace it has no parent."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the layers are those of Linux")
@pytest.mark.parametrize("attempt", [attack_here, attack_as_ordinary_user])
@pytest.mark.parametrize("layers", LAYER_SETS)
def test_all_are_contained_by_fewer_layers(layers: str, attempt: Callable[[tuple[LayerName, ...]], Result]) -> None:
    result = attempt(LAYER_SETS[layers])
    if LayerName.SECCOMP in result.in_force:
        assert result.through == []
    elif LayerName.PID_NAMESPACE in result.in_force:
        assert set(result.through) <= REACH_NOTHING
    else:
        pytest.skip("this host allows no namespaces, without which a program needs the filter")
