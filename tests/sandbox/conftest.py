from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from both import ALL, Where
from small_programs import GUESS, TRIPWIRE


@pytest.fixture(scope="session")
def guess() -> str:
    """A well-behaved program. The target is `random.Random(seed).randint(1, 100)`."""
    return GUESS


@pytest.fixture(scope="session")
def tripwire() -> str:
    """A program whose actions `die`, `babble`, `hang` (deaf to its deadline) and `loop` do what they say."""
    return TRIPWIRE


@pytest.fixture(params=ALL)
def where(request: pytest.FixtureRequest) -> Where:
    """Once for each kind of sandbox."""
    where: Where = request.param
    return where


@pytest.fixture(scope="module", autouse=True)
def ray_ends() -> Iterator[None]:
    """No test finds processes of Ray that other tests have started."""
    yield
    if (ray := sys.modules.get("ray")) is not None:
        ray.shutdown()
