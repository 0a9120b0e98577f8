"""Recognize turns that cc-langfuse has sent to Langfuse, so that switching creates no duplicates.

The spans of cc-langfuse have random ids: only its state file shows which turns were sent.
"""

from typing import Any

from turnlog.conversation.session import Session
from turnlog.format.json_values import as_object, parse_json
from turnlog.store.paths import Store
from turnlog.trace.sent_state import SentState
from turnlog.trace.spans import SpanOptions, spans_of
from turnlog.trace.work import Work, turns_of


def adopt_sent(store: Store, session: Session, options: SpanOptions, state: SentState) -> None:
    """Mark turns that cc-langfuse delivered as sent, before a session is first sent to Langfuse.

    Later its state is ignored: it would also count turns that turnlog has sent.
    """
    if not (state.sent or state.refused):
        state.add(ids_sent(store, session, options))


def ids_sent(store: Store, session: Session, options: SpanOptions) -> list[str]:
    """Return the span ids of the turns of a session that cc-langfuse sent."""
    recorded = _read_state(store, session.id)
    answered = [turn for turn in turns_of(session) if turn.is_answered]
    sent = {turn.n for turn in _sent(answered, recorded)}
    spans = spans_of(session, options) if sent else ()
    return [span.id for span in spans if span.trace.turn_number in sent]


def _read_state(store: Store, session: str) -> dict[str, Any]:
    try:
        document = parse_json((store.root / "state" / "cc-langfuse_state.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return as_object(as_object(document).get(session))


def _sent(answered: list[Work], recorded: dict[str, Any]) -> list[Work]:
    """Return the turns up to the last line that cc-langfuse read, or as many as it counted."""
    line, count = recorded.get("last_line"), recorded.get("turn_count")
    if isinstance(line, int):
        return [turn for turn in answered if turn.messages[0].nodes[0].line <= line]
    return answered[:count] if isinstance(count, int) and count > 0 else []
