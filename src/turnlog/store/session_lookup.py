"""Find the session file that a user means: by path, id or its prefix, title, slug, or `last`."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from turnlog.errors import Ambiguous, NotFound, Unavailable, UsageError
from turnlog.format.regular_files import collect_skipped, note_skipped, open_descriptor, skipping
from turnlog.secrets import mask_start
from turnlog.store.catalog import SessionFile, describe, list_sessions, locate_session
from turnlog.store.paths import Store, expand_user, is_session_name
from turnlog.store.stores import AnyStores, each_store, holder_of, places_of

if TYPE_CHECKING:
    from turnlog.store.archive.archive import ArchiveManifest

TITLE = 40
"""Maximum characters of a title in a list of candidates: with an id, it fits in 80 columns."""


def find_session(stores: AnyStores, text: str) -> SessionFile:
    """Return the session that `text` names; raise `NotFound` or `Ambiguous`."""
    if path := _file_at(text):
        return locate_session(path)
    if text.endswith(".jsonl") or "/" in text:
        raise _no_such_file(text)
    with collect_skipped() as skipped:
        matches = _matches(stores, text)
    if not matches:
        # Unreadable files matter only now: the user may have meant one of them.
        for path, reason in skipped.items():
            note_skipped(path, reason)
        raise missing_session(stores, text)
    if len(matches) > 1:
        raise _ambiguous(stores, text, matches)
    return matches[0]


def find_in_store(stores: AnyStores, text: str) -> "StoredSession":
    """Return the session that `text` names and its store; raise UsageError if it is in none."""
    path = find_session(stores, text).path
    store = holder_of(stores, path)
    return StoredSession(store, require_in_store(store, path))


class StoredSession(NamedTuple):
    """A session file and the store that it is in."""

    store: Store
    path: Path


def require_in_store(store: Store, path: Path) -> Path:
    """Return the path of a session below the store; raise UsageError for any other file.

    Outside a store, the files next to a session file may not belong to it.
    """
    path = Path(os.path.normpath(path.absolute()))
    if not is_session_name(path.name):
        raise UsageError(f"{path.stem} is a sub-agent: name its session", "turnlog ls")
    if not (store.projects.is_dir() and path.parent.parent.samefile(store.projects)):
        raise UsageError(f"{path} is not in {store.projects}", "turnlog where")
    return store.projects / path.parent.name / path.name


def _matches(stores: AnyStores, text: str) -> list[SessionFile]:
    sessions = list_sessions(stores)
    if text == "last" and sessions:
        return sessions[:1]
    # Most specific first: an id prefix must not become ambiguous because a title contains it too.
    # Titles also come last because they require reading every file.
    return (
        _with_id(sessions, text)
        or _with_id(_located(_subagent_files(stores)), text)
        or _with_title(sessions, text)
    )


def _located(paths: Iterable[Path]) -> Iterator[SessionFile]:
    for path in paths:
        with skipping(path):
            yield locate_session(path)


def _ambiguous(stores: AnyStores, text: str, matches: list[SessionFile]) -> Ambiguous:
    ids = {session.id for session in matches}
    if len(ids) > 1:
        lines = [_candidate(session) for session in matches]
        hint = f"turnlog show {quote(matches[0].id)}"
        return Ambiguous(f"{text!r} matches {len(matches)} sessions", lines, hint)
    paths = [str(session.path) for session in matches]
    name = matches[0].id
    roots = list(dict.fromkeys(holder_of(stores, session.path).root for session in matches))
    if len(roots) == len(matches):
        hint = f"turnlog show {quote(name)} --store {quote(str(roots[0]))}"
        return Ambiguous(f"session {name} is in {len(roots)} stores: name one", paths, hint)
    # Only the path tells copies in one store apart.
    reason = f"session {name} is in {len(paths)} folders: name its file"
    return Ambiguous(reason, paths, f"turnlog show {quote(paths[0])}")


def only_archived(text: str) -> "list[ArchiveManifest]":
    """Return the sessions that `text` may name and that are in the archive, but in no store."""
    from turnlog.store.archive.archive import open_archive
    from turnlog.store.archive.restore import match_archived

    with suppress(Unavailable):  # manifests of a newer turnlog cannot be searched
        return [each for each in match_archived(open_archive(), text) if not each.is_in_store]
    return []


def missing_session(stores: AnyStores, text: str) -> NotFound:
    """Return the error for a name that matches no stored session; it mentions archived matches."""
    from turnlog.store.paths import archive_folder

    archived = only_archived(text)
    if len(archived) == 1:
        # Repeat the name as typed if it is a prefix of the id: the user recognizes it.
        is_start = archived[0].session.lower().startswith(text.lower())
        name = text if is_start else archived[0].session
        return NotFound(
            f"session {text} is only in {archive_folder()}", f"turnlog restore {quote(name)}"
        )
    if archived:
        reason = f"{text!r} matches {len(archived)} sessions, all of them only in the archive"
        return NotFound(reason, "turnlog archive --list")
    return NotFound(f"no session matches {text!r} in {places_of(stores)}", "turnlog ls")


def _no_such_file(text: str) -> NotFound:
    try:
        os.close(open_descriptor(text))
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return NotFound(f"{text} cannot be read: {reason}", "turnlog ls")
    return NotFound(f"no such file: {text}", "turnlog ls")


def _file_at(text: str) -> Path | None:
    try:
        path = expand_user(text)
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # a title may be too long for a path, or start with a tilde
        return None


def _with_id(sessions: Iterable[SessionFile], text: str) -> list[SessionFile]:
    target = _bare_id(text)
    matches = [session for session in sessions if _bare_id(session.id).startswith(target)]
    exact = [session for session in matches if _bare_id(session.id) == target]
    return exact or matches


def _bare_id(text: str) -> str:
    return text.lower().removeprefix("agent-")


def _with_title(sessions: list[SessionFile], text: str) -> list[SessionFile]:
    """Return the sessions whose title or slug equals a text, or else contains it."""
    target = text.casefold()
    named = [(session, _names_of(session)) for session in sessions]
    exact = [session for session, names in named if target in names]
    partly = (session for session, names in named if any(target in name for name in names))
    return exact or list(partly)


def _names_of(session: SessionFile) -> list[str]:
    about = describe(session)
    return [(name or "").casefold() for name in (about.title, about.slug)]


def _subagent_files(stores: AnyStores) -> list[Path]:
    found = (path for each in each_store(stores) for path in each.projects.rglob("agent-*.jsonl"))
    return list(dict.fromkeys(found))  # nested stores list a file twice


def _candidate(session: SessionFile) -> str:
    title = describe(session).title or ""
    if len(title) > TITLE:
        # Masked before it is cut: the start of a secret would not be recognized as one.
        title = f"{mask_start(title, TITLE - 1)}…"
    return f"{session.id}  {title}".rstrip()
