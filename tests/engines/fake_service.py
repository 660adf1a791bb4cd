"""A service of the Tinker API made of NumPy, with the sharp edges of real ones to be switched on.

Its model is a table: the next token's logits are the row of the present token. Gradients are true ones.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import struct
import tarfile
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spadework.config import Config
from spadework.engines.base import EngineFault
from spadework.engines.tinker.service import Adam, Clip, Example, Logprobs, Reply

VOCABULARY, CONTEXT, MODEL = 12, 40, "table-1"
STOP = 1

Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Edges:
    """``averages``: the mean over sequences of the mean over tokens instead of the sum. ``slots``: trainers at once.
    ``overwrites``: sampling from an older sampler brings its weights back into training. ``ignores_clip``: the
    request's gradient norm limit does nothing. ``leaves_out_first``: no entry for the first token of a prompt.
    ``drops_stop``: the stop token is not among a reply's tokens. ``tells_norm``: steps come with the gradient's norm.
    """

    averages: bool = True
    slots: int = 4
    overwrites: bool = True
    ignores_clip: bool = True
    leaves_out_first: bool = True
    drops_stop: bool = False
    tells_norm: bool = True


@dataclass
class FakeService:
    edges: Edges = Edges()
    calls: list[str] = field(default_factory=list)
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    trainers: list[FakeTrainer] = field(default_factory=list)
    fails: set[str] = field(default_factory=set)
    seeds: list[int] = field(default_factory=list)
    archive: bytes = field(default_factory=lambda: adapter_archive())
    most_at_once: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        self.base: Table = np.random.default_rng(0).normal(0, 1.5, (VOCABULARY, VOCABULARY))

    def called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise EngineFault(f"the service refused {name}")

    def models(self) -> tuple[str, ...]:
        self.called("models")
        return (MODEL,)

    async def create(self, base_model: str, rank: int, seed: int) -> FakeTrainer:
        self.called("create")
        return self._slot(FakeTrainer(self, self.base.copy()))

    async def open_state(self, path: str) -> FakeTrainer:
        self.called("open_state")
        kept = self.states[path]
        trainer = FakeTrainer(self, kept["table"].copy())
        trainer.moments, trainer.steps = tuple(part.copy() for part in kept["moments"]), kept["steps"]
        return self._slot(trainer)

    def _slot(self, trainer: FakeTrainer) -> FakeTrainer:
        if len(self.trainers) == self.edges.slots:
            raise EngineFault("the server has no free adapter")
        self.trainers.append(trainer)
        return trainer

    async def base_logprobs(self, base_model: str, token_ids_T: Sequence[int]) -> tuple[float | None, ...]:
        self.called("base_logprobs")
        rows = log_softmax(self.base)
        found = [float(rows[before, now]) for before, now in itertools.pairwise(token_ids_T)]
        return tuple(found) if self.edges.leaves_out_first else (None, *found)

    async def download(self, path: str, archive: Path) -> None:
        self.called("download")
        archive.write_bytes(self.archive)

    async def delete(self, path: str) -> None:
        self.called("delete")
        del self.states[path]


@dataclass
class FakeTrainer:
    service: FakeService
    table: Table
    steps: int = 0
    counted: int = 0
    newest: FakeSampler | None = None

    def __post_init__(self) -> None:
        self.moments: tuple[Table, ...] = (np.zeros_like(self.table), np.zeros_like(self.table))
        self.gradient: Table = np.zeros_like(self.table)
        self.applied: list[Table] = []
        self.adams: list[Adam] = []
        self.step_submitted = asyncio.Event()

    def forward(self, examples: Sequence[Example]) -> Awaitable[list[Logprobs]]:
        self.service.called("forward")
        return self._forward(examples)

    async def _forward(self, examples: Sequence[Example]) -> list[Logprobs]:
        rows = log_softmax(self.table)
        return [tuple(rows[list(one.inputs_I), list(one.targets_I)].tolist()) for one in examples]

    def forward_backward(self, examples: Sequence[Example], clip: Clip) -> Awaitable[list[Logprobs]]:
        self.service.called("forward_backward")
        return self._forward_backward(examples, clip)

    async def _forward_backward(self, examples: Sequence[Example], clip: Clip) -> list[Logprobs]:
        rows = log_softmax(self.table)
        for one in examples:
            trained = sum(one.mask_I)
            for before, target, mask, old, advantage in zip(
                one.inputs_I, one.targets_I, one.mask_I, one.logprobs_I, one.advantages_I, strict=True
            ):
                ratio = np.exp(rows[before, target] - old)
                clipped = np.clip(ratio, clip.low_threshold, clip.high_threshold) * advantage < ratio * advantage
                slope = 0.0 if clipped else -ratio * advantage * mask
                if self.service.edges.averages:
                    slope /= trained
                self.gradient[before] -= slope * np.exp(rows[before])
                self.gradient[before, target] += slope
        self.counted += len(examples)
        return await self._forward(examples)

    def step(self, adam: Adam) -> Awaitable[float | None]:
        self.service.called("step")
        self.step_submitted.set()
        self.adams.append(adam)
        return self._step(adam)

    async def _step(self, adam: Adam) -> float | None:
        gradient = self.gradient / self.counted if self.service.edges.averages else self.gradient
        norm = float(np.linalg.norm(gradient))
        if adam.max_grad_norm and not self.service.edges.ignores_clip:
            gradient = gradient * min(1.0, adam.max_grad_norm / norm)
        self.applied.append(gradient)
        self.gradient, self.counted = np.zeros_like(self.table), 0
        self.steps += 1
        first, second = self.moments
        first = adam.beta1 * first + (1 - adam.beta1) * gradient
        second = adam.beta2 * second + (1 - adam.beta2) * gradient**2
        self.moments = (first, second)
        mean, spread = first / (1 - adam.beta1**self.steps), second / (1 - adam.beta2**self.steps)
        self.table = self.table * (1 - adam.learning_rate * adam.weight_decay)
        self.table -= adam.learning_rate * mean / (np.sqrt(spread) + adam.eps)
        return norm if self.service.edges.tells_norm else None

    async def sampler(self) -> FakeSampler:
        self.service.called("sampler")
        self.newest = FakeSampler(self, self.table.copy())
        return self.newest

    async def save_state(self, name: str) -> str:
        self.service.called("save_state")
        path = f"fake://weights/{name}"
        if path in self.service.states:
            raise EngineFault(f"the name {name} is taken")
        self.service.states[path] = {"table": self.table.copy(), "moments": self.moments, "steps": self.steps}
        return path

    async def save_weights(self, name: str) -> str:
        self.service.called("save_weights")
        return f"fake://sampler_weights/{name}"


@dataclass
class FakeSampler:
    trainer: FakeTrainer
    saved: Table

    async def sample(
        self, prompt_ids: Sequence[int], max_tokens: int, stop_ids: Sequence[int], seed: int, temperature: float
    ) -> Reply:
        trainer, service = self.trainer, self.trainer.service
        service.called("sample")
        service.seeds.append(seed)
        if self is not trainer.newest and service.edges.overwrites:
            trainer.table = self.saved.copy()
        service.now += 1
        service.most_at_once = max(service.most_at_once, service.now)
        await asyncio.sleep(0.001)
        service.now -= 1
        rng = np.random.default_rng(seed)
        rows, token = log_softmax(trainer.table), prompt_ids[-1]
        tokens: list[int] = []
        logprobs: list[float] = []
        while len(tokens) < max_tokens:
            hot = (
                log_softmax(rows[token] / temperature)
                if temperature
                else np.where(rows[token] == rows[token].max(), 0.0, -np.inf)
            )
            before, token = token, int(rng.choice(VOCABULARY, p=np.exp(hot) / np.exp(hot).sum()))
            if token in stop_ids and service.edges.drops_stop:
                return Reply(tuple(tokens), tuple(logprobs), True)
            tokens.append(token)
            logprobs.append(float(rows[before, token]))
            if token in stop_ids:
                return Reply(tuple(tokens), tuple(logprobs), True)
        return Reply(tuple(tokens), tuple(logprobs), False)


def log_softmax(logits: Table) -> Table:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def adapter_archive() -> bytes:
    """As SkyRL packs an adapter: one tensor, a configuration without target modules, in a folder of the archive."""
    values = np.zeros((2, 3), dtype=np.float32).tobytes()
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    header = json.dumps({name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, len(values)]}}).encode()
    files = {
        "anything/adapter_model.safetensors": struct.pack("<Q", len(header)) + header + values,
        "anything/adapter_config.json": json.dumps({"r": 2, "lora_alpha": 32, "target_modules": None}).encode(),
    }
    return packed(files)


def packed(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def save_facts(directory: Path) -> Path:
    """A model directory as the tinker engine needs it: no weights."""
    directory.mkdir(parents=True, exist_ok=True)
    facts = {"vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT}
    (directory / "config.json").write_text(json.dumps(facts))
    (directory / "tokenizer.json").write_text("{}")
    return directory


def table_config(backend: str = "skyrl-jax", **sections: Any) -> Config:
    tree: dict[str, Any] = {
        "model": {"max_context_tokens": CONTEXT, "lora_rank": 4},
        "engine": {
            "kind": "tinker",
            "tinker": {"backend": backend, "model": MODEL, "base_url": "http://127.0.0.1:1"},
        },
        "learning": {"max_grad_norm": None if backend == "skyrl-jax" else 1.0, "weight_decay": 0.01},
    }
    for section, values in sections.items():
        tree[section] = {**tree.get(section, {}), **values} if isinstance(values, dict) else values
    return Config.model_validate(tree)
