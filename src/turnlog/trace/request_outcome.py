"""What a backend did with a request, whichever protocol carried it."""

from enum import StrEnum

TOO_LARGE = 413
FOR_GOOD = frozenset({400, TOO_LARGE, 422})
"""Refusals of the spans themselves; others are mended by another key or address."""
FOR_NOW = frozenset({408, 425, 429})
"""Refusals that are not for good, beside those of 500 and above."""


class BatchOutcome(StrEnum):
    """What a backend did with a batch."""

    SENT = "sent"
    REFUSED = "refused"
    """It would refuse the same again."""
    LATER = "later"
    """It is not there, or busy: the same may succeed later."""


class Response:
    """The last answer of a backend, in HTTP's statuses."""

    status: int | None = None
    reason: str | None = None
    rejected = 0
    """How many spans it says that it did not take."""
    has_timed_out = False
    """Whether it took the request and did not answer in time."""

    def forget(self) -> None:
        """Start anew, before a request."""
        self.status, self.reason = None, None
        self.rejected, self.has_timed_out = 0, False

    @property
    def verdict(self) -> BatchOutcome:
        if self.status is None or self.status in FOR_NOW or self.status >= 500:
            return BatchOutcome.LATER
        is_taken = 200 <= self.status < 300 and not self.rejected
        return BatchOutcome.SENT if is_taken else BatchOutcome.REFUSED

    @property
    def is_for_good(self) -> bool:
        """Whether it is the spans that the target does not want."""
        return bool(self.rejected) or self.status in FOR_GOOD
