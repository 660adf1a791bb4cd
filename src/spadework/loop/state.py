"""What the loop carries from one iteration to the next besides weights and pool; all of it is in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spadework.curriculum.averages import SkillAverages
from spadework.curriculum.corpus import Corpus, CorpusCursor
from spadework.curriculum.documents import CorpusError
from spadework.learning.delay import DelayBuffer


@dataclass
class LoopState:
    """``waiting`` holds the designer's samples until their window is over; ``averages`` serve one of the rewards."""

    waiting: DelayBuffer
    cursor: CorpusCursor = field(default_factory=CorpusCursor)
    averages: SkillAverages = field(default_factory=SkillAverages)

    def to_json(self, corpus: Corpus) -> dict[str, Any]:
        return {
            "corpus": corpus.fingerprint,
            "cursor": {"epoch": self.cursor.epoch, "position": self.cursor.position},
            "averages": self.averages.to_json(),
            "waiting": self.waiting.state(),
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any], corpus: Corpus) -> LoopState:
        """Raises CorpusError if the corpus is not that of the run's start: its cursor means nothing in another."""
        if state["corpus"] != corpus.fingerprint:
            raise CorpusError(
                f"the corpus {corpus.name} has changed since the run began; give it back as it was, or start a new run"
            )
        return cls(
            waiting=DelayBuffer.from_state(state["waiting"]),
            cursor=CorpusCursor(**state["cursor"]),
            averages=SkillAverages.from_json(state["averages"]),
        )
