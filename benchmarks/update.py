"""Time and peak memory of one update of the local engine, against GRPOTrainer of TRL on the same model and batch.

`python benchmarks/update.py --trl-python PATH [--sequences 96] [--steps 2] [--threads 0] [--vocabulary 0] [--quick]`
makes one batch of episodes of several turns and lets each side make optimiser steps on it: the seed model, all weights,
float32, the same loss (asymmetric clip, token mean). TRL is not a dependency of spadework: PATH is a Python that has
`trl` and spadework's own dependencies. Nothing is sampled by either side; TRL is handed the tokens, log-probabilities
and advantages. Both are measured with large and with small micro-batches (the engine fills its token budget by length;
TRL pads a fixed number of rows to the longest of all, as it does), with activations kept and with layers computed again
(gradient checkpointing, which is TRL's default).

Each mode runs in a process of its own. Time is the median over the steps after the first. Memory is the peak of the
process during the steps above what it held before it had a model, with every library imported that the side uses;
weights, moments and gradients count.
`--vocabulary N` takes a random model of the seed model's other sizes with N tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from processes import resident_kib

MICRO_BATCHES = ((16_384, 48), (2_048, 6))
"""Tokens of the engine's micro-batches, and rows of TRL's that come to about as many with the longest of the batch."""
ROWS = 48
LEARNING_RATE = 1e-4
FASTER, SMALLER = 3.0, 0.5


@dataclass(frozen=True)
class Setting:
    directory: str
    sequences: int
    steps: int
    threads: int
    vocabulary: int
    train_tokens: int
    rows: int
    checkpointing: bool


@dataclass(frozen=True)
class Cost:
    seconds: float
    mebibytes: float


@dataclass(frozen=True)
class Sequence:
    """``sampled`` tells the model's tokens from the environment's; the first ``prompt`` tokens are the opening."""

    ids: list[int]
    sampled: list[bool]
    prompt: int
    advantage: float


def batch(setting: Setting) -> list[Sequence]:
    made = []
    for number in range(setting.sequences):
        draws = np.random.default_rng(number)
        prompt = int(draws.integers(40, 80))
        sampled = [False] * prompt
        for _ in range(int(draws.integers(2, 15))):
            sampled += [True] * int(draws.integers(4, 25)) + [False] * int(draws.integers(6, 15))
        while not sampled[-1]:
            sampled.pop()
        ids = draws.integers(5, setting.vocabulary, len(sampled)).tolist()
        made.append(Sequence(ids, sampled, prompt, float(draws.normal())))
    return made


def measure_engine(setting: Setting) -> Cost:
    import torch

    from spadework.config import EngineConfig, LearningConfig, ModelConfig
    from spadework.engines.base import Datum
    from spadework.engines.local.engine import LocalEngine
    from spadework.learning.loss import PolicyLoss

    torch.set_num_threads(setting.threads)
    before = held_without_model_kib(setting)
    engine = LocalEngine.open(
        Path(setting.directory),
        EngineConfig(
            train_tokens=setting.train_tokens, threads=setting.threads, gradient_checkpointing=setting.checkpointing
        ),
        ModelConfig(max_context_tokens=640),
        LearningConfig(),
    )
    sequences = batch(setting)
    tokens = sum(sum(sequence.sampled) for sequence in sequences)
    data = [
        Datum(
            tuple(one.ids),
            tuple(float(sampled) / tokens for sampled in one.sampled),
            tuple(-1.0 if sampled else 0.0 for sampled in one.sampled),
            tuple(one.advantage if sampled else 0.0 for sampled in one.sampled),
        )
        for one in sequences
    ]

    async def steps() -> list[float]:
        times = []
        for _ in range(setting.steps + 1):
            started = time.perf_counter()
            await engine.forward_backward(data, PolicyLoss())
            await engine.optim_step(LEARNING_RATE)
            times.append(time.perf_counter() - started)
        return times

    return _cost(asyncio.run(steps()), before)


def measure_trl(setting: Setting) -> Cost:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(setting.threads)
    before = held_without_model_kib(setting)
    tokenizer = AutoTokenizer.from_pretrained(setting.directory)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = _padded(batch(setting))
    times: list[float] = []

    class Given(GRPOTrainer):
        """Trains on what it is handed instead of sampling."""

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return dict(given)

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.started = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter() - self.started)

    with tempfile.TemporaryDirectory() as scratch:
        trainer = Given(
            model=AutoModelForCausalLM.from_pretrained(setting.directory, dtype=torch.float32),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=GRPOConfig(
                output_dir=scratch,
                per_device_train_batch_size=setting.rows,
                gradient_accumulation_steps=setting.sequences // setting.rows,
                num_generations=16,
                max_steps=setting.steps + 1,
                learning_rate=LEARNING_RATE,
                weight_decay=0.1,
                epsilon=0.2,
                epsilon_high=0.28,
                loss_type="dapo",
                beta=0.0,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=setting.checkpointing,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_strategy="no",
            ),
            train_dataset=Dataset.from_dict({"prompt": [f"{number}" for number in range(setting.sequences)]}),
            processing_class=tokenizer,
            callbacks=[Clock()],
        )
        trainer.train()
    return _cost(times, before)


def _padded(sequences: list[Sequence]) -> dict[str, Any]:
    """What the trainer makes of its own samples: openings padded on the left, the rest on the right."""
    import torch

    rows = len(sequences)
    width = max(one.prompt for one in sequences)
    length = max(len(one.ids) - one.prompt for one in sequences)
    prompt_ids, prompt_mask = torch.zeros(rows, width, dtype=torch.long), torch.zeros(rows, width, dtype=torch.long)
    ids, mask, sampled = (torch.zeros(rows, length, dtype=torch.long) for _ in range(3))
    for row, one in enumerate(sequences):
        prompt_ids[row, width - one.prompt :] = torch.tensor(one.ids[: one.prompt])
        prompt_mask[row, width - one.prompt :] = 1
        rest = len(one.ids) - one.prompt
        ids[row, :rest] = torch.tensor(one.ids[one.prompt :])
        mask[row, :rest] = 1
        sampled[row, :rest] = torch.tensor(one.sampled[one.prompt :]).long()
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": ids,
        "completion_mask": mask,
        "tool_mask": sampled,
        "advantages": torch.tensor([one.advantage for one in sequences]),
        "old_per_token_logps": torch.full((rows, length), -1.0),
        "num_items_in_batch": sampled.sum(),
    }


def held_without_model_kib(setting: Setting) -> int:
    """Memory of this process once a model was loaded and forgotten: what the libraries import for it stays."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(setting.directory)
    AutoModelForCausalLM.from_pretrained(setting.directory)
    gc.collect()
    return resident_kib(os.getpid())


def _cost(times: list[float], before_kib: int) -> Cost:
    status = Path("/proc/self/status").read_text().splitlines()
    peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    return Cost(statistics.median(times[1:]), (peak_kib - before_kib) / 1024)


MODES: dict[str, Callable[[Setting], Cost]] = {"engine": measure_engine, "trl": measure_trl}


def in_process(python: str, mode: str, setting: Setting) -> Cost:
    command = [python, __file__, "--mode", mode, "--setting", json.dumps(asdict(setting))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{mode} failed with exit status {done.returncode}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def random_model(directory: Path, vocabulary: int) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from spadework.seedmodel.shipped import model_directory

    config = AutoConfig.from_pretrained(model_directory(), vocab_size=vocabulary)
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    AutoTokenizer.from_pretrained(model_directory()).save_pretrained(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl-python", default="", help="a Python that has trl; without it the engine alone")
    parser.add_argument("--sequences", type=int, default=96, help=f"a multiple of {ROWS}")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="0: every core that the process may use")
    parser.add_argument("--vocabulary", type=int, default=0, help="0: the seed model")
    parser.add_argument("--quick", action="store_true", help=f"one step of {ROWS} sequences: does it run?")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--setting", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.mode:
        print(json.dumps(asdict(MODES[asked.mode](Setting(**json.loads(asked.setting))))))
        return
    from transformers import AutoConfig

    from spadework.seedmodel.shipped import model_directory

    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) if asked.vocabulary else model_directory()
        if asked.vocabulary:
            random_model(directory, asked.vocabulary)
        vocabulary = AutoConfig.from_pretrained(directory).vocab_size
        sequences, steps = (ROWS, 1) if asked.quick else (asked.sequences, asked.steps)
        threads = asked.threads or len(os.sched_getaffinity(0))
        tokens = sum(len(one.ids) for one in batch(Setting("", sequences, 0, 0, vocabulary, 0, 0, False)))
        print(f"{sequences} sequences, {tokens} tokens, a vocabulary of {vocabulary}, {threads} threads", flush=True)
        costs: dict[str, list[Cost]] = {mode: [] for mode in (MODES if asked.trl_python else ["engine"])}
        for train_tokens, rows in MICRO_BATCHES:
            for checkpointing in (False, True):
                setting = Setting(
                    str(directory), sequences, steps, threads, vocabulary, train_tokens, rows, checkpointing
                )
                layers = "layers computed again" if checkpointing else "activations kept"
                for mode, found in costs.items():
                    cost = in_process(asked.trl_python if mode == "trl" else sys.executable, mode, setting)
                    found.append(cost)
                    print(
                        f"{mode:<7} micro-batches of about {train_tokens:>6} tokens, {layers:<22} "
                        f"{cost.seconds:7.2f} s {cost.mebibytes:7.0f} MiB",
                        flush=True,
                    )
    if asked.trl_python:
        compare(costs["engine"], costs["trl"])


def compare(ours: list[Cost], theirs: list[Cost]) -> None:
    """Like with like, and then each side with the settings that suit it best."""
    pairs = list(zip(ours, theirs, strict=True))
    speeds = ", ".join(f"{their.seconds / our.seconds:.2f}" for our, their in pairs)
    sizes = ", ".join(f"{our.mebibytes / their.mebibytes:.2f}" for our, their in pairs)
    print(f"at equal settings the engine is {speeds} times as fast and takes {sizes} times the memory")
    faster = min(cost.seconds for cost in theirs) / min(cost.seconds for cost in ours)
    smaller = min(cost.mebibytes for cost in ours) / min(cost.mebibytes for cost in theirs)
    print(
        f"at the best of its settings each, it is {faster:.2f} times as fast (goal: {FASTER:g}, "
        f"{'met' if faster >= FASTER else 'MISSED'}) and can do with {smaller:.2f} times the memory "
        f"(goal: {SMALLER:g}, {'met' if smaller <= SMALLER else 'MISSED'})"
    )


if __name__ == "__main__":
    main()
