"""Write figures into the tables, and settle over all files which copy of a thing counts."""

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
from turnlog.index.ingest.facts import FileFacts, MessageFact
from turnlog.index.ingest.figures import FIGURES, figures_of
from turnlog.store.archive.archive import ArchivedCopy

KEYED = ("prompts", "messages", "calls")
"""Tables of things that other files may have as well."""
OF_FILES = (*KEYED, "pulls", "commits", "compactions", "docs")

Owners = dict[int | None, int | None]
"""The ids of prompts by their ranks in a part; under None that of the one before."""

_encode = msgspec.json.Encoder().encode
_decode_usage = msgspec.json.Decoder(Usage).decode


class SourceFile(NamedTuple):
    """A file to be read into the index."""

    name: str
    """Its path; as text, because most files need not be read, and paths take long to make."""
    state: FileState
    owner: str | None
    """The session that it lies with; unknown for sub-agents of 2.0.x, whose lines tell."""
    is_subagent: bool
    archived: ArchivedCopy | None = None
    """Where to read a file that is gone."""

    @property
    def path(self) -> Path:
        return Path(self.name)

    @property
    def stem(self) -> str:
        return os.path.splitext(os.path.basename(self.name))[0]  # noqa: PTH119, PTH122


class KnownFile(NamedTuple):
    """What the index knows of a file."""

    state: FileState
    reached: int
    is_gone: bool

    def is_of(self, source: SourceFile) -> bool:
        """Whether it was read as it is now."""
        return self.state == source.state and self.is_gone == (source.archived is not None)


class Writer:
    """Writes facts in one transaction, and settles at its end what they change elsewhere."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.touched: dict[str, set[str]] = {name: set() for name in KEYED}
        """Keys of which a copy was added or changed."""
        self.lost: dict[str, set[str]] = {name: set() for name in KEYED}
        """Keys of which a copy was removed."""
        self.next_prompt: int = self._one("SELECT coalesce(max(id), 0) + 1 FROM prompts")

    def known(self, path: str) -> KnownFile | None:
        """What the index knows of a file by now."""
        return known_files(self.db, [path]).get(path)

    def remove(self, path: str) -> None:
        """Take a file out."""
        file = self._row("SELECT id FROM files WHERE path = ?", path)
        if file is None:
            return
        for name in KEYED:
            rows = self.db.execute(f"SELECT key FROM {name} WHERE file = ?", file)
            self.lost[name].update(key for (key,) in rows)
        for name in OF_FILES:
            self.db.execute(f"DELETE FROM {name} WHERE file = ?", file)
        self.db.execute("DELETE FROM files WHERE id = ?", file)

    def add(self, source: SourceFile, facts: FileFacts, title: str | None, is_known: bool) -> None:
        """Add the facts of a part of a file to those of its earlier parts."""
        file, prompt = self._file(source, facts, title)
        first = self.next_prompt
        owners: Owners = {None: prompt}
        if source.is_subagent:
            for each in (*facts.said.values(), *facts.uses.values()):
                each.is_subagent = True
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
            self._go_on(prompt, facts)
        if facts.prompts:
            self._add_prompts(file, facts, first)
            last = self.next_prompt - 1
            self.db.execute("UPDATE files SET prompt = ? WHERE id = ?", (last, file))

    def _go_on(self, prompt: int | None, facts: FileFacts) -> None:
        """Add to the turn that began in an earlier part."""
        self.db.execute(
            "UPDATE prompts SET model = coalesce(model, ?1),"
            " ended = coalesce(max(ended, ?2), ended, ?2),"
            " working = coalesce(working + ?4, working, ?4) WHERE id = ?3",
            (facts.model_before, facts.ended_before, prompt, facts.working_before),
        )

    def settle(self) -> None:
        """Deduplicate across files: one copy counts, of messages with the largest counts.

        The first build leaves that to its end: see `end_first_build`.
        """
        if is_built(self.db):
            for name in KEYED:
                self._settle(name)
        self.db.execute("UPDATE about SET value = value + 1 WHERE name = 'generation'")

    def end_first_build(self) -> None:
        """Add the indexes that the first build did without, and settle everything at once."""
        add_indexes(self.db)
        for name in KEYED:
            copied = f"SELECT key FROM {name} GROUP BY key HAVING count(*) > 1"
            self._touch(name, (key for (key,) in self.db.execute(copied)))
        self.settle()

    def _file(
        self, source: SourceFile, facts: FileFacts, title: str | None
    ) -> tuple[int, int | None]:
        """The row of a file, brought up to date, and the prompt that its last line was of."""
        values: dict[str, Any] = {
            "path": source.name,
            "opened_by": source.stem.removeprefix("agent-"),
            "session": source.owner or facts.session,
            "is_subagent": source.is_subagent,
            "is_gone": source.archived is not None,
            "project": facts.cwd,
            "title": title and title.encode(errors="replace").decode(),
            "slug": facts.slug and facts.slug.encode(errors="replace").decode(),
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
            "INSERT INTO prompts (id, file, line, key, kind, at, ended, branch, text, is_copy,"
            " model, working, permission_mode) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(id_, file, *astuple(prompt)) for id_, prompt in enumerate(facts.prompts, first)],
        )

    def _add_to_known(self, file: int, said: list[MessageFact]) -> list[MessageFact]:
        """Add to messages of which an earlier part told as well; give the others."""
        new: list[MessageFact] = []
        for each in said:
            known = self._row(
                "SELECT id, usage FROM messages WHERE file = ? AND key = ?", file, each.key
            )
            if known:
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
            [
                (file, use.line, owners[use.prompt], *astuple(use)[2:])
                for use in facts.uses.values()
            ],
        )
        self._many(
            "UPDATE calls SET result_line = ?, ended = ?, is_error = ?, error = ?,"
            " added = coalesce(?, added), removed = coalesce(?, removed)"
            " WHERE file = ? AND key = ?",
            [
                (a.line, a.at, a.is_error, a.error, a.added, a.removed, file, a.key)
                for a in facts.answers.values()
            ],
        )

    def _settle(self, name: str) -> None:
        request = "t.request" if name == "messages" else "NULL"
        rows = self.db.execute(
            f"SELECT t.key, t.id, {request} FROM {name} t JOIN files f ON f.id = t.file"
            " WHERE t.key IN ("
            f"  SELECT t.key FROM json_each(?1) k JOIN {name} t ON t.key = k.value"
            "  GROUP BY t.key HAVING count(*) > 1 UNION ALL SELECT value FROM json_each(?2)"
            ") ORDER BY t.key, t.is_copy, f.path, t.line",
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
        """Give the copy that counts the largest figures of all, the others their own."""
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
    """Group copies by request; one that names no request is taken for a copy of the first.

    >>> _by_request([(1, "a"), (2, None), (3, "b")])
    [[1, 2], [3]]
    """
    first = next((request for _, request in copies if request), None)
    groups: dict[str | None, list[int]] = {}
    for id_, request in copies:
        groups.setdefault(request or first, []).append(id_)
    return list(groups.values())


def known_files(db: sqlite3.Connection, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
    """What the index knows of some files, or of all, by their paths."""
    where = "" if paths is None else f"WHERE path IN ({', '.join('?' * len(paths))})"
    asked = f"SELECT path, inode, size, mtime_ns, reached, is_gone FROM files {where}"
    rows = db.execute(asked, paths or ())
    return {
        path: KnownFile(FileState(*state), reached, bool(gone))
        for path, *state, reached, gone in rows
    }


UPSERT_FILE = """
INSERT INTO files (path, opened_by, session, is_subagent, is_gone, project, title, slug, started,
    ended, size, mtime_ns, inode, reached, carry)
VALUES (:path, :opened_by, :session, :is_subagent, :is_gone, :project, :title, :slug,
    :started, :ended, :size, :mtime_ns, :inode, :reached, :carry)
ON CONFLICT (path) DO UPDATE SET
    session = coalesce(session, excluded.session),
    project = coalesce(project, excluded.project),
    title = excluded.title,
    slug = coalesce(excluded.slug, slug),
    started = coalesce(min(started, excluded.started), started, excluded.started),
    ended = coalesce(max(ended, excluded.ended), ended, excluded.ended),
    size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode,
    reached = excluded.reached, carry = excluded.carry, is_gone = excluded.is_gone
"""

ADD_CALL = """
INSERT INTO calls (file, line, prompt, key, tool, at, branch, path, command, added, removed, model,
    is_copy, is_subagent, result_line, ended, is_error, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (file, key) DO UPDATE SET
    result_line = excluded.result_line, ended = excluded.ended,
    is_error = excluded.is_error, error = excluded.error,
    added = excluded.added, removed = excluded.removed
WHERE excluded.result_line IS NOT NULL
"""


def _message_row(file: int, said: MessageFact, owners: Owners) -> tuple[Any, ...]:
    return (
        *(file, said.line, owners[said.prompt], said.key, said.request, said.model, said.at),
        *(said.branch, said.version, said.stop_reason, said.is_copy, said.is_subagent),
        _encode(said.usage),
        understates_output(said.version),
        *said.figures,
        1,
    )
