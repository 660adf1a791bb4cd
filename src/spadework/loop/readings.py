"""Numbers for the metrics log, from what an iteration designed and played. Every name is explained in the glossary."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from spadework.curriculum.estimates import Estimate, estimate
from spadework.curriculum.zones import Zone, zone_of
from spadework.loop.credit import AgentCredit, DesignerCredit
from spadework.loop.plays import Plays
from spadework.roles.designer import RoundDesigns
from spadework.roles.draft import AttemptStatus
from spadework.roles.episode import Arm, Episode, EpisodeEnd, ReturnKind
from spadework.roles.tool_use import call_counts
from spadework.sandbox.outcomes import Outcome
from spadework.store.glossary import GATES
from spadework.store.records import EpisodeRecord, Standing

Readings = dict[str, float]

_ENDS = {
    EpisodeEnd.REPLY_CUT: "agent/cut_share",
    EpisodeEnd.TURN_LIMIT: "agent/turn_limit_share",
    EpisodeEnd.CONTEXT_FULL: "agent/context_full_share",
}


def design_readings(designs: RoundDesigns) -> Readings:
    """What a round of designs came to."""
    attempts = designs.attempts
    status = Counter(attempt.record.status for attempt in attempts)
    slots = len(designs.designs) + len(designs.empty_slots)
    first_valid = sum(a.record.attempt == 0 and a.record.status == AttemptStatus.ACCEPTED for a in attempts)
    found: Readings = {
        "designer/attempts": len(attempts),
        "designer/validity": status[AttemptStatus.ACCEPTED] / len(attempts),
        "designer/first_attempt_validity": first_valid / slots,
        "designer/executable": mean([attempt.executable for attempt in attempts]),
        "designer/executable_at_first": mean([attempt.executable_at_first for attempt in attempts]),
        "designer/empty_slots": len(designs.empty_slots),
        "designer/truncated": status[AttemptStatus.REPLY_CUT],
        "designer/prompts_too_long": status[AttemptStatus.PROMPT_TOO_LONG],
        "designer/host_faults": status[AttemptStatus.HOST_FAULT],
        "designer/no_verdicts": status[AttemptStatus.NO_VERDICT],
        "designer/hint_failures": status["hint-safe"],
        "designer/reply_tokens": mean([attempt.record.reply_tokens for attempt in attempts]),
        "memory/positives": mean([len(attempt.memory.positives) for attempt in attempts]),
        "memory/negatives": mean([len(attempt.memory.negatives) for attempt in attempts]),
        "memory/tokens": mean([attempt.memory.tokens for attempt in attempts]),
        "corpus/epoch": designs.cursor.epoch,
        "time/gates_s": math.fsum(gate.seconds for attempt in attempts for gate in attempt.record.gates),
    }
    return found | {f"designer/rejected/{gate}": status[gate] for gate in GATES}


def play_readings(plays: Plays, kind: ReturnKind) -> Readings:
    """What the plays of an iteration came to, arm by arm and side by side."""
    episodes = [record.episode for record in plays.records]
    faults = Counter(e.fault_kind for e in episodes if e.outcome is Outcome.ENVIRONMENT_FAULT and e.fault_kind)
    found: Readings = {
        "environments/played": len({episode.environment_id for episode in episodes}),
        "environments/faults": sum(faults.values()),
        "environments/infrastructure_faults": sum(e.outcome is Outcome.INFRASTRUCTURE_FAULT for e in episodes),
        "environments/retried": len(plays.retried),
        "agent/episodes": sum(record.value is not None for record in plays.arm(Arm.PLAIN)),
        **{f"environments/faults/{fault}": count for fault, count in sorted(faults.items())},
    }
    for arm in Arm:
        found |= _arm_readings(plays.arm(arm), arm)
    found |= _length_readings([record.episode for record in plays.arm(Arm.PLAIN) if record.value is not None])
    return found | _regret_readings(plays, kind)


def sampled_tokens(episodes: Iterable[Episode]) -> int:
    return sum(sum(episode.sampled_T) for episode in episodes)


def zone_readings(standings: Iterable[Standing]) -> Readings:
    """Where the round's environments stand; those without any return have no place."""
    zones = Counter(zone_of(standing) for standing in standings)
    placed = sum(count for zone, count in zones.items() if zone is not None)
    return {f"environments/{zone}": zones[zone] / placed for zone in Zone} if placed else {}


def credit_readings(agent: AgentCredit, designer: DesignerCredit) -> Readings:
    """What was earned by those who were judged in the iteration."""
    found: Readings = {"learning/dead_environments": len(agent.dead), "learning/dead_skills": len(designer.dead)}
    if designer.rewards or designer.unjudged:
        found["designer/unjudged"] = designer.unjudged
    if designer.rewards:
        found["designer/reward"] = mean(list(designer.rewards.values()))
    if designer.valid:
        found["designer/reward_valid"] = mean(list(designer.valid.values()))
    if designer.delays:
        found["learning/delay"] = mean(designer.delays)
    return found


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _arm_readings(records: Sequence[EpisodeRecord], arm: Arm) -> Readings:
    """Means over environments, so that their standard error takes the plays of one environment as related."""
    groups: dict[str, list[float]] = {}
    for record in records:
        if record.value is not None:
            groups.setdefault(record.episode.environment_id, []).append(record.value)
    if not groups:
        return {}
    returns = estimate([mean(values) for values in groups.values()])
    rates = estimate([mean([float(value > 0) for value in values]) for values in groups.values()])
    found = _with_stderr(f"agent/{arm}_return", returns) | _with_stderr(f"agent/{arm}_win_rate", rates)
    if arm is Arm.PLAIN:
        found["agent/return_spread"] = mean([_spread(values) for values in groups.values()])
    return found


def _length_readings(episodes: Sequence[Episode]) -> Readings:
    if not episodes:
        return {}
    sampled, turns = sampled_tokens(episodes), sum(len(episode.turns) for episode in episodes)
    ends = Counter(episode.end for episode in episodes)
    found: Readings = {
        "agent/turns": turns / len(episodes),
        "agent/episode_tokens": mean([len(episode.token_ids_T) for episode in episodes]),
        **{name: ends[end] / len(episodes) for end, name in _ENDS.items()},
    }
    if turns:
        found["agent/reply_tokens"] = sampled / turns
        ended = sum(turn.thinking_ended for episode in episodes for turn in episode.turns)
        found["agent/thinking_ended_share"] = ended / turns
        found["learning/entropy"] = -math.fsum(x for episode in episodes for x in episode.logprobs_T) / sampled
    return found | _call_readings(episodes)


def _call_readings(episodes: Sequence[Episode]) -> Readings:
    """Empty for games."""
    counts = [count for episode in episodes if (count := call_counts(episode)) is not None]
    if not counts:
        return {}
    calls = sum(count.calls for count in counts)
    found: Readings = {"agent/calls": calls / len(counts)}
    if calls:
        found["agent/malformed_calls"] = sum(count.malformed for count in counts) / calls
        found["agent/refused_calls"] = sum(count.refused for count in counts) / calls
    return found


def _regret_readings(plays: Plays, kind: ReturnKind) -> Readings:
    matched = plays.matched(kind)
    if not matched:
        return {}
    seeds = {(record.episode.environment_id, record.episode.seed) for record in plays.arm(Arm.HINTED)}
    found: Readings = {"environments/dropped_seeds": len(seeds) - sum(len(one.seeds_S) for one in matched.values())}
    gaps = [mean(one.hinted_S) - mean(one.plain_S) for one in matched.values() if one.seeds_S]
    return found | _with_stderr("environments/regret", estimate(gaps)) if gaps else found


def _with_stderr(name: str, value: Estimate) -> Readings:
    return {name: value.mean} if value.stderr is None else {name: value.mean, f"{name}_stderr": value.stderr}


def _spread(values: Sequence[float]) -> float:
    middle = mean(values)
    return math.sqrt(mean([(value - middle) ** 2 for value in values]))
