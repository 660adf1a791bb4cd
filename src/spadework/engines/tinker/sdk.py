"""The only module that knows the client library `tinker`. Its objects and errors do not leave it.

SkyRL 0.4.0 answers tinker 0.25.0 and no other version: move both together.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import tinker
from tinker import types
from tinker.lib.retryable_exception import RetryableException

from spadework.config import TinkerConfig
from spadework.engines.base import EngineFault
from spadework.engines.pulse import Pulse, ServerGone, in_thread
from spadework.engines.tinker.service import Adam, Clip, Example, Logprobs, Reply

Result = TypeVar("Result")

HOSTED_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"
KEY = "TINKER_API_KEY"
NO_KEY = "tml-none"
"""What the library is given for a server of one's own, which asks for no key."""
LOOK_TIMEOUT_S = 10.0
DOWNLOAD_TIMEOUT_S = 600.0

_DETAIL = re.compile(r"""['"]detail['"]: (['"])(.+?)\1\}""", re.DOTALL)

_FAULTS = (tinker.TinkerError, RetryableException, httpx.HTTPError, OSError, ValueError, AssertionError)
"""What the library raises when a server refuses, fails or speaks another version of the protocol."""


class TinkerService:
    """`service.Service` by the client library; `open` is the way to make one."""

    def __init__(self, config: TinkerConfig, *, takes_mask: bool) -> None:
        self.url = (config.base_url or HOSTED_URL).rstrip("/")
        self.takes_mask = takes_mask
        self._is_ours = config.backend != "hosted"
        key = os.environ.get(KEY, "")
        if not key and self._is_ours:
            key = NO_KEY
        if not key:
            raise EngineFault(f"the hosted service needs a key: set the environment variable {KEY} to yours")
        if not key.startswith(("tml-", "eyJ")):
            raise EngineFault(f"the key in the environment variable {KEY} does not start with tml-; set it to yours")
        self._key, self._patience_s = key, config.patience_s
        self._pulse = Pulse(self.is_there, patience_s=config.patience_s, answer_timeout_s=config.answer_timeout_s)
        self._client: Any = None
        self._base: Any = None

    @classmethod
    def open(cls, config: TinkerConfig, *, takes_mask: bool) -> TinkerService:
        """Connect. Raises EngineFault for a server that cannot be reached, or no key where one is needed."""
        service = cls(config, takes_mask=takes_mask)
        service.require_answer()
        service._client = tinker.ServiceClient(base_url=service.url, api_key=service._key)
        return service

    def require_answer(self, timeout_s: float = LOOK_TIMEOUT_S) -> None:
        """Raises EngineFault if nothing answers; no key is sent."""
        try:
            self._look(timeout_s)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise EngineFault(
                f"no server answers at {self.url} ({reason}); start it, or set engine.tinker.base_url to its address"
            ) from error

    def is_there(self) -> bool:
        try:
            self._look()
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _look(self, timeout_s: float = LOOK_TIMEOUT_S) -> None:
        """Raises OSError or HTTPException if nothing answers; a refusal is an answer."""
        try:
            urllib.request.urlopen(f"{self.url}/api/v1/healthz", timeout=timeout_s).close()
        except urllib.error.HTTPError as error:
            error.close()

    def models(self) -> tuple[str, ...]:
        async def ask() -> Any:
            return await self._blocking(self._client.get_server_capabilities, "the names of its models")

        # In a thread of its own, because engines are opened inside of event loops as well.
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(asyncio.run, ask()).result()
        return tuple(model.model_name for model in found.supported_models if model.model_name is not None)

    async def create(self, base_model: str, rank: int, seed: int) -> TinkerTrainer:
        what = f"a model of rank {rank} on {base_model}"
        return TinkerTrainer(
            self,
            await self._blocking(
                lambda: self._client.create_lora_training_client(base_model=base_model, rank=rank, seed=seed), what
            ),
        )

    async def open_state(self, path: str) -> TinkerTrainer:
        opened = await self._blocking(
            lambda: self._client.create_training_client_from_state_with_optimizer(path), f"the state {path}"
        )
        return TinkerTrainer(self, opened)

    async def base_logprobs(self, base_model: str, token_ids_T: Sequence[int]) -> tuple[float | None, ...]:
        if self._base is None:
            self._base = await self._blocking(
                lambda: self._client.create_sampling_client(base_model=base_model), f"the base model {base_model}"
            )
        prompt = types.ModelInput.from_ints(list(token_ids_T))
        return tuple(
            await self.answer(self._base.compute_logprobs_async(prompt), "log-probabilities of the base model")
        )

    async def download(self, path: str, archive: Path) -> None:
        run, _, name = path.removeprefix("tinker://").partition("/")
        name = name.removeprefix("sampler_weights/")
        if self._is_ours:
            # The library's way to the archive is refused by SkyRL, which has one of its own.
            url = f"{self.url}/api/v1/training_runs/{run}/checkpoints/{name}/download"
        else:
            rest = await self._blocking(self._client.create_rest_client, "its files")
            asked = rest.get_checkpoint_archive_url_from_tinker_path_async(path)
            url = (await self.answer(asked, f"the weights {path}")).url
        try:
            await in_thread(lambda: _fetch(url, archive))
        except OSError as error:
            raise EngineFault(f"the weights {path} could not be fetched from {self.url}: {error}") from error

    async def delete(self, path: str) -> None:
        rest = await self._blocking(self._client.create_rest_client, "its files")
        await self.answer(rest.delete_checkpoint_from_tinker_path_async(path), f"the removal of {path}")

    async def answer(self, answer: Awaitable[Result], what: str) -> Result:
        """Wait for the service. Raises EngineFault, which names ``what`` was asked for."""
        try:
            return await self._pulse.guard(answer)
        except ServerGone:
            raise EngineFault(
                f"the server at {self.url} could not be reached for {self._patience_s:g} s while it was asked for "
                f"{what}; see why it ended, start it again and give the same command to continue from the last "
                "checkpoint"
            ) from None
        except _FAULTS as error:
            raise EngineFault(self._sentence(error, what)) from error

    async def _blocking(self, work: Callable[[], Result], what: str) -> Result:
        """Calls of the library that block their thread."""
        return await self.answer(in_thread(work), what)

    def _sentence(self, error: BaseException, what: str) -> str:
        said = _said(error)
        if isinstance(error, tinker.AuthenticationError | tinker.PermissionDeniedError):
            return f"the service at {self.url} refused the key in {KEY} ({said}); set the variable to a key of yours"
        if "number of LoRA adapters" in said:
            return (
                f"the server at {self.url} has no free adapter ({said}); end other runs or wait until their sessions "
                "time out, or start the server with more in max_lora_adapters (one of which it keeps for itself)"
            )
        if isinstance(error, AssertionError) or "only supports as proto" in said:
            return (
                f"the server at {self.url} speaks another version of the protocol ({said or type(error).__name__}); "
                "SkyRL 0.4.0 and tinker 0.25.0 belong together"
            )
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return (
                f"the server at {self.url} can be reached but gave no answer when asked for {what} "
                f"({said or 'time out'}); see its log, or raise engine.tinker.answer_timeout_s"
            )
        return (
            f"the service at {self.url} was asked for {what} and refused: {said}; "
            "see its log, and whether engine.tinker.backend names what it runs"
        )


class TinkerTrainer:
    """`service.Trainer` by the client library."""

    def __init__(self, service: TinkerService, client: Any) -> None:
        self._service, self._client = service, client

    def forward(self, examples: Sequence[Example]) -> Awaitable[list[Logprobs]]:
        data = [_datum(example, mask=True, surrogate=False) for example in examples]
        return self._logprobs(self._client.forward(data, "cross_entropy"), "log-probabilities")

    def forward_backward(self, examples: Sequence[Example], clip: Clip) -> Awaitable[list[Logprobs]]:
        data = [_datum(example, mask=self._service.takes_mask, surrogate=True) for example in examples]
        bounds = {"clip_low_threshold": clip.low_threshold, "clip_high_threshold": clip.high_threshold}
        return self._logprobs(self._client.forward_backward(data, "ppo", loss_fn_config=bounds), "a gradient")

    def step(self, adam: Adam) -> Awaitable[float | None]:
        params = types.AdamParams(
            learning_rate=adam.learning_rate,
            beta1=adam.beta1,
            beta2=adam.beta2,
            eps=adam.eps,
            weight_decay=adam.weight_decay,
            grad_clip_norm=adam.max_grad_norm,
        )
        return self._norm(self._client.optim_step(params))

    async def sampler(self) -> TinkerSampler:
        what = "a sampler of the present weights"
        # The asynchronous twin of this call blocks the loop that it is awaited in.
        client = await self._service._blocking(self._client.save_weights_and_get_sampling_client, what)
        return TinkerSampler(self._service, client)

    async def save_state(self, name: str) -> str:
        saved = await self._service.answer(self._client.save_state(name), f"the saving of {name}")
        return str(saved.path)

    async def save_weights(self, name: str) -> str:
        saved = await self._service.answer(self._client.save_weights_for_sampler(name), f"the saving of {name}")
        return str(saved.path)

    async def _logprobs(self, submitted: Awaitable[Any], what: str) -> list[Logprobs]:
        outputs = (await self._service.answer(submitted, what)).loss_fn_outputs
        return [tuple(float(value) for value in output["logprobs"].data) for output in outputs]

    async def _norm(self, submitted: Awaitable[Any]) -> float | None:
        metrics = (await self._service.answer(submitted, "an optimiser step")).metrics or {}
        found = [value for name, value in metrics.items() if "grad_norm" in name]
        return float(found[0]) if found else None


class TinkerSampler:
    """`service.Sampler` by the client library."""

    def __init__(self, service: TinkerService, client: Any) -> None:
        self._service, self._client = service, client

    async def sample(
        self, prompt_ids: Sequence[int], max_tokens: int, stop_ids: Sequence[int], seed: int, temperature: float
    ) -> Reply:
        params = types.SamplingParams(
            max_tokens=max_tokens, stop=list(stop_ids), seed=seed, temperature=temperature, top_p=1.0, top_k=-1
        )
        prompt = types.ModelInput.from_ints(list(prompt_ids))
        what = f"a reply of up to {max_tokens} tokens to a prompt of {len(prompt_ids)}"
        answer = await self._service.answer(self._client.sample_async(prompt, 1, params), what)
        (sequence,) = answer.sequences
        return Reply(tuple(sequence.tokens), tuple(sequence.logprobs or ()), sequence.stop_reason == "stop")


def _datum(example: Example, *, mask: bool, surrogate: bool) -> Any:
    inputs: dict[str, Any] = {"target_tokens": list(example.targets_I)}
    if surrogate:
        inputs |= {"logprobs": list(example.logprobs_I), "advantages": list(example.advantages_I)}
    if mask:
        inputs["weights"] = list(example.mask_I)
    return types.Datum(model_input=types.ModelInput.from_ints(list(example.inputs_I)), loss_fn_inputs=inputs)


def _fetch(url: str, archive: Path) -> None:
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as response, archive.open("wb") as file:
        shutil.copyfileobj(response, file)


def _said(error: BaseException) -> str:
    """What the server said, without what it and the library wrap it in."""
    text = str(getattr(error, "message", "") or error).strip()
    detail = _DETAIL.search(text)
    if detail is not None:
        return detail[2]
    text = text.partition(" for self.request_id=")[0].removeprefix("Request failed: ")
    return text.splitlines()[0] if text else ""
