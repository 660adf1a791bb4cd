from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from designer_replies import (
    CRASHING,
    GIVING_AWAY,
    SAFE_HINT,
    UNSAFE_HINT,
    UNSEEDED,
    fenced,
    program,
    shown_document,
)
from scripted_engine import ScriptedEngine
from small_tokenizers import CHATML, build_tokenizer

from spadework.config import CorpusConfig, DesignerConfig, GatesConfig, MemoryConfig
from spadework.curriculum.corpus import CorpusCursor, open_corpus
from spadework.engines.base import SamplingParams
from spadework.environment.fingerprint import MemoryNoveltyIndex, fingerprint
from spadework.environment.program import parse_program
from spadework.loop.readings import design_readings
from spadework.roles.admission import Admission
from spadework.roles.author import Author
from spadework.roles.choosing import open_rendering
from spadework.roles.designer import RoundDesigns, design_round
from spadework.roles.episode import Arm
from spadework.roles.grounding import Grounding
from spadework.roles.prompts import full
from spadework.roles.writer import PolicyWriter
from spadework.sandbox import Program, Sandbox
from spadework.sandbox.outcomes import InfrastructureFault
from spadework.seeding import derive_seed
from spadework.store.pool import Pool
from spadework.store.records import EnvironmentRecord, IterationRecords, Measure

RENDERING = open_rendering(build_tokenizer(CHATML), "local", thinking=False)
CONFIG = DesignerConfig(max_tokens=2000, attempts=3, hint_max_tokens=300, hint_attempts=2)
CONTEXT = 30_000
MAX_DOCUMENT_TOKENS = 60
SKILLS = ("pattern recognition", "optimization")
NAMES = ("lamp", "gate", "boat", "drum", "kite", "well", "mask", "rope")

Reply = Callable[[str, SamplingParams], str]
"""(text of the prompt, parameters) -> reply."""


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    file = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    lines = [json.dumps({"title": name, "text": f"The {name} is kept in the harbour. " * 12}) for name in NAMES]
    file.write_text("\n".join(lines), encoding="utf-8")
    corpus = open_corpus(CorpusConfig(source=str(file)))
    with Pool.open(file.parent / "pool.sqlite") as pool:
        sandbox = OneSandbox()
        yield Studio(Grounding(corpus, pool, MemoryConfig(), MAX_DOCUMENT_TOKENS), sandbox)
        sandbox.close()


def good_program(title: str) -> str:
    return program(title.title(), f"{title} {title[::-1]} {title[:2]}", NAMES.index(title) % 2)


def good(prompt: str, params: SamplingParams) -> str:
    return SAFE_HINT if "Write a hint" in prompt else fenced(good_program(title_of(prompt)))


def title_of(prompt: str) -> str:
    return next(name for name in NAMES if f"The {name} is kept" in prompt and shown_document(prompt))


class OneSandbox:
    """A sandbox that every test of the module shares, with its event loop. Its next ``faults`` opens fail."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.faults = 0
        self.sandbox = self.runner.run(Sandbox().__aenter__())

    @property
    def hash_seed(self) -> int:
        return self.sandbox.hash_seed

    async def open(self, source: str, hash_seed: int | None = None) -> Program:
        if self.faults:
            self.faults -= 1
            raise InfrastructureFault("no process could be started")
        return await self.sandbox.open(source, hash_seed)

    def close(self) -> None:
        self.runner.run(self.sandbox.close())
        self.runner.close()


class Studio:
    """Designs rounds with scripted replies."""

    def __init__(self, grounding: Grounding, sandbox: OneSandbox) -> None:
        self.grounding = grounding
        self.sandbox = sandbox

    def design(
        self,
        reply: Reply,
        config: DesignerConfig = CONFIG,
        known: MemoryNoveltyIndex | None = None,
        skills: tuple[str, ...] = SKILLS,
        context: int = CONTEXT,
        worked_examples: tuple[str, ...] = (),
    ) -> tuple[RoundDesigns, ScriptedEngine]:
        engine = ScriptedEngine(RENDERING, lambda member, prompt, params: reply(prompt, params))
        policy = PolicyWriter(engine, RENDERING, full, context)
        author = Author(RENDERING, config, run_seed=5, programs=policy, hints=policy)
        novelty = MemoryNoveltyIndex() if known is None else known
        gates = GatesConfig(random_plays=2)
        designs = self.sandbox.runner.run(
            design_round(
                skills,
                CorpusCursor(),
                round=2,
                iteration=8,
                grounding=self.grounding,
                author=author,
                admission=Admission(
                    self.sandbox, gates, novelty, run_seed=5, max_turns=25, worked_examples=worked_examples
                ),
            )
        )
        return designs, engine


def statuses(designs: RoundDesigns) -> list[tuple[int, int, str]]:
    return [(a.record.attempt, a.record.slot, a.record.status) for a in designs.attempts]


def test_every_slot_gets_a_checked_program_with_a_safe_hint(studio: Studio) -> None:
    designs, engine = studio.design(good)
    assert statuses(designs) == [(0, 0, "accepted"), (0, 1, "accepted")]
    assert designs.empty_slots == ()
    for slot, design_ in enumerate(designs.designs):
        assert (design_.slot, design_.skill) == (slot, SKILLS[slot])
        assert design_.report.passed
        assert [result.gate.value for result in design_.report.results][-2:] == ["novel", "hint-safe"]
        assert design_.hint == "Split what is left into halves and watch what comes back."
        assert design_.attempt.record.environment_id == design_.program.id
        assert design_.document.title in design_.program.source
    assert engine.seeds[:2] == [derive_seed(5, "designer", 2, slot, 0, 0) for slot in (0, 1)]
    assert engine.seeds[2:] == [derive_seed(5, "hint", 2, slot, 0, 0) for slot in (0, 1)]


def test_a_completion_is_the_prompt_and_the_sampled_reply_with_its_logprobs(studio: Studio) -> None:
    designs, engine = studio.design(good)
    for (_, prompt_ids), attempt in zip(engine.prompts, designs.attempts, strict=False):
        completion = attempt.completion
        assert completion is not None
        assert completion.token_ids_T[: len(prompt_ids)] == prompt_ids
        sampled = [t for t, flag in zip(completion.token_ids_T, completion.sampled_T, strict=True) if flag]
        assert RENDERING.reply_text(sampled) == attempt.record.reply
        assert len(sampled) == attempt.record.reply_tokens
        assert len(prompt_ids) == attempt.record.prompt_tokens
        assert all((x == 0.0) != flag for x, flag in zip(completion.logprobs_T, completion.sampled_T, strict=True))


@pytest.mark.parametrize(
    ("bad_reply", "status", "reason"),
    [
        ("I would rather not.", "parse", "no fenced"),
        ("```python\nclass", "parse", "truncated"),
        ("```python\nx = 1\n```", "parse", "no class whose name ends in Env"),
        ("very long " * 2000, "reply-cut", "cut at its budget of 2000 tokens"),
        (fenced(CRASHING), "contract", "ZeroDivisionError"),
        (fenced(UNSEEDED), "determinism", "different episodes"),
        (fenced(GIVING_AWAY), "secret", "gives the solution away"),
    ],
)
def test_a_rejected_attempt_is_named_kept_for_training_and_followed_by_one_with_a_new_document(
    studio: Studio, bad_reply: str, status: str, reason: str
) -> None:
    first_seed = derive_seed(5, "designer", 2, 0, 0, 0)
    designs, _ = studio.design(lambda prompt, params: bad_reply if params.seed == first_seed else good(prompt, params))
    assert statuses(designs) == [(0, 0, status), (0, 1, "accepted"), (1, 0, "accepted")]
    rejected = designs.attempts[0]
    assert reason in rejected.record.reason
    assert rejected.executable == rejected.executable_at_first == (status in ("determinism", "secret"))
    assert rejected.record.environment_id is None
    assert rejected.completion is not None and sum(rejected.completion.sampled_T) == rejected.record.reply_tokens
    if status != "reply-cut":
        assert rejected.record.rejected_by == status
    assert len({attempt.document.id for attempt in designs.attempts}) == 3
    assert designs.cursor == CorpusCursor(0, 3)
    assert [design_.slot for design_ in designs.designs] == [0, 1]


def test_slots_that_no_attempt_fills_are_counted_and_not_asked_again(studio: Studio) -> None:
    designs, engine = studio.design(lambda prompt, params: "No.")
    assert designs.designs == ()
    assert designs.empty_slots == (0, 1)
    assert len(engine.prompts) == 2 * CONFIG.attempts
    assert designs.cursor == CorpusCursor(0, 6)
    assert Counter(status for _, _, status in statuses(designs)) == {"parse": 6}


def test_a_program_that_runs_is_executable_though_its_repair_does_not(studio: Studio) -> None:
    config = CONFIG.model_copy(update={"repair_turns": 1, "attempts": 1})
    designs, _ = studio.design(
        lambda prompt, params: fenced(CRASHING if "was rejected" in prompt else UNSEEDED), config
    )
    readings = design_readings(designs)
    assert (readings["designer/executable_at_first"], readings["designer/executable"]) == (1.0, 0.0)


def test_of_two_twins_the_lower_slot_is_novel(studio: Studio) -> None:
    def twins(prompt: str, params: SamplingParams) -> str:
        first_wave = params.seed in {derive_seed(5, "designer", 2, slot, 0, 0) for slot in (0, 1)}
        return fenced(good_program("lamp")) if first_wave else good(prompt, params)

    designs, _ = studio.design(twins)
    assert statuses(designs)[:2] == [(0, 0, "accepted"), (0, 1, "novel")]
    assert designs.attempts[0].record.environment_id in designs.attempts[1].record.reason


def test_a_program_of_the_pool_is_not_novel(studio: Studio) -> None:
    index = MemoryNoveltyIndex()
    for name in NAMES:
        known = parse_program(good_program(name), 60_000)
        mark = fingerprint(known.source)
        index.add(known.id, mark.digest, mark.shingles)
    designs, _ = studio.design(good, known=index)
    assert {status for _, _, status in statuses(designs)} == {"novel"}
    assert len(index) == len(NAMES)


EXAMPLE = full.worked_examples("medium")[0]
COPIES = {
    "word for word": EXAMPLE,
    "renamed": EXAMPLE.replace("MusicBox", "Organ").replace("levers", "pedals").replace("self.drum", "self.wheel"),
    "other words": EXAMPLE.replace("brass", "walnut").replace("copper", "cherry").replace("zinc", "oak"),
    "other numbers": EXAMPLE.replace("randint(3, 40)", "randint(2, 90)").replace("k=2", "k=3"),
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_the_worked_example_is_rejected_by_name_and_can_be_repaired(studio: Studio, copy: str) -> None:
    def copying(prompt: str, params: SamplingParams) -> str:
        if "Write a hint" in prompt or "was rejected by the check `novel`" in prompt:
            return good(prompt, params)
        return fenced(COPIES[copy])

    shown = full.worked_examples("medium")
    once = CONFIG.model_copy(update={"attempts": 1})
    rejected, _ = studio.design(copying, once, worked_examples=shown, skills=SKILLS[:1])
    assert statuses(rejected) == [(0, 0, "novel")]
    assert "the same as the worked example; hide another thing" in rejected.attempts[0].record.reason
    repaired, _ = studio.design(copying, once.model_copy(update={"repair_turns": 1}), worked_examples=shown)
    assert statuses(repaired) == [(0, 0, "accepted"), (0, 1, "accepted")]


def test_an_unsafe_hint_is_written_again_and_the_tries_are_kept(studio: Studio) -> None:
    first_hint = derive_seed(5, "hint", 2, 1, 0, 0)
    designs, _ = studio.design(
        lambda prompt, params: UNSAFE_HINT if params.seed == first_hint else good(prompt, params)
    )
    assert statuses(designs) == [(0, 0, "accepted"), (0, 1, "accepted")]
    assert [(try_.result.passed, try_.text == UNSAFE_HINT) for try_ in designs.attempts[1].hint_tries] == [
        (False, True),
        (True, False),
    ]
    assert designs.attempts[1].record.hint_tokens == sum(try_.tokens for try_ in designs.attempts[1].hint_tries)
    assert all(try_.tokens > 0 for try_ in designs.attempts[1].hint_tries)


def test_without_a_safe_hint_the_attempt_fails_at_hint_safe(studio: Studio) -> None:
    def unsafe(prompt: str, params: SamplingParams) -> str:
        return UNSAFE_HINT if "Write a hint" in prompt else good(prompt, params)

    designs, engine = studio.design(unsafe, CONFIG.model_copy(update={"attempts": 1}))
    assert statuses(designs) == [(0, 0, "hint-safe"), (0, 1, "hint-safe")]
    assert len(engine.prompts) == 2 + 2 * CONFIG.hint_attempts
    assert designs.empty_slots == (0, 1)


def test_the_author_of_a_hint_sees_the_program_and_not_the_document(studio: Studio) -> None:
    _, engine = studio.design(good)
    asked = [RENDERING.decode(ids) for _, ids in engine.prompts]
    assert all("is kept in the harbour" in prompt and "LampEnv" not in prompt for prompt in asked[:2])
    assert all("is kept in the harbour" not in prompt and "Env:" in prompt for prompt in asked[2:])


def test_a_repair_turn_shows_the_reason_and_an_accepted_repair_is_what_trains(studio: Studio) -> None:
    def repairing(prompt: str, params: SamplingParams) -> str:
        if "Write a hint" in prompt or "was rejected by the check `contract`" in prompt:
            return good(prompt, params)
        return fenced(CRASHING)

    designs, engine = studio.design(repairing, CONFIG.model_copy(update={"repair_turns": 1}))
    assert statuses(designs) == [(0, 0, "accepted"), (0, 1, "accepted")]
    attempt = designs.attempts[0]
    assert (attempt.executable_at_first, attempt.executable) == (False, True)
    assert attempt.completion is not None
    text = RENDERING.decode(attempt.completion.token_ids_T)
    assert "CrashingEnv" in text and "ZeroDivisionError" in text
    assert re.search(r"It failed here:\n\nline \d+, in step: gap = 1 // 0 \+ abs\(", text)
    sampled = [t for t, flag in zip(attempt.completion.token_ids_T, attempt.completion.sampled_T, strict=True) if flag]
    assert RENDERING.reply_text(sampled) == attempt.record.reply
    assert "CrashingEnv" not in attempt.record.reply
    assert engine.seeds[2] == derive_seed(5, "designer", 2, 0, 0, 1)


def test_a_repair_that_fails_trains_the_first_reply(studio: Studio) -> None:
    config = CONFIG.model_copy(update={"repair_turns": 1, "attempts": 1})
    designs, _ = studio.design(
        lambda prompt, params: "Sorry." if "was rejected" in prompt else fenced(CRASHING), config
    )
    attempt = designs.attempts[0]
    assert (attempt.executable_at_first, attempt.executable) == (False, False)
    assert (attempt.record.status, attempt.record.reply) == ("parse", "Sorry.")
    assert attempt.completion is not None
    assert RENDERING.decode(attempt.completion.token_ids_T).endswith(fenced(CRASHING) + "<|im_end|>")


def test_a_prompt_that_fills_the_context_is_named_and_trains_nothing(studio: Studio) -> None:
    designs, engine = studio.design(good, context=500)
    assert {status for _, _, status in statuses(designs)} == {"prompt-too-long"}
    assert "lower corpus.max_tokens or memory.max_tokens" in designs.attempts[0].record.reason
    assert all(attempt.completion is None for attempt in designs.attempts)
    assert engine.prompts == []


def test_documents_are_cut_to_their_token_budget(studio: Studio) -> None:
    designs, _ = studio.design(good)
    for attempt in designs.attempts:
        assert 0 < len(RENDERING.encode(attempt.document.text)) <= MAX_DOCUMENT_TOKENS


def test_a_host_that_fails_once_is_asked_again(studio: Studio) -> None:
    studio.sandbox.faults = 1
    designs, _ = studio.design(good, skills=SKILLS[:1])
    assert statuses(designs) == [(0, 0, "accepted")]


def test_a_host_that_fails_twice_is_nobodys_fault_and_trains_nothing(studio: Studio) -> None:
    studio.sandbox.faults = 2
    designs, _ = studio.design(good, skills=SKILLS[:1])
    assert statuses(designs) == [(0, 0, "host-fault"), (1, 0, "accepted")]
    assert designs.attempts[0].completion is None
    assert "no process could be started" in designs.attempts[0].record.reason


def test_the_designer_is_shown_what_the_pool_measured(studio: Studio, tmp_path: Path) -> None:
    def measure(arm: Arm, wins: int) -> Measure:
        return Measure("f" * 64, 0, 0, arm, plays=16, wins=wins, mean_return=wins / 16, stderr=0.12)

    environment = EnvironmentRecord(
        "f" * 64, 0, 0, 0, SKILLS[1], "doc", "EbbEnv", "", "Wait.", "EbbEnv: the ebb", "print"
    )  # fmt: skip
    measures = (measure(Arm.PLAIN, 6), measure(Arm.HINTED, 13))
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        pool.write(IterationRecords(0, 0, environments=(environment,), measures=measures))
        designs, engine = Studio(replace(studio.grounding, pool=pool), studio.sandbox).design(good)
    other_skill, same_skill = (RENDERING.decode(ids) for _, ids in engine.prompts[:2])
    assert "EbbEnv: the ebb" not in other_skill
    assert "won 6 of 16 plays and 13 of 16 with its hint" in same_skill
    assert [attempt.record.positives for attempt in designs.attempts] == [(), ("f" * 64,)]
    assert [attempt.record.negatives for attempt in designs.attempts] == [(), ()]


def test_equal_names_give_equal_rounds(studio: Studio) -> None:
    def mixed(prompt: str, params: SamplingParams) -> str:
        if "Write a hint" in prompt:
            return (SAFE_HINT, UNSAFE_HINT)[params.seed % 2]
        return (good(prompt, params), fenced(CRASHING), "No.")[params.seed % 3]

    def outcome() -> object:
        designs, engine = studio.design(mixed)
        return statuses(designs), designs.cursor, designs.empty_slots, engine.prompts, engine.seeds, [
            (attempt.completion, attempt.record.reason) for attempt in designs.attempts
        ]  # fmt: skip

    assert outcome() == outcome()
