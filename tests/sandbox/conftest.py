from __future__ import annotations

import pytest
from both import BOTH, Where
from small_programs import GUESS, TRIPWIRE


@pytest.fixture(scope="session")
def guess() -> str:
    """A well-behaved program. The target is `random.Random(seed).randint(1, 100)`."""
    return GUESS


@pytest.fixture(scope="session")
def tripwire() -> str:
    """A program whose actions `die`, `babble`, `hang` (deaf to its deadline) and `loop` do what they say."""
    return TRIPWIRE


@pytest.fixture(params=BOTH)
def where(request: pytest.FixtureRequest) -> Where:
    """Once for the sandbox of this process, once for a served one."""
    where: Where = request.param
    return where
