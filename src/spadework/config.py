"""The configuration of a run: one tree of models. Reading and overriding it is `presets`' work.

Unknown keys are errors. Units are in the names: `_s` seconds, `_tokens` tokens, `_mb` mebibytes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, field_validator, model_validator
from pydantic_core import PydanticCustomError

from spadework.engines.settings import EndpointConfig as EndpointConfig
from spadework.engines.settings import EngineConfig as EngineConfig
from spadework.engines.settings import TinkerConfig as TinkerConfig
from spadework.engines.settings import VllmConfig as VllmConfig
from spadework.sandbox.limits import SandboxConfig
from spadework.sections import Positive, Section, Share, Temperature, changed

COGNITIVE_SKILLS = (
    "pattern recognition",
    "logical deduction",
    "mathematical reasoning",
    "spatial reasoning",
    "optimization",
    "causal inference",
)

TOOL_SKILLS = (
    "API orchestration",
    "data retrieval",
    "state modification",
    "error recovery",
    "tool selection",
    "multi-step workflows",
)
"""The skills of tool environments; `agent.action_format` is then `tool_call`."""


_OF_LOCAL_ADAPTERS = frozenset(("lora_alpha", "lora_targets", "lora_export", "adapter"))


class ModelConfig(Section):
    path: str = "seed"
    """A model directory that `from_pretrained` loads, a .gguf file, the id of a model on the Hugging Face hub
    (`org/name`), or `seed` for the model shipped in the package."""
    prompts: Literal["full", "seed"] = "full"
    """`full` for large models, `seed` for the short form that the seed model was started on."""
    max_context_tokens: Positive = 1024
    """Prompt and replies of one sequence never exceed this."""
    lora_rank: Annotated[int, Field(ge=0)] = 0
    """Rank of the LoRA adapter that is trained while the model's own weights stay; 0 trains all weights, where the
    engine can."""
    lora_alpha: Annotated[float, Field(gt=0)] = 32.0
    """An adapter's output is multiplied by `lora_alpha / lora_rank`."""
    lora_targets: tuple[str, ...] = ()
    """Names of the linear layers with adapters, such as `q_proj`; none: all but the output layer."""
    lora_export: Literal["merged", "adapter"] = "merged"
    """What a finished run writes: the whole model with the adapter added in, or the adapter alone."""
    adapter: str = ""
    """Directory of an adapter to start from; empty: a new one."""

    @model_validator(mode="after")
    def _adapted(self) -> ModelConfig:
        given = [name for name in changed(self) if name in _OF_LOCAL_ADAPTERS]
        if self.lora_rank == 0 and given:
            raise ValueError(
                f"model.{given[0]} has no effect while model.lora_rank is 0; set the rank of an adapter, or leave "
                f"model.{given[0]} out"
            )
        return self


class CorpusConfig(Section):
    source: str = "python:json,argparse,asyncio"
    """A folder of text or Markdown, a .jsonl or .parquet file, `python:NAME,…` (docs of installed modules), or `none`:
    the designer is then grounded in nothing."""
    text_field: str = "text"
    """Field that holds the text in JSONL and Parquet."""
    min_words: Positive = 30
    max_tokens: Positive = 6000
    """A document is cut to this many tokens of the model."""


class DesignerConfig(Section):
    temperature: Temperature = 1.0
    max_tokens: Positive = 16_384
    attempts: Positive = 5
    """Attempts per slot, each with a new document."""
    repair_turns: Annotated[int, Field(ge=0)] = 0
    """Further turns of one attempt that show the model why its program was rejected."""
    hint_temperature: Temperature = 1.0
    hint_max_tokens: Positive = 512
    hint_attempts: Positive = 3
    difficulty: Literal["easy", "medium", "hard"] = "medium"


Thinking = bool | Literal["low", "medium", "high"]
"""Off, on, or on with an effort."""


def in_words(thinking: Thinking) -> str:
    return thinking if isinstance(thinking, str) else "on" if thinking else "off"


class AgentConfig(Section):
    temperature: Temperature = 1.0
    action_format: Literal["boxed", "raw", "tool_call"] = "boxed"
    """`boxed`: the last balanced `\\boxed{…}` outside thinking is the action. `raw`: everything outside thinking is.
    `tool_call`: the reply makes calls as the model's chat template has them; programs are then tool environments."""
    train_malformed_calls: bool = True
    """Whether the tokens of a reply are trained in which a call could not be read."""
    thinking: Thinking = False
    """Applies to both arms. An effort is for models whose chat template knows efforts (gpt-oss)."""
    max_thinking_tokens: Annotated[int, Field(ge=0)] = 0
    """Thinking of a reply that is still open after so many sampled tokens is ended, and the answer follows within
    `agent.max_reply_tokens`; 0: thinking has no budget of its own."""
    max_turns: Positive = 25
    max_reply_tokens: Positive = 8192
    max_episode_tokens: Positive = 32_768
    returns: Literal["terminal", "best", "sum"] = "terminal"

    @field_validator("thinking", mode="wrap")
    @classmethod
    def _is_a_mode(cls, value: object, read: ValidatorFunctionWrapHandler) -> Thinking:
        try:
            mode: Thinking = read(value)
        except ValidationError:
            raise PydanticCustomError(
                "thinking_mode", 'Input should be true, false, or an effort: "low", "medium" or "high"'
            ) from None
        return mode

    @model_validator(mode="after")
    def _thinks_within_a_reply(self) -> AgentConfig:
        if self.max_thinking_tokens and not self.thinking:
            raise ValueError(
                "agent.max_thinking_tokens has no effect while agent.thinking is false; set agent.thinking, or leave "
                "agent.max_thinking_tokens out"
            )
        if self.max_thinking_tokens >= self.max_reply_tokens:
            raise ValueError(
                f"agent.max_thinking_tokens ({self.max_thinking_tokens}) leaves no room for an answer within "
                f"agent.max_reply_tokens ({self.max_reply_tokens}); lower the first or raise the second"
            )
        return self


class RolesConfig(Section):
    designer: Literal["self", "endpoint"] = "self"
    """Who writes programs: the model in training, or the frozen one at the endpoint, which is never trained."""
    hint_writer: Literal["self", "endpoint"] = "self"
    """Who writes hints. They are not trained on in either case."""


class CurriculumConfig(Section):
    environments: Positive = 24
    """Environments of a round."""
    plays: Positive = 16
    """Plays per environment, arm and iteration; the hinted arm plays in a round's first iteration only."""
    round_iterations: Positive = 4
    """k: iterations between designs, and the delay of the designer's samples."""
    skills: tuple[str, ...] = COGNITIVE_SKILLS
    skills_per_round: Positive = 3

    @model_validator(mode="after")
    def _skills_fit(self) -> CurriculumConfig:
        if self.skills_per_round > len(self.skills):
            raise ValueError(
                f"curriculum.skills_per_round is {self.skills_per_round} but curriculum.skills has {len(self.skills)}; "
                f"use 1 to {len(self.skills)}"
            )
        if self.environments % self.skills_per_round:
            legal = self.skills_per_round * max(1, self.environments // self.skills_per_round)
            raise ValueError(
                f"curriculum.environments ({self.environments}) must be a multiple of curriculum.skills_per_round "
                f"({self.skills_per_round}); for example {legal}"
            )
        if self.plays < 2:
            raise ValueError("curriculum.plays must be at least 2: advantages compare plays of one environment")
        return self


class MemoryConfig(Section):
    enabled: bool = True
    positives: Annotated[int, Field(ge=0)] = 2
    negatives: Annotated[int, Field(ge=0)] = 1
    max_tokens: Positive = 4000
    """Token budget of everything that memory adds to a prompt."""
    candidates: Positive = 10
    """Positives are drawn from this many of the highest regret."""
    window_rounds: Positive = 25
    """Only environments of the last rounds are looked at."""


class DesignerRewardConfig(Section):
    kind: Literal["blend", "regret", "solve-rate", "learning-potential", "learning-progress", "variance"] = "blend"
    plateau_weight: Share = 0.6
    regret_weight: Share = 0.4
    regret_scale: Annotated[float, Field(gt=0)] = 0.15
    plateau_low: Share = 0.4
    plateau_high: Share = 0.6
    plateau_ramp: Annotated[float, Field(gt=0)] = 0.25
    fast_rate: Share = 0.98
    slow_rate: Share = 0.85
    invalid: float | None = -0.25
    """What an invalid attempt earns; `none` drops invalid attempts, as the paper does."""

    @model_validator(mode="after")
    def _ordered(self) -> DesignerRewardConfig:
        if self.plateau_low > self.plateau_high:
            raise ValueError("designer_reward.plateau_low must not exceed designer_reward.plateau_high")
        if self.slow_rate >= self.fast_rate:
            raise ValueError("designer_reward.slow_rate must be below designer_reward.fast_rate")
        return self


class LearningConfig(Section):
    learning_rate: Annotated[float, Field(gt=0)] = 1e-6
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    betas: tuple[Share, Share] = (0.9, 0.98)
    max_grad_norm: Annotated[float | None, Field(gt=0)] = 1.0
    minibatches: Annotated[int, Field(ge=2)] = 2
    """Optimiser steps per iteration; with one the clip could never act."""
    agent_weight: Annotated[float, Field(ge=0)] = 1.0
    designer_weight: Annotated[float, Field(ge=0)] = 1.0
    normalise_agent: bool = True
    """Divide agent advantages by the standard deviation within an environment."""
    clip_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.28
    tis_cap: Annotated[float, Field(gt=0)] = 2.0
    kl_coefficient: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the KL divergence to the starting policy."""


class GatesConfig(Section):
    seeds: Annotated[int, Field(ge=2)] = 4
    """Seeds that a program is tried on."""
    max_source_chars: Positive = 60_000
    trivial_threshold: Share = 0.34
    """A scripted agent that knows nothing must earn less than this on average."""
    instance_seeds: Annotated[int, Field(ge=2)] = 100
    """Seeds on which the instances of a program are counted."""
    min_instances: Annotated[int, Field(ge=2)] = 8
    """Programs with fewer different instances on those seeds fail `determinism`."""
    random_plays: Positive = 4
    """Plays per seed of each scripted agent that draws at random."""
    similarity_threshold: Share = 0.95
    """Programs at least this similar to one of the pool are not novel. Copies of the worked example in the designer's
    prompt never are, from 0.8 on."""
    require_solution: bool = True
    """Programs without `solution()` fail `solvable`."""
    distractors: Annotated[int, Field(ge=0)] = 1
    """Tools of a tool environment that its solutions must do without, at least."""
    judge: Literal["off", "self", "endpoint"] = "off"
    """Which model reads each program that passed all other gates and says whether it can be won; `off` asks nobody."""
    judge_temperature: Annotated[float, Field(ge=0.0, le=2.0)] = 0.0
    judge_max_tokens: Positive = 4096

    @model_validator(mode="after")
    def _countable(self) -> GatesConfig:
        if self.min_instances > self.instance_seeds:
            raise ValueError(
                f"gates.min_instances ({self.min_instances}) must be at most gates.instance_seeds "
                f"({self.instance_seeds}), on which instances are counted"
            )
        return self


class EvaluationConfig(Section):
    every: Annotated[int, Field(ge=0)] = 0
    """Iterations between held-out evaluations; they always run before the first and after the last."""
    items: Annotated[int, Field(ge=0)] = 0
    """Held-out items per family; 0 takes all."""
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0
    bootstrap_samples: Positive = 2000


class CheckpointConfig(Section):
    every: Positive = 1
    """Iterations between checkpoints."""
    keep: Positive = 2


class Config(Section):
    """A run. `seed` names every random draw in it."""

    seed: int = 0
    iterations: Positive = 400
    model: ModelConfig = ModelConfig()
    engine: EngineConfig = EngineConfig()
    corpus: CorpusConfig = CorpusConfig()
    roles: RolesConfig = RolesConfig()
    endpoint: EndpointConfig = EndpointConfig()
    designer: DesignerConfig = DesignerConfig()
    agent: AgentConfig = AgentConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    memory: MemoryConfig = MemoryConfig()
    designer_reward: DesignerRewardConfig = DesignerRewardConfig()
    learning: LearningConfig = LearningConfig()
    gates: GatesConfig = GatesConfig()
    sandbox: SandboxConfig = SandboxConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()

    @model_validator(mode="after")
    def _measurable(self) -> Config:
        if self.designer_reward.kind == "learning-progress" and self.curriculum.round_iterations < 2:
            raise ValueError(
                'designer_reward.kind "learning-progress" compares the iterations of a round, so '
                f"curriculum.round_iterations ({self.curriculum.round_iterations}) must be at least 2"
            )
        return self

    @model_validator(mode="after")
    def _skills_of_the_format(self) -> Config:
        uses_tools = self.agent.action_format == "tool_call"
        foreign = set(self.curriculum.skills) & set(COGNITIVE_SKILLS if uses_tools else TOOL_SKILLS)
        if foreign:
            kind, others = ("tool environments", "games") if uses_tools else ("games", "tool environments")
            raise ValueError(
                f'agent.action_format "{self.agent.action_format}" makes programs {kind}, and "{min(foreign)}" in '
                f"curriculum.skills is a skill of {others}; name skills of {kind}"
            )
        return self

    @model_validator(mode="after")
    def _somebody_is_asked(self) -> Config:
        given = changed(self.endpoint)
        if given and not self.endpoint.base_url and not self.endpoint_users:
            raise ValueError(f"endpoint.{given[0]} has no effect without endpoint.base_url; set that, or leave it out")
        judged = [name for name in changed(self.gates) if name.startswith("judge_")]
        if judged and self.gates.judge == "off":
            raise ValueError(f"gates.{judged[0]} has no effect while gates.judge is off; leave it out")
        return self

    @model_validator(mode="after")
    def _adapter_of_the_engine(self) -> Config:
        if self.engine.kind == "tinker":
            given = [name for name in changed(self.model) if name in _OF_LOCAL_ADAPTERS]
            if given:
                raise ValueError(
                    f'model.{given[0]} has no effect with engine.kind "tinker", whose service makes the adapter; leave '
                    "it out"
                )
        if self.engine.sampler == "vllm" and self.model.lora_rank == 0:
            raise ValueError(
                'engine.sampler "vllm" is given adapters, and model.lora_rank 0 trains all weights; set the rank of '
                'an adapter, 32 for example, or engine.sampler "local"'
            )
        return self

    @property
    def endpoint_users(self) -> tuple[str, ...]:
        """The settings that send something to the endpoint."""
        users = {
            "roles.designer": self.roles.designer,
            "roles.hint_writer": self.roles.hint_writer,
            "gates.judge": self.gates.judge,
        }
        return tuple(name for name, who in users.items() if who == "endpoint")

    @model_validator(mode="after")
    def _endpoint_is_there(self) -> Config:
        missing = [name for name in ("base_url", "model") if not getattr(self.endpoint, name)]
        if self.endpoint_users and missing:
            raise ValueError(
                f'{self.endpoint_users[0]} is "endpoint" but endpoint.{missing[0]} is not set; '
                'set endpoint.base_url and endpoint.model, or let the role be "self"'
            )
        return self
