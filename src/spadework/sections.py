"""What all sections of the configuration have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[int, Field(gt=0)]
Temperature = Annotated[float, Field(gt=0.0, le=2.0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def changed(section: Section) -> list[str]:
    """Settings that are not at their default."""
    fields = type(section).model_fields
    return [name for name in fields if getattr(section, name) != fields[name].default]
