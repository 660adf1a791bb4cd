"""A real vLLM server on this machine's CPU, and the seed model in a form that vLLM computes as we do."""

from __future__ import annotations

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
from spadework.presets import load_config
from spadework.seedmodel.shipped import model_directory

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-vllm"
PYTHON = Path(os.environ.get("VLLM_PYTHON", ENVIRONMENT / "bin" / "python"))
NAME, RANK = "seed-model", 8
START_TIMEOUT_S = 300


def save_model(directory: Path) -> Path:
    """The seed model with the biases of its output projections moved into those of its values.

    vLLM has none in the output projection of Qwen3. Weights of attention sum to one, so a bias of the values goes
    through them unchanged: with W v = b, adding v to it is adding b to the output.
    """
    seed = model_directory()
    shutil.copytree(seed, directory, ignore=shutil.ignore_patterns("*.safetensors"))
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(seed, dtype=torch.float32)
    with torch.no_grad():
        for layer in model.model.layers:
            attention = layer.self_attn
            weight, bias = attention.o_proj.weight.double(), attention.o_proj.bias.double()
            attention.v_proj.bias.add_(torch.linalg.solve(weight, bias).float())
            attention.o_proj.bias.zero_()
    model.save_pretrained(directory)
    return directory


class Server:
    """A server process that can be killed and started again."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model, self.log = model, folder / "server.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def config(self, *settings: str) -> Config:
        """Of the preset `quickstart` with this server as its sampler."""
        ours = (
            f"model.path={self.model}",
            f"model.lora_rank={RANK}",
            "engine.sampler=vllm",
            f"engine.vllm.base_url={self.url}",
            f"engine.vllm.model={NAME}",
            "engine.vllm.max_mismatch=0.0001",
        )
        return load_config("quickstart", (*ours, *settings))

    def start(self, *, wait: bool = True) -> None:
        command = [
            *(str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model)),
            *("--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(self.port)),
            *("--enable-lora", "--max-lora-rank", str(RANK), "--max-model-len", "1024", "--dtype", "float32"),
            *("--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
            # Without compiling it starts in half a minute; see docs/vllm.md for the other.
            *("--enforce-eager", "--no-enable-chunked-prefill"),
        ]
        environment = {
            **os.environ,
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.3)

    def kill(self) -> None:
        """As if the machine was gone: no goodbye, from neither the server nor its workers."""
        if self._process is not None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/health", timeout=2).close()
        except OSError:
            return False
        return True


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(save_model(folder / "model"), folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        if server.log.exists() and ENVIRONMENT.exists():
            shutil.copyfile(server.log, ENVIRONMENT / "server.log")
