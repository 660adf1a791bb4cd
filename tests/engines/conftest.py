from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import save_tiny_model


@pytest.fixture(scope="session", params=["qwen3", "llama"])
def tiny_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param, tied=request.param == "qwen3")


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("qwen3-only"), "qwen3")
