"""Build the seed model: `python -m spadework.seedmodel.build`.

A tokenizer and a small Qwen3 model, started by supervision on what a *mediocre* author and player write. What it
covers is the start only; getting better is what training runs are for. `docs/seed-model.md` says what is in it.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from spadework.config import CorpusConfig
from spadework.curriculum.corpus import Corpus, open_corpus
from spadework.roles.choosing import open_rendering
from spadework.roles.messages import Message
from spadework.roles.prompts.keywords import usable_words
from spadework.roles.prompts.seed import SeedPrompts
from spadework.roles.rendering import Rendering, Tokenizer
from spadework.seeding import generator
from spadework.seedmodel.examples import design, plays, vocabulary
from spadework.seedmodel.families import TRAINED
from spadework.seedmodel.supervision import Recipe, Rendered, new_model, supervise
from spadework.seedmodel.tokenizer import add_lines, train_tokenizer

CORPUS = (
    "python:email,http,urllib,xml,unittest,multiprocessing,concurrent,ctypes,importlib,html,wsgiref,sqlite3,"
    "tarfile,zipfile,pickle,threading,socket,ssl,subprocess,tempfile,shutil,pathlib,inspect,dis,ast,typing,"
    "dataclasses,enum,functools,random,statistics,fractions,datetime,calendar,locale,gettext,turtle,"
    "pydoc,doctest,pdb,cProfile,trace,tracemalloc,string,textwrap,difflib,optparse,getpass,cmd,"
    "imaplib,smtplib,ftplib,poplib,mailbox,mimetypes,base64,pydantic,rich,typer,jinja2"
)
"""Documents of the supervised start. Presets and evaluation use others."""

MAX_LENGTH = 512


def build(directory: Path, recipe: Recipe, seed: int, start: Path | None = None) -> None:
    """Write the model and its tokenizer to ``directory``; ``start`` is a model built before, to go on from."""
    corpus = open_corpus(CorpusConfig(source=CORPUS, min_words=40))
    tokenizer = _tokenizer(corpus, seed) if start is None else PreTrainedTokenizerFast.from_pretrained(start)
    add_lines(tokenizer)
    rendering = open_rendering(cast(Tokenizer, tokenizer), directory, thinking=False)
    words = vocabulary(corpus, rendering.encode)
    print(f"{len(tokenizer)} tokens, of which {len(words)} are words of {len(corpus)} documents", flush=True)
    sequences = _sequences(words, rendering, recipe, seed)
    model = new_model(tokenizer, recipe, seed) if start is None else Qwen3ForCausalLM.from_pretrained(start)
    model.resize_token_embeddings(len(tokenizer))
    supervise(model.train(), sequences, _ids(words, rendering), recipe, seed)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _tokenizer(corpus: Corpus, seed: int) -> PreTrainedTokenizerFast:
    """Its merges come from the documents and from what is said in games; the latter weigh as much as the former."""
    documents = [corpus.document(index).text[:2000] for index in range(len(corpus))]
    rng = generator(seed, "seed-model-tokenizer")
    spoken: list[str] = []
    for text in documents:
        words = usable_words(text)
        family = TRAINED[int(rng.integers(len(TRAINED)))]
        strings = [line.split('"')[1::2] for line in family.code.splitlines()]
        spoken += [" ".join(part for parts in strings for part in parts), *family.hints, " ".join(words)]
        spoken += [f"{verb}\n" for part in strings for said in part for verb in said.split(" ")[:1]]
    skills = ["design medium: " + family.skill for family in TRAINED] * 20
    return train_tokenizer([*documents, *spoken, *skills])


def _sequences(words: Sequence[str], rendering: Rendering, recipe: Recipe, seed: int) -> list[Rendered]:
    prompts = SeedPrompts(rendering.encode)
    draws = (generator(seed, "seed-model-design", number) for number in range(recipe.designs))
    designed = [made for rng in draws if (made := design(words, prompts, rng)) is not None]
    played = asyncio.run(plays([made.written for made in designed[: recipe.played]], rendering, prompts, seed))
    sequences = [one_reply(made.prompt, made.reply, rendering) for made in designed]
    for made in designed[: recipe.designs // 5]:
        sequences.append(one_reply(prompts.hint_messages(made.written.source), made.written.hint, rendering))
    sequences += played
    kept = [sequence for sequence in sequences if len(sequence.ids_T) <= MAX_LENGTH]
    tokens = sum(len(sequence.ids_T) for sequence in kept)
    print(
        f"{len(designed)} designs, {len(played)} plays, {len(kept)} sequences of {tokens / len(kept):.0f} tokens on "
        f"average; {len(sequences) - len(kept)} too long",
        flush=True,
    )
    return kept


def _ids(words: Sequence[str], rendering: Rendering) -> list[int]:
    """One token a word, as it is after a space."""
    return list(rendering.encode("".join(f" {word}" for word in words)))


def one_reply(prompt: Sequence[Message], reply: str, rendering: Rendering) -> Rendered:
    """The ids of a prompt and of the reply to it."""
    asked, sampled = rendering.first_prompt(prompt), [*rendering.encode(reply), rendering.stop_ids[0]]
    return Rendered([*asked, *sampled], [False] * len(asked) + [True] * len(sampled))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "files", help="directory to write")
    parser.add_argument("--start", type=Path, help="a model built before, to go on from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--designs", type=int, default=Recipe.designs)
    parser.add_argument("--played", type=int, default=Recipe.played)
    arguments = parser.parse_args()
    recipe = Recipe(
        designs=arguments.designs,
        played=arguments.played,
        steps=arguments.steps,
        lists_share=Recipe.lists_share if arguments.start is None else 0.0,  # a model built before can copy
    )
    build(arguments.out, recipe, arguments.seed, arguments.start)


if __name__ == "__main__":
    main()
