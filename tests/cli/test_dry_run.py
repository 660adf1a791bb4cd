"""`train --dry-run` tells all reasons at once and writes nothing."""

from __future__ import annotations

import json
import shutil
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from command_line import Spadework
from fake_vllm import BASE, FakeVllm
from gguf_files import save_gguf, tiny_network

from spadework.cli.machine import packages
from spadework.cli.plan import plan_of
from spadework.presets import load_config
from spadework.seedmodel.shipped import model_directory
from spadework.store.run_directory import RunDirectory

imported_once = cache(packages)
"""Importing every package takes seconds, and is the same for all tests."""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty directory, with a hub's cache that is empty too."""
    monkeypatch.setattr("spadework.cli.machine.packages", imported_once)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def problems(out: str) -> list[str]:
    return [line.removeprefix("NO").strip() for line in out.splitlines() if line.startswith("NO ")]


def notes(out: str) -> list[str]:
    return [line.removeprefix("NOTE").strip() for line in out.splitlines() if line.startswith("NOTE ")]


def changed(*settings: str) -> list[str]:
    """A dry run of the quickstart with ``settings``."""
    return ["train", "quickstart", "--dry-run", *(part for setting in settings for part in ("--set", setting))]


def everything_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_the_quickstart_may_start_and_nothing_is_written(spadework: Spadework, tmp_path: Path) -> None:
    done = spadework("train", "quickstart", "--dry-run")
    assert done.status == 0, done
    assert done.out.splitlines()[-1] == "the run may start"
    assert problems(done.out) == []
    if not torch.cuda.is_available() and not torch.backends.mps.is_available():
        assert "activations of a micro-batch of 2,048 tokens" in done.out
    for words in ("plays in all", "4,608", "1,710,016", "811 documents", "one checkpoint", "seccomp"):
        assert words in done.out
    assert everything_below(tmp_path) == {str(tmp_path / "here"): b""}


def test_a_preset_whose_model_is_not_here_has_its_plan_and_a_note(spadework: Spadework) -> None:
    done = spadework("train", "games-qwen3-4b", "--dry-run")
    for words in ("192,000", "4,022,468,096", "as published", "hf download Qwen/Qwen3-4B-Instruct-2507"):
        assert words in done.out
    assert not any("hf download" in reason for reason in problems(done.out))


def test_a_model_that_nobody_knows_leaves_the_rest_of_the_plan(spadework: Spadework) -> None:
    done = spadework("train", "quickstart", "--set", "model.path=nobody/knows", "--dry-run")
    assert "memory and disk: not known" in done.out
    assert "108,392" in done.out
    assert any("nobody/knows" in note and "whether the hub gives it is not tried" in note for note in notes(done.out))


def test_all_reasons_are_told_at_once(spadework: Spadework, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(model_directory(), bad)
    (bad / "chat_template.jinja").unlink()
    (bad / "model.safetensors").unlink()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    settings = (f"model.path={bad}", "model.max_context_tokens=2048", "corpus.source=nowhere.jsonl")
    given = [part for setting in settings for part in ("--set", setting)]
    done = spadework("train", "quickstart", *given, "--run", tmp_path / "taken", "--dry-run")
    assert done.status == 1
    reasons = problems(done.out)
    expected = ("run directory: ", "has no weights", "at most 1024", "has no chat template", "nowhere.jsonl does not")
    assert len(reasons) == len(expected)
    for reason, part in zip(reasons, expected, strict=True):
        assert part in reason
    assert done.out.splitlines()[-1] == "5 reasons against this run"


@pytest.mark.parametrize(
    ("content", "part"),
    [("{", "cannot be read"), ('{"model_type": "unheard-of"}', "cannot be read"), (None, "has no config.json")],
)
def test_a_configuration_of_a_model_that_cannot_be_read_is_told(
    spadework: Spadework, tmp_path: Path, content: str | None, part: str
) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(model_directory(), bad)
    (bad / "config.json").unlink()
    if content is not None:
        (bad / "config.json").write_text(content)
    done = spadework("train", "quickstart", "--set", f"model.path={bad}", "--dry-run")
    assert done.status == 1
    assert any(part in reason for reason in problems(done.out)), done.out


def test_a_model_with_layers_that_the_engine_does_not_know_is_told(spadework: Spadework) -> None:
    done = spadework("train", "games-nemotron-3-30b-a3b", "--dry-run")
    assert any("46 of its 52 layers are not attention" in reason for reason in problems(done.out))


def test_files_of_weights_that_the_index_names_must_be_there(spadework: Spadework, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(model_directory(), bad)
    files = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (bad / "model.safetensors").rename(bad / "model-1.safetensors")
    (bad / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    done = spadework("train", "quickstart", "--set", f"model.path={bad}", "--dry-run")
    assert any("lacks 1 of 2 files of weights, first model-2.safetensors" in reason for reason in problems(done.out))


def test_a_run_that_is_there_must_be_of_the_same_configuration(spadework: Spadework, tmp_path: Path) -> None:
    run = tmp_path / "run"
    RunDirectory.create_or_open(run, load_config("quickstart")).close()
    before = everything_below(run)
    same = spadework("train", "quickstart", "--run", run, "--dry-run")
    other = spadework("train", "quickstart", "--set", "seed=1", "--run", run, "--dry-run")
    assert same.status == 0
    assert "would be continued" in same.out
    assert other.status == 1
    assert any("has seed = 0 but is now given 1" in reason for reason in problems(other.out))
    assert everything_below(run) == before


def test_json_has_the_plan_and_the_reasons(spadework: Spadework) -> None:
    done = spadework(
        "train",
        "games-qwen3-8b",
        "--set",
        "corpus.source=nowhere",
        "--set",
        "engine.dtype=float32",
        "--dry-run",
        "--json",
    )
    assert done.status == 1
    found = json.loads(done.out)
    assert found["may_train"] is False
    assert any("nowhere" in reason for reason in found["problems"])
    plan = plan_of(load_config("games-qwen3-8b"))
    assert found["plan"]["plays"] == plan.plays == 192_000
    assert found["model"]["parameters"] == 8_190_735_360
    assert found["memory_bytes"]["held"]["weights"] == 4 * 8_190_735_360
    assert found["disk_bytes"]["checkpoint"] == 12 * 8_190_735_360
    assert found["config"]["agent"]["thinking"] is True


def test_json_is_for_dry_runs(spadework: Spadework) -> None:
    assert "--json is for --dry-run" in spadework("train", "quickstart", "--json").sentence


def test_a_model_in_the_cache_of_the_hub_is_found_by_its_name(spadework: Spadework, tmp_path: Path) -> None:
    repository = tmp_path / "cache" / "models--someone--small"
    commit = "0123456789" * 4
    shutil.copytree(model_directory(), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    done = spadework("train", "quickstart", "--set", "model.path=someone/small", "--dry-run")
    assert done.status == 0, done.out
    assert "template of someone/small" in done.out


def test_an_endpoint_needs_its_key_and_is_not_asked(spadework: Spadework, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://localhost:1/v1"  # where nobody answers
    served = (
        "endpoint.model=m",
        f"endpoint.base_url={url}",
        "gates.judge=endpoint",
        "endpoint.key_variable=QUARRY_KEY",
    )
    command = ["train", "quickstart", "--dry-run", *(part for setting in served for part in ("--set", setting))]
    monkeypatch.delenv("QUARRY_KEY", raising=False)
    done = spadework(*command)
    (reason,) = problems(done.out)
    assert done.status == 1 and "QUARRY_KEY, which is not set" in reason
    monkeypatch.setenv("QUARRY_KEY", "sk-not-to-be-seen")
    done = spadework(*command)
    assert done.status == 0 and f"m at {url} for gates.judge" in done.out
    assert "sk-not-to-be-seen" not in done.out


def test_what_an_endpoint_will_cost_is_told_and_compared_with_the_budget(spadework: Spadework) -> None:
    config = (
        "endpoint.model=m",
        "endpoint.base_url=http://localhost:1/v1",
        "roles.designer=endpoint",
        "roles.hint_writer=endpoint",
        "iterations=8",
        "curriculum.round_iterations=4",
        "curriculum.environments=12",
        "designer.attempts=3",
        "designer.max_tokens=3000",
        "designer.hint_max_tokens=100",
        "endpoint.price_per_million_input=2",
        "endpoint.price_per_million_output=10",
    )

    def found(*more: str) -> dict[str, str]:
        done = spadework("train", "quickstart", "--dry-run", "--json", *(f"--set={one}" for one in (*config, *more)))
        assert done.status == 0, done
        (finding,) = (one for one in json.loads(done.out)["findings"] if one["what"] == "endpoint")
        return finding

    # 24 slots: 36 attempts of 12,000 + 3,000 tokens, and 24 hints of (3,000 + 600) + 100.
    plain = found()
    assert plain["verdict"] == "ok"
    assert "about 518,400 tokens of prompts and 110,400 of replies, cost about 2.14" in plain["text"]
    assert found("endpoint.budget=2.2")["verdict"] == "ok"
    short = found("endpoint.budget=2.1")
    assert short["verdict"] == "note" and "stop at endpoint.budget = 2.1" in short["text"]
    assert "endpoint.budget_tokens = 500,000" in found("endpoint.budget_tokens=500000")["text"]


def test_an_adapter_and_bfloat16_are_counted(spadework: Spadework) -> None:
    done = spadework(*changed("engine.device=cpu", "engine.dtype=bfloat16", "model.lora_rank=4"), "--json")
    found = json.loads(done.out)
    assert done.status == 0, done
    parameters, linears = found["model"]["parameters"], found["model"]["linears"].values()
    trained = 4 * sum(linear["inputs"] + linear["outputs"] for linear in linears)
    held = found["memory_bytes"]["held"]
    assert held["weights"] == 2 * parameters
    assert held["moments of the optimiser"] == 8 * trained < parameters
    assert found["disk_bytes"]["checkpoint"] == 12 * trained
    texts = [finding["text"] for finding in found["findings"]]
    assert any("CPU in bfloat16" in text for text in texts)
    assert "rank 4, a new one" in texts


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what the test wants to be missing")
def test_a_device_that_is_not_there_is_told(spadework: Spadework) -> None:
    done = spadework(*changed("engine.device=cuda"))
    (reason,) = problems(done.out)
    assert done.status == 1
    assert "engine.device is cuda, but" in reason
    assert "OK    memory" not in done.out


def test_on_a_gpu_its_own_memory_and_bfloat16_count(spadework: Spadework, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    small = SimpleNamespace(name="SMALL-GPU", total_memory=3 << 20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: small)
    found = json.loads(spadework(*changed("engine.device=cuda"), "--json").out)
    (reason,) = found["problems"]
    assert "SMALL-GPU has 3 MiB" in reason
    assert "set model.lora_rank" in reason
    assert found["memory_bytes"]["held"]["weights"] == 2 * found["model"]["parameters"]


@pytest.mark.parametrize(
    ("config", "part"),
    [
        (None, "cannot be read"),
        ({"peft_type": "LORA", "r": 8, "lora_alpha": 32.0}, "model.lora_rank is 4 but the adapter in"),
        ({"peft_type": "LOHA"}, "is no plain LoRA"),
    ],
)
def test_an_adapter_that_cannot_be_started_from_is_told(
    spadework: Spadework, tmp_path: Path, config: dict[str, object] | None, part: str
) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_model.safetensors").touch()
    if config is not None:
        (folder / "adapter_config.json").write_text(json.dumps(config))
    done = spadework(*changed("model.lora_rank=4", f"model.adapter={folder}"))
    (reason,) = problems(done.out)
    assert done.status == 1
    assert part in reason


def test_layers_that_the_model_does_not_have_are_told(spadework: Spadework) -> None:
    done = spadework(*changed("model.lora_rank=4", 'model.lora_targets=["q_proj", "nowhere"]'))
    (reason,) = problems(done.out)
    assert "model.lora_targets names nowhere" in reason
    assert "q_proj" in reason


def test_a_gguf_file_is_converted_by_training_and_not_by_looking(spadework: Spadework, tmp_path: Path) -> None:
    network = tiny_network()
    file = save_gguf(tmp_path / "tiny.gguf", network)
    done = spadework(*changed(f"model.path={file}", "model.max_context_tokens=256", "designer.max_tokens=128"))
    assert done.status == 0, done
    assert f"{file} is converted at its first use" in done.out
    assert f"{sum(parameter.numel() for parameter in network.parameters()):,}" in done.out
    assert not (tmp_path / "tiny.gguf.converted").exists()
    file.write_bytes(file.read_bytes()[:100])
    (reason,) = problems(spadework(*changed(f"model.path={file}")).out)
    assert f"{file} cannot be read" in reason


TINKER = "engine={kind='tinker', tinker={model='someone/base'}}"


def test_the_hosted_service_needs_a_key_and_an_adapter(spadework: Spadework, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tinker")
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    done = spadework(*changed(TINKER))
    rank, key = problems(done.out)
    assert done.status == 1
    assert "model.lora_rank is 0, but the backend hosted trains adapters only" in rank
    assert "set the environment variable TINKER_API_KEY" in key
    monkeypatch.setenv("TINKER_API_KEY", "not-to-be-seen")
    done = spadework(*changed(TINKER, "model.lora_rank=4"))
    (key,) = problems(done.out)
    assert "does not start with tml-" in key
    assert "not-to-be-seen" not in done.out + done.err


def test_a_service_must_answer_and_holds_the_weights_itself(spadework: Spadework, tmp_path: Path) -> None:
    pytest.importorskip("tinker")
    folder = tmp_path / "without weights"
    shutil.copytree(model_directory(), folder, ignore=shutil.ignore_patterns("*.safetensors"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        service = f"engine={{kind='tinker', tinker={{backend='skyrl-fsdp', base_url='{url}', model='someone/base'}}}}"
        command = changed(service, "model.lora_rank=4", "learning.kl_coefficient=0", f"model.path={folder}")
        answered = spadework(*command)
        server.shutdown()
    assert answered.status == 0, answered
    assert f"{url} answers" in answered.out
    assert "memory and checkpoints: the service's" in answered.out
    assert "moments" not in answered.out
    assert any("start it with these" in note for note in notes(answered.out))
    gone = spadework(*command)
    (reason,) = problems(gone.out)
    assert gone.status == 1
    assert f"no server answers at {url}" in reason


class Refusing(BaseHTTPRequestHandler):
    """A server that knows nothing: that it answers is enough."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def test_a_vllm_server_must_answer_and_take_adapters(spadework: Spadework) -> None:
    fake = FakeVllm(model_directory(), max_model_len=1024)
    settings = f"engine={{sampler='vllm', vllm={{base_url='{fake.url}', model='{BASE}'}}}}"
    command = changed(settings, "model.lora_rank=4")
    with fake.running():
        answered = spadework(*command)
        fake.faults.without_routes = True
        without = spadework(*command)
    assert answered.status == 0, answered
    assert f"sampler: vLLM at {fake.url} has {BASE} and takes adapters" in answered.out
    assert "moments of the optimiser" in answered.out and "keys and values of" not in answered.out.split("memory")[1]
    assert fake.loads == [] and fake.replies == 0, "nothing is loaded or sampled"
    (reason,) = problems(without.out)
    assert "takes no adapters while it runs; stop it and start it with: VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" in reason
    gone = spadework(*command)
    (reason,) = problems(gone.out)
    assert gone.status == 1
    assert f"no vLLM server answers at {fake.url}" in reason
    assert "--max-lora-rank 8" in reason
