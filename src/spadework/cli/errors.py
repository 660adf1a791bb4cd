"""Which errors are expected: those whose message is a sentence for the person at the terminal.

They are known by name, so that looking at an error imports nothing. Any other exception is a fault of spadework and
shows its traceback.
"""

from __future__ import annotations

REFUSED = 2
"""Exit status of a command that was not carried out."""

EXPECTED = frozenset(
    {
        "spadework.analysis.style.PlotsUnavailable",
        "spadework.cli.errors.Refused",
        "spadework.curriculum.documents.CorpusError",
        "spadework.engines.base.EngineFault",
        "spadework.engines.chat.BudgetSpent",
        "spadework.engines.chat.EndpointError",
        "spadework.engines.local.adapter.AdapterUnusable",
        "spadework.engines.local.checkpoint.CheckpointUnusable",
        "spadework.engines.local.gguf.GgufUnusable",
        "spadework.engines.local.hub.NotFetched",
        "spadework.engines.local.memory.OutOfMemory",
        "spadework.engines.local.model.ModelUnusable",
        "spadework.engines.local.placement.DeviceUnavailable",
        "spadework.engines.open.MissingExtra",
        "spadework.evaluation.items.ItemsUnusable",
        "spadework.presets.ConfigError",
        "spadework.roles.rendering.RenderingRefused",
        "spadework.sandbox.outcomes.InfrastructureFault",
        "spadework.seedmodel.shipped.SeedModelMissing",
        "spadework.store.errors.StoreError",
    }
)
"""Base classes count for what derives from them."""


class Refused(Exception):
    """A command cannot do what it was asked to; one sentence that names the thing and the remedy."""


def sentence_of(error: BaseException) -> str | None:
    """What to tell a person about ``error``; None if it was not expected."""
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    return str(error) if names & EXPECTED else None
