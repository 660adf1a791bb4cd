"""Each layer is asked of the kernel, told truly, and needed by none but those that build on it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest
from ordinary_user import ordinary_python
from processes import children, wait_until_dead
from pydantic import ValidationError

from spadework.sandbox import InfrastructureFault, Layer, LayerName, Limits, Sandbox
from spadework.sandbox.layers import PURPOSES, grade, in_force

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are those of Linux")

BEST_EFFORT = Limits(isolation="best-effort")
SWITCHABLE = [name for name in LayerName if name is not LayerName.PROCESS]

IN_A_USER_NAMESPACE = {
    *(LayerName.UTS_NAMESPACE, LayerName.IPC_NAMESPACE, LayerName.PID_NAMESPACE, LayerName.NETWORK_NAMESPACE),
    LayerName.EMPTY_ROOT,
}
BUILT_ON = {
    LayerName.NO_NEW_PRIVILEGES: {LayerName.LANDLOCK, LayerName.SECCOMP},
    LayerName.USER_NAMESPACE: set() if os.geteuid() == 0 else IN_A_USER_NAMESPACE,
}
"""What the kernel grants to an ordinary user only with another layer."""

NAMESPACE_FILES = {
    LayerName.UTS_NAMESPACE: "uts",
    LayerName.IPC_NAMESPACE: "ipc",
    LayerName.PID_NAMESPACE: "pid",
    LayerName.NETWORK_NAMESPACE: "net",
}

PROBE = """
import os, platform, socket


class ProbeEnv:
    def reset(self, seed=None, options=None):
        return platform.node(), {}

    def step(self, action):
        what, _, argument = action.partition(" ")
        try:
            if what == "read":
                open(argument).read()
            elif what == "connect":
                socket.create_connection(("127.0.0.1", int(argument)), timeout=0.5)
            elif what == "kill":
                os.kill(int(argument), 9)
            elif what == "fork":
                if os.fork() == 0:
                    os._exit(0)
        except OSError as error:
            return type(error).__name__, 0.0, False, False, {}
        return "done", 0.0, False, False, {}
"""


async def level(without: Collection[LayerName] = (), limits: Limits = BEST_EFFORT) -> tuple[Layer, ...]:
    async with Sandbox(limits, without=without) as sandbox:
        return sandbox.level()


@cache
def offered() -> frozenset[LayerName]:
    """What this host puts in force."""
    return in_force(asyncio.run(level()))


def require_offered(*names: LayerName) -> None:
    if lacking := set(names) - offered():
        pytest.skip(f"this host does not offer {', '.join(sorted(lacking))}")


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_every_layer_is_told_in_order_with_its_purpose() -> None:
    layers = asyncio.run(level())
    assert [layer.name for layer in layers] == list(LayerName) == list(PURPOSES)
    assert in_force(layers) >= {LayerName.PROCESS, LayerName.RESOURCE_LIMITS, LayerName.NO_CAPABILITIES}
    assert all(layer.purpose.stops and layer.purpose.needs for layer in layers)


def test_the_page_on_security_has_every_layer_with_its_purpose() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \| .+ \|$", page, re.MULTILINE)
    assert rows == [(name, purpose.stops) for name, purpose in PURPOSES.items()]


def test_what_is_told_is_what_the_kernel_says_of_a_worker(guess: str) -> None:
    async def run() -> None:
        async with Sandbox(BEST_EFFORT) as sandbox, await sandbox.open(guess) as program:
            names = in_force(sandbox.level())
            (pid,) = program.pids()
            seen = status(pid)
            assert (seen["Seccomp"] == "2") == (LayerName.SECCOMP in names)
            assert (seen["NoNewPrivs"] == "1") == (LayerName.NO_NEW_PRIVILEGES in names)
            assert (len(seen["NSpid"].split()) == 2) == (LayerName.PID_NAMESPACE in names)
            assert ({seen["CapPrm"], seen["CapEff"], seen["CapInh"]} == {"0" * 16}) == (
                LayerName.NO_CAPABILITIES in names
            )
            assert (set(seen["Uid"].split()) == {"65534"}) == (LayerName.USER_NOBODY in names or os.geteuid() == 65534)
            try:
                root = str(Path(f"/proc/{pid}/root").readlink())
            except PermissionError:
                return  # the rest is for those who may trace a worker
            assert root.endswith("(deleted)") == (LayerName.EMPTY_ROOT in names)
            for name, file in NAMESPACE_FILES.items():
                theirs, ours = (Path(f"/proc/{which}/ns/{file}").readlink() for which in (pid, "self"))
                assert (theirs != ours) == (name in names), name

    asyncio.run(run())


@pytest.mark.parametrize("name", SWITCHABLE)
def test_without_one_layer_the_others_hold(name: LayerName) -> None:
    layers = asyncio.run(level(without=[name]))
    assert in_force(layers) == offered() - {name} - BUILT_ON.get(name, set())
    (layer,) = [layer for layer in layers if layer.name is name]
    assert layer.absent_because == "switched off"


def test_a_process_of_its_own_cannot_be_switched_off() -> None:
    with pytest.raises(ValueError, match="process of their own"):
        Sandbox(without=[LayerName.PROCESS])


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[list[str]]:
    """What a program may reach for: a file that all may read, a local service, a process, a child of its own."""
    tmp_path.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server, subprocess.Popen(["sleep", "60"]) as victim:
        yield ["read /etc/passwd", f"connect {server.getsockname()[1]}", f"kill {victim.pid}", "fork"]
        assert victim.poll() is None
        victim.kill()


async def answers(targets: list[str], without: Collection[LayerName]) -> list[str]:
    async with Sandbox(BEST_EFFORT, without=without) as sandbox, await sandbox.open(PROBE) as program:
        play, _ = await program.reset(0)
        return [(await play.step(target)).observation for target in targets]


@pytest.mark.parametrize("name", SWITCHABLE)
def test_no_layer_stands_alone(name: LayerName, targets: list[str]) -> None:
    require_offered(LayerName.PID_NAMESPACE, LayerName.NETWORK_NAMESPACE, LayerName.LANDLOCK, LayerName.SECCOMP)
    assert "done" not in asyncio.run(answers(targets, [name]))


ERRORS = {
    LayerName.EMPTY_ROOT: ("read", "FileNotFoundError"),
    LayerName.LANDLOCK: ("read", "PermissionError"),
    LayerName.NETWORK_NAMESPACE: ("connect", "OSError"),
    LayerName.PID_NAMESPACE: ("kill", "ProcessLookupError"),
    LayerName.RESOURCE_LIMITS: ("fork", "BlockingIOError"),
    LayerName.USER_NOBODY: ("kill", "PermissionError"),
    LayerName.SECCOMP: ("fork", "PermissionError"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_layer_alone_stops_what_it_is_for(name: LayerName, targets: list[str]) -> None:
    needed = {LayerName.NO_NEW_PRIVILEGES}
    if os.geteuid() != 0 and name in IN_A_USER_NAMESPACE:
        needed.add(LayerName.USER_NAMESPACE)
    if name is LayerName.RESOURCE_LIMITS:
        needed.add(LayerName.USER_NOBODY)  # the limit on processes does not bind root
    require_offered(name, *(needed & {LayerName.USER_NAMESPACE}))
    what, error = ERRORS[name]
    target = next(target for target in targets if target.startswith(what))
    others = [other for other in SWITCHABLE if other not in needed]
    if name is not LayerName.USER_NOBODY and what != "kill":
        assert asyncio.run(answers([target], others)) == ["done"]
    assert asyncio.run(answers([target], [other for other in others if other is not name])) == [error]


def test_the_hosts_name_is_hidden(guess: str) -> None:
    require_offered(LayerName.UTS_NAMESPACE)

    async def name(without: Collection[LayerName]) -> str:
        async with Sandbox(BEST_EFFORT, without=without) as sandbox, await sandbox.open(PROBE) as program:
            return (await program.reset(0))[1]

    assert asyncio.run(name([])) == "sandbox"
    assert asyncio.run(name([LayerName.UTS_NAMESPACE])) == socket.gethostname()
    assert socket.gethostname() != "sandbox"


def test_a_template_whose_namespace_is_gone_is_replaced(tripwire: str) -> None:
    require_offered(LayerName.PID_NAMESPACE)

    async def run() -> None:
        async with Sandbox() as sandbox, await sandbox.open(tripwire) as program:
            play, _ = await program.reset(5)
            (worker,) = program.pids()
            (init,) = set(children(int(status(worker)["PPid"]))) - {worker}
            os.kill(init, signal.SIGKILL)
            while program.pids():
                await asyncio.sleep(0.01)
            assert wait_until_dead([init, worker], 5) == []
            assert (await play.step("x")).observation == "count 6"
            assert program.pids() != (worker,)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_strict_refuses_to_run_without_the_filter_and_says_what_helps() -> None:
    wanted = (
        r"sandbox.isolation = 'strict' requires what is not in force here: seccomp \(switched off\); run on Linux with "
        r"seccomp, on x86-64 or ARM64, or accept less with sandbox.isolation = 'best-effort'$"
    )
    with pytest.raises(InfrastructureFault, match=wanted):
        asyncio.run(level([LayerName.SECCOMP], Limits(isolation="strict")))
    assert LayerName.SECCOMP not in in_force(asyncio.run(level([LayerName.SECCOMP])))


def test_strict_does_without_what_a_container_lacks() -> None:
    assert asyncio.run(level([*IN_A_USER_NAMESPACE, LayerName.LANDLOCK], Limits(isolation="strict")))


def test_a_list_requires_the_layers_that_it_names_and_no_others() -> None:
    required = Limits(isolation=(LayerName.NO_NEW_PRIVILEGES, LayerName.EMPTY_ROOT))
    with pytest.raises(InfrastructureFault, match=r"empty-root \(switched off\); .*leave it out of sandbox.isolation$"):
        asyncio.run(level([LayerName.EMPTY_ROOT], required))
    weak = Limits(isolation=(LayerName.NO_NEW_PRIVILEGES,))
    assert asyncio.run(level([LayerName.SECCOMP], weak))


@pytest.mark.parametrize("isolation", ["lax", [], ["seccomp", "moat"], None, 1])
def test_a_level_that_there_is_not_is_refused_in_one_sentence(isolation: object) -> None:
    with pytest.raises(ValidationError) as refused:
        Limits.model_validate({"isolation": isolation})
    (error,) = refused.value.errors()
    assert "it should be 'strict', 'best-effort' or a list of layers, of which there are process, " in error["msg"]


def test_the_grade_follows_the_layers() -> None:
    def graded(*without: LayerName) -> str:
        return grade([Layer(name, "gone" if name in without else "") for name in LayerName]).partition(":")[0]

    assert graded() == graded(LayerName.USER_NAMESPACE) == "strongest"
    assert graded(LayerName.PID_NAMESPACE) == graded(LayerName.NETWORK_NAMESPACE) == "strong"
    assert graded(LayerName.PID_NAMESPACE, LayerName.LANDLOCK) == "good"
    assert graded(LayerName.SECCOMP) == "weak"
    assert graded(*LayerName) == "unknown"


LEVEL = """
import asyncio, json, sys
from spadework.sandbox import Limits, Sandbox

async def main():
    async with Sandbox(Limits(isolation="best-effort"), without=sys.argv[2:]) as sandbox:
        program = await sandbox.open(sys.argv[1])
        await program.reset(0)
        seen = open(f"/proc/{program.pids()[0]}/status").read()
        print(json.dumps([{layer.name: layer.absent_because for layer in sandbox.level()}, seen]))

asyncio.run(main())
"""


def ordinary_level(*without: LayerName) -> tuple[dict[str, str], str]:
    process = ordinary_python(LEVEL, PROBE, *without)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    layers, seen = json.loads(out)
    return layers, seen


def test_an_ordinary_user_has_namespaces_through_one_of_users_and_no_capability_in_it() -> None:
    layers, seen = ordinary_level()
    assert "only root can change users" in layers[LayerName.USER_NOBODY]
    assert "CapPrm:\t0000000000000000" in seen
    if layers[LayerName.USER_NAMESPACE]:
        pytest.skip(f"this host gives ordinary users no namespace: {layers[LayerName.USER_NAMESPACE]}")
    assert not any(layers[name] for name in IN_A_USER_NAMESPACE)


def test_an_ordinary_user_without_namespaces_has_the_other_layers() -> None:
    before, _ = ordinary_level()
    layers, _ = ordinary_level(LayerName.USER_NAMESPACE)
    for name in LayerName:
        if name in IN_A_USER_NAMESPACE:
            assert layers[name], name
        elif name is not LayerName.USER_NAMESPACE:
            assert layers[name] == before[name]
    assert "not permitted" in layers[LayerName.NETWORK_NAMESPACE]
    assert "without a user namespace" in layers[LayerName.EMPTY_ROOT]


HANGING_HOST = """
import asyncio, signal, sys
from spadework.sandbox import Limits, Sandbox

signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    limits = Limits(isolation="best-effort", step_timeout_s=60)
    async with Sandbox(limits, without=sys.argv[2:]) as sandbox, await sandbox.open(sys.argv[1]) as program:
        play, _ = await program.reset(0)
        hanging = asyncio.ensure_future(play.step("hang"))
        await asyncio.sleep(0.2)
        print("ready", flush=True)
        await hanging

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("without", [[], [LayerName.DIES_WITH_HOST], [LayerName.PID_NAMESPACE]])
def test_no_process_of_an_ordinary_user_outlives_a_killed_host(
    tripwire: str, without: list[LayerName], number: signal.Signals
) -> None:
    if LayerName.DIES_WITH_HOST in without and ordinary_level()[0][LayerName.PID_NAMESPACE]:
        pytest.skip("this host gives ordinary users no pid namespace, which stands in for the layer")
    host = ordinary_python(HANGING_HOST, tripwire, *without)
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    processes = children(host.pid)
    assert len(processes) >= 2
    host.send_signal(number)
    host.communicate(timeout=10)
    assert wait_until_dead(processes, 5) == []
