"""The sections of the configuration that say what models run on, and which served model may be asked."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from spadework.sections import Positive, Section, changed

CPU_TRAIN_TOKENS, GPU_TRAIN_TOKENS = 2_048, 16_384
"""On a CPU larger micro-batches take more memory and no less time."""
MISMATCHES = {"float32": 1e-3, "bfloat16": 0.1}
"""Mean difference of log-probabilities that two programs of one precision may have and not more."""


class TinkerConfig(Section):
    """A service that speaks the Tinker API. Its key is in the environment variable TINKER_API_KEY and nowhere else."""

    backend: Literal["hosted", "skyrl-jax", "skyrl-fsdp", "skyrl-megatron"] = "hosted"
    """What answers: the hosted service, or SkyRL's own server with one of its backends; they differ in what they do."""
    base_url: str | None = None
    """Address of the server, such as `http://127.0.0.1:8000`; `none` is the hosted service's."""
    model: str = ""
    """The base model as the service calls it. `model.path` holds its tokenizer and `config.json`."""
    patience_s: Annotated[float, Field(gt=0)] = 60.0
    """A server that cannot be reached for so long is given up; the run can be continued."""
    answer_timeout_s: Annotated[float, Field(gt=0)] = 3600.0
    """Longest wait for one answer of a server that can be reached."""

    @model_validator(mode="after")
    def _has_no_key(self) -> TinkerConfig:
        if self.base_url is not None and (
            "@" in self.base_url or not self.base_url.startswith(("http://", "https://"))
        ):
            raise ValueError(
                "engine.tinker.base_url must start with http:// or https:// and hold no password; "
                "the key belongs into the environment variable TINKER_API_KEY"
            )
        return self


class VllmConfig(Section):
    """A vLLM server that samples from the adapter in training (`docs/vllm.md`)."""

    base_url: str = "http://127.0.0.1:8000"
    """Address of the server, without the `/v1` of its paths."""
    model: str = ""
    """The base model as the server calls it: its `--served-model-name`, or its `--model`."""
    adapter_dir: str = ""
    """Directory that the server sees at the same path; adapters are put there to be loaded. Empty: the temporary
    directory of this machine."""
    key_variable: str = ""
    """Name of the environment variable that holds the key; without a name no key is sent."""
    concurrency: Positive = 256
    """Requests under way at once."""
    max_mismatch: Annotated[float, Field(ge=0)] = 0.0
    """Largest mean difference of log-probabilities between the server and this process, in a reply that is sampled and
    scored whenever an adapter was loaded; above it the run ends. 0 takes 0.001 if this process computes in float32 and
    0.1 in bfloat16; set 0.1 for a server in bfloat16 and a float32 trainer."""
    patience_s: Annotated[float, Field(gt=0)] = 60.0
    """A server that cannot be reached, or fails, for so long is given up; the run can be continued."""
    answer_timeout_s: Annotated[float, Field(gt=0)] = 3600.0
    """Longest wait for one answer of a server that can be reached."""

    @model_validator(mode="after")
    def _is_an_address(self) -> VllmConfig:
        if not self.base_url.startswith(("http://", "https://")) or "@" in self.base_url:
            raise ValueError(
                "engine.vllm.base_url must start with http:// or https:// and hold no password; the key belongs into "
                "an environment variable, and its name into engine.vllm.key_variable"
            )
        if self.base_url.rstrip("/").endswith("/v1"):
            raise ValueError("engine.vllm.base_url must not end in /v1, which is added to it; leave that out")
        try:
            urlsplit(self.base_url).port  # noqa: B018 (it raises)
        except ValueError as error:
            raise ValueError(f"engine.vllm.base_url {self.base_url} is no address ({error}); correct it") from error
        return self

    def max_mismatch_in(self, precision: str) -> float:
        """`max_mismatch`, or what 0 comes to for a trainer's precision: `float32` or `bfloat16`."""
        return self.max_mismatch or MISMATCHES[precision]


class EngineConfig(Section):
    kind: Literal["local", "tinker"] = "local"
    sampler: Literal["local", "vllm"] = "local"
    """What samples for the local engine: itself, or a vLLM server that is given each new adapter."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Of the local engine; `auto` takes a GPU if there is one."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of weights and activations; `auto` is bfloat16 on CUDA and float32 elsewhere. The optimiser's copy of what is
    trained, and its moments, are always float32."""
    sample_batch: Positive = 512
    """Rows decoded at once by the local engine; more rows wait, in a fixed order."""
    train_tokens: Annotated[int, Field(ge=0)] = 0
    """Token budget of one micro-batch of the local engine's update; 0 takes 2048 on the CPU and 16384 on a GPU."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, about a quarter more time of the update."""
    threads: Annotated[int, Field(ge=0)] = 0
    """CPU threads of the local engine; 0 takes every core that the process may use."""
    tinker: TinkerConfig = TinkerConfig()
    vllm: VllmConfig = VllmConfig()

    def train_tokens_on(self, device: str) -> int:
        """`train_tokens`, or what 0 comes to on a device: `cpu`, `cuda` or `mps`."""
        return self.train_tokens or (CPU_TRAIN_TOKENS if device == "cpu" else GPU_TRAIN_TOKENS)

    @model_validator(mode="after")
    def _of_its_kind(self) -> EngineConfig:
        if self.kind == "local":
            others = [f"tinker.{name}" for name in changed(self.tinker)]
        else:
            others = [name for name in changed(self) if name not in ("kind", "tinker")]
        if others:
            raise ValueError(
                f'engine.{others[0]} has no effect with engine.kind "{self.kind}"; leave it out or change engine.kind'
            )
        return self

    @model_validator(mode="after")
    def _of_its_sampler(self) -> EngineConfig:
        given = [f"vllm.{name}" for name in changed(self.vllm)]
        others = [name for name in changed(self) if name == "sample_batch"] if self.sampler == "vllm" else given
        if others:
            raise ValueError(
                f'engine.{others[0]} has no effect with engine.sampler "{self.sampler}"; leave it out or change '
                "engine.sampler"
            )
        if self.sampler == "vllm" and not self.vllm.model:
            raise ValueError("engine.vllm.model is empty; set it to the name that the server has for the base model")
        return self


class EndpointConfig(Section):
    base_url: str = ""
    """Of a server of OpenAI-compatible chat completions, for example `https://api.openai.com/v1`."""
    model: str = ""
    """The name that the server knows the model by."""
    key_variable: str = ""
    """Name of the environment variable that holds the key; without a name no key is sent."""
    prompts: Literal["full", "seed"] = "full"
    """What the model at the endpoint is told; see `model.prompts`."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The field of a request that limits the reply; some models take the second name only."""
    send_seed: bool = True
    """Whether requests hold a seed, for servers that sample with it; some refuse the field."""
    concurrency: Positive = 16
    """Requests under way at once."""
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    """Requests are spaced evenly to be no more than this; 0 sets no limit."""
    retries: Annotated[int, Field(ge=0)] = 6
    """Further tries of a request that failed for the moment, with waits of 1 s, 2 s, 4 s and so on, at most 60 s."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """One try of one request, from its start to the end of its reply."""
    price_per_million_input: Annotated[float, Field(ge=0)] = 0.0
    """What a million tokens of prompts cost, in any currency."""
    price_per_million_output: Annotated[float, Field(ge=0)] = 0.0
    """What a million tokens of replies cost, in the same currency."""
    budget: Annotated[float | None, Field(gt=0)] = None
    """Most that the run may spend at the endpoint, in that currency; it then stops and can be continued with more."""
    budget_tokens: Annotated[int | None, Field(gt=0)] = None
    """Most tokens that the run may use at the endpoint, prompts and replies together."""

    @model_validator(mode="after")
    def _reachable(self) -> EndpointConfig:
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"endpoint.base_url is {self.base_url!r}; it must begin with https:// or http://")
        if "@" in self.base_url:
            raise ValueError(
                "endpoint.base_url must hold no user or password; put the key into an environment variable, and its "
                "name into endpoint.key_variable"
            )
        if self.budget is not None and not (self.price_per_million_input or self.price_per_million_output):
            raise ValueError(
                "endpoint.budget needs prices: set endpoint.price_per_million_input and "
                "endpoint.price_per_million_output, or limit endpoint.budget_tokens instead"
            )
        return self
