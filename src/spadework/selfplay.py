"""Self-play: Algorithm 1 of SPADE (arXiv 2608.19197). One policy writes environments, plays them and learns from both.

    every k iterations   the designer writes a round of environments, grounded in documents and in memory
    every iteration      the agent plays all of them, and in a round's first iteration also with their hints
                         the plays earn advantages within their environment
                         designs of k iterations ago earn theirs, within their skill, by what was measured since
                         one update of the shared weights from both

An iteration is a function of the checkpoint before it and of the run seed; everything else it needs is read back from
the pool. Hence a run that was stopped at any instant continues as if it had not been.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from spadework.config import Config
from spadework.curriculum.corpus import Corpus, open_corpus
from spadework.curriculum.measuring import measures_of
from spadework.curriculum.novelty import PoolNovelty
from spadework.curriculum.skills import skill_of_slot, skills_of_round
from spadework.engines.base import Engine
from spadework.learning.batch import TrainingSample
from spadework.learning.delay import DelayBuffer
from spadework.loop.cast import Cast, open_cast
from spadework.loop.credit import credit_agent, credit_designer
from spadework.loop.interruption import Interrupted, Interruption
from spadework.loop.plays import Plays, play_requests
from spadework.loop.readings import (
    Readings,
    credit_readings,
    design_readings,
    play_readings,
    sampled_tokens,
    zone_readings,
)
from spadework.loop.sandboxes import Sandboxes
from spadework.loop.schedule import Schedule
from spadework.loop.state import LoopState
from spadework.loop.stopwatch import Stopwatch
from spadework.loop.update import update_policy
from spadework.loop.variety import variety_readings
from spadework.loop.weights import weight_readings
from spadework.loop.writing import document_records, environment_records, pending_samples
from spadework.progress import Observer, Stage
from spadework.roles.admission import Admission
from spadework.roles.designer import RoundDesigns, design_round
from spadework.roles.grounding import Grounding
from spadework.roles.plays import play_all
from spadework.roles.rendering import Rendering
from spadework.sandbox import ProgramHost
from spadework.store.checkpoint import write_checkpoint
from spadework.store.metrics import MetricsLog, read_metrics
from spadework.store.pool import Pool
from spadework.store.records import EnvironmentRecord, IterationRecords
from spadework.store.restore import BEFORE_THE_FIRST, Restored, restore
from spadework.store.run_directory import RunDirectory

__all__ = ["Evaluate", "Interrupted", "TrainingSummary", "train"]

Evaluate = Callable[[int], Awaitable[Mapping[str, float]]]
"""Plays the held-out items with the present weights after so many iterations; gives metrics under `heldout/`."""


@dataclass(frozen=True)
class TrainingSummary:
    """``first_iteration`` is where this call took the run up; ``metrics`` the line of the run's last iteration."""

    iterations: int
    first_iteration: int
    policy_version: int
    metrics: Mapping[str, float]


async def train(
    run: RunDirectory,
    config: Config,
    engine: Engine,
    observer: Observer,
    *,
    rendering: Rendering,
    corpus: Corpus | None = None,
    evaluate: Evaluate | None = None,
    tensorboard: bool = True,
) -> TrainingSummary:
    """Take ``run`` from its last checkpoint, or from the start, to its last iteration.

    ``engine`` must hold the weights that the run starts from; it is given those of the checkpoint. ``corpus`` is the
    configured one, where it is open already. Held-out evaluation comes before the first iteration, after the last, and
    as often between them as the configuration says.

    Raises Interrupted after Ctrl-C or SIGTERM or if a budget is spent, CorpusError if the corpus cannot be used or has
    changed, StoreError if the run cannot be read or written, EndpointError if a frozen model cannot be asked; what the
    last checkpoint holds is then as it was.
    """
    corpus = open_corpus(config.corpus) if corpus is None else corpus
    restored = restore(run, tensorboard=tensorboard)
    saved = None if restored.checkpoint is None else restored.checkpoint.iteration
    with restored.pool, restored.metrics, Interruption(saved) as interruption:
        async with (
            open_cast(config, engine, rendering, run.replies, observer.message) as cast,
            Sandboxes(config.sandbox) as sandboxes,
        ):
            loop = SelfPlay(
                run=run,
                config=config,
                engine=engine,
                observer=observer,
                cast=cast,
                corpus=corpus,
                sandboxes=sandboxes,
                state=await _take_up(restored, config, engine, corpus, observer),
                pool=restored.pool,
                metrics=restored.metrics,
                interruption=interruption,
            )
            if evaluate is not None and restored.metrics.last is None:
                await loop.evaluate_before_the_first(evaluate)
            for iteration in range(restored.next_iteration, config.iterations):
                await loop.iterate(iteration, evaluate)
    lines = read_metrics(run.metrics)
    return TrainingSummary(
        config.iterations, restored.next_iteration, engine.policy_version, lines[-1] if lines else {}
    )


async def _take_up(restored: Restored, config: Config, engine: Engine, corpus: Corpus, observer: Observer) -> LoopState:
    """The state after the last checkpoint, with the engine at its weights."""
    observer.started(restored.next_iteration, config.iterations)
    if corpus.skipped:
        left_out = ", ".join(f"{count} {reason}" for reason, count in corpus.skipped.items())
        observer.message(f"{corpus.name}: {len(corpus)} documents; left out: {left_out}, first {corpus.first_skipped}")
    if restored.checkpoint is None:
        return LoopState(DelayBuffer(config.curriculum.round_iterations))
    for sentence in restored.checkpoint.passed_over:
        observer.message(sentence)
    await engine.load(restored.checkpoint.weights)
    return LoopState.from_json(restored.checkpoint.state, corpus)


@dataclass
class SelfPlay:
    """One iteration after another of a run that is open for writing."""

    run: RunDirectory
    config: Config
    engine: Engine
    observer: Observer
    cast: Cast
    corpus: Corpus
    sandboxes: Sandboxes
    state: LoopState
    pool: Pool
    metrics: MetricsLog
    interruption: Interruption

    def __post_init__(self) -> None:
        self.schedule = Schedule.of(self.config)
        self.checkpoint_s: float | None = None
        self.novelty = PoolNovelty(self.pool)

    async def iterate(self, iteration: int, evaluate: Evaluate | None) -> None:
        """Design, play, learn, write down."""
        watch = Stopwatch(iteration, self.observer)
        readings: Readings = {"round": self.schedule.round_of(iteration)}
        async with self.sandboxes.fresh() as sandbox:
            designs = None
            if self.schedule.starts_round(iteration):
                with watch.stage(Stage.DESIGN):
                    designs = await self.design(iteration, sandbox)
            environments = self.environments(iteration, designs)
            with watch.stage(Stage.PLAY):
                plays = await self.play(iteration, environments, sandbox)
        if not self.schedule.is_last(iteration):
            await self.sandboxes.prepare()
        with watch.stage(Stage.STORE):
            self.record(iteration, designs, environments, plays)
        with watch.stage(Stage.UPDATE):
            samples = self.credit(iteration, plays, readings)
            readings |= await update_policy(self.engine, samples, self.config.learning, self.config.seed, iteration)
        readings |= self.readings(iteration, designs, environments, plays) | await weight_readings(self.engine)
        if evaluate is not None and self.schedule.evaluates_after(iteration):
            with watch.stage(Stage.EVALUATION):
                readings |= await evaluate(iteration + 1)
        with self.interruption.finishing():
            await self.save(iteration, readings, watch)

    async def design(self, iteration: int, sandbox: ProgramHost) -> RoundDesigns:
        """A new set of environments: the round's skills in turn over its slots."""
        config, round_ = self.config, self.schedule.round_of(iteration)
        active = skills_of_round(round_, config.curriculum.skills, config.curriculum.skills_per_round)
        designs = await design_round(
            [skill_of_slot(slot, active) for slot in range(config.curriculum.environments)],
            self.state.cursor,
            round=round_,
            iteration=iteration,
            grounding=Grounding(self.corpus, self.pool, config.memory, config.corpus.max_tokens),
            author=self.cast.author,
            admission=self.admission(sandbox),
        )
        self.state.cursor = designs.cursor
        self.state.waiting.add(iteration, pending_samples(designs.attempts, config.designer.temperature))
        return designs

    def admission(self, sandbox: ProgramHost) -> Admission:
        """The gates of a round."""
        config = self.config
        uses_tools = config.agent.action_format == "tool_call"
        shown = self.cast.author.programs.prompts.worked_examples(config.designer.difficulty)
        return Admission(sandbox, config.gates, self.novelty, config.seed, config.agent.max_turns, uses_tools, shown)

    def environments(self, iteration: int, designs: RoundDesigns | None) -> tuple[EnvironmentRecord, ...]:
        """Those of the round: just designed, or as the pool has them."""
        if designs is not None:
            return environment_records(designs.designs)
        return self.pool.environments(self.schedule.round_of(iteration))

    async def play(self, iteration: int, environments: Sequence[EnvironmentRecord], sandbox: ProgramHost) -> Plays:
        """The plain arm and, in the round's first iteration, the hinted arm on the same seeds."""
        requests = play_requests(
            environments,
            iteration,
            self.config.seed,
            self.config.curriculum.plays,
            hinted=self.schedule.starts_round(iteration),
        )
        played = await play_all(requests, self.engine, sandbox, self.cast.player)
        return Plays.of(played, iteration, self.config.agent.returns)

    def record(
        self,
        iteration: int,
        designs: RoundDesigns | None,
        environments: tuple[EnvironmentRecord, ...],
        plays: Plays,
    ) -> None:
        """Add the iteration to the pool, from which memory, rewards and later iterations read."""
        round_ = self.schedule.round_of(iteration)
        self.pool.write(
            IterationRecords(
                iteration,
                round_,
                documents=() if designs is None else document_records(designs, self.corpus.name),
                attempts=() if designs is None else tuple(attempt.record for attempt in designs.attempts),
                environments=() if designs is None else environments,
                episodes=plays.records,
                measures=measures_of(plays.records, round_),
            )
        )
        self.novelty.forget_pending()

    def credit(self, iteration: int, plays: Plays, readings: Readings) -> tuple[TrainingSample, ...]:
        """Samples with advantages: the plays of now, and the designs whose window is over (at the end, all)."""
        waiting = self.state.waiting
        released = waiting.flush() if self.schedule.is_last(iteration) else waiting.due(iteration)
        agent = credit_agent(plays, self.config)
        designer = credit_designer(
            released, self.pool, self.schedule, self.config.designer_reward, self.state.averages, iteration
        )
        self.state.averages = designer.averages
        readings |= credit_readings(agent, designer)
        return (*agent.samples, *designer.samples)

    def readings(
        self,
        iteration: int,
        designs: RoundDesigns | None,
        environments: tuple[EnvironmentRecord, ...],
        plays: Plays,
    ) -> Readings:
        """What was designed and played, in numbers."""
        round_ = self.schedule.round_of(iteration)
        skills = sorted({environment.skill for environment in environments})
        standings = [standing for skill in skills for standing in self.pool.standings(skill, round_, round_)]
        tokens = sampled_tokens([*(record.episode for record in plays.records), *plays.retried])
        found = play_readings(plays, self.config.agent.returns) | zone_readings(standings)
        if designs is not None:
            found |= design_readings(designs) | variety_readings(designs, environments)
            tokens += sum(attempt.record.reply_tokens + attempt.record.hint_tokens for attempt in designs.attempts)
        return found | {"tokens/sampled": tokens, **self.cast.readings()}

    async def save(self, iteration: int, readings: Readings, watch: Stopwatch) -> None:
        """The line of metrics and, where one is due, the checkpoint: in this order, which `store.restore` relies on."""
        line = readings | watch.readings()
        busy_s = sum(watch.seconds.get(stage, 0.0) for stage in (Stage.DESIGN, Stage.PLAY))
        line["time/sampled_tokens_per_s"] = readings["tokens/sampled"] / busy_s
        if self.checkpoint_s is not None:
            line["time/checkpoint_s"] = self.checkpoint_s
        self.metrics.write(iteration, line)
        if self.schedule.checkpoints_after(iteration):
            with watch.stage(Stage.CHECKPOINT):
                state = self.state.to_json(self.corpus)
                await write_checkpoint(
                    self.run.checkpoints, iteration, state, self.engine.save, self.config.checkpoint.keep
                )
            self.checkpoint_s = watch.seconds[Stage.CHECKPOINT]
            self.interruption.saved = iteration
        self.observer.iteration_ended(iteration, line)

    async def evaluate_before_the_first(self, evaluate: Evaluate) -> None:
        """Its line in the metrics is that of iteration -1; where it is, the evaluation is not repeated."""
        watch = Stopwatch(BEFORE_THE_FIRST, self.observer)
        with watch.stage(Stage.EVALUATION):
            found = dict(await evaluate(0))
        with self.interruption.finishing():
            line = found | watch.readings()
            self.metrics.write(BEFORE_THE_FIRST, line)
            self.observer.iteration_ended(BEFORE_THE_FIRST, line)
