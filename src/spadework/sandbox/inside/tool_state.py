"""The state of a tool environment: plain data, copied for whoever only looks, and watched while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from spadework.sandbox.inside.contract import Breach, type_name

Plain: TypeAlias = Any
"""Dicts, lists, tuples, sets, texts, numbers, booleans, None."""

MAX_STATE_DEPTH = 12
MAX_PATHS = 300

Path = tuple[str, ...]


def copy_plain(value: Plain, where: str, for_json: bool = False, depth: int = 0) -> Plain:
    """A deep copy. Raises Breach at what is not plain, or nested too deeply.

    ``for_json``: keys become texts, tuples and sets become lists (sets in order).
    """
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return value
    if depth >= MAX_STATE_DEPTH:
        raise Breach("contract", f"{where} is nested deeper than {MAX_STATE_DEPTH}")
    if kind is dict:
        return {
            str(key) if for_json else key: copy_plain(item, f"{where}[{key!r}]"[:120], for_json, depth + 1)
            for key, item in value.items()
        }
    if kind is list or (kind is tuple and for_json):
        return [copy_plain(item, f"{where}[…]"[:120], for_json, depth + 1) for item in value]
    if kind is tuple:
        return tuple(copy_plain(item, f"{where}[…]"[:120], for_json, depth + 1) for item in value)
    if kind in (set, frozenset):
        return sorted(value, key=repr) if for_json else kind(value)
    raise Breach(
        "contract", f"{where} is of type {type_name(value)}; the state holds dicts, lists, texts, numbers and bools"
    )


class Recorder:
    """Tells which places of a state were read."""

    def __init__(self) -> None:
        self._paths: dict[Path, None] = {}

    def watched(self, value: Plain, path: Path = ()) -> Plain:
        """A copy of ``value`` whose dicts and lists note what is taken out of them."""
        if isinstance(value, dict):
            return WatchedDict({key: self.watched(item, (*path, str(key))) for key, item in value.items()}, path, self)
        if type(value) is list:
            return WatchedList([self.watched(item, (*path, str(i))) for i, item in enumerate(value)], path, self)
        return copy_plain(value, "state")

    def note(self, path: Path) -> None:
        if len(self._paths) < MAX_PATHS:
            self._paths[path] = None

    def paths(self) -> tuple[Path, ...]:
        """The places that were read, without those on the way to a deeper one."""
        inner = {path[:length] for path in self._paths for length in range(len(path))}
        return tuple(path for path in self._paths if path not in inner)


class WatchedDict(dict[Any, Any]):
    def __init__(self, items: dict[Any, Any], path: Path, recorder: Recorder) -> None:
        super().__init__(items)
        self._path, self._recorder = path, recorder

    def __getitem__(self, key: Any) -> Any:
        self._recorder.note((*self._path, str(key)))
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._recorder.note((*self._path, str(key)))
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._recorder.note((*self._path, str(key)))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[Any]:
        self._recorder.note(self._path)
        return super().__iter__()

    def __len__(self) -> int:
        self._recorder.note(self._path)
        return super().__len__()

    def items(self) -> Any:
        for key in dict.__iter__(self):
            self._recorder.note((*self._path, str(key)))
        return super().items()

    def values(self) -> Any:
        for key in dict.__iter__(self):
            self._recorder.note((*self._path, str(key)))
        return super().values()


class WatchedList(list[Any]):
    def __init__(self, items: list[Any], path: Path, recorder: Recorder) -> None:
        super().__init__(items)
        self._path, self._recorder = path, recorder

    def __getitem__(self, index: Any) -> Any:
        self._recorder.note(self._path)
        return super().__getitem__(index)

    def __contains__(self, item: object) -> bool:
        self._recorder.note(self._path)
        return super().__contains__(item)

    def __iter__(self) -> Iterator[Any]:
        self._recorder.note(self._path)
        return super().__iter__()

    def __len__(self) -> int:
        self._recorder.note(self._path)
        return super().__len__()
