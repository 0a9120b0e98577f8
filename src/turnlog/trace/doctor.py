"""Test a target by sending one span."""

import os
import time

from msgspec import Struct

from turnlog.trace.span import Span, Trace, WorkKind
from turnlog.trace.targets import Target


class ProbeResult(Struct, frozen=True):
    """The target's response to a test."""

    url: str
    is_taken: bool
    status: int | None
    """The HTTP status; None if there was no response."""
    milliseconds: int
    reason: str | None = None


def send_test(target: Target, timeout: float) -> ProbeResult:
    """Send a test span that belongs to no session, and return the response."""
    from turnlog.trace.otlp import Exporter

    now = time.time_ns()
    trace = Trace(id=os.urandom(16).hex(), session_id="turnlog-hook-doctor", turn_number=0)
    test = Span(
        trace=trace,
        id=os.urandom(8).hex(),
        parent_id=None,
        name="turnlog hook doctor",
        kind=WorkKind.SPAN,
        start=now,
        end=now,
        near=now,
    )
    with Exporter(target, timeout) as exporter:
        (outcome,) = exporter.send([test])
        took = (time.time_ns() - now) // 1_000_000
        is_taken = bool(outcome.accepted)
        return ProbeResult(target.address, is_taken, exporter.status, took, outcome.reason)
