"""Models by their id on the Hugging Face hub. A model that was downloaded once is used without asking again."""

from __future__ import annotations

import json
import re
from pathlib import Path

ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
FILES = ("*.json", "*.jinja", "*.safetensors", "*.model", "*.txt")
"""What is downloaded: configuration, tokenizer, chat template and weights."""
INDEX, WEIGHTS = "model.safetensors.index.json", "model.safetensors"


class NotFetched(ValueError):
    """A model that is neither in the cache nor to be had from the hub; the message says why and what to do."""


def cached(model: str) -> Path | None:
    """The directory of ``model`` in the hub's cache, or None if it is not there whole. Raises MissingExtra."""
    from spadework.engines.open import MissingExtra

    try:
        from huggingface_hub import errors, snapshot_download
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "models of the hub need huggingface_hub, which is not installed: pip install 'spadework[train]'"
        ) from error
    try:
        found = Path(snapshot_download(model, allow_patterns=[*FILES], local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError):  # not downloaded yet, or no name of the hub's
        return None
    return found if _whole(found) else None


def snapshot(model: str) -> Path:
    """The directory of ``model`` ("org/name") in the hub's cache, downloaded if it is not there whole.

    Raises MissingExtra and NotFetched.
    """
    kept = cached(model)
    if kept is not None:
        return kept
    from huggingface_hub import errors, snapshot_download

    unreachable: tuple[type[Exception], ...] = (OSError, ValueError, *_network_errors())
    try:
        downloaded = Path(snapshot_download(model, allow_patterns=[*FILES]))
    except errors.GatedRepoError as error:
        reason = "its terms must be accepted on its page, and HF_TOKEN set"
        raise _not_fetched(model, reason) from error
    except errors.RepositoryNotFoundError as error:
        raise _not_fetched(model, "the hub has no such model, or it is private and HF_TOKEN is not set") from error
    except unreachable as error:
        raise _not_fetched(model, "the hub cannot be reached from here") from error
    # Without a network an earlier download that was broken off is given out as if it were whole.
    if not _whole(downloaded):
        reason = "it has no weights in safetensors, or lacks some in the cache and the hub cannot be reached from here"
        raise _not_fetched(model, reason)
    return downloaded


def _not_fetched(model: str, reason: str) -> NotFetched:
    return NotFetched(
        f"model.path {model} is no directory here and could not be fetched from the Hugging Face hub ({reason}); give "
        f"a model's directory, or run `hf download {model}` where there is a network"
    )


def _network_errors() -> tuple[type[Exception], ...]:
    """What the hub's library lets through of its HTTP client, whichever that is."""
    from huggingface_hub import errors

    return tuple(kind for kind in errors.HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")


def _whole(directory: Path) -> bool:
    """Whether nothing of the weights is missing."""
    if not (directory / "config.json").is_file():
        return False
    index = directory / INDEX
    if not index.is_file():
        return (directory / WEIGHTS).is_file()
    try:
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return False  # a download that was broken off in the middle of it
    return all((directory / name).is_file() for name in files)
