"""A test of a target: one span, and what came of it."""

import os
import time

from msgspec import Struct

from turnlog.trace.span import Span, Trace, WorkKind
from turnlog.trace.targets import Target


class ProbeResult(Struct, frozen=True):
    """How a target answered."""

    url: str
    is_taken: bool
    status: int | None
    """None if there was no answer."""
    milliseconds: int
    reason: str | None = None


def send_test(target: Target, timeout: float) -> ProbeResult:
    """Send a span that stands for nothing."""
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
