"""A control group around all programs, over folders that stand for the kernel's.

What the kernel does with such a group is not tried here: no machine at hand delegates one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from spadework.sandbox import LayerName, Limits, Sandbox, control_group
from spadework.sandbox.control_group import NoControlGroup, memory_bytes

SCOPE = "user.slice/user-7.slice/run.scope"


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A hierarchy in which this process is in `SCOPE`, beside which memory and processes can be limited."""
    (tmp_path / SCOPE).mkdir(parents=True)
    (tmp_path / SCOPE).parent.joinpath("cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "own").write_text(f"12:memory:/elsewhere\n0::/{SCOPE}\n")
    return tmp_path


def test_a_group_is_made_beside_the_own_one_with_its_limits(mounted: Path) -> None:
    group = control_group.make(300, mounted, mounted / "own")
    assert group.parent == (mounted / SCOPE).parent
    assert (group / "memory.max").read_text() == str(300 * 1024 * 1024)
    assert int((group / "pids.max").read_text()) == 16_384


def test_the_programs_have_at_most_three_quarters_of_the_machine() -> None:
    assert memory_bytes(6000, 8_000_000_000) == 6_000_000_000
    assert memory_bytes(2, 8_000_000_000) == 2_097_152


def test_a_group_with_processes_in_it_is_not_removed(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "in use").touch()
    assert not control_group.remove(group)
    (group / "in use").unlink()
    assert control_group.remove(group)
    assert not group.exists()
    assert control_group.remove(group)


@pytest.mark.parametrize(
    ("membership", "controllers", "reason"),
    [
        ("5:memory:/x\n", "memory pids", "none of version 2"),
        ("0::/\n", "memory pids", "topmost group"),
        (f"0::/{SCOPE}\n", "cpu pids", "^memory cannot be limited"),
        (f"0::/{SCOPE}\n", "", "^memory and pids cannot be limited"),
        ("0::/gone/run.scope\n", "memory pids", "this user may make none"),
    ],
)
def test_where_none_can_be_made_the_reason_is_told(
    mounted: Path, membership: str, controllers: str, reason: str
) -> None:
    (mounted / SCOPE).parent.joinpath("cgroup.subtree_control").write_text(controllers)
    (mounted / "own").write_text(membership)
    with pytest.raises(NoControlGroup, match=reason):
        control_group.make(300, mounted, mounted / "own")


def test_a_sandbox_enters_its_group_and_tells_so(guess: str, mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_group.make, "__defaults__", (mounted, mounted / "own"))

    async def run() -> None:
        async with Sandbox(Limits(total_memory_mb=700)) as sandbox, await sandbox.open(guess):
            (layer,) = [layer for layer in sandbox.level() if layer.name is LayerName.CONTROL_GROUP]
            assert layer.in_force
            (group,) = (mounted / SCOPE).parent.glob("spadework-*")
            assert (group / "cgroup.procs").read_text() == "0"
            assert (group / "memory.max").read_text() == str(700 << 20)
            for file in group.iterdir():
                file.unlink()  # those of the kernel go with their folder
        assert not group.exists()

    asyncio.run(run())
