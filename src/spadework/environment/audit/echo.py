"""Agents that give back what they are shown: whole, line by line, word by word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spadework.environment.audit.attack import Attacked, AttackKind, Bench
from spadework.environment.gates.cheaters import ECHOERS, cheaters, said
from spadework.environment.gates.leaks import words
from spadework.environment.gates.plays import Choose, Transcript
from spadework.environment.gates.scripted import commands


async def echo(bench: Bench) -> list[Attacked]:
    agents = {name: agent for name, agent in (await cheaters(bench.trial)).items() if name in ECHOERS}
    parts: dict[str, Callable[[str], Sequence[str]]] = {
        "repeats the lines of the first observation in turn": lambda text: text.splitlines(),
        "repeats the words of the first observation in turn": words,
        "plays the commands of the first observation in turn": commands,
    }
    agents |= {name: said(bench.trial, _in_turn(cut)) for name, cut in parts.items()}
    return await bench.tried(AttackKind.ECHO, agents)


def _in_turn(cut: Callable[[str], Sequence[str]]) -> Choose:
    def choose(transcript: Transcript) -> str | None:
        parts = [part for part in cut(transcript.first_observation) if part.strip()]
        turn = len(transcript.steps)
        return parts[turn].strip() if turn < len(parts) else None

    return choose
