"""The report of a run, held to a small run whose numbers can be worked out by hand."""

import base64
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_run import CONFIG, HOSTILE_TEXT, write_run

from spadework.analysis.report import ReportPaths, write_report
from spadework.sandbox.layers import Layer, LayerName
from spadework.store.errors import StoreError
from spadework.store.glossary import METRICS
from spadework.store.metrics import MetricsLog
from spadework.store.pool import Pool
from spadework.store.records import IterationRecords
from spadework.store.run_directory import RunDirectory

PLOTS = ("diversity", "held-out", "mismatch", "regret", "rewards", "time", "validity", "win-rates", "zones")


class _Page(HTMLParser):
    """Tags with their attributes, and the text of each table row by cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.blocks: list[str] = []
        self._in_cell = self._in_block = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self._in_cell = True
            self.rows[-1].append("")
        elif tag == "pre":
            self._in_block = True
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False
        elif tag == "pre":
            self._in_block = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data
        if self._in_block:
            self.blocks[-1] += data

    def row(self, first: str) -> list[str]:
        return next([" ".join(cell.split()) for cell in row] for row in self.rows if row and row[0].strip() == first)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    run = write_run(tmp_path_factory.mktemp("runs") / "maze")
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    paths = write_report(run)
    after = {path: path.read_bytes() for path in before}
    assert after == before, "a report only reads the run"
    return paths


@pytest.fixture(scope="module")
def page(written: ReportPaths) -> _Page:
    return _Page(written.html.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def markdown(written: ReportPaths) -> str:
    return written.markdown.read_text(encoding="utf-8")


def test_the_held_out_table_has_the_rates_and_the_paired_gain(page: _Page, markdown: str) -> None:
    inside = page.row("in-family: unseen instances")
    assert inside[1] == "8"
    assert inside[2].startswith("0.250 [") and inside[3].startswith("0.750 [") and inside[4].startswith("+0.500 [")
    # Nothing changed item by item: the pairing knows it, whatever the width of the two intervals.
    outside = page.row("out-of-family: unseen families")
    assert outside[4] == "+0.000 [+0.000, +0.000]"
    assert "| in-family: unseen instances | 8 | 0.250 (" in markdown
    assert "| +0.000 (+0.000 to +0.000) |" in markdown


def test_the_held_out_section_says_what_was_asked_and_how(written: ReportPaths, markdown: str) -> None:
    html = " ".join(written.html.read_text(encoding="utf-8").split())
    for said in ("Suite games, version 1, SHA-256 000000000000;", "prompts seed, thinking off, rendering default."):
        assert said in html and said in markdown
    assert "0 of 12 plays were ended by a token budget and 0 by an error; all of them count as not solved." in html


def test_every_end_of_an_attempt_is_counted_with_its_share_and_reason(page: _Page, markdown: str) -> None:
    assert page.row("accepted")[1:3] == ["4", "50.0 %"]
    termination = page.row("termination")
    assert termination[1:3] == ["3", "37.5 %"]
    assert "3 × step raised <script>KeyError</script>" in termination[3]
    assert page.row("reply-cut")[1:3] == ["1", "12.5 %"]
    assert "| termination | 3 | 37.5 % |" in markdown


def test_the_gallery_shows_the_best_by_regret_first_then_one_of_each_other_zone(markdown: str) -> None:
    assert re.findall(r"^### (\w+) \((frontier|mastered|unsolvable)\)$", markdown, re.MULTILINE) == [
        ("Best", "frontier"),
        ("Second", "frontier"),
        ("Mastered", "mastered"),
        ("Unsolvable", "unsolvable"),
    ]
    assert "Regret 0.750 ± 0.100, plain 1 of 4, hinted 4 of 4; round 0" in markdown


def test_the_two_plays_are_of_one_seed_that_only_the_hint_won(markdown: str) -> None:
    best = markdown.split("### Best")[1].split("### Second")[0]
    assert best.count("Iteration 0, seed 0,") == 2
    assert "Best shows a door to plain." in best and "Best shows a door to hinted." in best
    assert "Agent (reward 0):" in best and "Agent (reward 1):" in best


def test_nothing_that_a_program_or_a_document_wrote_becomes_markup(page: _Page, written: ReportPaths) -> None:
    html = written.html.read_text(encoding="utf-8")
    assert "<script" not in html and "&lt;script&gt;" in html
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "i", "iframe", "link", "object"})
    assert any("</pre><script>alert('program')</script>" in block for block in page.blocks)
    assert HOSTILE_TEXT in page.blocks


def test_nothing_is_loaded_from_elsewhere(page: _Page, written: ReportPaths) -> None:
    sources = [attributes["src"] or "" for tag, attributes in page.tags if tag == "img"]
    assert len(sources) == len(PLOTS)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    links = [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]
    assert links and all(link.startswith("#") for link in links)
    assert "url(" not in written.html.read_text(encoding="utf-8")


def test_every_plot_is_an_image_that_can_be_read_in_both_schemes(page: _Page) -> None:
    for tag, attributes in page.tags:
        if tag == "img":
            svg = base64.b64decode((attributes["src"] or "").partition(",")[2]).decode()
            ElementTree.fromstring(svg)
            assert "prefers-color-scheme:dark" in svg and "var(--c1)" in svg


def test_the_markdown_has_its_images_beside_it(written: ReportPaths, markdown: str) -> None:
    images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", markdown)
    assert sorted(images) == [f"{name}.png" for name in PLOTS]
    assert all((written.markdown.parent / image).read_bytes().startswith(b"\x89PNG") for image in images)


def test_fences_in_programs_do_not_end_their_block_in_markdown(markdown: str) -> None:
    outside = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    assert "alert(" not in outside and "# not a heading" not in outside
    assert "fence = '````'" in markdown


def test_the_table_of_metrics_is_the_glossary(page: _Page) -> None:
    for name, meaning in METRICS.items():
        assert page.row(name)[3] == " ".join(meaning.split())
    assert page.row("designer/rejected/novel")[1:3] == ["5", "5"]
    assert page.row("learning/kl")[1:3] == ["—", "—"]


def test_settings_that_differ_from_the_default_say_what_it_is(page: _Page) -> None:
    assert page.row("iterations") == ["iterations", "6", "400"]
    assert page.row("evaluation.bootstrap_samples") == ["evaluation.bootstrap_samples", "200", "2000"]
    assert page.row("curriculum.plays") == ["curriculum.plays", "16", "the same"]


def test_two_reports_of_one_run_are_equal(written: ReportPaths, tmp_path: Path) -> None:
    again = write_report(written.html.parent.parent, tmp_path)
    assert again.html.read_bytes() == written.html.read_bytes()
    assert again.markdown.read_bytes() == written.markdown.read_bytes()


def test_a_run_that_has_only_begun_says_what_is_missing(tmp_path: Path) -> None:
    RunDirectory.create_or_open(tmp_path / "run", CONFIG).close()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "regret.png").write_bytes(b"of an older report")
    paths = write_report(tmp_path / "run", tmp_path / "out")
    for path in (paths.html, paths.markdown):
        text = path.read_text(encoding="utf-8")
        for sentence in (
            "No iteration has ended yet.",
            "No held-out evaluation has been made yet.",
            "The pool holds no attempts yet.",
            "No environment has been played yet.",
        ):
            assert sentence in text
    assert paths.markdown.read_text(encoding="utf-8").count("Nothing measured yet.") == len(PLOTS)
    assert not list((tmp_path / "out").glob("*.png"))


def test_the_layers_around_programs_are_told_once_for_each_set_of_them(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iterations=0)
    assert "How programs were isolated is not recorded." in write_report(run).markdown.read_text()
    whole = [Layer(LayerName.PROCESS), Layer(LayerName.LANDLOCK)]
    with RunDirectory.create_or_open(run, CONFIG) as directory:
        for layers in (whole, whole, [Layer(LayerName.PROCESS), Layer(LayerName.LANDLOCK, "too old")], whole):
            directory.record_start(layers)
    paths = write_report(run)
    for text in (paths.markdown.read_text().replace("\\", ""), paths.html.read_text()):
        assert text.count("Programs were isolated from ") == 2
        assert f"from {directory.starts()[0].at} by process, landlock." in text
        assert "by process; without landlock (too old)." in text


def test_a_run_that_is_being_written_can_be_reported(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iterations=0)
    with RunDirectory.create_or_open(run, CONFIG) as directory, Pool.open(directory.pool) as pool:
        pool.write(IterationRecords(0, 0))
        with MetricsLog.open(directory.metrics, after=0) as log:
            log.write(0, {"agent/plain_win_rate": 0.5})
            paths = write_report(run)
    text = paths.markdown.read_text(encoding="utf-8")
    assert "1 of 6 iterations" in text
    assert "There is one held-out evaluation so far" in text
    assert "| in-family: unseen instances | — | 0.250 (" in text


def test_what_is_not_a_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run directory"):
        write_report(tmp_path)
    assert not list(tmp_path.iterdir())
