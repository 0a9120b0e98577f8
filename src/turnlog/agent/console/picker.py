"""The sessions of a directory to choose from, each described by the head and tail of its file."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from turnlog.agent.console.menu import Item
from turnlog.store.catalog import SessionFile, describe, locate_session
from turnlog.store.paths import Store, is_session_name

MOST = 1_000
STEPS = ((60, "s"), (60, "m"), (24, "h"), (7, "d"), (52, "w"))


def sessions_in(store: Store, cwd: Path) -> list[Path]:
    """The session files of a directory, the one written last first."""
    folder = store.project_of(str(cwd))
    found: list[tuple[float, Path]] = []
    for path in folder.glob("*.jsonl"):
        with suppress(OSError):  # gone since it was listed
            if is_session_name(path.name):
                found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)[:MOST]]


def session_items(paths: list[Path]) -> list[Item]:
    """Sessions to choose from; files in which nothing was said are left out."""
    items: list[Item] = []
    for path in paths:
        with suppress(OSError):
            item = _item(locate_session(path), datetime.now(UTC))
            items += [item] if item else []
    return items


def _item(session: SessionFile, now: datetime) -> Item | None:
    described = describe(session)
    if not described.title:
        return None
    facts = [age(session.last_active, now), described.branch or ""]
    return Item(described.title, session.path, " · ".join(filter(None, facts)))


def age(moment: datetime, now: datetime) -> str:
    """How long ago something was, short.

    >>> age(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 3, tzinfo=UTC))
    '3h ago'
    """
    count = max(0, int((now - moment).total_seconds()))
    for limit, unit in STEPS:
        if count < limit:
            return f"{count}{unit} ago"
        count //= limit
    return f"{count}y ago"
