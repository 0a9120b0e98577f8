"""Secrets replaced in all files of a session: the same value, the same placeholder.

A value that is found once is known, and is replaced wherever it stands.
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
    FoundValue,
    RedactedPart,
    redacted,
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
"""Is told how many more bytes are done."""

NAMES = 4
"""How many parts of a path belong to a session: its project's folder, and what is below."""
ROUNDS = 5
"""How often a new value may come to light when others are replaced."""


@dataclass(frozen=True)
class RedactionGroup:
    """What is redacted in one change: the files of a session, or those that sessions share."""

    title: str
    parts: list[RedactedPart]
    sessions: list[Path]
    """The sessions among the files."""


def session_group(store: Store, session: Path) -> RedactionGroup:
    """All files of a session."""
    found = footprint_of(store, session)
    prompts = prompts_of(store, session.stem, found.directories)
    pastes = without_links(store.root, paste_files(store, prompts))
    paths = dict.fromkeys([*found.files, *pastes])
    parts = [RedactedPart(path) for path in paths]
    if prompts:
        parts.append(RedactedPart(store.history, frozenset(prompt.line for prompt in prompts)))
    notes = without_links(root_of(store, session), project_notes(session.parent))
    notes += files_below(store.root, store.agent_notes)
    parts += [RedactedPart(path, is_shared=True) for path in notes]
    return RedactionGroup(f"redact of {session.stem}", parts, [session])


def store_groups(store: Store) -> list[RedactionGroup]:
    """All files of all sessions, those of each in a group, and what they share in the last."""
    sessions = set(store.session_files())
    return [
        RedactionGroup(
            f"redact of {name or 'what sessions share'}",
            [RedactedPart(path) for path in paths],
            [path for path in paths if path in sessions],
        )
        for name, paths in files_by_session(store).items()
    ]


def find_all(
    parts: Sequence[RedactedPart], also: Iterable[re.Pattern[str]], progress: Progress
) -> tuple[FoundValue, Finder]:
    """All that is to be replaced, and what finds it, which knows every value by then."""
    finder = Finder(tuple(also))
    noted = _examine(parts, finder, None, progress)
    suspects: dict[Path, set[int]] = {}
    for find in noted.finds:
        suspects.setdefault(find.path, set()).add(find.line)
    for _ in range(ROUNDS):
        found = ((find.value, find.kind) for find in noted.finds)
        kinds = settle_kinds([*finder.kinds.items(), *found])
        if kinds == finder.kinds:
            break
        finder = replace(finder, kinds=kinds)
        noted = _examine(parts, finder, suspects, progress)
    return noted, finder


def replace_all(
    journal: Journal, store: Store, group: RedactionGroup, finder: Finder, paths: set[Path]
) -> Record | None:
    """Swap in the files of a group that something was found in with placeholders: one change."""
    changes = [
        Change(
            path,
            redacted(part, finder, FoundValue()),
            FileState.of(path),
            None,
            path == store.history,
        )
        for part in group.parts
        if (path := part.path) in paths
    ]
    sound = partial(_require_sound, group.sessions)
    return apply_changes(journal, group.title, changes, sound, root=store.root)


def find_left(parts: Sequence[RedactedPart], finder: Finder, progress: Progress) -> list[Find]:
    """Find what is still there: what would be found again, known secrets in the bare bytes, and
    secrets in what is left alone: ids, working directories, names of files."""
    noted = _examine(parts, finder, None, progress)
    return list(dict.fromkeys([*noted.finds, *noted.stuck, *names_with_secrets(parts)]))


def names_with_secrets(parts: Sequence[RedactedPart]) -> Iterator[Find]:
    """Yield the secrets in the names of files and their folders."""
    for path in dict.fromkeys(part.path for part in parts):
        name = "/".join(path.parts[-NAMES:])
        for secret in find_secrets(name):
            yield Find(path, IN_NAME, secret.kind, name[secret.start : secret.end])


def fixed_matches(parts: Sequence[RedactedPart], finder: Finder) -> Counter[str]:
    """How often the user's patterns match what holds sessions together, by the field's name."""
    counts: Counter[str] = Counter()
    for found in _shared(partial(_fixed_matches, finder=finder), parts) if finder.also else ():
        counts += found
    return counts


def earlier_changes(journal: Journal, groups: Sequence[RedactionGroup]) -> list[Record]:
    """Changes made before that keep copies of the same files, or of others of the sessions."""
    paths = {part.path for group in groups for part in group.parts}
    names = {path.stem for group in groups for path in group.sessions}

    def is_same(path: Path) -> bool:
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
) -> FoundValue:
    whole = FoundValue()
    for noted in _shared(partial(_noted, finder=finder, suspects=suspects), parts, progress):
        whole.finds += noted.finds
        whole.stuck += noted.stuck
    return whole


def _shared(
    work: Callable[[RedactedPart], T],
    parts: Sequence[RedactedPart],
    progress: Progress = lambda count: None,
) -> Iterator[T]:
    """What is made of each part, the files shared among processes."""
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


def _noted(
    part: RedactedPart, finder: Finder, suspects: Mapping[Path, set[int]] | None
) -> FoundValue:
    noted = FoundValue()
    lines = None if suspects is None else suspects.get(part.path, set())
    deque(redacted(part, finder, noted, lines), maxlen=0)
    return noted


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
