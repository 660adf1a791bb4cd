from __future__ import annotations

from collections.abc import Iterator

import pytest
from vllm_world import PYTHON, Server, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} is missing; `make test-vllm` makes the environment of the server and runs these tests")
    with serving(tmp_path_factory.mktemp("vllm")) as started:
        yield started
