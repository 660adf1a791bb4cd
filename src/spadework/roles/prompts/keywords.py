"""The keywords of a document: words of content that the seed model can copy and that mean nothing in its games."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

Encode = Callable[[str], Sequence[int]]
MOST_KEYWORDS = 20

_FUNCTION_WORDS = """
    about above after again also although always among another because been before being below between both cannot
    class could does doing done down during each either else even ever every false from further have having here
    however import into itself just like many more most much must neither never none nothing once only other
    otherwise over random return same self shall should since some such than that their them then there these they
    this those though through thus true under until upon very were what when where whether which while whose will
    with within without would your
"""
_WORDS_OF_GAMES = """
    added adds along append asked back backwards beside book break brings came cause changes choice comes count
    cycle dict door doors earlier field first fits follow found gets goal goes good greatest half high index init
    isdecimal join lamp large larges last later least left less level lies list look marked market maybe middle move
    moves named nearer number numbers often pair paired pairs parts pass pick place plan pull question randint
    randrange range reach read remove right ring room sample second seen shelf show shown shuffle side size sizes
    small somewhere sorted split stage start step stock take taking text theme thing total tuple turn turns values
    verb wanted ways word words worth
"""
_WORDS_OF_TOOLS = """
    action address already anew answer arguments bases blocked board burn call calls cancel cancelled check clear
    cleared code coded codes counter criterion decline declined desk enough environment everything file files final
    find float form free fromkeys gone hall hang hangs hung instruction item items keys kind know label labels
    lambda leave light literal locate locked login lost mail make moved name nobody note noted open options order
    orders paint partition person phone picture places profile raise reboot release released remind reserve reserved
    reset rooms runs says scrap seed sent service setup shop shred shreds shut solution somebody something source
    spot stages stamp stamped state status store strip takes target tear tell third told tool toolenv toolerror
    typing unasked unlock unlocked user users visit waits wall wants wash weigh wipe wiped wish wishes
"""
RESERVED = frozenset(f"{_FUNCTION_WORDS} {_WORDS_OF_GAMES} {_WORDS_OF_TOOLS}".split())
"""Words of no content, and words that the code, the answers and the hints of the seed model's grammar use."""

KEYWORD = re.compile(r"[a-z]{4,11}")
_WORD_OF_PROSE = re.compile(r"(?<![\w`./\\-])[A-Za-z]+(?![\w`/\\=(-]|\.\w)")


def usable_words(text: str) -> list[str]:
    """The distinct words that a program may take from ``text``, in its order."""
    words = (word.lower() for word in _WORD_OF_PROSE.findall(text))
    return list(dict.fromkeys(word for word in words if KEYWORD.fullmatch(word) and word not in RESERVED))


def keywords(text: str, encode: Encode) -> list[str]:
    """The first usable words of ``text`` that are one token after a space: copying a token is easiest to learn."""
    words = (word for word in usable_words(text) if len(encode(f" {word}")) == 1)
    return list(itertools.islice(words, MOST_KEYWORDS))
