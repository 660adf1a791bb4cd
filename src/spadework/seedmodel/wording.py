"""Which words of a document a program may take, and the words that belong to the grammar itself."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from spadework.seedmodel.families import ALL

Encode = Callable[[str], Sequence[int]]
MOST_KEYWORDS = 20

_WORD = re.compile(r"[a-z]{4,11}")
_SPOKEN = re.compile(r"[A-Za-z]+")
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        about above after again also although always among another because been before being below between both
        cannot could does doing done down during each either else even ever every from further have having here
        however into itself just like many more most much must neither never none nothing once only other otherwise
        over same shall should since some such than that their them then there these they this those though through
        thus true false under until upon very were what when where whether which while whose will with within
        without would your class self import return random
        """,
    )
)


def reserved_words() -> frozenset[str]:
    """Words that mean something in a game of the grammar or in a hint, and words of no content."""
    said = "\n".join(text for family in ALL for text in (family.code, *family.hints))
    return _FUNCTION_WORDS | {word.lower() for word in _SPOKEN.findall(said)}


def usable_words(text: str, reserved: frozenset[str]) -> list[str]:
    """The distinct words that a program may take from ``text``, in its order."""
    words = (word.lower() for word in re.findall(r"(?<![\w`./\\-])[A-Za-z]+(?![\w`/\\=(-]|\.\w)", text))
    return list(dict.fromkeys(word for word in words if _WORD.fullmatch(word) and word not in reserved))


def keywords(text: str, reserved: frozenset[str], encode: Encode) -> list[str]:
    """The first usable words of ``text`` that are one token after a space: copying a token is easiest to learn."""
    words = (word for word in usable_words(text, reserved) if len(encode(f" {word}")) == 1)
    return list(itertools.islice(words, MOST_KEYWORDS))
