"""Whatever is wrong with an input is told in one sentence with status 2, and nothing is lost or left behind."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_line import Done, Spadework
from selfplay_world import save_corpus, save_model

from spadework.cli.errors import EXPECTED, sentence_of
from spadework.config import Config
from spadework.presets import load_config
from spadework.store.run_directory import RunDirectory

WORDS = "The harbour of the old town lies behind a wall of stone that keeps the sea away in winter. " * 3


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run that was made with quickstart and has not begun."""
    path = tmp_path / "run"
    RunDirectory.create_or_open(path, load_config("quickstart")).close()
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file() and file.name != "lock"}


# The configuration


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("quickstrat",), ("'quickstrat'", "did you mean quickstart", "spadework presets")),
        (("missing.toml",), ("missing.toml", "does not exist")),
        (("quickstart", "--set", "learning.learning_rte=1"), ("learning.learning_rte", "learning.learning_rate?")),
        (("quickstart", "--set", "curriculum.plays=1"), ("curriculum.plays", "at least 2")),
        (
            ("quickstart", "--set", "curriculum.environments=10"),
            ("curriculum.environments (10)", "curriculum.skills_per_round (3)", "for example 9"),
        ),
        (
            ("quickstart", "--set", "model.max_context_tokens=100"),
            ("designer.max_tokens", "model.max_context_tokens is 100"),
        ),
    ],
)
def test_a_wrong_configuration_starts_no_run(
    spadework: Spadework, tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    sentence = spadework("train", *arguments).sentence
    for part in parts:
        assert part in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_key_of_a_file_is_told_with_its_line(spadework: Spadework, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[curriculum]\nplay = 4\n")
    sentence = spadework("train", file).sentence
    assert f"curriculum.play (in {file}, line 2)" in sentence
    assert "did you mean curriculum.plays?" in sentence


def test_settings_of_other_commands_are_checked_too(spadework: Spadework) -> None:
    assert "did you mean gates.seeds?" in spadework("check", "x.py", "--set", "gates.seds=3").sentence


# The corpus


def refused_corpus(spadework: Spadework, tmp_path: Path, source: Path | str) -> str:
    """The sentence, which a run refuses with as well and before anything of it exists."""
    sentence = spadework("corpus", source).sentence
    assert (
        spadework("train", "quickstart", "--set", f"corpus.source={source}").sentence.split(":")[0]
        in (sentence.split(":")[0])
    )
    assert not (tmp_path / "runs").exists()
    return sentence


def test_an_empty_folder_is_no_corpus(spadework: Spadework, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    sentence = refused_corpus(spadework, tmp_path, tmp_path / "empty")
    assert "has no usable document" in sentence
    assert "it holds no texts" in sentence


def test_binary_texts_are_no_corpus(spadework: Spadework, tmp_path: Path) -> None:
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "picture.txt").write_bytes(bytes(range(256)))
    sentence = refused_corpus(spadework, tmp_path, tmp_path / "binary")
    assert "1 not UTF-8 text" in sentence
    assert "picture.txt" in sentence


def test_a_corpus_of_bad_lines_alone_counts_them_and_quotes_the_first(spadework: Spadework, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('not json\n{"text": 3}\n[]\n')
    sentence = refused_corpus(spadework, tmp_path, file)
    assert "all 3 texts were left out" in sentence
    assert f"line 1 of {file}" in sentence
    assert "'not json'" in sentence


def test_bad_lines_among_good_ones_are_counted_and_the_first_is_quoted(spadework: Spadework, tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    file.write_text("\n".join([json.dumps({"text": WORDS}), "not json", '{"text": 3}', json.dumps({"text": WORDS})]))
    done = spadework("corpus", file)
    assert done.status == 0
    assert "2 documents" in done.out
    assert "1 not JSON" in done.out
    assert f"line 2 of {file}" in done.out
    assert "'not json'" in done.out
    found = json.loads(spadework("corpus", file, "--json").out)
    assert found["documents"] == 2
    assert found["left_out"] == {"no text in field 'text'": 1, "not JSON": 1}
    assert "'not json'" in found["first_left_out"]


@pytest.mark.parametrize("source", ["missing", "python:", "python:no_such_module_at_all"])
def test_a_corpus_that_is_not_there_is_named(spadework: Spadework, tmp_path: Path, source: str) -> None:
    assert source.removeprefix("python:") in refused_corpus(spadework, tmp_path, source)


def test_a_file_of_no_known_kind_is_no_corpus(spadework: Spadework, tmp_path: Path) -> None:
    (tmp_path / "notes.docx").write_text(WORDS)
    assert "of no known kind" in refused_corpus(spadework, tmp_path, tmp_path / "notes.docx")


# Programs


@pytest.mark.parametrize("command", ["check", "play"])
def test_a_program_that_is_not_a_readable_file_is_named(spadework: Spadework, tmp_path: Path, command: str) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    for name, part in ((".", "directory"), ("missing.py", "missing.py"), ("binary.py", "not UTF-8")):
        assert part in spadework(command, tmp_path / name).sentence


def test_a_file_that_cannot_be_read_refuses_before_any_program_is_checked(spadework: Spadework, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("class GoodEnv: ...")
    assert "missing.py" in spadework("check", tmp_path / "good.py", tmp_path / "missing.py").sentence


# Run directories


def test_a_run_of_another_configuration_is_refused_and_stays_as_it_was(spadework: Spadework, run: Path) -> None:
    before = contents(run)
    sentence = spadework("train", "quickstart", "--set", "seed=5", "--run", run).sentence
    assert "seed = 0 but is now given 5" in sentence
    assert "another directory" in sentence
    assert contents(run) == before


def test_a_run_of_another_version_is_refused_and_stays_as_it_was(spadework: Spadework, run: Path) -> None:
    head = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**head, "format": 99, "spadework": "9.9"}))
    before = contents(run)
    for arguments in (
        ("train", "quickstart", "--run", run),
        ("show", run),
        ("report", run),
        ("eval", run),
    ):
        sentence = spadework(*arguments).sentence
        assert "format 99" in sentence
        assert "9.9" in sentence
    assert contents(run) == before


def test_a_directory_of_something_else_is_no_run_and_stays_as_it_was(spadework: Spadework, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("words")
    assert "thesis.txt" in spadework("train", "quickstart", "--run", mine).sentence
    assert [file.name for file in mine.iterdir()] == ["thesis.txt"]
    assert "is not a run directory" in spadework("show", mine).sentence
    assert "is not a run directory" in spadework("report", mine).sentence


def test_a_file_in_place_of_a_run_is_refused(spadework: Spadework, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("words")
    assert "is a file" in spadework("train", "quickstart", "--run", file).sentence
    for command in ("show", "report"):
        assert str(file) in spadework(command, file).sentence


def test_a_run_that_is_not_there_is_named(spadework: Spadework, tmp_path: Path) -> None:
    for command in ("show", "report", "eval"):
        assert "nowhere" in spadework(command, tmp_path / "nowhere").sentence
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_has_not_begun_has_nothing_to_show_or_measure(spadework: Spadework, run: Path) -> None:
    assert "there is no pool" in spadework("show", run).sentence
    assert "no checkpoint yet" in spadework("eval", run).sentence


def test_an_unreadable_database_is_named_and_stays_as_it_was(spadework: Spadework, run: Path) -> None:
    (run / "pool.sqlite").write_bytes(b"this is no database " * 300)
    for arguments in (("show", run), ("show", run, "3fa2"), ("report", run)):
        sentence = spadework(*arguments).sentence
        assert str(run / "pool.sqlite") in sentence
        assert "not a readable database" in sentence
    assert (run / "pool.sqlite").read_bytes() == b"this is no database " * 300


# Models


def test_a_model_that_is_not_a_directory_of_one_is_named(spadework: Spadework, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("words")
    for given, part in (("nowhere", "does not exist"), ("file", "is a file")):
        for command in (("train", "quickstart", "--set", f"model.path={given}"), ("eval", given)):
            sentence = spadework(*command).sentence
            assert given in sentence
            assert part in sentence
    assert not (tmp_path / "runs").exists()


def test_a_model_without_tokenizer_chat_template_or_weights_starts_no_run(
    spadework: Spadework, tmp_path: Path, model: Path
) -> None:
    corpus = save_corpus(tmp_path / "corpus.jsonl")
    for removed, part in (
        ("tokenizer*", "has no tokenizer"),
        ("chat_template*", "no chat template"),
        ("*.safetensors", "has no weights"),
        ("config.json", "has no config.json"),
    ):
        broken = tmp_path / "broken"
        shutil.copytree(model, broken)
        found = list(broken.glob(removed))
        assert found
        for file in found:
            file.unlink()
        settings = (f"model.path={broken}", f"corpus.source={corpus}", "corpus.min_words=10")
        sentence = spadework("train", "quickstart", *(part for one in settings for part in ("--set", one))).sentence
        assert str(broken) in sentence
        assert part in sentence
        assert not (tmp_path / "runs").exists()
        shutil.rmtree(broken)


def test_a_model_of_the_hub_that_cannot_be_had_starts_no_run(
    spadework: Spadework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for command in (("train", "quickstart", "--set", "model.path=someone/tiny"), ("eval", "someone/tiny")):
        sentence = spadework(*command).sentence
        assert "someone/tiny is no directory here and could not be fetched" in sentence
        assert "hf download someone/tiny" in sentence
    assert not (tmp_path / "runs").exists()


def test_a_device_or_an_adapter_that_is_not_there_starts_no_run(
    spadework: Spadework, tmp_path: Path, model: Path
) -> None:
    corpus = save_corpus(tmp_path / "corpus.jsonl")
    settings = (f"model.path={model}", f"corpus.source={corpus}", "corpus.min_words=10")
    given = ("train", "quickstart", *(part for one in settings for part in ("--set", one)))
    adapted = ("--set", "model.lora_rank=4", "--set", "model.adapter=nowhere")
    assert "model.adapter nowhere cannot be read" in spadework(*given, *adapted).sentence
    if not torch.cuda.is_available():
        sentence = spadework(*given, "--set", "engine.device=cuda").sentence
        assert sentence.startswith("engine.device is cuda, but")
        assert "engine.device=cpu" in sentence
    assert not (tmp_path / "runs").exists()


# All of them


def test_expected_errors_are_classes_that_exist() -> None:
    for name in EXPECTED:
        module, _, kind = name.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), kind), Exception)


def test_other_errors_keep_their_traceback() -> None:
    assert sentence_of(ValueError("a fault of ours")) is None
    script = (
        "import sys\n"
        "from spadework import cli\n"
        "from spadework.store.run_directory import RunDirectory\n"
        "def broken(path):\n"
        "    raise KeyError('a fault of ours')\n"
        "RunDirectory.open_readonly = broken\n"
        "sys.argv = ['spadework', 'show', 'x']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "KeyError: 'a fault of ours'" in done.stderr


def test_a_refused_command_is_one_line_on_stderr_for_whoever_calls_it(tmp_path: Path) -> None:
    executable = Path(sys.executable).with_name("spadework")
    command = [str(executable), "train", "quickstrat"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert Done(done.returncode, done.stdout, done.stderr).sentence.startswith("there is no preset 'quickstrat'")


def test_defaults_alone_are_a_configuration() -> None:
    assert Config() == Config.model_validate({})
