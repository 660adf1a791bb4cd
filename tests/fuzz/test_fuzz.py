"""Whatever arrives is taken for what it is or refused: see `fuzz_targets.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fuzz_targets import TARGETS, program_source, text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spadework.sandbox import EnvironmentFault, Sandbox

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""On a busy machine too."""
CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.glob("*/*"))


def kept(target: str) -> list[bytes]:
    return [path.read_bytes() for path in FILES if path.parent.name == target]


@st.composite
def variations(draw: st.DrawFn, target: str) -> bytes:
    """A kept input with some of its bytes exchanged, repeated or left out, or with a piece of another one."""
    inputs = st.sampled_from(kept(target))
    data = draw(inputs)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        other = draw(inputs)
        cut = draw(st.integers(0, len(other)))
        piece = draw(st.binary(max_size=8) | st.just(data[start:end] * 3) | st.just(other[cut : cut + 40]))
        data = data[:start] + piece + data[end:]
    return data


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kept_inputs(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
@settings(UNHURRIED, max_examples=300)
@given(st.data())
def test_variations_of_kept_inputs(target: str, data: st.DataObject) -> None:
    TARGETS[target](data.draw(variations(target)))


@pytest.mark.parametrize("target", TARGETS)
@UNHURRIED
@given(data=st.binary(max_size=300))
def test_any_bytes(target: str, data: bytes) -> None:
    TARGETS[target](data)


@UNHURRIED
@given(st.text(max_size=200))
def test_any_source(text: str) -> None:
    program_source(text.encode("utf-8", "surrogatepass"))


def test_a_sandbox_opens_or_refuses_any_source_and_goes_on() -> None:
    """Here a worker reads each source, with its own loader, and runs it."""

    async def opens(sandbox: Sandbox, source: str) -> bool:
        try:
            async with await sandbox.open(source) as program:
                return program.info.class_name.endswith("Env")
        except EnvironmentFault as fault:
            assert fault.reason
            return False

    with asyncio.Runner() as runner:
        sandbox = runner.run(Sandbox().__aenter__())

        @settings(UNHURRIED, max_examples=60)
        @given(variations("program_source"))
        def varied(data: bytes) -> None:
            runner.run(opens(sandbox, data.decode("utf-8", "surrogateescape")))

        try:
            sources = [text_of(data) for data in kept("program_source")]
            assert sum(runner.run(opens(sandbox, source)) for source in sources) > 10
            varied()
            assert runner.run(opens(sandbox, (CORPUS / "program_source" / "coin").read_text()))
        finally:
            runner.run(sandbox.close())
