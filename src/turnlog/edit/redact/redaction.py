"""Replace secrets in all files of a session; equal values get equal placeholders.

A value found once is replaced everywhere, even where nothing else identifies it as a secret.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from turnlog.conversation.session import open_session
from turnlog.edit.apply import Change, Ready, apply_changes, require_sound
from turnlog.edit.journal import Journal, Record
from turnlog.edit.redact.replacement import (
    IN_NAME,
    JSON,
    LINES,
    Find,
    RedactedPart,
    RedactionFinds,
    redact_part,
)
from turnlog.edit.redact.secret_finder import Finder, settle_kinds
from turnlog.format.jsonl import FileState, read_lines
from turnlog.secrets import find_secrets
from turnlog.store.footprint import files_below, files_by_session, footprint_of, root_of
from turnlog.store.parallel import map_files
from turnlog.store.paths import Store, project_notes
from turnlog.store.prompt_history import paste_files, prompts_of
from turnlog.store.symlinks import without_links

T = TypeVar("T")
Progress = Callable[[int], None]
"""Called with the number of bytes processed since the last call."""

NAMES = 4
"""Trailing path components checked for secrets: the project's folder and everything below it."""
ROUNDS = 5
"""Maximum number of passes to find further values that replacing others reveals."""


@dataclass(frozen=True)
class RedactionGroup:
    """The files redacted in one change: those of a session, or those that sessions share."""

    title: str
    parts: list[RedactedPart]
    sessions: list[Path]
    """The session files among them."""


def session_group(store: Store, session: Path) -> RedactionGroup:
    """Return all files of a session as one group."""
    found = footprint_of(store, session)
    prompts = prompts_of(store, session.stem, found.directories)
    pastes = without_links(store.root, paste_files(store, prompts))
    paths = dict.fromkeys([*found.files, *pastes])
    parts = [RedactedPart(path) for path in paths]
    if prompts:
        parts.append(RedactedPart(store.history, frozenset(prompt.line for prompt in prompts)))
    # Notes are shared by all sessions of a project: they are searched only for values that the
    # session's own files contain.
    notes = without_links(root_of(store, session), project_notes(session.parent))
    notes += files_below(store.root, store.agent_notes)
    parts += [RedactedPart(path, is_shared=True) for path in notes]
    return RedactionGroup(f"redact of {session.stem}", parts, [session])


def store_groups(store: Store) -> list[RedactionGroup]:
    """Return one group per session of a store, and a last one for the files that they share."""
    sessions = set(store.session_files())
    return [
        RedactionGroup(
            f"redact of {name or 'files that sessions share'}",
            [RedactedPart(path) for path in paths],
            [path for path in paths if path in sessions],
        )
        for name, paths in files_by_session(store).items()
    ]


def find_all(
    parts: Sequence[RedactedPart], also: Iterable[re.Pattern[str]], progress: Progress
) -> tuple[RedactionFinds, Finder]:
    """Find everything to replace; return it with a finder that knows all the values found."""
    finder = Finder(tuple(also))
    collected = _examine(parts, finder, None, progress)
    suspects: dict[Path, set[int]] = {}
    for find in collected.finds:
        suspects.setdefault(find.path, set()).add(find.line)
    # A known value that overlaps a secret is merged with it into a longer value, which is then
    # known as well and may occur elsewhere: repeat until no new value appears. Only lines that had
    # a find, or that contain a known value, are searched again.
    for _ in range(ROUNDS):
        found = ((find.value, find.kind) for find in collected.finds)
        kinds = settle_kinds([*finder.kinds.items(), *found])
        if kinds == finder.kinds:
            break
        finder = replace(finder, kinds=kinds)
        collected = _examine(parts, finder, suspects, progress)
    return collected, finder


def replace_all(
    journal: Journal, store: Store, group: RedactionGroup, finder: Finder, paths: set[Path]
) -> Record | None:
    """Replace the secrets in a group's files as one journaled change; only `paths` are touched."""
    changes = [
        Change(
            path,
            redact_part(part, finder, RedactionFinds()),
            FileState.of(path),
            None,
            path == store.history,
        )
        for part in group.parts
        if (path := part.path) in paths
    ]
    sound = partial(_require_sound, group.sessions)
    return apply_changes(journal, group.title, changes, sound, root=store.root)


def find_remaining(parts: Sequence[RedactedPart], finder: Finder, progress: Progress) -> list[Find]:
    """Return the secrets that remain after a redaction.

    These are values that the finder still finds, known secrets in raw bytes, and secrets in strings
    that are never changed: ids, working directories, file names.
    """
    collected = _examine(parts, finder, None, progress)
    return list(dict.fromkeys([*collected.finds, *collected.stuck, *names_with_secrets(parts)]))


def names_with_secrets(parts: Sequence[RedactedPart]) -> Iterator[Find]:
    """Yield the secrets in the names of files and of their folders."""
    for path in dict.fromkeys(part.path for part in parts):
        name = "/".join(path.parts[-NAMES:])
        for secret in find_secrets(name):
            yield Find(path, IN_NAME, secret.kind, name[secret.start : secret.end])


def fixed_matches(parts: Sequence[RedactedPart], finder: Finder) -> Counter[str]:
    """Count the matches of the user's patterns in fields that are never changed, by field name."""
    counts: Counter[str] = Counter()
    for found in _map_parts(partial(_fixed_matches, finder=finder), parts) if finder.also else ():
        counts += found
    return counts


def earlier_changes(journal: Journal, groups: Sequence[RedactionGroup]) -> list[Record]:
    """Return earlier journal records that keep copies of the same files or sessions."""
    paths = {part.path for group in groups for part in group.parts}
    names = {path.stem for group in groups for path in group.sessions}

    def is_same(path: Path) -> bool:
        # A sidecar's path contains the session's id: `ID/subagents/agent-1.jsonl`.
        return path in paths or not names.isdisjoint(path.with_suffix("").parts)

    return [
        record
        for record in journal.records()
        if any(file.before and is_same(Path(file.path)) for file in record.files)
    ]


def _require_sound(sessions: Iterable[Path], ready: Ready) -> None:
    for path in sessions:
        if path in ready:
            require_sound(open_session(path), ready[path])


def _examine(
    parts: Sequence[RedactedPart],
    finder: Finder,
    suspects: Mapping[Path, set[int]] | None,
    progress: Progress,
) -> RedactionFinds:
    whole = RedactionFinds()
    for collected in _map_parts(
        partial(_search_part, finder=finder, suspects=suspects), parts, progress
    ):
        whole.finds += collected.finds
        whole.stuck += collected.stuck
    return whole


def _map_parts(
    work: Callable[[RedactedPart], T],
    parts: Sequence[RedactedPart],
    progress: Progress = lambda count: None,
) -> Iterator[T]:
    """Yield the result of `work` for each part; distribute the files among processes."""
    by_path: dict[Path, list[RedactedPart]] = {}
    for part in parts:
        by_path.setdefault(part.path, []).append(part)
    for count, made in map_files(partial(_work_on, work=work, by_path=by_path), list(by_path)):
        yield from made
        progress(count)


def _work_on(
    paths: Sequence[Path],
    work: Callable[[RedactedPart], T],
    by_path: Mapping[Path, list[RedactedPart]],
) -> list[T]:
    return [work(part) for path in paths for part in by_path[path]]


def _search_part(
    part: RedactedPart, finder: Finder, suspects: Mapping[Path, set[int]] | None
) -> RedactionFinds:
    collected = RedactionFinds()
    lines = None if suspects is None else suspects.get(part.path, set())
    # Only the finds are needed; the redacted content is consumed without keeping it.
    deque(redact_part(part, finder, collected, lines), maxlen=0)
    return collected


def _fixed_matches(part: RedactedPart, finder: Finder) -> Counter[str]:
    if part.is_shared or part.path.suffix not in JSON:
        return Counter()
    if part.path.suffix != LINES:
        return Counter(finder.fixed_matches(part.path.read_bytes()))
    return Counter(
        name
        for line in read_lines(part.path)
        if part.lines is None or line.number in part.lines
        for name in finder.fixed_matches(line.raw)
    )
