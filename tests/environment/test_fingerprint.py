from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from spadework.environment.fingerprint import (
    BANDS,
    MAX_CANDIDATES,
    ROWS,
    MemoryNoveltyIndex,
    bands,
    fingerprint,
    jaccard,
    minhash,
)

VAULT = """\
import random

WORDS = ["amber", "birch", "cedar", "delta"]


class VaultEnv:
    max_turns = 6

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.secret = rng.choice(WORDS)
        self.turns = 0
        return "A vault with a password. Type look, or say WORD.", {}

    def step(self, action):
        self.turns += 1
        words = action.split()
        if words[:1] == ["look"]:
            text = f"It starts with {self.secret[0]}."
        elif words == ["say", self.secret]:
            return "Open!", 1.0, True, False, {}
        else:
            text = "Nothing happens."
        return text, 0.0, False, self.turns >= self.max_turns, {}

    def solution(self):
        return ["look", "say " + self.secret]
"""

RENAMED = '''\
"""Another story."""
from random import Random as Generator

NAMES = ["amber", "birch", "cedar", "delta"]


class SafeboxEnv:
    """Docs."""
    max_turns: int = 6

    def reset(self, seed: int | None = None):
        # comment
        source = Generator(seed)
        self.hidden = source.choice(NAMES)
        self.used = 0
        return "A vault with a password. Type look, or say WORD.", {}

    def step(self, action: str):
        self.used += 1
        parts = action.split()
        if parts[:1] == ["look"]:
            reply = f"It starts with {self.hidden[0]}."
        elif parts == ["say", self.hidden]:
            return "Open!", 1.0, True, False, {}
        else:
            reply = "Nothing happens."
        return reply, 0.0, False, self.used >= self.max_turns, {}

    def solution(self):
        return ["look", "say " + self.hidden]
'''


def variant(word: str, number: int) -> str:
    """The same template with another document's words and other numbers."""
    source = VAULT
    for old in ("amber", "birch", "cedar", "delta"):
        source = source.replace(old, f"{word}{old[::-1]}")
    source = source.replace("A vault with a password", f"The {word} keeps a {word}ing secret")
    source = source.replace("max_turns = 6", f"max_turns = {number}").replace(
        "self.secret[0]", f"self.secret[{number % 3}]"
    )
    return source.replace("Nothing happens", f"{word} stays closed").replace("It starts with", f"One {word} letter is")


def test_a_renamed_program_is_an_exact_twin() -> None:
    original, twin = fingerprint(VAULT), fingerprint(RENAMED)
    assert twin.digest == original.digest
    assert jaccard(twin.shingles, original.shingles) == 1.0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"amber"', '"azure"'),
        ("max_turns = 6", "max_turns = 7"),
        ("== [", "!= ["),
        ("[0]", "[-1]"),
        ("rng.choice", "rng.sample"),
        ("self.secret = rng", "self.turns = rng"),
        ("1.0, True, False", "1.0, False, True"),
    ],
)
def test_any_change_of_meaning_changes_the_digest(old: str, new: str) -> None:
    assert old in VAULT
    assert fingerprint(VAULT.replace(old, new)).digest != fingerprint(VAULT).digest


def test_different_variables_in_one_place_are_not_confused() -> None:
    same = "def f(a, b):\n    return a + a\n"
    different = "def f(a, b):\n    return a + b\n"
    assert fingerprint(same).digest != fingerprint(different).digest
    assert fingerprint(different).digest == fingerprint("def g(x, y):\n    return x + y\n").digest


def test_an_attribute_is_not_confused_with_two_arguments() -> None:
    assert fingerprint("f(a.b)").digest != fingerprint("f(a, b)").digest


def test_imported_functions_are_told_apart_whatever_they_are_called() -> None:
    ceil = "from math import ceil as f\nx = f(1.5)\n"
    floor = "from math import floor as f\nx = f(1.5)\n"
    assert fingerprint(ceil).digest != fingerprint(floor).digest
    assert fingerprint(ceil).digest == fingerprint("from math import ceil\ny = ceil(1.5)\n").digest


def test_programs_of_one_template_with_other_words_and_numbers_are_not_near_duplicates() -> None:
    prints = [
        fingerprint(variant(word, number)) for number, word in enumerate(["brass", "cobalt", "granite", "moss"], 4)
    ]
    for index, left in enumerate(prints):
        for right in prints[:index]:
            assert 0.3 < jaccard(left.shingles, right.shingles) < 0.85


def test_a_program_with_one_changed_word_is_a_near_duplicate() -> None:
    long = VAULT + "\n".join(f"FACT_{n} = 'the {n}th fact of a long list of facts'" for n in range(40))
    changed = long.replace("Nothing happens", "Nothing occurs")
    assert jaccard(fingerprint(long).shingles, fingerprint(changed).shingles) > 0.95


def test_jaccard_by_hand() -> None:
    left, right = np.array([1, 2, 3, 4], dtype=np.uint64), np.array([3, 4, 5], dtype=np.uint64)
    assert jaccard(left, right) == pytest.approx(2 / 5)
    assert jaccard(left[:0], right[:0]) == 1.0


def test_minhash_estimates_jaccard() -> None:
    left = np.arange(0, 900, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    right = np.arange(300, 1200, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    agreement = float((minhash(np.sort(left)) == minhash(np.sort(right))).mean())
    assert agreement == pytest.approx(600 / 1200, abs=0.15)


def test_bands_are_signed_64_bit_and_differ_between_bands() -> None:
    keys = bands(np.zeros(BANDS * ROWS, dtype=np.uint32))
    assert len(set(keys)) == BANDS
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_equal_sources_have_equal_fingerprints_in_another_process() -> None:
    script = (
        "import sys; from spadework.environment.fingerprint import *; p = fingerprint(sys.stdin.read());"
        "print(p.digest, int(p.shingles.sum()), sum(bands(minhash(p.shingles))))"
    )
    run = subprocess.run([sys.executable, "-c", script], input=VAULT, capture_output=True, text=True, check=True)
    here = fingerprint(VAULT)
    expected = f"{here.digest} {int(here.shingles.sum())} {sum(bands(minhash(here.shingles)))}"
    assert run.stdout.strip() == expected


def test_the_index_names_a_twin_and_the_most_similar_program() -> None:
    index = MemoryNoveltyIndex()
    assert index.nearest(fingerprint(VAULT).digest, fingerprint(VAULT).shingles) is None
    for number, word in enumerate(["brass", "cobalt", "granite", "moss"], 4):
        print_ = fingerprint(variant(word, number))
        index.add(f"id-{word}", print_.digest, print_.shingles)
    original = fingerprint(VAULT)
    index.add("vault", original.digest, original.shingles)
    twin = fingerprint(RENAMED)
    assert index.nearest(twin.digest, twin.shingles) == ("vault", 1.0)
    long = VAULT + "\n".join(f"FACT_{n} = 'the {n}th fact of a long list of facts'" for n in range(40))
    index.add("long", fingerprint(long).digest, fingerprint(long).shingles)
    close = fingerprint(long.replace("Nothing happens", "Nothing occurs"))
    found = index.nearest(close.digest, close.shingles)
    assert found is not None
    assert found[0] == "long"
    assert 0.95 < found[1] < 1.0


def test_a_lookup_compares_at_most_a_fixed_number_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    index = MemoryNoveltyIndex()
    shared = fingerprint(VAULT).shingles
    for number in range(3 * MAX_CANDIDATES):
        index.add(str(number), f"digest-{number}", shared)
    compared: list[int] = []
    real = jaccard
    monkeypatch.setattr("spadework.environment.fingerprint.jaccard", lambda *sets: (compared.append(1), real(*sets))[1])
    assert index.nearest("other", shared) == ("0", 1.0)
    assert len(compared) == MAX_CANDIDATES
