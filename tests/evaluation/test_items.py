"""The item list is fixed: read whole or refused in one sentence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from spadework.evaluation.items import ItemsUnusable, Split, load_items

HEAD = {"suite": "games", "version": 3}


def item(family: str, number: int, **changes: object) -> dict[str, object]:
    row = {"id": f"{family}-{number}", "split": "in-family", "family": family, "source": "class AEnv: ...", "seed": 5}
    return row | changes


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_items_come_in_the_order_of_the_file_with_its_digest(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", HEAD, item("maze", 1), item("riddle", 0, split="out-of-family", seed=9))
    found = load_items(path)
    assert (found.suite, found.version) == ("games", 3)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [one.id for one in found.items] == ["maze-1", "riddle-0"]
    assert (found.items[1].split, found.items[1].seed) == (Split.OUT_OF_FAMILY, 9)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "hold a head and at least one item"),
        ([HEAD], "hold a head and at least one item"),
        ([{"suite": "games"}, item("maze", 0)], "line 1 "),
        ([HEAD, {"id": "x"}], "line 2 "),
        ([HEAD, item("maze", 0, split="elsewhere")], "line 2 "),
        ([HEAD, item("maze", 0), item("maze", 1, seed="five")], "line 3 "),
        ([HEAD, [1, 2]], "line 2 "),
        ([HEAD, item("maze", 0), item("maze", 0)], "line 3 .*the id 'maze-0' of an earlier item"),
    ],
)
def test_a_malformed_list_is_one_sentence_that_names_the_file_and_the_line(
    tmp_path: Path, rows: list[object], said: str
) -> None:
    path = write(tmp_path / "broken.jsonl", *rows)
    with pytest.raises(ItemsUnusable, match=said) as caught:
        load_items(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_list_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    for name in ("binary.jsonl", "absent.jsonl"):
        with pytest.raises(ItemsUnusable, match=name):
            load_items(tmp_path / name)
