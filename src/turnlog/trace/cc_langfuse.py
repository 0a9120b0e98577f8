"""What cc-langfuse sent to Langfuse, so that whoever switches from it has nothing twice there.

Its spans have random ids: only its own notes tell which turns are there already.
"""

import json
from typing import Any

from turnlog.conversation.session import Session
from turnlog.format.json_values import is_object
from turnlog.store.paths import Store
from turnlog.trace.sent_state import State
from turnlog.trace.spans import SpanOptions, spans_of
from turnlog.trace.work import Work, turns_of


def adopt_sent(store: Store, session: Session, options: SpanOptions, state: State) -> None:
    """Count as sent what cc-langfuse sent, when a session is first sent to Langfuse.

    Later on its notes say nothing new: they count turns that turnlog sent itself.
    """
    if not (state.sent or state.refused):
        state.add(ids_sent(store, session, options))


def ids_sent(store: Store, session: Session, options: SpanOptions) -> list[str]:
    """The ids of the spans of those turns of a session that cc-langfuse sent."""
    noted = _noted(store, session.id)
    answered = [turn for turn in turns_of(session) if turn.is_answered]
    sent = {turn.n for turn in _sent(answered, noted)}
    spans = spans_of(session, options) if sent else ()
    return [span.id for span in spans if span.trace.turn_number in sent]


def _noted(store: Store, session: str) -> dict[str, Any]:
    try:
        held = json.loads((store.root / "state" / "cc-langfuse_state.json").read_bytes())
    except (OSError, ValueError):
        return {}
    found = held.get(session) if is_object(held) else None
    return found if is_object(found) else {}


def _sent(answered: list[Work], noted: dict[str, Any]) -> list[Work]:
    """The turns up to the last line that it read; or as many as it counted."""
    line, count = noted.get("last_line"), noted.get("turn_count")
    if isinstance(line, int):
        return [turn for turn in answered if turn.messages[0].nodes[0].line <= line]
    return answered[:count] if isinstance(count, int) and count > 0 else []
