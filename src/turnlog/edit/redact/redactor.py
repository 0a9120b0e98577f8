"""Redact sessions: find secrets, replace them, and read all files again to verify the result."""

import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnlog.edit.apply import require_idle
from turnlog.edit.journal import Journal, Record, open_journal
from turnlog.edit.redact.match_context import RedactionMatch, matches_of
from turnlog.edit.redact.redaction import (
    Progress,
    RedactionGroup,
    earlier_changes,
    find_all,
    find_remaining,
    fixed_matches,
    names_with_secrets,
    replace_all,
    session_group,
    store_groups,
)
from turnlog.edit.redact.replacement import Find, RedactedPart, RedactionFinds
from turnlog.edit.redact.secret_finder import Finder
from turnlog.errors import TurnlogError
from turnlog.secrets import placeholder_for
from turnlog.store.paths import Store

PASSES = 3
"""Number of times all files are read: to find values, to find known values, and to verify."""
PLACES = {
    "file-history": "file backups",
    "paste-cache": "pasted texts",
    "history.jsonl": "prompt history",
    "debug": "debug logs",
    "agent-memory": "sub-agents' notes",
}


Watcher = Callable[[int], AbstractContextManager[Progress]]
"""Shows progress: given the number of bytes to read, yields a function that counts them."""


@dataclass(frozen=True)
class Skipped:
    """Files that were not changed, and why."""

    reason: str
    finds: list[Find]


@dataclass
class RedactionOutcome:
    """The result of a redaction."""

    found: RedactionFinds
    finder: Finder
    replaced: list[Find] = field(default_factory=list[Find])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    records: list[Record] = field(default_factory=list[Record])
    earlier: list[Record] = field(default_factory=list[Record])
    left: list[Find] = field(default_factory=list[Find])
    """Secrets that remain in files that were not skipped."""
    fixed: Counter[str] = field(default_factory=Counter[str])
    matches: list[RedactionMatch] = field(default_factory=list[RedactionMatch])
    """With --dry-run: the values that would be replaced, with their context."""

    @property
    def is_complete(self) -> bool:
        """True if every secret that was found has been replaced."""
        return not (self.left or self.skipped)


@contextmanager
def no_progress(total: int) -> Generator[Progress]:
    """Show no progress."""
    yield lambda count: None


def redact_sessions(
    store: Store,
    sessions: list[Path],
    also: Sequence[re.Pattern[str]],
    *,
    dry_run: bool = False,
    watcher: Watcher = no_progress,
    discard_copies: Callable[[], None] = lambda: None,
) -> RedactionOutcome:
    """Replace the secrets of sessions, or of the whole store if `sessions` is empty.

    All files are read again afterwards: `left` lists what remains. `discard_copies` deletes data
    derived from the files, such as an index; it is called before the files are read again, so that
    an interrupted redaction leaves no copy behind.
    """
    groups = _groups(store, sessions)
    parts = _parts(groups)
    with watcher(PASSES * sum(part.path.stat().st_size for part in parts)) as update:
        outcome = RedactionOutcome(*find_all(parts, also, update))
        outcome.found.stuck += names_with_secrets(parts)
        if dry_run:
            outcome.matches = list(matches_of(parts, outcome.finder, outcome.found.finds))
            return outcome
        if not outcome.found.finds:
            outcome.left = list(dict.fromkeys(outcome.found.stuck))
            return outcome
        journal = open_journal()
        outcome.earlier = earlier_changes(journal, groups)
        _replace(journal, store, groups, outcome, must_be_idle=bool(sessions))
        discard_copies()
        parts = _parts(_groups(store, sessions))
        skipped = {find.path for skip in outcome.skipped for find in skip.finds}
        left = find_remaining(parts, outcome.finder, update)
        outcome.left = [find for find in left if find.path not in skipped]
        outcome.fixed = fixed_matches(parts, outcome.finder)
    return outcome


def summarise_redaction(outcome: RedactionOutcome, dry_run: bool = False) -> dict[str, Any]:
    """Return the replaced and the remaining secrets, with placeholders instead of their values."""
    finds = outcome.found.finds if dry_run else outcome.replaced
    left = outcome.found.stuck if dry_run else outcome.left
    return {
        "secrets": len({find.value for find in finds}),
        "finds": [_without_value(find) for find in finds],
        "left": [_without_value(find) for find in left],
        "skipped": [skipped.reason for skipped in outcome.skipped],
        "changes": [record.id for record in outcome.records],
    }


def _without_value(find: Find) -> dict[str, Any]:
    # The value is the secret itself.
    placeholder = placeholder_for(find.kind, find.value)
    return {"path": find.path, "line": find.line, "kind": find.kind, "placeholder": placeholder}


def _groups(store: Store, sessions: list[Path]) -> list[RedactionGroup]:
    return [session_group(store, path) for path in sessions] or store_groups(store)


def _parts(groups: list[RedactionGroup]) -> list[RedactedPart]:
    return list(dict.fromkeys(part for group in groups for part in group.parts))


def _replace(
    journal: Journal,
    store: Store,
    groups: list[RedactionGroup],
    outcome: RedactionOutcome,
    must_be_idle: bool,
) -> None:
    """Redact group by group; a group that fails is skipped, and the others are redacted."""
    touched = {find.path for find in outcome.found.finds}
    affected = [group for group in groups if any(part.path in touched for part in group.parts)]
    # A session that the user named must not be open: check all of them before the first change.
    if must_be_idle:
        for group in affected:
            _require_idle(store, group)
    for group in affected:
        paths = {part.path for part in group.parts}
        finds = [find for find in outcome.found.finds if find.path in paths]
        try:
            # A session may have been opened since it was read.
            _require_idle(store, group)
            record = replace_all(journal, store, group, outcome.finder, touched)
        except TurnlogError as error:
            outcome.skipped.append(Skipped(error.message, finds))
            continue
        outcome.records += [record] if record else []
        outcome.replaced += finds


def _require_idle(store: Store, group: RedactionGroup) -> None:
    for path in group.sessions:
        require_idle(store, path)


def describe_location(store: Store, path: Path) -> str:
    """Return a short description of what a file contains.

    >>> store = Store(Path("/s"))
    >>> describe_location(store, Path("/s/projects/p/id.jsonl"))
    'transcript'
    >>> describe_location(store, Path("/s/plans/a.md"))
    'plans'
    >>> describe_location(store, Path("/s/projects/p/memory/a.md"))
    'memory'
    >>> describe_location(store, Path("/s/projects/p/id/tool-results/1.txt"))
    'tool results'
    """
    if not path.is_relative_to(store.root):
        return "task outputs"
    first, *rest = path.relative_to(store.root).parts
    if first != "projects":
        return PLACES.get(first, first)
    if path.name.startswith("agent-"):
        return "sub-agents"
    if len(rest) == 2:
        return "transcript" if path.suffix == ".jsonl" else "project notes"
    return rest[1] if rest[1] == "memory" else rest[2].replace("-", " ")
