"""What a program may use. Every limit is set on its own; the defaults suit text games.

A time limit counts the time a program had: time that its process spent waiting for a busy CPU is not held
against it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from spadework.sandbox.address import RayAddress, parse_address
from spadework.sandbox.layers import LayerName

Seconds = Annotated[float, Field(gt=0.0, le=86_400.0)]
Count = Annotated[int, Field(gt=0)]


class Limits(BaseModel):
    """Limits of one program's process and of what it may answer."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    load_timeout_s: Seconds = 5.0
    """Imports, module level and one construction."""
    reset_timeout_s: Seconds = 2.0
    """One `reset` or `solution`, with the module level and the constructor that precede a reset."""
    step_timeout_s: Seconds = 1.0
    episode_timeout_s: Seconds = 60.0
    """Everything that one play runs, added up."""
    memory_mb: Annotated[int, Field(ge=96)] = 512
    """Address space of one process; an interpreter with its preloaded modules takes about 50 of it."""
    total_memory_mb: Annotated[int, Field(ge=96)] = 1_000_000
    """Memory of all programs together, where the layer `control-group` is in force; never more than three quarters of
    the machine's."""
    cpu_s: Count = 3600
    """CPU time of one process over its whole life: a backstop behind the other time limits."""
    max_source_chars: Count = 400_000
    max_observation_chars: Count = 20_000
    max_info_chars: Count = 20_000
    """Characters of one `info`, counting 8 for each number or container."""
    max_open_files: Annotated[int, Field(ge=8)] = 16
    max_processes: Annotated[int, Field(ge=0)] = 0
    """Resource limit on processes and threads, behind the system-call filter, which allows none."""
    max_file_bytes: Annotated[int, Field(ge=0)] = 0
    """Resource limit on the size of a written file, behind the filter, which allows none."""
    episodes_per_process: Count = 64
    """Plays of one program that share a process; more plays at once start further processes."""
    max_kills: Count = 3
    """A program whose process had to be ended this often is quarantined: every further call fails at once."""
    isolation: Literal["strict", "best-effort"] | tuple[LayerName, ...] = "strict"
    """Whatever the kernel offers is put in force; this says below what programs are refused. `strict`: without
    `seccomp`. `best-effort`: never. A list: without one of the layers that it names (`spadework doctor` shows them)."""

    @field_validator("isolation", mode="wrap")
    @classmethod
    def _one_sentence(cls, value: object, validate: ValidatorFunctionWrapHandler) -> object:
        """The three forms are refused together, and a list that asks for nothing."""
        try:
            isolation: object = validate(value)
        except ValidationError:
            isolation = ()
        if isolation == ():
            raise ValueError(
                f"sandbox.isolation is {value!r}; it should be 'strict', 'best-effort' or a list of layers, of which "
                f"there are {', '.join(LayerName)}"
            )
        return isolation

    def required_layers(self) -> frozenset[LayerName]:
        """Those without which programs are refused."""
        if isinstance(self.isolation, tuple):
            return frozenset(self.isolation)
        return frozenset({LayerName.SECCOMP}) if self.isolation == "strict" else frozenset()


class SandboxConfig(Limits):
    """Limits, and where the programs run that they hold for."""

    address: str = ""
    """Where programs run: `tcp://HOST:PORT` or `unix:PATH` of `spadework sandbox serve`; `ray` for the nodes of the
    cluster that Ray finds, or starts on this machine; `ray://HOST:PORT` for those behind a Ray Client server; empty for
    this machine."""
    actors: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Ray actors that programs are spread over, each with one CPU of the cluster; 0 for one on every node."""

    @field_validator("address")
    @classmethod
    def _readable(cls, address: str) -> str:
        if address:
            try:
                parse_address(address)
            except ValueError as error:
                raise ValueError(f"sandbox.address: {error}, or empty for this machine") from None
        return address

    @model_validator(mode="after")
    def _actors_are_of_ray(self) -> Self:
        if self.actors and not (self.address and isinstance(parse_address(self.address), RayAddress)):
            raise ValueError(
                f"sandbox.actors is {self.actors} and programs do not run on Ray; set sandbox.address to 'ray', or "
                "leave sandbox.actors out"
            )
        return self
