"""Every kind of corpus gives stable documents, counts what it leaves out, and is drawn without replacement."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spadework.config import CorpusConfig
from spadework.curriculum.corpus import Corpus, CorpusCursor, draw, open_corpus, truncate
from spadework.curriculum.documents import CorpusError

LONG = "one two three four five"


def opened(source: Path | str, min_words: int = 5, text_field: str = "text") -> Corpus:
    return open_corpus(CorpusConfig(source=str(source), min_words=min_words, text_field=text_field))


def texts(corpus: Corpus) -> list[str]:
    return [corpus.document(index).text for index in range(len(corpus))]


def test_a_folder_gives_its_text_files_sorted_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "z.md").write_text("# A title\n\n" + LONG)
    (tmp_path / "a.txt").write_text(LONG)
    (tmp_path / "code.py").write_text(LONG)
    (tmp_path / "short.txt").write_text("one two")
    (tmp_path / "zeros.txt").write_bytes(b"one two\0three four five six")
    (tmp_path / "latin.txt").write_bytes("un déjà vu de plus ici".encode("latin-1"))
    corpus = opened(tmp_path)
    assert [corpus.document(index).id for index in range(2)] == ["a.txt", "b/z.md"]
    assert corpus.document(1).title == "A title"
    assert len(corpus) == 2
    assert corpus.skipped == {"fewer than 5 words": 1, "not UTF-8 text": 2}
    assert corpus.first_skipped == f"{tmp_path}/latin.txt (not UTF-8 text)"


def test_json_lines_are_read_one_at_a_time_and_the_first_bad_one_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    good = [
        json.dumps({"text": f"{LONG} {number} ä", "title": f"T{number}"}, ensure_ascii=False) for number in range(3)
    ]
    lines = [good[0], "", "{broken", "[1]", json.dumps({"body": LONG}), json.dumps({"text": "short"}), good[1], good[2]]
    path.write_text("\r\n".join(lines), encoding="utf-8")
    corpus = opened(path)
    assert texts(corpus) == [f"{LONG} {number} ä" for number in range(3)]
    assert [corpus.document(index).id for index in range(3)] == ["notes.jsonl:1", "notes.jsonl:7", "notes.jsonl:8"]
    assert corpus.document(2).title == "T2"
    assert corpus.skipped == {
        "fewer than 5 words": 1,
        "no text in field 'text'": 1,
        "not JSON": 1,
        "not a JSON object": 1,
    }
    assert corpus.first_skipped == f"line 3 of {path} (not JSON): '{{broken'"


def test_json_lines_that_changed_under_the_run_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(json.dumps({"text": LONG}) + "\n")
    corpus = opened(path)
    path.write_text("{}\n")
    with pytest.raises(CorpusError, match=r"line 1 of .* has changed since the corpus was opened"):
        corpus.document(0)


def test_parquet_rows_come_from_every_row_group(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [f"{LONG} {number}" if number % 3 else None for number in range(10)]
    pq.write_table(pa.table({"body": rows, "other": list(range(10))}), tmp_path / "c.parquet", row_group_size=3)
    corpus = opened(tmp_path / "c.parquet", text_field="body")
    assert texts(corpus) == [row for row in rows if row]
    assert corpus.document(5).id == "c.parquet:8"
    assert corpus.skipped == {"no text in field 'body'": 4}
    with pytest.raises(CorpusError, match=r"has no column 'text' but 'body', 'other'; set corpus.text_field"):
        opened(tmp_path / "c.parquet")
    (tmp_path / "not.parquet").write_text("no")
    with pytest.raises(CorpusError, match="cannot be read as Parquet"):
        opened(tmp_path / "not.parquet")


def test_parquet_without_pyarrow_names_the_install_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CorpusError, match=r"pip install 'spadework\[parquet\]'"):
        opened(tmp_path / "c.parquet")


def test_python_documentation_is_read_without_importing(tmp_path: Path) -> None:
    package = tmp_path / "boobytrap"
    (package / "inner").mkdir(parents=True)
    (package / "tests").mkdir()
    (package / "__init__.py").write_text(f'"""{LONG} top."""\nraise SystemExit("imported")\n')
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "deep.py").write_text(
        f'class A:\n    """{LONG} class."""\n    def f(self):\n        """{LONG} method."""\n'
        f'        def hidden():\n            """{LONG} hidden."""\n'
        f'if True:\n    def g():\n        """{LONG} first."""\nelse:\n    def g():\n        """{LONG} second."""\n'
    )
    (package / "bad.py").write_text("def broken(:")
    (package / "tests" / "test_it.py").write_text(f'"""{LONG} test."""')
    script = (
        "from spadework.config import CorpusConfig; from spadework.curriculum.corpus import open_corpus\n"
        "import json, sys; corpus = open_corpus(CorpusConfig(source=sys.argv[1], min_words=5))\n"
        "found = {corpus.document(i).id: corpus.document(i).text.split()[-1] for i in range(len(corpus))}\n"
        "print(json.dumps([found, dict(corpus.skipped), 'boobytrap' in sys.modules]))"
    )

    def found(source: str) -> object:
        run = subprocess.run(
            [sys.executable, "-c", script, source],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(tmp_path)},
        )
        return json.loads(run.stdout)

    inner = {
        "boobytrap.inner.deep.A": "class.",
        "boobytrap.inner.deep.A.f": "method.",
        "boobytrap.inner.deep.g": "first.",
        "boobytrap.inner.deep.g#2": "second.",
    }
    assert found("python:boobytrap") == [{"boobytrap": "top.", **inner}, {"source that does not parse": 1}, False]
    assert found("python:boobytrap.inner,boobytrap.inner.deep") == [inner, {}, False]


def test_the_standard_library_and_installed_packages_are_corpora() -> None:
    corpus = opened("python:json,typer", min_words=30)
    ids = [corpus.document(index).id for index in range(len(corpus))]
    assert "json.load" in ids
    assert "description of typer" in ids
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("python:no_such_module", "there is no module 'no_such_module' in this Python; install it"),
        ("python:sys", "the module 'sys' has no Python source"),
        ("python:json.nothing", "the module 'json.nothing' has no Python source"),
        ("python: , ", "names no module; write it as python:NAME,NAME"),
        ("python:../etc", "is not the name of a module"),
        ("{tmp}/missing", "does not exist; set corpus.source to"),
        ("{tmp}/some.pdf", "is of no known kind; give a folder of .txt or .md files, a .jsonl"),
        ("{tmp}/empty", "has no usable document: it holds no texts; give other texts"),
        ("{tmp}/binary", r"all 1 texts were left out \(1 not UTF-8 text\), first .*b.txt"),
        ("{tmp}/bad.jsonl", r"all 1 texts were left out \(1 not JSON\), first line 1 of .*: 'no'"),
    ],
)
def test_unusable_corpora_get_one_sentence(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "some.pdf").write_bytes(b"%PDF")
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "b.txt").write_bytes(bytes(range(256)))
    (tmp_path / "bad.jsonl").write_text("no")
    with pytest.raises(CorpusError, match=message) as raised:
        opened(source.format(tmp=tmp_path))
    assert "\n" not in str(raised.value)


def many(tmp_path: Path, count: int) -> Corpus:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"text": f"{LONG} {number}"}) + "\n" for number in range(count)))
    return opened(path)


def test_no_corpus_is_a_corpus_of_blank_documents_that_can_be_drawn_for_ever() -> None:
    corpus = open_corpus(CorpusConfig(source="none", min_words=60))
    documents = []
    cursor = CorpusCursor()
    for _ in range(len(corpus) + 1):
        document, cursor = draw(corpus, 0, cursor)
        documents.append(document)
    assert {document.text for document in documents} == {""}
    assert len({document.id for document in documents[:-1]}) == len(corpus)
    assert cursor == CorpusCursor(1, 1)


def test_every_document_is_drawn_once_per_epoch_in_an_order_that_seed_and_epoch_name(tmp_path: Path) -> None:
    corpus = many(tmp_path, 20)

    def epochs(run_seed: int) -> list[list[str]]:
        cursor, drawn = CorpusCursor(), []
        for _ in range(40):
            document, cursor = draw(corpus, run_seed, cursor)
            drawn.append(document.id)
        assert cursor == CorpusCursor(2, 0)
        return [drawn[:20], drawn[20:]]

    first, second = epochs(0)
    assert sorted(first) == sorted(second) == sorted(corpus.document(index).id for index in range(20))
    assert first != second
    assert epochs(0) == [first, second]
    assert epochs(1)[0] != first


def test_a_cursor_that_went_through_json_continues_where_it_was(tmp_path: Path) -> None:
    corpus = many(tmp_path, 7)
    cursor = CorpusCursor()
    for _ in range(10):
        _, cursor = draw(corpus, 5, cursor)
    expected, _ = draw(corpus, 5, cursor)
    restored = CorpusCursor(**json.loads(json.dumps(asdict(cursor))))
    assert draw(opened(tmp_path / "many.jsonl"), 5, restored)[0] == expected


def test_the_order_of_an_epoch_is_made_once(tmp_path: Path) -> None:
    corpus = many(tmp_path, 7)
    assert corpus.order(0, 0) is corpus.order(0, 0)


def test_any_change_of_a_document_changes_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(LONG)
    before = opened(tmp_path).fingerprint
    assert opened(tmp_path).fingerprint == before
    (tmp_path / "a.txt").write_text(LONG + ".")
    assert opened(tmp_path).fingerprint != before
    (tmp_path / "a.txt").write_text(LONG)
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    assert opened(tmp_path).fingerprint != before


class Characters:
    """One token per character, one more for whatever the text starts with."""

    def __init__(self) -> None:
        self.longest = 0

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]:
        assert not add_special_tokens
        self.longest = max(self.longest, len(text))
        return [0] + [ord(character) for character in text]


def test_a_text_is_cut_behind_the_last_word_that_fits() -> None:
    assert truncate("alpha beta gamma", 17, Characters()) == ("alpha beta gamma", False)
    assert truncate("alpha beta gamma", 16, Characters()) == ("alpha beta", True)
    assert truncate("alpha beta gamma", 11, Characters()) == ("alpha beta", True)
    assert truncate("alpha beta gamma", 10, Characters()) == ("alpha", True)
    assert truncate("alpha beta gamma", 4, Characters()) == ("alp", True)


def test_a_text_far_over_the_budget_is_not_tokenised_as_a_whole() -> None:
    tokenizer = Characters()
    cut, was_cut = truncate("word " * 100_000, 50, tokenizer)
    assert (cut, was_cut) == (("word " * 9) + "word", True)
    assert tokenizer.longest <= 400


@settings(deadline=None)
@given(st.text(alphabet="ab \n", max_size=300), st.integers(1, 60))
def test_what_is_kept_fits_and_is_a_start_of_whole_words(text: str, budget: int) -> None:
    kept, was_cut = truncate(text, budget, Characters())
    assert text.startswith(kept)
    assert was_cut == (kept != text)
    if was_cut:
        assert len(kept) + 1 <= budget or kept == ""
        rest = text[len(kept) :]
        first_word_alone = not text[: len(kept)].strip() or (" " not in kept.strip() and "\n" not in kept.strip())
        assert rest[0].isspace() or first_word_alone
