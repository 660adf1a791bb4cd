"""The hack audit: attacks on programs that the gates let through, and whether their plays can be repeated."""

from spadework.environment.audit.attack import Attacked, AttackKind
from spadework.environment.audit.program import AuditReport, audit_program
from spadework.environment.audit.replay import ActionLog

__all__ = ["ActionLog", "AttackKind", "Attacked", "AuditReport", "audit_program"]
