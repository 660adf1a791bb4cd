"""Write `configuration.md` and `metrics.md` from the code that they describe: `python docs/generate.py`."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from spadework.config import Config
from spadework.store.glossary import METRICS

DOCS = Path(__file__).parent

GENERATED = "<!-- Written by docs/generate.py from the code; change the code, then run `make docs`. -->"

SECTIONS = {
    "model": "The weights that both roles share, and how they are talked to.",
    "engine": "What samples from the weights and updates them.",
    "corpus": "The texts that ground the designer.",
    "roles": "Who plays which role. The agent is always the model in training. See [endpoints.md](endpoints.md).",
    "endpoint": "A frozen model behind a server of OpenAI-compatible chat completions, for the roles that name it.",
    "designer": "How environments and their hints are written.",
    "agent": "How environments are played, in both arms alike.",
    "curriculum": "How many environments and plays there are, and for how long.",
    "memory": "What the designer is shown of earlier environments.",
    "designer_reward": "What the designer earns. The formulas are in `src/spadework/curriculum/rewards.py`.",
    "learning": "The update of the weights.",
    "gates": "The checks before a program is played.",
    "sandbox": "What a program may use. A time limit counts time that the program had, not time it waited for a CPU.",
    "evaluation": "Held-out tasks.",
    "checkpoint": "What is kept to continue from.",
}

MEANINGS = {
    "seed": "Names every random draw of the run.",
    "iterations": "Iterations of the run: play, score, one update. May be raised to continue a finished run.",
    "engine.kind": "`local`: this machine. `tinker`: a service of the Tinker API (`docs/cluster.md`).",
    "corpus.min_words": "Shorter texts are left out and counted.",
    "designer.temperature": "Of programs, for sampling and for scoring.",
    "designer.max_tokens": "Most tokens of one reply with a program.",
    "designer.hint_temperature": "Of hints.",
    "designer.hint_max_tokens": "Most tokens of one reply with a hint.",
    "designer.hint_attempts": "Hints that are tried for one program before it is given up.",
    "designer.difficulty": "What the prompt asks for.",
    "agent.temperature": "Of replies, for sampling and for scoring.",
    "agent.max_turns": "Most turns of an episode; an environment may declare fewer.",
    "agent.max_reply_tokens": "Most tokens of one reply; a longer one is cut and ends the episode.",
    "agent.max_episode_tokens": "Most tokens of one episode: prompt, replies and observations.",
    "agent.returns": (
        "`terminal`: the last reward if the environment terminated, else 0. `best`: the largest reward, at least 0 "
        "unless every reward was negative. `sum`: the sum. All are clipped to [-1, 1]."
    ),
    "curriculum.skills": "The skills that rounds go through.",
    "curriculum.skills_per_round": "Consecutive skills of one round.",
    "memory.enabled": "Whether the designer is shown anything of earlier environments.",
    "memory.positives": "Environments at the frontier that one prompt shows.",
    "memory.negatives": "Environments that were too easy or too hard that one prompt shows.",
    "designer_reward.kind": "Which of the rewards is used.",
    "designer_reward.plateau_weight": "Weight of the plateau in `blend`.",
    "designer_reward.regret_weight": "Weight of the hint regret in `blend`.",
    "designer_reward.regret_scale": "Hint regret that earns the whole of its weight in `blend`.",
    "designer_reward.plateau_low": "The plateau is 1 from this win rate on.",
    "designer_reward.plateau_high": "The plateau is 1 up to this win rate.",
    "designer_reward.plateau_ramp": "Distance from the plateau over which it falls to 0.",
    "designer_reward.fast_rate": "Share of the newest value in the fast average of `learning-potential`.",
    "designer_reward.slow_rate": "Share of the newest value in its slow average.",
    "learning.learning_rate": "Of AdamW, constant.",
    "learning.weight_decay": "Of AdamW, on matrices only.",
    "learning.betas": "Of AdamW.",
    "learning.max_grad_norm": "Longer gradients are scaled down to this norm; `none` leaves them as they are.",
    "learning.agent_weight": "Weight of the mean over the agent's tokens in a minibatch; 0 leaves the role out.",
    "learning.designer_weight": "Weight of the mean over the designer's tokens in a minibatch; 0 leaves the role out.",
    "learning.clip_low": "The ratio of new to old probability is clipped below 1 minus this.",
    "learning.clip_high": "The ratio of new to old probability is clipped above 1 plus this.",
    "learning.tis_cap": "Largest importance weight of a delayed token.",
    "gates.max_source_chars": "Longer programs fail `parse`.",
    "gates.judge_temperature": "Of the judge's reply; 0 takes the most probable token.",
    "gates.judge_max_tokens": "Most tokens of the judge's reply; a longer one is no verdict.",
    "sandbox.step_timeout_s": "One `step`.",
    "sandbox.max_source_chars": "Longer sources are not opened, whatever the gates allow.",
    "sandbox.max_observation_chars": "A longer observation is a fault of the environment.",
    "sandbox.max_open_files": "Open descriptors of one process.",
    "evaluation.temperature": "Of held-out plays; 0 takes the most probable token.",
    "evaluation.bootstrap_samples": "Resamplings behind the intervals.",
    "checkpoint.keep": "Checkpoints that stay; older ones are removed.",
}
"""Meanings of keys that carry none in the code."""


def configuration() -> str:
    """The page of every setting."""
    lines = [
        "# Configuration",
        GENERATED,
        "A run is described by one tree of settings. A preset is a TOML file that names those that differ from the "
        "defaults below; `--set key=value` overrides both. An unknown key is an error that names the nearest known "
        "one. The settings in force are saved in the run directory as `config.json`.",
        "Units are in the names: `_s` seconds, `_tokens` tokens, `_mb` mebibytes, `_chars` characters.",
        "## Run",
        _table("", Config, [name for name in Config.model_fields if name not in SECTIONS]),
    ]
    for section, purpose in SECTIONS.items():
        model = Config.model_fields[section].annotation
        assert isinstance(model, type) and issubclass(model, BaseModel)
        lines += [f"## {section}", purpose, _table(f"{section}.", model, list(model.model_fields))]
    return "\n\n".join(lines) + "\n"


def metrics() -> str:
    """The page of every metric."""
    groups: dict[str, list[str]] = {}
    for name in METRICS:
        groups.setdefault(name.partition("/")[0] if "/" in name else "run", []).append(name)
    lines = [
        "# Metrics",
        GENERATED,
        "Every line of `metrics.jsonl` holds numbers of one iteration, under these names; TensorBoard shows the same. "
        "A value that was not measured in an iteration is left out. One that is not finite is written as null.",
    ]
    for group, names in groups.items():
        rows = [f"| `{name}` | {METRICS[name]} |" for name in names]
        lines += [f"## {group}", "\n".join(["| metric | meaning |", "|---|---|", *rows])]
    return "\n\n".join(lines) + "\n"


PAGES = {"configuration.md": configuration, "metrics.md": metrics}


def _table(prefix: str, model: type[BaseModel], names: list[str]) -> str:
    rows = _rows(prefix, model, names)
    return "\n".join(["| key | values | default | meaning |", "|---|---|---|---|", *rows])


def _rows(prefix: str, model: type[BaseModel], names: list[str]) -> Iterator[str]:
    """One row for each setting, those of sections within the section included."""
    said = dict(_docstrings(model))
    for name in names:
        field = model.model_fields[name]
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _rows(f"{prefix}{name}.", inner, list(inner.model_fields))
            continue
        value = _cell(json.dumps(field.default, ensure_ascii=False))
        allowed = _cell(_type(field.annotation, field.metadata))
        meaning = _cell(_meaning(prefix + name, said.get(name)))
        yield f"| `{prefix}{name}` | {allowed} | `{value}` | {meaning} |"


def _meaning(key: str, docstring: str | None) -> str:
    """Raises ValueError unless exactly one of the code and `MEANINGS` says what ``key`` means."""
    if (docstring is None) == (key not in MEANINGS):
        raise ValueError(f"{key} must have one meaning: a docstring in the code or a line in MEANINGS, not both")
    return MEANINGS[key] if docstring is None else docstring


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Names of fields that a string follows, and the string; inherited fields come first."""
    for base in model.__bases__:
        if issubclass(base, BaseModel) and base is not BaseModel:
            yield from _docstrings(base)
    definition = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(definition, ast.ClassDef)
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield field.target.id, " ".join(str(text.value.value).split())


def _type(annotation: Any, metadata: list[Any]) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{value}`" for value in annotation)
    if origin in (Union, UnionType):
        return " or ".join(_type(one, metadata) for one in inner)
    if origin is tuple:
        members = [_type(*_bounds(one)) for one in inner if one is not Ellipsis]
        return f"list of: {members[0]}" if Ellipsis in inner else f"[{'; '.join(members)}]"
    words = {int: "whole number", float: "number", bool: "`true` or `false`", str: "text", NoneType: "`none`"}
    return words[annotation] + (_range(metadata) if annotation in (int, float) else "")


def _bounds(annotation: Any) -> tuple[Any, list[Any]]:
    """The type in an `Annotated`, and its bounds."""
    if not hasattr(annotation, "__metadata__"):
        return annotation, []
    inner = [bound for field in annotation.__metadata__ for bound in getattr(field, "metadata", [])]
    return get_args(annotation)[0], inner


def _range(metadata: list[Any]) -> str:
    signs: Mapping[type, tuple[str, str]] = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}
    parts = [
        f"{sign} {getattr(bound, attribute):g}"
        for kind, (sign, attribute) in signs.items()
        for bound in metadata
        if isinstance(bound, kind)
    ]
    return " " + ", ".join(parts) if parts else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
