"""The history of prompts: one file for all projects, and the long texts pasted in them."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from turnlog.format.decode import values_of
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import read_lines
from turnlog.store.paths import Store

HASH = re.compile(r"[0-9a-f]{8,64}")


class HistoryPrompt(NamedTuple):
    """A line of the history."""

    line: int
    session: str | None
    """None for one that a client before 2.0 wrote."""
    project: str | None
    pastes: list[str]
    """Pasted texts of more than 1024 characters lie in files of their own, named by their hash."""


def read_history(store: Store) -> Iterator[HistoryPrompt]:
    """The prompts that were typed, the first first."""
    if store.history.is_file():
        for line in read_lines(store.history):
            for value in values_of(line):
                if is_object(value):
                    yield _prompt(line.number, value)


def prompts_of(store: Store, session: str, directories: Collection[str]) -> list[HistoryPrompt]:
    """The prompts of a session, and those without one that were typed in its directories."""
    return [
        prompt
        for prompt in read_history(store)
        if prompt.session == session or (not prompt.session and prompt.project in directories)
    ]


def paste_files(store: Store, prompts: Collection[HistoryPrompt]) -> list[Path]:
    """The files of what was pasted in prompts."""
    names = {f"{paste}.txt" for prompt in prompts for paste in prompt.pastes}
    return [path for name in sorted(names) if (path := store.pastes / name).is_file()]


def _prompt(line: int, fields: dict[str, object]) -> HistoryPrompt:
    session, project = fields.get("sessionId"), fields.get("project")
    pasted = fields.get("pastedContents")
    held = list(pasted.values()) if is_object(pasted) else list[object]()
    hashes = [str(each.get("contentHash")) for each in held if is_object(each)]
    return HistoryPrompt(
        line,
        session if isinstance(session, str) else None,
        project if isinstance(project, str) else None,
        [name for name in hashes if HASH.fullmatch(name)],
    )
