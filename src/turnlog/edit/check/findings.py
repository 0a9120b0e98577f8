"""What a check finds: a fault of a session, how bad it is, where, and what mends it."""

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """How bad a finding is; the worst comes first."""

    FATAL = "fatal"
    """The client refuses the session, or the API every request made from it."""
    LOSS = "loss"
    """The newest client (2.1.325) resumes the session without a part of the conversation."""
    OLD = "old"
    """Only older clients fail, or lose something."""
    NOTE = "note"
    """Good to know."""


ORDER = tuple(Severity)


class Finding(Struct, frozen=True):
    """One kind of fault in a session, at the first place that has it."""

    kind: str
    severity: Severity
    line: int | None
    message: str
    fix: str | None = None
    """The command that mends it; None for what cannot be mended."""
    count: int = 1
    """How many places have it."""

    @property
    def is_serious(self) -> bool:
        """Whether the session cannot be resumed as it is, or not in full."""
        return self.severity in (Severity.FATAL, Severity.LOSS)


def by_weight(finding: Finding) -> tuple[int, int, str]:
    """The order to show findings in: by severity, then line."""
    return ORDER.index(finding.severity), finding.line or 0, finding.kind
