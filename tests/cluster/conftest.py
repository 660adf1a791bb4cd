from __future__ import annotations

from collections.abc import Iterator

import pytest
from skyrl_world import PYTHON, Server, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not PYTHON.exists():
        pytest.fail(
            f"{PYTHON} is missing; `make test-cluster` makes the environment of the server and runs these tests"
        )
    with serving(tmp_path_factory.mktemp("skyrl")) as started:
        yield started
