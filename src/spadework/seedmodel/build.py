"""Build the seed model: `python -m spadework.seedmodel.build`.

A tokenizer and a small Qwen3 model, started by supervision on what a *mediocre* author and player write. What it
covers is the start only; getting better is what training runs are for. `docs/seed-model.md` says what is in it.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from spadework.config import CorpusConfig
from spadework.curriculum.corpus import Corpus, open_corpus
from spadework.roles.rendering import Rendering, Tokenizer, open_rendering
from spadework.seeding import derive_seed, generator
from spadework.seedmodel.examples import Conversation, Designed, design, excerpts, hint_conversation, plays
from spadework.seedmodel.families import TRAINED
from spadework.seedmodel.tokenizer import train_tokenizer
from spadework.seedmodel.wording import reserved_words, usable_words

CORPUS = (
    "python:email,http,urllib,xml,unittest,multiprocessing,concurrent,ctypes,importlib,html,wsgiref,sqlite3,"
    "tarfile,zipfile,pickle,threading,socket,ssl,subprocess,tempfile,shutil,pathlib,inspect,dis,ast,typing,"
    "dataclasses,enum,functools,random,statistics,fractions,datetime,calendar,locale,gettext,turtle,"
    "pydoc,doctest,pdb,cProfile,trace,tracemalloc,string,textwrap,difflib,optparse,getpass,cmd,"
    "imaplib,smtplib,ftplib,poplib,mailbox,mimetypes,base64,pydantic,rich,typer,jinja2"
)
"""Documents of the supervised start. Presets and evaluation use others."""

LEAST_WORDS = 7
MAX_LENGTH = 512


@dataclass(frozen=True)
class Recipe:
    """Sizes of the supervised start. ``batch_tokens`` counts padded tokens."""

    designs: int = 10_000
    lists: int = 8_000
    """Lists of words to repeat: what teaches to copy soonest, since every word of the second round is a lesson."""
    played: int = 5_000
    steps: int = 760
    batch_tokens: int = 6_144
    peak_learning_rate: float = 3e-3
    hidden: int = 160
    layers: int = 4
    heads: int = 5
    intermediate: int = 400


@dataclass(frozen=True)
class Rendered:
    """One conversation as ids; ``learned_T`` marks the assistant's tokens."""

    ids_T: list[int]
    learned_T: list[bool]


def build(directory: Path, recipe: Recipe, seed: int, start: Path | None = None) -> None:
    """Write the model to ``directory``; ``start`` is a model built before, to go on from."""
    corpus = open_corpus(CorpusConfig(source=CORPUS, min_words=40))
    tokenizer = _tokenizer(corpus, seed) if start is None else PreTrainedTokenizerFast.from_pretrained(start)
    rendering = open_rendering(cast(Tokenizer, tokenizer), directory, thinking=False)
    print(f"{len(corpus)} documents, {len(tokenizer)} tokens in the vocabulary", flush=True)
    sequences = _sequences(corpus, tokenizer, rendering, recipe, seed)
    model = _new_model(tokenizer, recipe, seed) if start is None else Qwen3ForCausalLM.from_pretrained(start)
    model = _train(model.train(), sequences, recipe, seed)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _tokenizer(corpus: Corpus, seed: int) -> PreTrainedTokenizerFast:
    """Its merges come from the documents and from what is said in games; the latter weigh as much as the former."""
    documents = [corpus.document(index).text[:2000] for index in range(len(corpus))]
    reserved = reserved_words()
    rng = generator(seed, "seed-model-tokenizer")
    spoken: list[str] = []
    for text in documents:
        words = usable_words(text, reserved)
        family = TRAINED[int(rng.integers(len(TRAINED)))]
        strings = [line.split('"')[1::2] for line in family.code.splitlines()]
        spoken += [" ".join(part for parts in strings for part in parts), *family.hints, " ".join(words)]
        spoken += [f"{verb}\n" for part in strings for said in part for verb in said.split(" ")[:1]]
    skills = ["design medium: " + family.skill for family in TRAINED] * 20
    return train_tokenizer([*documents, *spoken, *skills])


def _sequences(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, rendering: Rendering, recipe: Recipe, seed: int
) -> list[Rendered]:
    found = excerpts(corpus, cast(Tokenizer, tokenizer), LEAST_WORDS)
    print(f"{len(found)} documents have words enough", flush=True)
    designed: list[Designed] = []
    for number in range(recipe.designs):
        rng = generator(seed, "seed-model-design", number)
        document, words = found[int(rng.integers(len(found)))]
        made = design(document, words, rng)
        if made is not None:
            designed.append(made)
    played = asyncio.run(plays([made.written for made in designed[: recipe.played]], seed))
    conversations: list[Conversation] = [made.conversation for made in designed]
    conversations += [hint_conversation(made.written) for made in designed[: recipe.designs // 5]]
    conversations += played
    sequences = [as_sequence(conversation, rendering) for conversation in conversations]
    sequences += _lists([words for _, words in found], rendering, recipe, seed)
    kept = [sequence for sequence in sequences if len(sequence.ids_T) <= MAX_LENGTH]
    tokens = sum(len(sequence.ids_T) for sequence in kept)
    print(
        f"{len(designed)} designs, {len(played)} plays, {len(kept)} sequences of {tokens / len(kept):.0f} tokens on "
        f"average; {len(sequences) - len(kept)} too long",
        flush=True,
    )
    return kept


def _lists(documents: Sequence[Sequence[str]], rendering: Rendering, recipe: Recipe, seed: int) -> list[Rendered]:
    """Words in any order, then once more in the same order; the second round is learned."""
    words = sorted({word for document in documents for word in document})
    lists: list[Rendered] = []
    for number in range(recipe.lists):
        rng = generator(seed, "seed-model-list", number)
        chosen = [words[int(index)] for index in rng.integers(len(words), size=int(rng.integers(6, 40)))]
        ids = list(rendering.encode("".join(f" {word}" for word in chosen)))
        lists.append(Rendered([*ids, *ids], [False] * (len(ids) + 1) + [True] * (len(ids) - 1)))
    return lists


def as_sequence(conversation: Conversation, rendering: Rendering) -> Rendered:
    """The ids of a conversation, rendered as a run renders it: turn by turn."""
    first = next(index for index, message in enumerate(conversation) if message.role == "assistant")
    ids = list(rendering.first_prompt(conversation[:first]))
    learned = [False] * len(ids)
    index = first
    while True:
        reply = [*rendering.encode(conversation[index].content), rendering.stop_ids[0]]
        learned += [True] * len(reply)
        if index + 2 >= len(conversation):
            return Rendered([*ids, *reply], learned)
        ids = list(rendering.next_prompt(ids, reply, [conversation[index + 1]]))
        learned += [False] * (len(ids) - len(learned))
        index += 2


def _new_model(tokenizer: PreTrainedTokenizerFast, recipe: Recipe, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(derive_seed(seed, "seed-model-init"))
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        head_dim=recipe.hidden // recipe.heads,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        initializer_range=0.03,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def _train(model: Qwen3ForCausalLM, sequences: Sequence[Rendered], recipe: Recipe, seed: int) -> Qwen3ForCausalLM:
    print(f"{model.num_parameters():,} parameters", flush=True)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.peak_learning_rate, betas=(0.9, 0.98), weight_decay=0.05
    )
    started, seen = time.monotonic(), 0
    pad = model.config.pad_token_id or 0
    for step, batch in enumerate(_batches(sequences, recipe, seed)):
        rate = _rate(step, recipe)
        for group in optimizer.param_groups:
            group["lr"] = rate
        ids_BT, labels_BT = _padded(batch, pad)
        hidden_BTD = model.model(input_ids=ids_BT).last_hidden_state
        learned_BT = labels_BT[:, 1:] >= 0
        logits_NV = model.lm_head(hidden_BTD[:, :-1][learned_BT])
        loss = torch.nn.functional.cross_entropy(logits_NV, labels_BT[:, 1:][learned_BT])
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += ids_BT.numel()
        if step % 25 == 0 or step == recipe.steps - 1:
            speed = seen / (time.monotonic() - started)
            print(f"step {step} of {recipe.steps}  loss {loss.item():.3f}  {speed:,.0f} tokens/s", flush=True)
    return model


def _rate(step: int, recipe: Recipe) -> float:
    """Linear warm-up over 5 % of the steps, then a cosine to a twentieth of the peak."""
    warm = max(1, recipe.steps // 20)
    if step < warm:
        return recipe.peak_learning_rate * (step + 1) / warm
    progress = (step - warm) / max(1, recipe.steps - warm)
    return recipe.peak_learning_rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress)))


def _batches(sequences: Sequence[Rendered], recipe: Recipe, seed: int) -> list[list[Rendered]]:
    """Batches of sequences of similar length and about ``batch_tokens``, over as many epochs as the steps need."""
    batches: list[list[Rendered]] = []
    epoch = 0
    while len(batches) < recipe.steps:
        rng = generator(seed, "seed-model-batches", epoch)
        jitter = rng.random(len(sequences))
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i].ids_T) * (1 + 0.2 * float(jitter[i])))
        groups: list[list[Rendered]] = [[]]
        longest = 0
        for index in order:
            longest = max(longest, len(sequences[index].ids_T))
            if groups[-1] and longest * (len(groups[-1]) + 1) > recipe.batch_tokens:
                groups.append([])
                longest = len(sequences[index].ids_T)
            groups[-1].append(sequences[index])
        batches += [groups[int(index)] for index in rng.permutation(len(groups))]
        epoch += 1
    return batches[: recipe.steps]


def _padded(batch: Sequence[Rendered], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(sequence.ids_T) for sequence in batch)
    ids_BT = np.full((len(batch), longest), pad)
    labels_BT = np.full((len(batch), longest), -100)
    for row, sequence in enumerate(batch):
        ids = np.asarray(sequence.ids_T)
        ids_BT[row, : len(ids)] = ids
        labels_BT[row, : len(ids)] = np.where(sequence.learned_T, ids, -100)
    return torch.from_numpy(ids_BT), torch.from_numpy(labels_BT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "files", help="directory to write")
    parser.add_argument("--start", type=Path, help="a model built before, to go on from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--designs", type=int, default=Recipe.designs)
    parser.add_argument("--played", type=int, default=Recipe.played)
    arguments = parser.parse_args()
    recipe = Recipe(designs=arguments.designs, played=arguments.played, steps=arguments.steps)
    build(arguments.out, recipe, arguments.seed, arguments.start)


if __name__ == "__main__":
    main()
