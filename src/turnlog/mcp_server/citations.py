"""Format citations in answers: a reference that `read` accepts, the turn and the local time."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from turnlog.errors import UsageError
from turnlog.format.timestamps import parse_timestamp
from turnlog.mcp_server.visible_sessions import short_id
from turnlog.secrets import mask_start
from turnlog.text import one_line

# No slash: a name is looked up in the index and never becomes a path.
REFERENCE = re.compile(r"(?:turnlog://session/)?([A-Za-z0-9_~.-]{1,200}?)(?::L?(\d{1,9}))?")


class Reference(NamedTuple):
    """A session or sub-agent, and a line of its file."""

    session: str
    line: int | None


def parse_reference(text: str) -> Reference:
    """Return the session and the line that a reference names.

    >>> parse_reference("5e551011:120"), parse_reference("turnlog://session/5e551011")
    (Reference(session='5e551011', line=120), Reference(session='5e551011', line=None))
    """
    found = REFERENCE.fullmatch(text.strip())
    if not found:
        raise UsageError(f"{text[:80]!r} is not a reference such as 5e551011:120")
    return Reference(found[1], int(found[2]) if found[2] else None)


def cite(session: str, line: int | None, turn: int | None, time: str | float | None) -> str:
    """Format a citation.

    >>> cite("5e551011-0000-4000-8000-000000000000", 12, 3, None)
    '[5e551011:12 · turn 3]'
    """
    place = f"{short_id(session)}:{line}" if line else short_id(session)
    parts = [place, f"turn {turn}" if turn else "", local_time(time)]
    return f"[{' · '.join(filter(None, parts))}]"


def local_time(time: str | float | None) -> str:
    """Return a moment in local time, to the minute; empty if it is unknown."""
    moment = datetime.fromtimestamp(time, UTC) if isinstance(time, float | int) else None
    moment = moment or (parse_timestamp(time) if isinstance(time, str) else None)
    return f"{moment.astimezone():%Y-%m-%d %H:%M}" if moment else ""


def brief(text: str | None, limit: int) -> str:
    """Return the masked start of a text on one line."""
    # Masked before control characters are replaced: some of them may split a secret.
    start = one_line(mask_start(text or "", 4 * limit)).strip()
    return start if len(start) <= limit else f"{start[:limit]}…"
