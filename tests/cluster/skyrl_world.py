"""A real SkyRL server on this machine, and a model that is small enough for it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from spadework.config import Config
from spadework.seedmodel.shipped import model_directory

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-skyrl"
PYTHON = Path(os.environ.get("SKYRL_PYTHON", ENVIRONMENT / "bin" / "python"))
RANK, ALPHA = 8, 32
SLOTS = 14
START_TIMEOUT_S = 180
CONTEXT = 640


def save_small_model(directory: Path) -> Path:
    """A random Qwen3 of two layers with the seed model's tokenizer.

    The output layer is untied and large: the logits of a default one hardly move, so that nothing could be learned.
    """
    seed = model_directory()
    transformers.AutoTokenizer.from_pretrained(seed).save_pretrained(directory)
    config = transformers.Qwen3Config(
        vocab_size=json.loads((seed / "config.json").read_text())["vocab_size"],
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(config).float()
    with torch.no_grad():
        model.lm_head.weight.mul_(10)
    model.save_pretrained(directory)
    return directory


def tinker_config(url: str, model: Path, **sections: Any) -> Config:
    """A configuration of the engine alone; ``sections`` are merged into it."""
    tree: dict[str, Any] = {
        "model": {"path": str(model), "prompts": "seed", "max_context_tokens": CONTEXT, "lora_rank": RANK},
        "engine": {
            "kind": "tinker",
            "tinker": {
                "backend": "skyrl-jax",
                "base_url": url,
                "model": str(model),
                "patience_s": 8.0,
            },
        },
        "learning": {"learning_rate": 1e-3, "max_grad_norm": None, "weight_decay": 0.01},
    }
    for section, values in sections.items():
        tree[section] = {**tree.get(section, {}), **values} if isinstance(values, dict) else values
    return Config.model_validate(tree)


class Server:
    """A server process that can be killed and started again with what it kept."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model, self.folder = model, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = {
            "max_lora_adapters": SLOTS,
            "max_lora_rank": RANK,
            # One shape of every batch: each new one is compiled, which takes longer than to run it.
            "train_micro_batch_size": 1,
            "sample_max_num_sequences": 16,
        }
        command = [
            *(str(PYTHON), str(ROOT / "examples" / "skyrl_server.py")),
            *("--base-model", str(self.model), "--backend", "jax", "--backend-config", json.dumps(settings)),
            *("--checkpoints-base", str(self.folder / "states")),
            *("--database-url", f"sqlite:///{self.folder}/requests.db"),
            *("--session-timeout-sec", "60", "--session-cleanup-interval-sec", "5"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
        ]
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(ENVIRONMENT / "compiled" if ENVIRONMENT.exists() else self.folder / "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        end = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.3)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """As if the machine was gone: no goodbye, from neither the server nor its engine."""
        assert self._process is not None
        os.killpg(self._process.pid, 9)
        self._process.wait()
        self._process = None

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/api/v1/healthz", timeout=2).close()
        except OSError:
            return False
        return True


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(save_small_model(folder / "model"), folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        if server.log.exists():
            shutil.copyfile(server.log, ENVIRONMENT / "server.log" if ENVIRONMENT.exists() else folder / "last.log")
