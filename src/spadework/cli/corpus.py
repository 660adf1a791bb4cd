"""`spadework corpus`: what a source of documents holds."""

from __future__ import annotations

from typing import Annotated

import typer

from spadework.cli.options import AsJson

EXAMPLES = "Examples: spadework corpus docs --min-words 20 | spadework corpus python:json,argparse"
_EXCERPT_CHARS = 60


def corpus(
    source: Annotated[
        str, typer.Argument(help="A folder of text or Markdown, a .jsonl or .parquet file, or python:NAME,NAME.")
    ],
    text_field: Annotated[str, typer.Option(help="Field that holds the text in JSONL and Parquet.")] = "text",
    min_words: Annotated[int, typer.Option(min=1, help="Shorter texts are left out.")] = 30,
    documents: Annotated[int, typer.Option(min=0, help="How many documents to list.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Open a corpus as a run would: count its documents, and say what is left out and why."""
    from spadework.cli.output import console, plain, print_json, table
    from spadework.config import CorpusConfig
    from spadework.curriculum.corpus import open_corpus

    opened = open_corpus(CorpusConfig(source=source, text_field=text_field, min_words=min_words))
    shown = [opened.document(index) for index in range(min(documents, len(opened)))]
    if as_json:
        print_json(
            {
                "source": source,
                "documents": len(opened),
                "left_out": dict(opened.skipped),
                "first_left_out": opened.first_skipped,
                "fingerprint": opened.fingerprint,
                "first": [{"id": one.id, "title": one.title, "words": len(one.text.split())} for one in shown],
            }
        )
        return
    out = console()
    out.print(plain(f"{source}: {len(opened)} documents"))
    for reason, count in opened.skipped.items():
        out.print(plain(f"left out: {count} {reason}"))
    if opened.first_skipped:
        out.print(plain(f"the first of them: {opened.first_skipped}"))
    if shown:
        rows = [(one.title, len(one.text.split()), " ".join(one.text.split())[:_EXCERPT_CHARS]) for one in shown]
        out.print(table(("document", ">words", "begins"), rows))
