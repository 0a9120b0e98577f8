"""The sessions of a directory to choose from, each described by the head and tail of its file."""

from contextlib import suppress
from pathlib import Path

from turnlog.agent.terminal.menu import Item
from turnlog.format.timestamps import age
from turnlog.store.catalog import SessionFile, describe, locate_session
from turnlog.store.paths import Store

MOST = 1_000


def sessions_in(store: Store, cwd: Path) -> list[Path]:
    """The session files of a directory, the one written last first."""
    found: list[tuple[float, Path]] = []
    for path in store.session_files(str(cwd)):
        with suppress(OSError):  # gone since it was listed
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)[:MOST]]


def session_items(paths: list[Path]) -> list[Item]:
    """Sessions to choose from; files in which nothing was said are left out."""
    items: list[Item] = []
    for path in paths:
        with suppress(OSError):
            item = _item(locate_session(path))
            items += [item] if item else []
    return items


def _item(session: SessionFile) -> Item | None:
    described = describe(session)
    if not described.title:
        return None
    facts = [f"{age(session.last_active)} ago", described.branch or ""]
    return Item(described.title, session.path, " · ".join(filter(None, facts)))
