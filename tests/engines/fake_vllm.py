"""A server that behaves as vLLM does and really computes: it loads adapters with peft and samples from them.

It speaks HTTP on a real port. What it may do wrong is switched on by a test.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import peft
import torch
import transformers
from chat_server import Body, ChatServer, Raw

JSON = {"Content-Type": "application/json"}
BASE = "stone"


@dataclass
class Faults:
    """``answer`` is asked first about a request for a reply; None leaves it to the server."""

    keeps_first_adapter: bool = False
    untempered: bool = False
    calls_itself: str | None = None
    without_routes: bool = False
    forgets_at_once: bool = False
    hangs: bool = False
    refuses_load: Raw | None = None
    answer: Callable[[Body, int], Raw | None] = lambda body, number: None
    changes: Callable[[dict[str, Any]], object] = lambda choice: None
    """Applied to each choice before it is sent."""


@dataclass
class FakeVllm:
    model: Path
    max_model_len: int = 200
    max_lora_rank: int = 16
    key: str = ""
    faults: Faults = field(default_factory=Faults)
    adapters: dict[str, Any] = field(default_factory=dict)
    loads: list[tuple[str, Path]] = field(default_factory=list)
    unloads: list[str] = field(default_factory=list)
    replies: int = 0

    def __post_init__(self) -> None:
        self._base = self._network()
        self._lock = threading.Lock()
        self.http = ChatServer(self._answer)

    @property
    def url(self) -> str:
        return self.http.url.removesuffix("/v1")

    def running(self) -> AbstractContextManager[ChatServer]:
        return self.http.running()

    def restart(self) -> None:
        """What a server does not know any more after it was started again."""
        self.adapters.clear()

    def asked(self, path: str) -> list[Body]:
        return [heard.body for heard in self.http.heard if heard.path == path]

    def _network(self) -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)

    def _answer(self, body: Body, number: int) -> Raw:
        heard = self.http.heard[number]
        if self.faults.hangs:
            return Raw(b"", hang_s=60)
        if heard.path == "/health":
            return Raw(b"")
        if self.key and heard.headers.get("authorization") != f"Bearer {self.key}":
            return Raw(json.dumps({"error": f"Unauthorized {heard.headers.get('authorization')}"}).encode(), 401)
        if heard.path == "/v1/models":
            return self._models()
        if heard.path == "/v1/load_lora_adapter" and not self.faults.without_routes:
            return self._load(body)
        if heard.path == "/v1/unload_lora_adapter" and not self.faults.without_routes:
            return self._unload(body)
        if heard.path == "/v1/completions":
            return self.faults.answer(body, number) or self._complete(body)
        return Raw(b'{"detail":"Not Found"}', 404)

    def _models(self) -> Raw:
        cards: list[dict[str, Any]] = [
            {
                "id": BASE,
                "object": "model",
                "root": str(self.model),
                "parent": None,
                "max_model_len": self.max_model_len,
            }
        ]
        cards += [{"id": name, "object": "model", "parent": BASE, "max_model_len": None} for name in self.adapters]
        return Raw(json.dumps({"object": "list", "data": cards}).encode())

    def _load(self, body: Body) -> Raw:
        name, path = str(body["lora_name"]), Path(str(body["lora_path"]))
        if not name or not body["lora_path"]:
            return refusal(400, "Both 'lora_name' and 'lora_path' must be provided.", "InvalidUserInput")
        if self.faults.refuses_load is not None:
            return self.faults.refuses_load
        if name in self.adapters:
            return refusal(400, f"The lora adapter '{name}' has already been loaded.", "InvalidUserInput")
        if not (path / "adapter_config.json").exists():
            return refusal(404, f"Loading lora {name} failed: No adapter found for <path>", "NotFoundError")
        rank = json.loads((path / "adapter_config.json").read_text())["r"]
        if rank > self.max_lora_rank:
            said = f"LoRA rank {rank} is greater than max_lora_rank {self.max_lora_rank}."
            return refusal(500, f"Call to add_lora method failed: {said}", "InternalServerError")
        if self.faults.keeps_first_adapter and self.loads:
            network = self._first
        else:
            network = self._first = peft.PeftModel.from_pretrained(self._network(), str(path)).eval()
        self.loads.append((name, path))
        if not self.faults.forgets_at_once:
            self.adapters[name] = network
        return Raw(
            f"Success: LoRA adapter '{name}' added successfully.".encode(), headers={"Content-Type": "text/plain"}
        )

    def _unload(self, body: Body) -> Raw:
        name = str(body["lora_name"])
        if name not in self.adapters:
            return refusal(404, f"The lora adapter '{name}' cannot be found.", "NotFoundError")
        del self.adapters[name]
        self.unloads.append(name)
        return Raw(b"Success", headers={"Content-Type": "text/plain"})

    def _complete(self, body: Body) -> Raw:
        name = str(body["model"])
        if name != BASE and name not in self.adapters:
            return refusal(404, f"The model `{name}` does not exist.", "NotFoundError")
        prompt, most = list(body["prompt"]), int(body["max_tokens"])
        if len(prompt) + most > self.max_model_len:
            return refusal(400, f"max_tokens={most} is too much.", "BadRequestError")
        with self._lock:
            network = self._base if name == BASE else self.adapters[name]
            tokens, logprobs = self._sample(network, prompt, most, body)
            self.replies += 1
        stopped = tokens[-1] in body["stop_token_ids"]
        choice = {
            "index": 0,
            "text": "…",
            "logprobs": {"token_logprobs": logprobs, "tokens": ["…"] * len(tokens)},
            "finish_reason": "stop" if stopped else "length",
            "stop_reason": tokens[-1] if stopped else None,
            "token_ids": tokens,
            "prompt_token_ids": prompt,
        }
        self.faults.changes(choice)
        value = {"id": "cmpl-1", "object": "text_completion", "model": self.faults.calls_itself or name}
        return Raw(json.dumps({**value, "choices": [choice]}).encode())

    @torch.inference_mode()
    def _sample(self, network: Any, prompt: list[int], most: int, body: Body) -> tuple[list[int], list[float]]:
        rng, temperature = np.random.default_rng(body["seed"]), float(body["temperature"]) or 1.0
        tokens: list[int] = []
        logprobs: list[float] = []
        while len(tokens) < most and not (tokens and tokens[-1] in body["stop_token_ids"]):
            logits = network(input_ids=torch.tensor([prompt + tokens])).logits[0, -1].double()
            tempered = (logits / temperature).log_softmax(-1)
            told = logits.log_softmax(-1) if self.faults.untempered else tempered
            weights = tempered.exp().numpy()
            token = (
                int(rng.choice(len(weights), p=weights / weights.sum()))
                if body["temperature"]
                else int(logits.argmax())
            )
            tokens.append(token)
            logprobs.append(float(told[token]))
        return tokens, logprobs


def refusal(status: int, message: str, kind: str) -> Raw:
    body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    return Raw(json.dumps(body).encode(), status, JSON)
