"""`hint-safe`: the hint says how to find out, not what to say.

Checked against the solutions of the tested seeds: the hint must hold no action that only some seeds need and no
argument (of at least `MIN_ARGUMENT_CHARS` characters) that differs between seeds. Commands that every seed needs, and
words that every first observation shows, are public and may be named. Then the hint is played: as a whole, each of its
words, and each of its words after each command; that must not win on a seed whose first observation lacks the word,
nor on more than half of the seeds.

Not caught: a rule that names the answer in a roundabout way, which is what a hint is for.
Hints for tool environments are plans without values; `tool_hint` looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence

from spadework.environment.gates.leaks import Tokens, arguments, contains, tokens, words
from spadework.environment.gates.plays import Choose, GateFailed, Transcript, quote
from spadework.environment.gates.results import JSONValue
from spadework.environment.gates.tool_hint import tool_hint_safe
from spadework.environment.gates.trial import Trial, require

MAX_WORDS = 100
MIN_ARGUMENT_CHARS = 3
MAX_COMMANDS = 2
MAX_ACTIONS = 80


async def hint_safe(trial: Trial, hint: str) -> dict[str, JSONValue]:
    """Raises GateFailed or PlayFault."""
    length = len(hint.split())
    require(length > 0, "the hint is empty")
    require(length <= MAX_WORDS, f"the hint has {length} words; at most {MAX_WORDS} are allowed")
    if trial.uses_tools:
        return {"words": length, **await tool_hint_safe(trial, hint)}
    if not await trial.knows_solutions(trial.seeds):
        return {"words": length, "checked": False}
    solved = await trial.solved(trial.seeds)
    _require_nothing_named(hint, solved)
    actions = _spoken(hint, [transcript.actions for transcript in solved])
    await _require_no_win(trial, actions)
    return {"words": length, "checked": True, "actions_played": len(actions)}


def _require_nothing_named(hint: str, solved: Sequence[Transcript]) -> None:
    said = tokens(hint)
    shown = [tokens(transcript.first_observation) for transcript in solved]

    def public(span: Tokens) -> bool:
        return all(contains(text, span) for text in shown)

    for span, what in _hidden_values([transcript.actions for transcript in solved]):
        if contains(said, span) and not public(span):
            raise GateFailed(
                f"the hint gives the solution away: it holds {quote(' '.join(span))}, {what} of a tested seed; "
                "say how to find it instead"
            )


def _hidden_values(solutions: Sequence[tuple[str, ...]]) -> list[tuple[Tokens, str]]:
    """What only some seeds need: whole actions, and the arguments of actions that stand at one place."""
    everywhere = set.intersection(*(set(solution) for solution in solutions))
    actions = {action for solution in solutions for action in solution} - everywhere
    values = [(tokens(action), "an action") for action in sorted(actions) if len(action) >= MIN_ARGUMENT_CHARS]
    for column in _columns(solutions):
        values += [(span, "an argument") for span in arguments(column) or () if _long_enough(span)]
    return values


def _columns(solutions: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Actions at equal places, counted from the start where all solutions are equally long, and the last ones."""
    columns = [[solution[-1] for solution in solutions]] if all(solutions) else []
    if len({len(solution) for solution in solutions}) == 1:
        columns += [list(column) for column in zip(*solutions, strict=True)]
    return columns


def _long_enough(span: Tokens) -> bool:
    return len(" ".join(span)) >= MIN_ARGUMENT_CHARS


def _spoken(hint: str, solutions: Sequence[tuple[str, ...]]) -> list[tuple[str, Tokens]]:
    """Actions made of the hint alone, each with the words of the hint in it."""
    first_words = [words_[0] for solution in solutions for action in solution[-1:] if len(words_ := action.split()) > 1]
    commands = list(dict.fromkeys(first_words))[:MAX_COMMANDS]
    spoken = [(hint.strip(), tokens(hint))]
    for word in words(hint):
        spoken += [(action, tokens(word)) for action in (word, *(f"{command} {word}" for command in commands))]
    return spoken[:MAX_ACTIONS]


async def _require_no_win(trial: Trial, actions: Sequence[tuple[str, Tokens]]) -> None:
    winners = await _winners(trial, trial.seeds, actions)
    for action, seed in winners:
        said = dict(actions)[action]
        (transcript,) = await trial.solved([seed])
        require(
            contains(tokens(transcript.first_observation), said),
            f"the hint gives the solution away: saying {quote(action)} from it wins on seed {seed}",
        )
    common = {action for action, _ in winners if _share(winners, action, trial.seeds) > 0.5}
    if not common:
        return
    seeds = (*trial.seeds, *trial.confirming_seeds)
    winners += await _winners(trial, trial.confirming_seeds, [pair for pair in actions if pair[0] in common])
    for action in sorted(common):
        share = _share(winners, action, seeds)
        require(
            share <= 0.5,
            f"the hint gives the solution away: saying {quote(action)} from it wins on {share:.0%} of the seeds",
        )


def _share(winners: Sequence[tuple[str, int]], action: str, seeds: Sequence[int]) -> float:
    return sum(1 for winner, _ in winners if winner == action) / len(seeds)


async def _winners(trial: Trial, seeds: Sequence[int], actions: Sequence[tuple[str, Tokens]]) -> list[tuple[str, int]]:
    """(action, seed) pairs where the action, said as soon as its turn comes, ended the episode with a win."""
    winners: list[tuple[str, int]] = []
    unsaid = dict.fromkeys(seeds, 0)
    while unsaid:
        plays = await trial.play([(seed, _say_from(actions, start)) for seed, start in unsaid.items()])
        for seed, play in zip(list(unsaid), plays, strict=True):
            unsaid[seed] += max(1, len(play.steps))
            if await trial.wins(seed, play):
                winners.append((play.actions[-1], seed))
            if unsaid[seed] >= len(actions):
                del unsaid[seed]
    return winners


def _say_from(actions: Sequence[tuple[str, Tokens]], start: int) -> Choose:
    def choose(transcript: Transcript) -> str | None:
        position = start + len(transcript.steps)
        return actions[position][0] if position < len(actions) else None

    return choose
