"""Untrusted programs run here and only here."""

from spadework.sandbox.limits import Limits
from spadework.sandbox.outcomes import EnvironmentFault, FaultKind, InfrastructureFault, Outcome, Transition

__all__ = ["EnvironmentFault", "FaultKind", "InfrastructureFault", "Limits", "Outcome", "Transition"]
