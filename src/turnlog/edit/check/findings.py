"""Findings of a check: a fault, its severity, its position, and the command that fixes it."""

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """Severity of a finding; the worst comes first."""

    FATAL = "fatal"
    """The client refuses the session, or the API refuses every request made from it."""
    LOSS = "loss"
    """The newest client (2.1.325) resumes the session without part of the conversation."""
    OLD = "old"
    """Only older clients fail or lose something."""
    NOTE = "note"
    """For information."""


ORDER = tuple(Severity)


class Finding(Struct, frozen=True):
    """One kind of fault in a session, at its first occurrence."""

    kind: str
    severity: Severity
    line: int | None
    message: str
    fix: str | None = None
    """The command that fixes it; None if nothing does."""
    count: int = 1
    """Number of occurrences."""
    lost: int = 0
    """Messages that the client omits because of it."""
    messages: int = 0
    """Messages that it would send otherwise, if any are lost."""

    @property
    def is_serious(self) -> bool:
        """True if the session cannot be resumed, or not in full."""
        return self.severity in (Severity.FATAL, Severity.LOSS)


def by_weight(finding: Finding) -> tuple[int, int, int, str]:
    """Return the sort key of a finding: severity, then lost messages, then line."""
    return ORDER.index(finding.severity), -finding.lost, finding.line or 0, finding.kind
