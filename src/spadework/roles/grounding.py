"""What an attempt is grounded in: the next document of the corpus and a draw from the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spadework.config import MemoryConfig
from spadework.curriculum.corpus import Corpus, CorpusCursor, draw, truncate
from spadework.curriculum.documents import Document
from spadework.curriculum.memory import Memory, select_memory
from spadework.roles.rendering import Rendering
from spadework.store.reader import PoolReader


@dataclass(frozen=True)
class Grounding:
    """Documents are cut to ``max_document_tokens`` of the model's tokens."""

    corpus: Corpus
    pool: PoolReader
    memory: MemoryConfig
    max_document_tokens: int

    def next_document(self, run_seed: int, cursor: CorpusCursor, rendering: Rendering) -> tuple[Document, CorpusCursor]:
        """The document at ``cursor`` as it will be shown. Raises CorpusError if it can no longer be read."""
        document, after = draw(self.corpus, run_seed, cursor)
        text, _ = truncate(document.text, self.max_document_tokens, rendering.tokenizer)
        return replace(document, text=text), after

    def recall(self, skill: str, round_: int, slot: int, attempt: int, run_seed: int, rendering: Rendering) -> Memory:
        """The memory of one attempt, sized in the model's tokens."""
        return select_memory(
            self.pool, skill, round_, self.memory, run_seed, slot, attempt, lambda text: len(rendering.encode(text))
        )
