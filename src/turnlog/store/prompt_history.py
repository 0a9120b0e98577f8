"""The prompt history: one file for all projects, and the long texts pasted into prompts."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from turnlog.format.decode import values_of
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line, read_lines
from turnlog.store.paths import Store

HASH = re.compile(r"[0-9a-f]{8,64}")


class HistoryPrompt(NamedTuple):
    """A line of the history."""

    line: int
    session: str | None
    """None if a client before 2.0 wrote it."""
    project: str | None
    pastes: list[str]
    """Hashes of pasted texts of more than 1024 characters, which have files of their own."""
    raw: bytes


def read_history(store: Store) -> Iterator[HistoryPrompt]:
    """Yield the typed prompts, oldest first."""
    if store.history.is_file():
        for line in read_lines(store.history):
            for value in values_of(line):
                if is_object(value):
                    yield _prompt(line, value)


def prompts_of(store: Store, session: str, directories: Collection[str]) -> list[HistoryPrompt]:
    """Return a session's prompts, and prompts without a session id typed in its directories."""
    return [
        prompt
        for prompt in read_history(store)
        if prompt.session == session or (not prompt.session and prompt.project in directories)
    ]


def paste_files(store: Store, prompts: Collection[HistoryPrompt]) -> list[Path]:
    """Return the files of texts pasted into prompts."""
    names = {f"{paste}.txt" for prompt in prompts for paste in prompt.pastes}
    return [path for name in sorted(names) if (path := store.pastes / name).is_file()]


def _prompt(line: Line, fields: dict[str, object]) -> HistoryPrompt:
    session, project = fields.get("sessionId"), fields.get("project")
    pasted = fields.get("pastedContents")
    pastes = list(pasted.values()) if is_object(pasted) else list[object]()
    hashes = [str(paste.get("contentHash")) for paste in pastes if is_object(paste)]
    return HistoryPrompt(
        line.number,
        session if isinstance(session, str) else None,
        project if isinstance(project, str) else None,
        # A hash becomes a file name, so a value such as `../settings` is dropped.
        [name for name in hashes if HASH.fullmatch(name)],
        line.raw,
    )
