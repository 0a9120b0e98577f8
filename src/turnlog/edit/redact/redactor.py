"""Redact sessions: find secrets, replace them, and read everything again to see what is left."""

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
    find_left,
    fixed_matches,
    names_with_secrets,
    replace_all,
    session_group,
    store_groups,
)
from turnlog.edit.redact.replacement import Find, FoundValue, RedactedPart
from turnlog.edit.redact.secret_finder import Finder
from turnlog.errors import TurnlogError
from turnlog.secrets import placeholder_for
from turnlog.store.paths import Store

PASSES = 3
"""How often all files are read: to find, to replace what is known by then, and to verify."""
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
    """Files that were not touched, and why."""

    reason: str
    finds: list[Find]


@dataclass
class RedactionOutcome:
    """What was done."""

    found: FoundValue
    finder: Finder
    replaced: list[Find] = field(default_factory=list[Find])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    records: list[Record] = field(default_factory=list[Record])
    earlier: list[Record] = field(default_factory=list[Record])
    left: list[Find] = field(default_factory=list[Find])
    """What is still in files that were not skipped."""
    fixed: Counter[str] = field(default_factory=Counter[str])
    matches: list[RedactionMatch] = field(default_factory=list[RedactionMatch])
    """With --dry-run: what would be replaced, with its context."""

    @property
    def is_complete(self) -> bool:
        """Whether no secret is left that was found."""
        return not (self.left or self.skipped)


@contextmanager
def unwatched(total: int) -> Generator[Progress]:
    """Show no progress."""
    yield lambda count: None


def redact_sessions(
    store: Store,
    sessions: list[Path],
    also: Sequence[re.Pattern[str]],
    *,
    dry_run: bool = False,
    watcher: Watcher = unwatched,
    discard_copies: Callable[[], None] = lambda: None,
) -> RedactionOutcome:
    """Replace the secrets of sessions, or of the whole store if `sessions` is empty.

    All files are read again afterwards: `left` names what is still there. `discard_copies` deletes
    what was derived from the files, such as an index. It is called before they are read again, so
    that an interrupted redaction leaves no copy behind.
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
        skipped = {find.path for each in outcome.skipped for find in each.finds}
        left = find_left(parts, outcome.finder, update)
        outcome.left = [find for find in left if find.path not in skipped]
        outcome.fixed = fixed_matches(parts, outcome.finder)
    return outcome


def summarise_redaction(outcome: RedactionOutcome, dry_run: bool = False) -> dict[str, Any]:
    """Return what was replaced, or would be, and what is left; placeholders stand for secrets."""
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
    """Redact group by group; one that is refused leaves the others as they are wanted."""
    touched = {find.path for find in outcome.found.finds}
    wanted = [group for group in groups if any(part.path in touched for part in group.parts)]
    if must_be_idle:
        for group in wanted:
            _require_idle(store, group)
    for group in wanted:
        paths = {part.path for part in group.parts}
        finds = [find for find in outcome.found.finds if find.path in paths]
        try:
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


def place_of(store: Store, path: Path) -> str:
    """What a file is, in a word or two.

    >>> store = Store(Path("/s"))
    >>> place_of(store, Path("/s/projects/p/id.jsonl")), place_of(store, Path("/s/plans/a.md"))
    ('transcript', 'plans')
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
