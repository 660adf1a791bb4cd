"""How different the environments of a round are, and how much they owe to their documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import numpy as np

from spadework.environment.fingerprint import jaccard
from spadework.environment.program import parse_source, strip_docstrings
from spadework.loop.readings import Readings, mean
from spadework.roles.designer import RoundDesigns
from spadework.store.records import EnvironmentRecord

FAMILY_SIMILARITY = 0.5
"""Programs at least this similar belong to one family."""
SHORTEST_WORD = 4
_WORD = re.compile(rf"[a-z]{{{SHORTEST_WORD},}}")
_FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "about after again also another because been before being both could does done each either else even "
        "ever every from give given goes have here into itself just keep know last left less like made make "
        "many more most much must neither next none nothing once only other over same shall should show since "
        "some still such take than that their them then there these they this those through under until upon "
        "very want were what when where which while will with within without would your yours "
    )
)


def variety_readings(designs: RoundDesigns, environments: Sequence[EnvironmentRecord]) -> Readings:
    """Families, nearest neighbours and grounding of a round's environments."""
    if not environments:
        return {}
    found: Readings = {"diversity/families": families(environments)}
    nearest = [
        float(similarity)
        for design in designs.designs
        for result in design.report.results
        if isinstance(similarity := result.details.get("similarity"), float)
    ]
    if nearest:
        found["diversity/nearest_similarity"] = mean(nearest)
    texts = [design.document.text for design in designs.designs]
    # Everybody's neighbour's document: each is used once, as in the real pairing.
    for name, paired in (("grounding", texts), ("grounding_control", texts[1:] + texts[:1])):
        shares = [
            share
            for design, text in zip(designs.designs, paired, strict=True)
            if (share := grounding_share(design.program.source, text)) is not None
        ]
        if shares and (name == "grounding" or len(texts) > 1):
            found[f"diversity/{name}"] = mean(shares)
    return found


def families(environments: Sequence[EnvironmentRecord]) -> int:
    """Groups that remain when programs of `FAMILY_SIMILARITY` or more are put together, directly or through others."""
    shingles = [np.array(environment.shingles, dtype=np.uint64) for environment in environments]
    group = list(range(len(shingles)))
    for one in range(len(shingles)):
        for other in range(one):
            if group[one] != group[other] and jaccard(shingles[one], shingles[other]) >= FAMILY_SIMILARITY:
                group = [group[other] if member == group[one] else member for member in group]
    return len(set(group))


def grounding_share(source: str, document: str) -> float | None:
    """Share of the program's content words that occur in ``document``; None for a program without any.

    Content words are the distinct words of four or more letters in its texts (string constants, docstrings aside), less
    words that any text is full of.
    """
    words = content_words(source)
    if not words:
        return None
    return len(words & set(_WORD.findall(document.lower()))) / len(words)


def content_words(source: str) -> frozenset[str]:
    """Raises ProgramRejected if ``source`` does not parse."""
    tree = strip_docstrings(parse_source(source))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return frozenset(_WORD.findall(" ".join(texts).lower())) - _FUNCTION_WORDS
