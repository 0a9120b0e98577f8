"""Write figures into the tables, and dedupe them across files: exactly one copy counts."""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from turnlog.conversation.cost import understates_output
from turnlog.conversation.messages import larger_usage
from turnlog.format.blocks import Usage
from turnlog.format.jsonl import FileState
from turnlog.index.database import add_indexes, is_built
from turnlog.index.ingest.facts import (
    FIGURES,
    HEAD,
    CallFact,
    FileFacts,
    MessageFact,
    PromptFact,
    ResultFact,
    figures_of,
)
from turnlog.secrets import cut_whole
from turnlog.store.archive.archive import ArchivedCopy
from turnlog.store.catalog import SessionNames

KEYED = ("prompts", "messages", "calls")
"""Tables whose rows may occur in several files."""
OF_FILES = (*KEYED, "pulls", "commits", "compactions", "docs", "vectors")

Owners = dict[int | None, int | None]
"""Row ids of prompts by their position in a part; None maps to the last prompt before it."""

_encode = msgspec.json.Encoder().encode
_decode_usage = msgspec.json.Decoder(Usage).decode


class SourceFile(NamedTuple):
    """A file to be ingested."""

    name: str
    """Its path as text: most files need no reading, and creating a Path is slow."""
    store: str
    """The directory of the store that has it."""
    state: FileState
    owner: str | None
    """The session that it belongs to; None for sub-agents of 2.0.x, whose lines name it."""
    is_subagent: bool
    archived: ArchivedCopy | None = None
    """The archived copy of a file that is gone."""

    @property
    def path(self) -> Path:
        return Path(self.name)

    @property
    def stem(self) -> str:
        return os.path.splitext(os.path.basename(self.name))[0]  # noqa: PTH119, PTH122


class KnownFile(NamedTuple):
    """The state of a file in the index."""

    state: FileState
    reached: int
    is_gone: bool

    def is_of(self, source: SourceFile) -> bool:
        """Return whether the index is up to date with a file."""
        return self.state == source.state and self.is_gone == (source.archived is not None)


class Writer:
    """Writes facts within one transaction; call `settle` at its end."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.touched: dict[str, set[str]] = {name: set() for name in KEYED}
        """Keys with a copy that was added or changed."""
        self.lost: dict[str, set[str]] = {name: set() for name in KEYED}
        """Keys with a copy that was removed."""
        self.next_prompt: int = self._one("SELECT coalesce(max(id), 0) + 1 FROM prompts")

    def known(self, path: str) -> KnownFile | None:
        """Return the current state of a file in the index."""
        return known_files(self.db, [path]).get(path)

    def remove(self, path: str) -> None:
        """Delete all rows of a file."""
        file = self._row("SELECT id FROM files WHERE path = ?", path)
        if file is None:
            return
        for name in KEYED:
            rows = self.db.execute(f"SELECT key FROM {name} WHERE file = ?", file)
            self.lost[name].update(key for (key,) in rows)
        for name in OF_FILES:
            self.db.execute(f"DELETE FROM {name} WHERE file = ?", file)
        self.db.execute("DELETE FROM files WHERE id = ?", file)

    def add(
        self, source: SourceFile, facts: FileFacts, names: SessionNames, is_known: bool
    ) -> None:
        """Add the facts of a part of a file to those of its earlier parts."""
        file, prompt = self._file(source, facts, names)
        first = self.next_prompt
        owners: Owners = {None: prompt}
        if source.is_subagent:
            facts.mark_subagent()
        owners |= {rank: first + rank for rank in range(len(facts.prompts))}
        self.next_prompt += len(facts.prompts)
        said = list(facts.said.values())
        new = self._add_to_known(file, said) if is_known else said
        self._add_messages(file, new, owners)
        self._add_calls(file, facts, owners)
        self._many("INSERT INTO pulls VALUES (?, ?, ?, ?, ?)", [(file, *p) for p in facts.pulls])
        self._many(
            "INSERT INTO commits VALUES (?, ?, ?, ?, ?)", [(file, *c) for c in facts.commits]
        )
        self._many(
            "INSERT INTO compactions VALUES (?, ?, ?, ?, ?)",
            [(file, *each) for each in facts.compactions],
        )
        if is_known:
            self._extend_turn(prompt, facts)
        if facts.prompts:
            self._add_prompts(file, facts, first)
            last = self.next_prompt - 1
            self.db.execute("UPDATE files SET prompt = ? WHERE id = ?", (last, file))

    def _extend_turn(self, prompt: int | None, facts: FileFacts) -> None:
        """Update the turn that began in an earlier part."""
        self.db.execute(
            "UPDATE prompts SET model = coalesce(model, :model),"
            " ended = coalesce(max(ended, :ended), ended, :ended),"
            " working = coalesce(working + :working, working, :working) WHERE id = :prompt",
            {
                "model": facts.model_before,
                "ended": facts.ended_before,
                "working": facts.working_before,
                "prompt": prompt,
            },
        )

    def settle(self) -> None:
        """Dedupe across files: one copy counts, for a message with the largest usage of any copy.

        The first build defers this to its end: see `end_first_build`.
        """
        if is_built(self.db):
            for name in KEYED:
                self._settle(name)
        self.db.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")

    def end_first_build(self) -> None:
        """Create the database indexes that the first build omitted, and dedupe everything."""
        add_indexes(self.db)
        for name in KEYED:
            copied = f"SELECT key FROM {name} GROUP BY key HAVING count(*) > 1"
            self._touch(name, (key for (key,) in self.db.execute(copied)))
        self.settle()

    def _file(
        self, source: SourceFile, facts: FileFacts, names: SessionNames
    ) -> tuple[int, int | None]:
        """Insert or update the row of a file; return its id and the prompt of its last line."""
        values: dict[str, Any] = {
            "path": source.name,
            "store": source.store,
            "opened_by": source.stem.removeprefix("agent-"),
            "session": source.owner or facts.session,
            "is_subagent": source.is_subagent,
            "is_gone": source.archived is not None,
            "project": facts.cwd,
            "title": _encodable(names.title),
            "tag": _encodable(names.tag),
            "slug": _encodable(facts.slug),
            "started": facts.started,
            "ended": facts.ended,
            **source.state._asdict(),
            "reached": facts.carry.bookmark.offset,
            "carry": _encode(facts.carry).decode(),
        }
        self.db.execute(UPSERT_FILE, values)
        found = self._row("SELECT id, prompt FROM files WHERE path = ?", values["path"])
        assert found
        return found[0], found[1]

    def _add_prompts(self, file: int, facts: FileFacts, first: int) -> None:
        self._touch("prompts", (prompt.key for prompt in facts.prompts))
        self._many(
            "INSERT INTO prompts (id, file, text, line, key, kind, at, ended, branch, is_copy,"
            " model, working, permission_mode) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(id_, file, *_prompt_row(prompt)) for id_, prompt in enumerate(facts.prompts, first)],
        )

    def _add_to_known(self, file: int, said: list[MessageFact]) -> list[MessageFact]:
        """Merge messages that an earlier part already had; return the others."""
        new: list[MessageFact] = []
        for each in said:
            known = self._row(
                "SELECT id, usage FROM messages WHERE file = ? AND key = ?", file, each.key
            )
            if known:
                # A message spans several lines, one per block, and each repeats the usage so far.
                # The part may have ended between two of them, so the largest count of both parts is
                # the right one.
                usage = larger_usage(_decode_usage(known[1]), each.usage)
                self.db.execute(
                    "UPDATE messages SET usage = ?, request = coalesce(request, ?),"
                    " stop_reason = coalesce(?, stop_reason) WHERE id = ?",
                    (_encode(usage), each.request, each.stop_reason, known[0]),
                )
                self._set_figures(known[0], usage)
                self._touch("messages", [each.key])
            else:
                new.append(each)
        return new

    def _add_messages(self, file: int, said: list[MessageFact], owners: Owners) -> None:
        self._touch("messages", (each.key for each in said))
        marks = ", ".join("?" * 22)
        self._many(
            "INSERT INTO messages (file, line, prompt, key, request, model, at, branch, version,"
            " stop_reason, is_copy, is_subagent, usage, is_understated,"
            f" {', '.join(FIGURES)}, counts) VALUES ({marks})",
            [_message_row(file, each, owners) for each in said],
        )

    def _add_calls(self, file: int, facts: FileFacts, owners: Owners) -> None:
        self._touch("calls", facts.uses)
        self._many(
            ADD_CALL,
            [_call_row(file, use, owners) for use in facts.uses.values()],
        )
        self._many(
            "UPDATE calls SET result_line = ?, ended = ?, is_error = ?, error = ?, is_rejected = ?,"
            " added = coalesce(?, added), removed = coalesce(?, removed)"
            " WHERE file = ? AND key = ?",
            [
                (*_outcome(answer), answer.added, answer.removed, file, answer.key)
                for answer in facts.answers.values()
            ],
        )

    def _settle(self, name: str) -> None:
        # Forking or resuming copies lines into a new file, so a message may be in many files, but
        # was paid for once. The copy that counts is the first in this order: one written by its own
        # session (is_copy = 0) before one copied from elsewhere, then by the file's id, path and
        # line, so that the choice does not depend on the order in which files are read, nor, for
        # different sessions, on where they are stored. Example: session B is a fork
        # of A, and both have msg_1. A's row counts. When A is deleted, its keys are in `lost`, and
        # B's row counts from then on.
        request = "t.request" if name == "messages" else "NULL"
        rows = self.db.execute(
            f"SELECT t.key, t.id, {request} FROM {name} t JOIN files f ON f.id = t.file"
            " WHERE t.key IN ("
            f"  SELECT t.key FROM json_each(?) k JOIN {name} t ON t.key = k.value"
            "  GROUP BY t.key HAVING count(*) > 1 UNION ALL SELECT value FROM json_each(?)"
            ") ORDER BY t.key, t.is_copy, f.opened_by, f.path, t.line",
            (_encode(self.touched[name]).decode(), _encode(self.lost[name]).decode()),
        ).fetchall()
        for _, group in groupby(rows, key=lambda row: row[0]):
            for ids in _by_request([(id_, asked) for _, id_, asked in group]):
                self._many(
                    f"UPDATE {name} SET counts = ? WHERE id = ?",
                    [(rank == 0, id_) for rank, id_ in enumerate(ids)],
                )
                if name == "messages":
                    self._settle_usage(ids)

    def _settle_usage(self, ids: list[int]) -> None:
        """Set the largest usage of all copies on the one that counts; others keep their own."""
        usages = [
            _decode_usage(self._one("SELECT usage FROM messages WHERE id = ?", id_)) for id_ in ids
        ]
        for id_, usage in zip(ids[1:], usages[1:], strict=True):
            self._set_figures(id_, usage)
        self._set_figures(ids[0], reduce(larger_usage, usages))

    def _set_figures(self, message: int, usage: Usage) -> None:
        row = self._row("SELECT model, at FROM messages WHERE id = ?", message)
        assert row
        names = ", ".join(f"{name} = ?" for name in FIGURES)
        self.db.execute(
            f"UPDATE messages SET {names} WHERE id = ?",
            (*figures_of(row[0], row[1], usage), message),
        )

    def _touch(self, name: str, keys: Iterable[str]) -> None:
        self.touched[name].update(keys)

    def _many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:  # most files have no rows for most tables
            self.db.executemany(statement, rows)

    def _row(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        return self.db.execute(statement, values).fetchone()

    def _one(self, statement: str, *values: Any) -> Any:
        return self.db.execute(statement, values).fetchone()[0]


def _by_request(copies: list[tuple[int, str | None]]) -> list[list[int]]:
    """Group copies by request; a copy without a request belongs to the first request.

    >>> _by_request([(1, "a"), (2, None), (3, "b")])
    [[1, 2], [3]]
    """
    first = next((request for _, request in copies if request), None)
    groups: dict[str | None, list[int]] = {}
    for id_, request in copies:
        groups.setdefault(request or first, []).append(id_)
    return list(groups.values())


def _encodable(text: str | None) -> str | None:
    """Return a text with lone surrogates replaced, because SQLite refuses them."""
    return text and text.encode(errors="replace").decode()


def known_files(db: sqlite3.Connection, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
    """Return the states of some files in the index, or of all, by path."""
    where = "" if paths is None else f"WHERE path IN ({', '.join('?' * len(paths))})"
    statement = f"SELECT path, inode, size, mtime_ns, reached, is_gone FROM files {where}"
    rows = db.execute(statement, paths or ())
    return {
        path: KnownFile(FileState(*state), reached, bool(gone))
        for path, *state, reached, gone in rows
    }


UPSERT_FILE = """
INSERT INTO files (path, store, opened_by, session, is_subagent, is_gone, project, title, tag,
    slug, started, ended, size, mtime_ns, inode, reached, carry)
VALUES (:path, :store, :opened_by, :session, :is_subagent, :is_gone, :project, :title, :tag,
    :slug, :started, :ended, :size, :mtime_ns, :inode, :reached, :carry)
ON CONFLICT (path) DO UPDATE SET
    session = coalesce(session, excluded.session),
    project = coalesce(project, excluded.project),
    title = excluded.title,
    tag = excluded.tag,
    slug = coalesce(excluded.slug, slug),
    started = coalesce(min(started, excluded.started), started, excluded.started),
    ended = coalesce(max(ended, excluded.ended), ended, excluded.ended),
    size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode,
    reached = excluded.reached, carry = excluded.carry, is_gone = excluded.is_gone
"""

ADD_CALL = """
INSERT INTO calls (command, file, line, prompt, key, tool, at, branch, path, model, is_copy,
    is_subagent, added, removed, result_line, ended, is_error, error, is_rejected)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (file, key) DO UPDATE SET
    result_line = excluded.result_line, ended = excluded.ended,
    is_error = excluded.is_error, error = excluded.error, is_rejected = excluded.is_rejected,
    added = excluded.added, removed = excluded.removed
WHERE excluded.result_line IS NOT NULL
"""


def _prompt_row(prompt: PromptFact) -> tuple[Any, ...]:
    # Cut here and not where it is read, because looking for secrets would delay the first report.
    line, key, kind, at, ended, branch, text, *rest = astuple(prompt)
    return cut_whole(text, HEAD), line, key, kind, at, ended, branch, *rest


def _call_row(file: int, use: CallFact, owners: Owners) -> tuple[Any, ...]:
    line, prompt, key, tool, at, branch, path, command, *rest = astuple(use)
    start = command and cut_whole(command, HEAD)
    return start, file, line, owners[prompt], key, tool, at, branch, path, *rest


def _outcome(answer: ResultFact) -> tuple[Any, ...]:
    return answer.line, answer.at, answer.is_error, answer.error, answer.is_rejected


def _message_row(file: int, said: MessageFact, owners: Owners) -> tuple[Any, ...]:
    return (
        *(file, said.line, owners[said.prompt], said.key, said.request, said.model, said.at),
        *(said.branch, said.version, said.stop_reason, said.is_copy, said.is_subagent),
        _encode(said.usage),
        understates_output(said.version),
        *said.figures,
        1,
    )
