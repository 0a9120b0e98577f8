"""Trace sessions to a backend or a file: the functions for commands and library users."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from turnlog.conversation.session import Session, open_session
from turnlog.store.catalog import live_sessions
from turnlog.store.stores import AnyStores, holder_of
from turnlog.trace.cc_langfuse import adopt_sent
from turnlog.trace.content import ContentPolicy
from turnlog.trace.send import SendReport, add_links, send_session
from turnlog.trace.sent_state import open_state
from turnlog.trace.session_files import Progress, SpanTally, write_sessions
from turnlog.trace.span import Span, parse_traceparent
from turnlog.trace.spans import SpanOptions, first_trace, spans_of
from turnlog.trace.targets import FileTarget, Target, resource_attributes
from turnlog.trace.trace_settings import TraceSettings, state_folder

if TYPE_CHECKING:
    from turnlog.trace.metrics import Metered
    from turnlog.trace.otlp import Exporter

LANGFUSE = "langfuse"


class TraceChoices(TypedDict, total=False):
    """Trace options, named like those of `turnlog trace`."""

    layout: str
    content: str
    """`redacted` (the default), `full` or `none`."""
    max_chars: int
    user: str
    tags: Sequence[str]
    environment: str
    release: str
    metrics: str


def spans_in(stores: AnyStores, settings: TraceSettings, path: Path) -> Iterator[Span]:
    """Yield the spans of a session file, with the content that settings allow."""
    session = open_session(path)
    return map(_content(settings).of, spans_of(session, _options(stores, session, settings)))


def write_traces(
    stores: AnyStores,
    paths: Sequence[Path],
    target: FileTarget,
    settings: TraceSettings,
    progress: Progress = lambda size: None,
) -> SpanTally:
    """Write sessions to a file one by one, because all of them would not fit in memory."""
    resource = None if target.is_perfetto else resource_attributes(settings)
    read = partial(spans_in, stores, settings)
    return write_sessions(target.path, paths, read, progress, resource)


def send_traces(
    stores: AnyStores,
    paths: Sequence[Path],
    target: Target,
    settings: TraceSettings,
    *,
    again: bool = False,
    warn: Callable[[str], None] = lambda reason: None,
) -> Iterator[SendReport]:
    """Send one session after the other; stop when the backend accepts nothing more.

    Spans that were sent before are skipped unless `again` is set. `warn` is called if metrics
    could not be sent.
    """
    from turnlog.trace.otlp import Exporter

    content = _content(settings)
    with Exporter(target, settings.timeout) as exporter:
        metered = _metered(exporter, target, settings)
        for path in paths:
            session = open_session(path)
            options = _options(stores, session, settings)
            name = first_trace(session) or session.id
            with open_state(state_folder(), target.name, name) as state:
                if settings.to == LANGFUSE:
                    adopt_sent(holder_of(stores, session.path), session, options, state)
                skip = set[str]() if again else state.sent
                if metered:
                    metered.known = frozenset(state.sent)
                sending = metered or exporter
                report = send_session(session, sending, state, options, content, skip)
            yield add_links(report, target)
            if exporter.has_given_up:
                break
        if metered:
            metered.meter.export(exporter)
            if metered.meter.reason:
                warn(metered.meter.reason)


def _options(stores: AnyStores, session: Session, settings: TraceSettings) -> SpanOptions:
    has_ended = session.id not in live_sessions(holder_of(stores, session.path))
    parent = parse_traceparent(settings.traceparent)
    return SpanOptions(settings.layout, **settings.labels, parent=parent, ended=has_ended)


def _content(settings: TraceSettings) -> ContentPolicy:
    return ContentPolicy(settings.content, settings.max_chars)


def _metered(exporter: "Exporter", target: Target, settings: TraceSettings) -> "Metered | None":
    if settings.metrics is None:
        return None
    from turnlog.trace.metrics import Metered, MetricStore

    return Metered(exporter, MetricStore(state_folder(), target, settings.metrics))
