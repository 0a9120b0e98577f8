"""The outcome of a request to a backend, for HTTP and gRPC alike."""

from enum import StrEnum

TOO_LARGE = 413
FOR_GOOD = frozenset({400, TOO_LARGE, 422})
"""Statuses that mean the spans are at fault; other errors may go away with another key or URL."""
FOR_NOW = frozenset({408, 425, 429})
"""Temporary errors, in addition to statuses of 500 and above."""


class BatchOutcome(StrEnum):
    """The outcome of sending a batch."""

    SENT = "sent"
    REFUSED = "refused"
    """The backend would refuse the same batch again."""
    LATER = "later"
    """The backend is down or busy: the same batch may succeed later."""


class Response:
    """The last response of a backend, with an HTTP status for either protocol."""

    status: int | None = None
    reason: str | None = None
    rejected = 0
    """Number of spans that the backend reports as refused."""
    has_timed_out = False
    """True if the backend received the request but did not answer in time."""

    def forget(self) -> None:
        """Reset the response before a request."""
        self.status, self.reason = None, None
        self.rejected, self.has_timed_out = 0, False

    @property
    def verdict(self) -> BatchOutcome:
        """The outcome according to status and refused spans."""
        if self.status is None or self.status in FOR_NOW or self.status >= 500:
            return BatchOutcome.LATER
        is_taken = 200 <= self.status < 300 and not self.rejected
        return BatchOutcome.SENT if is_taken else BatchOutcome.REFUSED

    @property
    def is_for_good(self) -> bool:
        """True if the spans are at fault, so that a retry would be refused as well."""
        return bool(self.rejected) or self.status in FOR_GOOD
