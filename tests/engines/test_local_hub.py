from __future__ import annotations

import shutil
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants, errors
from tiny_models import open_tiny

from spadework.engines.local import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def put(cache: Path, model: Path) -> Path:
    """Lay ``model`` out as a download leaves it."""
    repository = cache / "models--someone--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    shutil.copytree(model, repository / "snapshots" / COMMIT)
    return repository / "snapshots" / COMMIT


def test_a_model_of_the_cache_is_used_without_a_network(cache: Path, tiny_qwen3: Path) -> None:
    expected = put(cache, tiny_qwen3)
    assert hub.snapshot("someone/tiny") == expected
    assert open_tiny(hub.snapshot("someone/tiny")).vocabulary == 60


def test_a_model_that_cannot_be_had_is_one_sentence(cache: Path) -> None:
    with pytest.raises(hub.NotFetched, match=r"someone/tiny is no directory here .*cannot be reached") as caught:
        hub.snapshot("someone/tiny")
    assert "hf download someone/tiny" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_no_model_of_the_hub_can_have_is_one_sentence(cache: Path) -> None:
    with pytest.raises(hub.NotFetched, match="models/my--model is no directory here"):
        hub.snapshot("models/my--model")


def test_errors_of_the_network_are_one_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (http_error,) = [kind for kind in errors.HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError"]

    def broken(*arguments: object, **options: object) -> str:
        if options.get("local_files_only"):
            raise errors.LocalEntryNotFoundError("no")
        raise http_error("the connection was broken off")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(hub.NotFetched, match="cannot be reached from here"):
        hub.snapshot("org/name")


def test_a_download_that_lacks_a_part_of_the_weights_is_not_taken_for_whole(cache: Path, tiny_qwen3: Path) -> None:
    directory = put(cache, tiny_qwen3)
    (directory / "model.safetensors").rename(directory / "model-00001-of-00002.safetensors")
    parts = '"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"'
    (directory / "model.safetensors.index.json").write_text(f'{{"weight_map": {{{parts}}}}}')
    with pytest.raises(hub.NotFetched):
        hub.snapshot("someone/tiny")
    shutil.copy(tiny_qwen3 / "model.safetensors", directory / "model-00002-of-00002.safetensors")
    assert hub.snapshot("someone/tiny") == directory


@pytest.mark.parametrize(
    ("kind", "part"),
    [(errors.GatedRepoError, "terms must be accepted"), (errors.RepositoryNotFoundError, "no such model")],
)
def test_what_the_hub_refuses_is_told_apart(
    cache: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], part: str
) -> None:
    import httpx

    def refuse(*_: object, local_files_only: bool = False, **__: object) -> str:
        if local_files_only:
            raise errors.LocalEntryNotFoundError("nothing here")
        raise kind("a page of explanations\n", response=httpx.Response(403, request=httpx.Request("GET", "https://h")))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(hub.NotFetched, match=part):
        hub.snapshot("someone/tiny")


@pytest.mark.parametrize("path", ["Qwen/Qwen3-8B", "someone/a.b-c_d"])
def test_ids_of_the_hub_are_told_from_paths(path: str) -> None:
    assert hub.ID.fullmatch(path)


@pytest.mark.parametrize("path", ["seed", "/models/one", "./models/one", "../one", "models/", "a/b/c", "~/one"])
def test_paths_are_no_ids_of_the_hub(path: str) -> None:
    assert not hub.ID.fullmatch(path)
