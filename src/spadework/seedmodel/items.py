"""Write the held-out items of the seed model: `python -m spadework.seedmodel.items games|tools DIRECTORY`.

Unseen instances of the families that the seed model was started on, over documents that neither its start nor any
preset uses, and instances of families that it never saw. A list is fixed by its version: change one, change both.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from transformers import AutoTokenizer

from spadework.config import CorpusConfig
from spadework.curriculum.corpus import open_corpus
from spadework.evaluation.items import VERSIONS, Suite, suite_file
from spadework.roles.choosing import open_rendering
from spadework.roles.prompts.keywords import keywords
from spadework.roles.rendering import Tokenizer
from spadework.seeding import generator
from spadework.seedmodel.families import GAMES, HELD_OUT, TOOL_ENVIRONMENTS
from spadework.seedmodel.grammar import words_needed, write_program
from spadework.seedmodel.shipped import model_directory

CORPUS = (
    "python:weakref,selectors,traceback,queue,socketserver,tokenize,timeit,uuid,pkgutil,numbers,lzma,gzip,sched,shelve"
)
SEED = 20_260_819
IN_FAMILY: Mapping[Suite, int] = {"games": 20, "tools": 24}
"""Items of each family that the seed model knows."""
OUT_OF_FAMILY = 40
LEAST_WORDS = 10


def write_items(suite: Suite, directory: Path) -> int:
    """Write the list of ``suite`` and return how many items it has."""
    tokenizer = cast(Tokenizer, AutoTokenizer.from_pretrained(model_directory()))
    encode = open_rendering(tokenizer, model_directory(), thinking=False).encode
    corpus = open_corpus(CorpusConfig(source=CORPUS, min_words=40))
    of_documents = (keywords(corpus.document(index).text, encode) for index in range(len(corpus)))
    found = [words for words in of_documents if len(words) >= LEAST_WORDS]
    version = VERSIONS[suite]
    rows: list[dict[str, object]] = [{"suite": suite, "version": version}]
    for family in sorted(GAMES if suite == "games" else TOOL_ENVIRONMENTS, key=lambda family: family.name in HELD_OUT):
        unseen = family.name in HELD_OUT
        for number in range(OUT_OF_FAMILY if unseen else IN_FAMILY[suite]):
            rng = generator(SEED, "held-out", version, family.name, number)
            dials = family.dials(rng)
            words = found[int(rng.integers(len(found)))]
            taken = [words[index] for index in rng.permutation(len(words))[: words_needed([dials])]]
            rows.append(
                {
                    "id": f"{family.name}-{number:02d}",
                    "split": "out-of-family" if unseen else "in-family",
                    "family": family.name,
                    "source": write_program([family], [dials], taken, family.hints).source,
                    "seed": int(rng.integers(2**31)),
                }
            )
    directory.mkdir(parents=True, exist_ok=True)
    (directory / suite_file(suite)).write_text(
        "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows), encoding="utf-8"
    )
    return len(rows) - 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the held-out items of the seed model.")
    parser.add_argument("suite", choices=list(VERSIONS))
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    print(f"{write_items(arguments.suite, arguments.directory)} items")
