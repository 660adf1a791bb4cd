"""Tokens per second of the local engine's sampler, against `generate` of transformers on the same episodes.

`python benchmarks/sampling.py [--rounds 2] [--threads 0] [--quick]` plays 384 episodes of several turns with the seed
model, as one iteration of a run does: 24 openings, 16 plays each. What the environment says is scripted and the same in
both modes; replies are drawn at temperature 1, and one without a stop token in 24 tokens ends its episode. `generate`
is used as its users do: sampling settings of the model's own distribution, batches with left padding, and the whole
history again in each turn. It is tried with several batch sizes and the best counts. It gives no log-probabilities,
which training needs and the engine gives. Only drawn tokens are counted; rendering is not timed. Ratios are medians
over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from spadework.config import EngineConfig, LearningConfig, ModelConfig
from spadework.engines.base import SamplingParams, StopReason
from spadework.engines.local.engine import LocalEngine
from spadework.roles.choosing import open_rendering
from spadework.roles.messages import Message
from spadework.roles.rendering import Rendering
from spadework.seedmodel.shipped import model_directory

OPENINGS, PLAYS, TURNS = 24, 16, 8
MAX_REPLY, CONTEXT = 24, 640
BATCHES = (64, 384)
WORDS = ("amber", "birch", "cedar", "delta", "ember", "frost", "grove", "heron", "inlet", "jade", "kelp", "lotus")
GOAL = 3.0


@dataclass(frozen=True)
class Episode:
    """What the environment says, whatever it is told."""

    opening: str
    answers: tuple[str, ...]


def episodes(count: int) -> list[Episode]:
    made = []
    for number in range(count):
        draws = np.random.default_rng(number // PLAYS)
        words = draws.permutation(WORDS)[: int(draws.integers(4, 9))]
        opening = f"The harbour worth: {', '.join(words)}. look WORD, take WORD worth most."
        answers = np.random.default_rng(1000 + number).integers(1, 10, TURNS - 1)
        made.append(Episode(opening, tuple(f"it is worth {answer}, look on" for answer in answers)))
    return made


@dataclass(frozen=True)
class Played:
    tokens: int
    seconds: float

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


async def play_engine(engine: LocalEngine, rendering: Rendering, games: Sequence[Episode], seed: int) -> Played:
    tokens, outside = 0, 0.0

    async def member(number: int, game: Episode) -> None:
        nonlocal tokens, outside
        prompt = openings[number]
        for turn in range(TURNS):
            params = SamplingParams(MAX_REPLY, tuple(rendering.stop_ids), seed=(seed * 1000 + number) * 100 + turn)
            sample = await cohort.sample(number, prompt, params)
            tokens += len(sample.token_ids_T)
            if sample.stop_reason is StopReason.LENGTH:
                break
            if turn < TURNS - 1:
                started = time.perf_counter()
                new = [Message("user", game.answers[turn])]
                prompt = list(rendering.next_prompt(prompt, sample.token_ids_T, new))
                outside += time.perf_counter() - started
        cohort.leave(number)

    openings = [list(rendering.first_prompt([Message("user", game.opening)])) for game in games]
    started = time.perf_counter()
    async with engine.cohort(len(games)) as cohort:
        await asyncio.gather(*(member(number, game) for number, game in enumerate(games)))
    return Played(tokens, time.perf_counter() - started - outside)


def play_generate(
    network: torch.nn.Module, rendering: Rendering, games: Sequence[Episode], seed: int, batch: int
) -> Played:
    torch.manual_seed(seed)
    stops = list(rendering.stop_ids)
    waiting = [(game, list(rendering.first_prompt([Message("user", game.opening)]))) for game in games]
    tokens, seconds = 0, 0.0
    for turn in range(TURNS):
        started = time.perf_counter()
        replies = [
            reply
            for first in range(0, len(waiting), batch)
            for reply in _generate(network, [prompt for _, prompt in waiting[first : first + batch]], stops)
        ]
        seconds += time.perf_counter() - started
        tokens += sum(map(len, replies))
        if turn < TURNS - 1:
            waiting = [
                (game, list(rendering.next_prompt(prompt, reply, [Message("user", game.answers[turn])])))
                for (game, prompt), reply in zip(waiting, replies, strict=True)
                if reply[-1] in stops
            ]
    return Played(tokens, seconds)


def _generate(network: torch.nn.Module, prompts: Sequence[list[int]], stops: list[int]) -> list[list[int]]:
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), stops[0])
    mask = torch.zeros((len(prompts), width), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    with torch.inference_mode():
        found = network.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=MAX_REPLY,
            eos_token_id=stops,
            pad_token_id=stops[0],
        )
    return [_until_stop(row, stops) for row in found[:, width:].tolist()]


def _until_stop(ids: list[int], stops: Sequence[int]) -> list[int]:
    for length, token in enumerate(ids, start=1):
        if token in stops:
            return ids[:length]
    return ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="0: every core that the process may use")
    parser.add_argument("--quick", action="store_true", help="one round of 48 episodes: does it run?")
    asked = parser.parse_args()
    threads = asked.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    directory = model_directory()
    rendering = open_rendering(AutoTokenizer.from_pretrained(directory), directory, thinking=False)
    network = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    engine = LocalEngine.open(
        directory, EngineConfig(threads=threads), ModelConfig(max_context_tokens=CONTEXT), LearningConfig()
    )
    games = episodes(48 if asked.quick else OPENINGS * PLAYS)
    modes: dict[str, Callable[[int], Played]] = {
        "the local engine": lambda seed: asyncio.run(play_engine(engine, rendering, games, seed))
    }
    for batch in sorted({min(size, len(games)) for size in BATCHES}):
        modes[f"generate, batches of {batch}"] = lambda seed, batch=batch: play_generate(
            network, rendering, games, seed, batch
        )
    print(f"{len(games)} episodes of {TURNS} turns, {threads} threads")
    found: dict[str, list[float]] = {name: [] for name in modes}
    for round_number in range(1 if asked.quick else asked.rounds):
        for name, play in modes.items():
            played = play(round_number)
            found[name].append(played.speed)
            print(
                f"round {round_number}: {name:<26} {played.tokens:>7} tokens in {played.seconds:6.1f} s: "
                f"{played.speed:8.0f} per s",
                flush=True,
            )
    ours, *theirs = found.values()
    ratios = [one / max(others) for one, *others in zip(ours, *theirs, strict=True)]
    ratio = statistics.median(ratios)
    print(f"the engine samples {ratio:.1f} times as many tokens per second as the best of generate", end="")
    print(f" (goal: {GOAL:g} times, {'met' if ratio >= GOAL else 'MISSED'})")


if __name__ == "__main__":
    main()
