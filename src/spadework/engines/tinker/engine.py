"""The engine protocol by a service: requests go out at once, and what services leave open is closed here.

Only the sampler of the newest weights is ever used, because a service may answer an older one with newer weights, or
take the newer weights back. Sampled and scored log-probabilities are both of temperature 1, whatever the sampling
temperature. Two equal runs are equal in distribution only: the service forms its own batches.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from spadework.config import Config
from spadework.engines.base import (
    Datum,
    EngineFault,
    ForwardBackward,
    OptimStep,
    Sample,
    SamplingParams,
    StaleCohort,
)
from spadework.engines.data import check
from spadework.engines.remote import check_request, stop_reason
from spadework.engines.tinker import backends, checkpoint
from spadework.engines.tinker.export import write_weights
from spadework.engines.tinker.model import ModelFacts, model_facts
from spadework.engines.tinker.reduction import check_services, clip_of, examples_of, measured, rows_of
from spadework.engines.tinker.service import Adam, Example, Logprobs, Sampler, Service, Trainer
from spadework.learning.loss import PolicyLoss
from spadework.seeding import derive_seed

ADAM_EPS = 1e-8
"""As the local engine's."""
SEEDS = 1 << 31
"""Services take seeds of 31 bits."""


class TinkerEngine:
    """Samples and learns at a service; `open` is the way to make one.

    An exception in an update leaves the weights at the service undefined: end the run and continue it.
    """

    def __init__(self, config: Config, service: Service, model: ModelFacts) -> None:
        self._config, self._service, self._model = config, service, model
        self._backend = backends.backend_of(config)
        self._max_context_tokens = config.model.max_context_tokens
        self._trainer: Trainer | None = None
        self._sampler: tuple[int, Sampler] | None = None
        self._policy_version, self._weights_epoch, self._sampling = 0, 0, 0
        self._accumulated = 0
        self._states: list[str] = []

    @classmethod
    def open(cls, config: Config, service: Service, model_dir: Path) -> TinkerEngine:
        """Check configuration, model directory and service. Raises EngineFault; nothing was created then."""
        backends.require_possible(config)
        model = model_facts(model_dir, config.model.max_context_tokens, config.engine.tinker.backend)
        name = config.engine.tinker.model
        known = service.models()
        if name not in known:
            raise EngineFault(
                f"the service has no base model {name} (engine.tinker.model); it has {', '.join(known) or 'none'}"
            )
        return cls(config, service, model)

    @property
    def policy_version(self) -> int:
        return self._policy_version

    @property
    def weights_epoch(self) -> int:
        """Changes whenever the weights do, also by `load`; cohorts are bound to it."""
        return self._weights_epoch

    def cohort(self, size: int) -> TinkerCohort:
        """See `engines.base.Engine`. The cohort is bound to the present weights and stale after any change of them."""
        return TinkerCohort(self, size)

    async def score(self, data: Sequence[Datum], *, reference: bool = False) -> tuple[tuple[float, ...], ...]:
        """See `engines.base.Engine`; the reference is the base model. Raises ValueError, or EngineFault."""
        self._check(data)
        if not reference:
            examples = examples_of(data, self._backend.reduction, len(data))
            return rows_of(data, await (await self._trained()).forward(examples))
        if not self._backend.keeps_base:
            raise ValueError(f"the backend {self._config.engine.tinker.backend} keeps no reference to score with")
        asked = (self._base_logprobs(datum.token_ids_T) for datum in data)
        return rows_of(data, await asyncio.gather(*asked))

    async def forward_backward(self, data: Sequence[Datum], loss: PolicyLoss) -> ForwardBackward:
        """See `engines.base.Engine`. Raises ValueError for malformed data, or EngineFault.

        A service that averages must know the whole step: a second pass before `optim_step` is then a ValueError, and
        `whole_step` the way to make several.
        """
        self._check(data)
        if self._accumulated and self._backend.reduction != "sum":
            raise ValueError(
                f"the backend {self._config.engine.tinker.backend} averages over all sequences of a step; "
                "give all of its passes to whole_step"
            )
        examples = self._examples(data, len(data))
        trainer = await self._trained()
        self._accumulated += len(data)
        rows = rows_of(data, await trainer.forward_backward(examples, clip_of(loss)))
        return measured(data, rows, loss)

    async def optim_step(self, learning_rate: float) -> OptimStep:
        """See `engines.base.Engine`. Raises ValueError without a gradient, and EngineFault for one that is not finite:
        services apply it."""
        if not self._accumulated:
            raise ValueError("no gradient to apply: call forward_backward before optim_step")
        self._require_quiet()
        return self._stepped(await (await self._trained()).step(self._adam(learning_rate)))

    async def whole_step(
        self, passes: Sequence[Sequence[Datum]], loss: PolicyLoss, learning_rate: float
    ) -> tuple[tuple[ForwardBackward, ...], OptimStep]:
        """See `engines.base.TakesWholeSteps`: one request for all gradients and one for the step, sent together."""
        data = [datum for one in passes for datum in one]
        self._check(data)
        self._require_quiet()
        if self._accumulated:
            raise ValueError("a gradient waits to be applied: call optim_step before whole_step")
        examples = self._examples(data, len(data))
        trainer = await self._trained()
        self._accumulated = len(data)
        submitted = trainer.forward_backward(examples, clip_of(loss)), trainer.step(self._adam(learning_rate))
        # Both are waited for, so that no request is under way when the first one's failure is told.
        found, norm = await asyncio.gather(*submitted, return_exceptions=True)
        if isinstance(found, BaseException):
            raise found
        if isinstance(norm, BaseException):
            raise norm
        step = self._stepped(norm)
        rows = iter(rows_of(data, found))
        results = (measured(one, [next(rows) for _ in one], loss) for one in passes)
        return tuple(results), step

    async def save(self, directory: Path) -> None:
        """Keep weights and optimiser at the service and write down where; see `checkpoint`.

        The service keeps as many states of this process as `checkpoint.keep` keeps checkpoints, and one more; those of
        earlier processes stay, since a copy of the run directory may need them. If it does not forget an older one,
        it is asked again at the next call.
        """
        if self._accumulated:
            raise ValueError("a gradient waits to be applied and would be lost: save after optim_step")
        path = await (await self._trained()).save_state(_new_name(f"step-{self._policy_version}"))
        checkpoint.write(directory, checkpoint.Saved(self._identity(), path, self._policy_version))
        self._states.append(path)
        # The checkpoint under way takes its place, and removes an older one, only after this call.
        while len(self._states) > self._config.checkpoint.keep + 1:
            try:
                await self._service.delete(self._states[0])
            except EngineFault:
                return
            del self._states[0]

    async def load(self, directory: Path) -> None:
        """Continue from what `save` wrote. Raises EngineFault; then the engine is as it was."""
        saved = checkpoint.read(directory, self._identity())
        self._trainer = await self._service.open_state(saved.path)
        self._policy_version, self._accumulated = saved.policy_version, 0
        self._weights_epoch += 1

    async def export(self, directory: Path) -> None:
        """Write what the service hands out, an adapter or a model, and the tokenizer. Raises EngineFault."""
        trainer = await self._trained()
        directory.mkdir(parents=True, exist_ok=True)
        archive = directory / "weights.tar"
        path = await trainer.save_weights(_new_name(f"export-{self._policy_version}"))
        try:
            await self._service.download(path, archive)
            write_weights(archive, directory, self._config.engine.tinker.model, self._model.directory)
        finally:
            archive.unlink(missing_ok=True)

    async def newest_sampler(self) -> Sampler:
        """Of the present weights, which the service is told to sample from if it was not yet."""
        if self._sampler is None or self._sampler[0] != self._weights_epoch:
            self._require_quiet()
            self._sampler = (self._weights_epoch, await (await self._trained()).sampler())
        return self._sampler[1]

    async def sample(self, sampler: Sampler, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        """Ask for one reply and check what comes back. Raises ContextTooLong, ValueError and EngineFault."""
        check_request(prompt_ids, params, self._max_context_tokens, self._model.vocabulary)
        self._sampling += 1
        try:
            # Every request is for one reply: services number the seeds of several replies upwards from the first.
            seed = derive_seed(params.seed, "service") % SEEDS
            reply = await sampler.sample(prompt_ids, params.max_tokens, params.stop_ids, seed, params.temperature)
        finally:
            self._sampling -= 1
        reason = stop_reason(reply.token_ids_T, reply.logprobs_T, stopped=reply.stopped, params=params)
        return Sample(reply.token_ids_T, reply.logprobs_T, reason, self._policy_version)

    def _check(self, data: Sequence[Datum]) -> None:
        check(data, self._max_context_tokens, self._model.vocabulary)
        check_services(data)

    def _examples(self, data: Sequence[Datum], sequences: int) -> list[Example]:
        return examples_of(data, self._backend.reduction, sequences)

    async def _trained(self) -> Trainer:
        # Late, so that a run that is continued takes one slot of the service and not two.
        if self._trainer is None:
            settings = self._config.engine.tinker
            seed = derive_seed(self._config.seed, "adapter") % SEEDS
            self._trainer = await self._service.create(settings.model, self._config.model.lora_rank, seed)
        return self._trainer

    async def _base_logprobs(self, token_ids_T: Sequence[int]) -> Logprobs:
        """Of every token but the first, from services that give an entry for the first and those that do not."""
        found = await self._service.base_logprobs(self._config.engine.tinker.model, token_ids_T)
        if len(found) == len(token_ids_T):
            found = found[1:]
        if len(found) != len(token_ids_T) - 1 or None in found:
            raise EngineFault(
                f"the service gave {len(found)} log-probabilities of the base model for {len(token_ids_T)} tokens; "
                "set learning.kl_coefficient=0"
            )
        return tuple(value for value in found if value is not None)

    def _adam(self, learning_rate: float) -> Adam:
        learning = self._config.learning
        beta1, beta2 = learning.betas
        return Adam(learning_rate, beta1, beta2, ADAM_EPS, learning.weight_decay, learning.max_grad_norm or 0.0)

    def _stepped(self, norm: float | None) -> OptimStep:
        self._accumulated = 0
        if norm is not None and not abs(norm) < float("inf"):
            raise EngineFault(
                f"the gradient's norm is {norm} and the service has applied it, so the weights are lost; give the same "
                "command to continue from the last checkpoint, with a smaller learning.learning_rate if it comes again"
            )
        self._policy_version += 1
        self._weights_epoch += 1
        return OptimStep(norm, True, self._policy_version)

    def _require_quiet(self) -> None:
        if self._sampling:
            raise RuntimeError(f"{self._sampling} replies are still being sampled; change weights between cohorts only")

    def _identity(self) -> dict[str, Any]:
        settings = self._config.engine.tinker
        return {"backend": settings.backend, "model": settings.model, "lora_rank": self._config.model.lora_rank}


class TinkerCohort:
    """The requesters of one `cohort` call; each request goes out at once."""

    def __init__(self, engine: TinkerEngine, size: int) -> None:
        if size < 1:
            raise ValueError(f"a cohort has at least one member, not {size}")
        self._engine, self._members = engine, set(range(size))
        self._weights_epoch = engine.weights_epoch
        self._asking: set[int] = set()
        self._sampler: Sampler | None = None

    async def __aenter__(self) -> TinkerCohort:
        self._sampler = await self._engine.newest_sampler()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._members.clear()
        self._sampler = None

    async def sample(self, member: int, prompt_ids: Sequence[int], params: SamplingParams) -> Sample:
        """See `engines.base.Cohort`. Raises StaleCohort after a change of the weights, and EngineFault."""
        if member not in self._members or self._sampler is None:
            raise ValueError(f"member {member} is not in this cohort, or has left it")
        if member in self._asking:
            raise ValueError(f"member {member} asked for a second reply before its first came")
        if self._engine.weights_epoch != self._weights_epoch:
            raise StaleCohort("the weights changed while this cohort was open; open a new cohort after every update")
        self._asking.add(member)
        try:
            return await self._engine.sample(self._sampler, prompt_ids, params)
        finally:
            self._asking.discard(member)

    def leave(self, member: int) -> None:
        """The member will ask for nothing more. Leaving twice is no error."""
        self._members.discard(member)


def _new_name(stem: str) -> str:
    # Services take no name twice, and an iteration that is repeated would use its own again.
    return f"{stem}-{uuid.uuid4().hex[:8]}"
