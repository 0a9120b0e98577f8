"""Descriptions of sessions from the head and tail of their files, without reading them whole."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from turnlog.format.blocks import TextBlock, ToolResultBlock, command_text
from turnlog.format.decode import decode_line, read_entries
from turnlog.format.entries import Assistant, ChainEntry, Entry, User
from turnlog.format.fields import given
from turnlog.format.json_values import text_in
from turnlog.format.jsonl import Line, read_lines, read_lines_backwards
from turnlog.format.regular_files import read_object, skipping
from turnlog.format.state import AiTitle, CustomTitle, LastPrompt, Summary, Tag
from turnlog.format.timestamps import parse_timestamp
from turnlog.secrets import cut_whole
from turnlog.store.paths import (
    Store,
    adjacent_subagents,
    folder_name,
    nested_subagents,
    title_file,
)
from turnlog.store.registry import is_registered_process
from turnlog.store.stores import AnyStores, all_session_files

TITLE_MARKS = (b"-title", b"last-prompt", b"summary", b'"tag"')
"""Every line with a title or a tag contains one of these."""
REACH = 1 << 16
"""Bytes of head and tail to read, as many as the client's picker reads (2.1.325)."""
FAR_REACH = 1 << 20
"""Bytes to search for a first prompt: long injected context may precede it."""
TITLE_LIMIT = 200
INJECTED = re.compile(r"\s*<(ide_\w+|system-reminder)>.*?</\1>", re.DOTALL)
NOT_TYPED = ("<", "[Request interrupted", "Caveat: ")

Titles = dict[type[Entry], str]
SavedTitle = Callable[[], str | None]
"""Read the title that is saved next to a session file."""


@dataclass(frozen=True)
class SessionFile:
    """A session file and the time it was last active: enough to sort sessions."""

    path: Path
    size: int
    last_active: datetime

    @property
    def id(self) -> str:
        return self.path.stem


@dataclass
class Description:
    """Facts found in the head and tail of a session file; None if not found there."""

    title: str | None = None
    """The session's title in the client's picker."""
    first_prompt: str | None = None
    first_command: str | None = None
    """A slash command before the first prompt."""
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    model: str | None = None
    slug: str | None = None
    """The client's nickname for the session."""
    tag: str | None = None
    """The label that `turnlog tag` or the Agent SDK gave the session."""
    started: datetime | None = None


def list_sessions(stores: AnyStores, cwd: str | None = None) -> list[SessionFile]:
    """Return the sessions of stores, or of a working directory, most recently active first.

    Files that cannot be read are skipped.
    """
    found: list[SessionFile] = []
    for path in all_session_files(stores, cwd):
        with skipping(path):
            found.append(locate_session(path))
    return sorted(found, key=lambda session: session.last_active, reverse=True)


def select_sessions(
    stores: AnyStores,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    tag: str | None = None,
) -> list[SessionFile]:
    """Return the sessions last active in a period, in projects whose directory matches."""
    sessions = [
        session
        for session in list_sessions(stores)
        if (since is None or session.last_active >= since)
        and (until is None or session.last_active < until)
    ]
    if project:
        folders = _matching_folders(sessions, project)
        sessions = [session for session in sessions if session.path.parent in folders]
    if tag:
        wanted = tag.casefold()
        tags = ((session, describe(session).tag or "") for session in sessions)
        sessions = [session for session, found in tags if found.casefold() == wanted]
    return sessions


def _matching_folders(sessions: list[SessionFile], text: str) -> set[Path]:
    """Return the folders of projects whose directory is `text` or contains it."""
    newest = {session.path.parent: session for session in reversed(sessions)}
    directory = folder_name(str(Path(text).resolve())) if Path(text).is_dir() else None
    return {
        folder
        for folder, session in newest.items()
        if folder.name == directory
        or (directory is None and text.lower() in (describe(session).cwd or folder.name).lower())
    }


def locate_session(path: Path) -> SessionFile:
    """Return a session file with the time of its last activity: its last timestamp or its mtime."""
    status = path.stat()
    moment = last_moment(read_lines_backwards(path), status.st_size)
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return SessionFile(path, status.st_size, moment or modified)


def last_moment(backwards: Iterable[Line], size: int) -> datetime | None:
    """Return the last timestamp in the tail of a file; None if the tail has none."""
    moments = (parse_timestamp(entry.when) for _, entry in _tail(backwards, size))
    return next(filter(None, moments), None)


def describe(session: SessionFile) -> Description:
    """Describe a session from the head and the tail of its file."""
    path = session.path
    return describe_lines(
        read_lines(path), read_lines_backwards(path), session.size, partial(_saved_title, path)
    )


def describe_lines(
    lines: Iterable[Line],
    backwards: Iterable[Line],
    size: int,
    saved_title: SavedTitle = lambda: None,
) -> Description:
    """Describe a session of `size` bytes from its lines, read from both ends."""
    described = Description()
    first_titles = _describe_head(described, lines)
    last_titles = _describe_tail(described, backwards, size)
    described.title = _shown_title(described, saved_title, first_titles, last_titles)
    return described


class SessionNames(NamedTuple):
    """The title and the tag of a session."""

    title: str | None = None
    tag: str | None = None


def title_of(path: Path) -> str | None:
    """Return the same title as `describe`, decoding only lines that may contain one."""
    return names_of(path).title


def names_of(path: Path) -> SessionNames:
    """Return the same title and tag as `describe`, decoding only lines that may contain one."""
    described = Description()
    size = path.stat().st_size
    # Head and tail of a small file overlap: read it once.
    lines = list(read_lines(path)) if size <= REACH else None
    first_titles = _describe_head(described, read_lines(path) if lines is None else lines)
    last_titles: Titles = {}
    for line in read_lines_backwards(path) if lines is None else reversed(lines):
        if line.offset < size - REACH:
            break
        if any(mark in line.raw for mark in TITLE_MARKS):
            for entry in reversed(decode_line(line).entries):
                if (text := _title_text(entry)) is not None:
                    last_titles.setdefault(type(entry), text)
    tag = last_titles.pop(Tag, None) or None
    title = _shown_title(described, partial(_saved_title, path), first_titles, last_titles)
    return SessionNames(title, tag)


def _shown_title(
    described: Description, saved_title: SavedTitle, first: Titles, last: Titles
) -> str | None:
    title = _title(saved_title, first, last)
    title = title or described.first_prompt or described.first_command or ""
    # A prompt may have millions of words; TITLE_LIMIT of them always exceed TITLE_LIMIT characters.
    words = title.split(maxsplit=TITLE_LIMIT)[:TITLE_LIMIT]
    return cut_whole(" ".join(words), TITLE_LIMIT) or None


def count_subagents(session: SessionFile, adjacent: dict[str, int]) -> int:
    """Return the number of a session's sub-agent files; `adjacent` is from `count_adjacent`."""
    return len(nested_subagents(session.path)) + adjacent.get(session.id, 0)


def count_adjacent(project: Path) -> dict[str, int]:
    """Return the number of sub-agent files next to a project's sessions, by owning session."""
    counts: dict[str, int] = {}
    for path in adjacent_subagents(project):
        owner = None
        with skipping(path):
            owner = next((given(entry.session_id) for _, entry in read_entries(path)), None)
        if owner:
            counts[owner] = counts.get(owner, 0) + 1
    return counts


def live_sessions(store: Store) -> set[str]:
    """Return the ids of the sessions that a running client has open."""
    return {owner for owner, is_live in _claims(store) if is_live}


def dead_sessions(store: Store) -> set[str]:
    """Return the ids of the sessions that a client had open when it was killed."""
    claims = list(_claims(store))
    live = {owner for owner, is_live in claims if is_live}
    return {owner for owner, _ in claims} - live


def _claims(store: Store) -> Iterator[tuple[str, bool]]:
    """Yield the session of each client in the registry, and whether that client is running."""
    for path in store.registry.glob("*.json"):
        with suppress(ValueError, OverflowError):
            claim = read_object(path)
            if owner := claim.get("sessionId"):
                yield owner, is_registered_process(int(path.stem), claim.get("procStart"))


def _describe_head(described: Description, lines: Iterable[Line]) -> Titles:
    """Fill in facts from the start of the file; return the titles found there."""
    titles: Titles = {}
    for line in takewhile(lambda line: line.offset < FAR_REACH, lines):
        # Once the first prompt is found, only titles are missing. The client looks for them in the
        # first 64 KiB, so a line that ends beyond that cannot supply one.
        in_reach = len(line.raw.rstrip()) + line.offset <= REACH
        if described.first_prompt and not in_reach:
            break
        if described.first_prompt and b"-title" not in line.raw:
            continue
        for entry in decode_line(line).entries:
            _describe_first(described, entry)
            if in_reach and (text := _title_text(entry)) is not None:
                titles[type(entry)] = text
    return titles


def _describe_first(described: Description, entry: Entry) -> None:
    described.started = described.started or parse_timestamp(entry.when)
    if isinstance(entry, ChainEntry):
        _fill(described, entry)
    if isinstance(entry, User) and (text := _typed_text(entry)):
        if command := command_text(text):
            described.first_command = described.first_command or command
        elif not text.startswith(NOT_TYPED):
            described.first_prompt = described.first_prompt or text


def _describe_tail(described: Description, backwards: Iterable[Line], size: int) -> Titles:
    """Fill in facts from the end of the file, which override earlier ones; return the titles."""
    latest = Description()
    titles: Titles = {}
    for line, entry in _tail(backwards, size):
        if isinstance(entry, ChainEntry):
            _fill(latest, entry)
        elif line.offset >= size - REACH and (text := _title_text(entry)) is not None:
            titles.setdefault(type(entry), text)
    # An empty tag removes the one before it.
    described.tag = titles.pop(Tag, None) or None
    for name in ("branch", "version", "model", "slug"):
        # Outside of a repository, the branch is an empty string.
        setattr(described, name, getattr(latest, name) or getattr(described, name) or None)
    # The working directory is the exception: a session belongs to the project it was started in.
    described.cwd = described.cwd or latest.cwd
    return titles


def _title(saved_title: SavedTitle, first: Titles, last: Titles) -> str | None:
    """Return the title that the client's picker shows (observed: 2.1.325).

    A name in the tail overrides the saved name, which overrides one in the head; an empty name in
    the tail removes the name.
    """
    name = last.get(CustomTitle)
    if name is None:
        name = saved_title() or first.get(CustomTitle)
    given_by_client = last.get(AiTitle) or first.get(AiTitle)
    return name or given_by_client or last.get(Summary) or last.get(LastPrompt)


def _fill(described: Description, entry: ChainEntry) -> None:
    described.cwd = described.cwd or given(entry.cwd)
    described.branch = described.branch or given(entry.git_branch)
    described.version = described.version or given(entry.version)
    described.slug = described.slug or given(entry.slug)
    if isinstance(entry, Assistant) and entry.body and not given(entry.is_api_error_message):
        model = given(entry.body.model)
        described.model = described.model or (model if model != "<synthetic>" else None)


def _title_text(entry: Entry) -> str | None:
    match entry:
        case CustomTitle():
            return given(entry.custom_title)
        case AiTitle():
            return given(entry.ai_title)
        case LastPrompt():
            return given(entry.last_prompt)
        case Summary():
            return given(entry.summary)
        case Tag():
            return given(entry.tag)
        case _:
            return None


def _saved_title(path: Path) -> str | None:
    return text_in(read_object(title_file(path)), "customTitle")


def _typed_text(entry: User) -> str | None:
    """Return text that a user may have typed; None for results, summaries and meta lines."""
    if any(map(given, (entry.is_meta, entry.is_sidechain, entry.is_compact_summary))):
        return None
    content = entry.content
    if isinstance(content, list):
        if any(isinstance(block, ToolResultBlock) for block in content):
            return None
        texts = [given(block.text) or "" for block in content if isinstance(block, TextBlock)]
        content = "\n".join(texts)
    return (INJECTED.sub("", content) if "</" in content else content).strip()


def _tail(backwards: Iterable[Line], size: int) -> Iterator[tuple[Line, Entry]]:
    """Yield the entries of the tail, last first; at least one line, however long it is."""
    for line in backwards:
        for entry in reversed(decode_line(line).entries):
            yield line, entry
        if line.offset < size - REACH:
            return
