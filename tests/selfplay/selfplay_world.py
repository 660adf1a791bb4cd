"""A whole run in small: a random model whose replies a script writes, so that programs are valid and plays decent.

Weights, log-probabilities, updates, checkpoints, sandbox and store are real. The script replaces only the choice of
tokens, and depends on the prompt and the sample's seed alone.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from spadework.config import Config
from spadework.engines.base import Datum, ForwardBackward, OptimStep, Sample, SamplingParams, StopReason
from spadework.engines.local.engine import LocalEngine, UnchangedWeights
from spadework.learning.loss import PolicyLoss
from spadework.progress import Observer, Silent
from spadework.roles.choosing import open_rendering
from spadework.roles.rendering import Rendering
from spadework.seeding import generator
from spadework.selfplay import Evaluate, TrainingSummary, train
from spadework.store.metrics import read_metrics
from spadework.store.run_directory import RunDirectory

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PROGRAM = """import random


class {name}Env:
    max_turns = 6

    def reset(self, seed=None):
        self.{attribute} = random.Random(seed).randint({low}, {high})
        self.turns = 0
        return "The {words} lies between {low} and {high}. Say a number.", {{}}

    def step(self, action):
        self.turns += 1
        late = self.turns >= self.max_turns
        if action == "crash":
            raise KeyError(action)
        if not action.isdigit() or len(action) > 4:
            return "Say a number.", 0.0, False, late, {{}}
        if int(action) == self.{attribute}:
            return "You found the {words}.", 1.0, True, False, {{}}
        word = "higher" if int(action) < self.{attribute} else "lower"
        return f"The {words} is {{word}}.", 0.0, False, late, {{}}

    def solution(self):
        return [str(self.{attribute})]
"""
HINT = "Halve the room that is left each time."
NAMES = ("lute", "gate", "boat", "drum", "kite", "well", "mask", "rope", "sail", "tent", "vase", "wand")
CONTEXT = 2048

Script = Callable[[str, SamplingParams], str]
"""(text of the prompt, parameters) -> text of the reply."""


def script(prompt: str, params: SamplingParams) -> str:
    """Both roles: one program in four is no program, one reply in forty crashes the environment."""
    asked = prompt.split("<|im_start|>user\n")[1]
    rng = generator(params.seed, "script")
    if asked.startswith("hint:"):
        return HINT
    if asked.startswith("design "):
        return "I would rather not." if rng.random() < 1 / 4 else program(prompt, rng)
    return "crash" if rng.random() < 1 / 40 else guess(prompt, rng)


def program(prompt: str, rng: Any) -> str:
    name = next(name for name in NAMES if f"\n {name}" in prompt)
    low, size = int(rng.integers(1, 500)), int(rng.integers(60, 400))
    source = PROGRAM.format(
        name=name.title(), attribute=f"{name}_at", words=f"{name} in the harbour", low=low, high=low + size
    )
    return f"```python\n{source}```"


def guess(prompt: str, rng: Any) -> str:
    """Halves what is left; without the hint often only roughly, with it always at one of the two middle values."""
    found = re.search(r"lies between (\d+) and (\d+)", prompt)
    assert found is not None
    low, high = int(found[1]), int(found[2])
    for said, answer in re.findall(r"assistant\n(\d+)<\|im_end\|>\n<\|im_start\|>user\n[^<]*(higher|lower)", prompt):
        low, high = (max(low, int(said) + 1), high) if answer == "higher" else (low, min(high, int(said) - 1))
    spread = (high - low) // (16 if HINT in prompt else 3)
    middle = (low + high) // 2 + int(rng.integers(-spread, spread + 1))
    # The last step is a lucky one now and then: six halvings do not always do.
    return str(max(low, min(high, middle)))


@dataclass
class ScriptedPolicy:
    """The local engine with other tokens: what is said follows ``say``, its log-probabilities are the model's own."""

    engine: LocalEngine
    rendering: Rendering
    say: Script = script
    trained: list[tuple[Datum, ...]] = field(default_factory=list)
    scored: list[tuple[Datum, ...]] = field(default_factory=list)
    requests: list[SamplingParams] = field(default_factory=list)

    @property
    def policy_version(self) -> int:
        return self.engine.policy_version

    @asynccontextmanager
    async def cohort(self, size: int) -> AsyncIterator[ScriptedCohort]:
        yield ScriptedCohort(self, set(range(size)))

    async def replies(self, asked: Sequence[tuple[Sequence[int], SamplingParams]]) -> list[Sample]:
        data, stops = [], []
        for prompt_ids, params in asked:
            self.requests.append(params)
            text = self.say(self.rendering.decode(prompt_ids), params)
            ids = (*self.rendering.encode(text), self.rendering.stop_ids[0])
            stops.append(StopReason.STOP if len(ids) <= params.max_tokens else StopReason.LENGTH)
            data.append(_datum(prompt_ids, ids[: params.max_tokens], params.temperature))
        rows = await self.engine.score(data)
        return [
            Sample(datum.token_ids_T[len(prompt) :], row[len(prompt) :], stop, self.policy_version)
            for datum, row, stop, (prompt, _) in zip(data, rows, stops, asked, strict=True)
        ]

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        self.scored.append(tuple(data))
        return await self.engine.score(data, reference=reference)

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        self.trained.append(tuple(data))
        return await self.engine.forward_backward(data, loss)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        return await self.engine.optim_step(learning_rate)

    async def save(self, directory: Path) -> None:
        await self.engine.save(directory)

    async def load(self, directory: Path) -> None:
        await self.engine.load(directory)

    async def export(self, directory: Path) -> None:
        await self.engine.export(directory)

    async def weight_checksum(self) -> str:
        return await self.engine.weight_checksum()

    async def count_unchanged_weights(self) -> UnchangedWeights:
        return await self.engine.count_unchanged_weights()


@dataclass
class ScriptedCohort:
    """Lockstep as in the local engine: everybody who lives waits, then all are served."""

    policy: ScriptedPolicy
    live: set[int]
    waiting: dict[int, tuple[Sequence[int], SamplingParams, asyncio.Future[Sample]]] = field(default_factory=dict)
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self.waiting[member] = (prompt_ids, params, answer)
        self._serve_when_all_wait()
        return await answer

    def leave(self, member: int) -> None:
        self.live.discard(member)
        self._serve_when_all_wait()

    def _serve_when_all_wait(self) -> None:
        if self.live and self.waiting.keys() == self.live:
            waiting, self.waiting = self.waiting, {}
            self.serving.add(asyncio.create_task(self._serve([waiting[member] for member in sorted(waiting)])))

    async def _serve(self, asked: list[tuple[Sequence[int], SamplingParams, asyncio.Future[Sample]]]) -> None:
        try:
            samples = await self.policy.replies([(prompt, params) for prompt, params, _ in asked])
        except Exception as error:
            for _, _, answer in asked:
                answer.set_exception(error)
            return
        for (_, _, answer), sample in zip(asked, samples, strict=True):
            if not answer.done():
                answer.set_result(sample)


def _datum(prompt_ids: Sequence[int], ids: Sequence[int], temperature: float) -> Datum:
    sampled = (0.0,) * len(prompt_ids) + (1.0,) * len(ids)
    zeros = (0.0,) * len(sampled)
    return Datum((*prompt_ids, *ids), sampled, zeros, zeros, temperature)


def save_model(directory: Path, texts: Sequence[str] = (PROGRAM,), vocabulary: int = 500) -> Path:
    """A random Qwen3 of one small layer with a byte-level tokenizer that has Qwen3's special tokens.

    The tokenizer is made for ``texts``.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    core.train_from_iterator([*texts] * 2, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.add_tokens([f" {name}" for name in NAMES])  # so that they are keywords of their documents
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
    )
    transformers.Qwen3ForCausalLM(config).save_pretrained(directory)
    return directory


def save_corpus(file: Path) -> Path:
    lines = [{"title": name, "text": f"The {name} is kept in the harbour. " * 8} for name in NAMES]
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return file


def small_config(model: Path, corpus: Path, **changes: Any) -> Config:
    """Three environments with four plays each, rounds of two iterations, five iterations; ``changes`` by section."""
    tree: dict[str, Any] = {
        "seed": 2,
        "iterations": 5,
        "model": {"path": str(model), "prompts": "seed", "max_context_tokens": CONTEXT},
        "engine": {"threads": 1},
        "corpus": {"source": str(corpus), "max_tokens": 80},
        "designer": {"max_tokens": 900, "attempts": 3, "hint_max_tokens": 60},
        "agent": {"action_format": "raw", "max_turns": 6, "max_reply_tokens": 20, "max_episode_tokens": 600},
        "curriculum": {"environments": 3, "plays": 4, "round_iterations": 2, "skills_per_round": 1},
        "memory": {"positives": 1, "negatives": 1, "max_tokens": 300},
        "gates": {"seeds": 2, "random_plays": 2, "similarity_threshold": 1.0},
        "learning": {"learning_rate": 1e-3},
    }
    for section, values in changes.items():
        tree[section] = {**tree.get(section, {}), **values} if isinstance(values, dict) else values
    return Config.model_validate(tree)


@dataclass(frozen=True)
class Trained:
    policy: ScriptedPolicy
    summary: TrainingSummary
    rows: list[dict[str, Any]]


def open_policy(config: Config, say: Script = script) -> ScriptedPolicy:
    directory = Path(config.model.path)
    engine = LocalEngine.open(directory, config.engine, config.model, config.learning)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    return ScriptedPolicy(engine, open_rendering(tokenizer, directory, thinking=False), say)


def run_once(
    path: Path,
    config: Config,
    policy: ScriptedPolicy | None = None,
    observer: Observer | None = None,
    evaluate: Evaluate | None = None,
) -> Trained:
    """Start or continue the run in ``path``, to its end."""
    policy = open_policy(config) if policy is None else policy
    with RunDirectory.create_or_open(path, config) as run:
        summary = asyncio.run(
            train(
                run,
                config,
                policy,
                observer or Silent(),
                rendering=policy.rendering,
                evaluate=evaluate,
                tensorboard=False,
            )
        )
        return Trained(policy, summary, read_metrics(run.metrics))


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]
