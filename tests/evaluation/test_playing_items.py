"""Held-out items are played alike by every checkpoint, and nothing leaves the denominator."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from guessing_game import GUESS
from scripted_engine import Script, ScriptedEngine
from serving import ServerProcess
from small_tokenizers import CHATML, build_tokenizer

from spadework.config import Config
from spadework.evaluation.heldout import HeldOut
from spadework.evaluation.items import Item, ItemList, Split
from spadework.evaluation.results import Evaluation, gain, read_results, readings
from spadework.roles.choosing import open_rendering
from spadework.roles.episode import EpisodeEnd
from spadework.sandbox.outcomes import Outcome

RENDERING = open_rendering(build_tokenizer(CHATML), "local", thinking=False)
CRASHING = GUESS.replace('return "Yes."', "raise KeyError(action)\n            return 1")
ITEMS = ItemList(
    suite="games",
    version=4,
    sha256="ab" * 32,
    items=(
        *(Item(f"guess-{seed}", Split.IN_FAMILY, "guess", GUESS, seed) for seed in range(6)),
        Item("crash-0", Split.OUT_OF_FAMILY, "crash", CRASHING, 3),
        Item("broken-0", Split.OUT_OF_FAMILY, "broken", "class BrokenEnv(", 0),
    ),
)


def config(seed: int = 0, temperature: float = 0.7, address: str = "") -> Config:
    return Config.model_validate(
        {
            "seed": seed,
            "agent": {"max_reply_tokens": 40, "max_episode_tokens": 2000, "thinking": False},
            "model": {"max_context_tokens": 2000},
            "evaluation": {"temperature": temperature, "bootstrap_samples": 200},
            "sandbox": {"isolation": "best-effort", "address": address},
        }
    )


def halve(member: int, prompt: str, params: object) -> str:
    low, high = 1, 9
    for turn in prompt.split("assistant\n\\boxed{")[1:]:
        guess = int(turn[0])
        low, high = (guess + 1, high) if "Too low." in turn else (low, guess - 1)
    return f"\\boxed{{{(low + high) // 2}}}"


def five(member: int, prompt: str, params: object) -> str:
    return "\\boxed{5}"


def endless(member: int, prompt: str, params: object) -> str:
    return "and so on " * 60


def evaluate(script: Script, of: Config | None = None, iterations: int = 0) -> tuple[Evaluation, ScriptedEngine]:
    engine = ScriptedEngine(RENDERING, script, policy_version=17)
    held_out = HeldOut(ITEMS, of or config(), engine, RENDERING)
    return asyncio.run(held_out.evaluate(iterations)), engine


def test_faults_count_as_failures_and_stay_in_the_denominator() -> None:
    found, _ = evaluate(halve)
    assert found.solved(Split.IN_FAMILY) == (1.0,) * 6
    assert found.solved(Split.OUT_OF_FAMILY) == (0.0, 0.0)
    assert [item.outcome for item in found.items[6:]] == [Outcome.ENVIRONMENT_FAULT] * 2
    assert found.errors == 2
    assert found.by_family() == {"guess": (6, 6), "crash": (0, 1), "broken": (0, 1)}


def test_items_are_played_where_the_configuration_says(tmp_path: Path) -> None:
    with ServerProcess("--unix", tmp_path / "socket", "--set", "sandbox.isolation=best-effort") as served:
        there, _ = evaluate(halve, config(address=served.address))
        assert served.says("client 1 connected")
    assert there == evaluate(halve)[0]


def test_a_sandbox_that_is_lost_in_the_middle_is_nobodys_fault(tmp_path: Path) -> None:
    with ServerProcess("--unix", tmp_path / "socket", "--set", "sandbox.isolation=best-effort") as served:

        def pull_the_plug(member: int, prompt: str, params: object) -> str:
            if served.process.poll() is None:
                served.stop(signal.SIGKILL)
            return halve(member, prompt, params)

        found, _ = evaluate(pull_the_plug, config(address=served.address))
    assert [item.outcome for item in found.items[:7]] == [Outcome.INFRASTRUCTURE_FAULT] * 7


def test_replies_cut_short_count_as_failures_and_are_told() -> None:
    found, _ = evaluate(endless)
    assert {item.end for item in found.items[:6]} == {EpisodeEnd.REPLY_CUT}
    assert not any(item.solved for item in found.items)
    assert found.cut_share == 7 / 8


def test_the_result_names_what_was_asked_and_how() -> None:
    found, engine = evaluate(halve, iterations=9)
    assert (found.suite, found.version, found.sha256) == ("games", 4, "ab" * 32)
    assert (found.temperature, found.thinking, found.prompts) == (0.7, False, "full")
    assert (found.renderer, found.policy_version, found.iterations) == (RENDERING.name, 17, 9)
    assert len(engine.batches[0]) == 7, "each item is played once, in the plain arm; a program that is none, never"


def test_every_run_gets_the_same_draws() -> None:
    _, one = evaluate(halve, config(seed=1))
    _, other = evaluate(halve, config(seed=2))
    assert one.seeds and one.seeds == other.seeds


def test_the_draws_of_an_item_do_not_depend_on_the_items_beside_it() -> None:
    _, all_of_them = evaluate(five)
    alone = ScriptedEngine(RENDERING, five)
    asyncio.run(HeldOut(replace(ITEMS, items=ITEMS.items[2:3]), config(), alone, RENDERING).evaluate())
    firsts = [seed for (member, _), seed in zip(all_of_them.prompts, all_of_them.seeds, strict=True) if member == 2]
    assert alone.seeds == firsts


def test_the_temperature_is_that_of_the_evaluation() -> None:
    heard: set[float] = set()

    def listen(member: int, prompt: str, params: object) -> str:
        heard.add(params.temperature)  # type: ignore[attr-defined]
        return "\\boxed{5}"

    evaluate(listen, config(temperature=0.0))
    assert heard == {0.0}


def test_readings_hold_each_split_with_its_interval() -> None:
    found = readings(evaluate(halve)[0], samples=100)
    assert found["heldout/in_family"] == found["heldout/in_family_low"] == 1.0
    assert found["heldout/out_of_family"] == found["heldout/out_of_family_high"] == 0.0
    assert (found["heldout/errors"], found["heldout/cut_share"]) == (2.0, 0.0)


def test_the_gain_is_taken_item_by_item() -> None:
    before, after = evaluate(five)[0], evaluate(halve)[0]
    found = gain(before, after, Split.IN_FAMILY, 500)
    assert found is not None
    solved_before = sum(before.solved(Split.IN_FAMILY))
    assert 0 < solved_before < 6, "the test needs items that always saying five solves, and others"
    assert found.mean == pytest.approx(1 - solved_before / 6)


def test_called_by_the_loop_it_keeps_the_result_and_gives_metrics(tmp_path: Path) -> None:
    held_out = HeldOut(ITEMS, config(), ScriptedEngine(RENDERING, halve), RENDERING, tmp_path)
    found = asyncio.run(held_out(5))  # type: ignore[arg-type]
    assert found["heldout/in_family"] == 1.0
    assert list(read_results(tmp_path)) == [5]
