"""From a query to hits, best first, by session and turn; texts are read as they are shown."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from time import time

from msgspec import Struct

from turnlog.index.candidates import Candidate
from turnlog.index.files import File, Files
from turnlog.index.finding import Search, candidates_by_session
from turnlog.index.query import Query, parse_query
from turnlog.index.reading import Reader, texts_in
from turnlog.index.selection import Selection
from turnlog.index.snippets import finder_of, snippet_of
from turnlog.secrets import mask

READ = 7
"""How many times as many texts as are shown are read at most, to find some that were not yet."""
PROMPT = 300
"""How many characters of a prompt are shown."""


class Hit(Struct):
    """A text that was found."""

    kind: str
    """title, prompt, answer, thinking, input, result, summary or note"""
    tool: str | None
    is_error: bool
    line: int
    time: str | None
    text: str
    """The part of it that shows why."""
    marks: list[tuple[int, int]]
    """Where in `text` the hits are, in characters."""


class TurnHits(Struct):
    """The hits in a turn, or in a sub-agent."""

    id: str
    """Of the session or the sub-agent, for `turnlog show`."""
    is_subagent: bool
    prompt: str | None
    """The start of what was asked; null for titles, which belong to no turn."""
    hits: list[Hit]


class SessionHits(Struct):
    """The hits in a session."""

    id: str
    path: str
    project: str | None
    title: str | None
    last_active: str | None
    turns: list[TurnHits]
    more: int
    """At least so many further hits."""


class Options(Struct, frozen=True):
    """How much to show."""

    limit: int = 10
    """Of sessions; 0 for all."""
    turns: int = 3
    """Of a session."""
    hits: int = 2
    """Of a turn."""
    reveal: bool = False
    """Show secrets."""


def understand(text: str, is_regex: bool = False) -> Query:
    """What was typed, as a query; signs alone are looked for as they are."""
    query = None if is_regex else parse_query(text)
    if query and query.match:
        return query
    from turnlog.index.pattern import literal_query, parse_pattern

    return parse_pattern(text) if is_regex else literal_query(text.strip())


def search(
    db: sqlite3.Connection,
    query: Query,
    selection: Selection,
    options: Options,
    archive: Path | None = None,
) -> Iterator[SessionHits]:
    """The sessions that have hits, best first; of a pattern those active last first."""
    # The rules for secrets are compiled while SQLite ranks, which needs no interpreter.
    Thread(target=mask, args=("",)).start()
    with closing(Reader(archive)) as reader:
        wanted = Search(Files(db), reader, query, selection, options.limit, time())
        teller = _Teller(wanted, options)
        shown = 0
        for candidates in candidates_by_session(wanted):
            found = teller.tell(candidates)
            if found.turns:
                shown += 1
                yield found
            if shown == options.limit != 0:
                return


class _Teller:
    """Reads the texts of candidates; what several files have is told once."""

    def __init__(self, wanted: Search, options: Options) -> None:
        self.files = wanted.files
        self.reader = wanted.reader
        self.find = finder_of(wanted.query)
        self.options = options
        self.told: set[tuple[object, ...]] = set()

    def tell(self, candidates: list[Candidate]) -> SessionHits:
        """What is to be shown of a session."""
        main = self.files.main(self.files[candidates[0].file])
        by_turn: dict[tuple[int, int | None], list[Candidate]] = {}
        for each in candidates[: READ * self.options.turns * self.options.hits]:
            prompt = None if each.kind == "title" else each.prompt
            by_turn.setdefault((each.file, prompt), []).append(each)
        turns: list[TurnHits] = []
        for (file, prompt), members in by_turn.items():
            hits = self._hits(self.files[file], members)
            if hits and len(turns) < self.options.turns:
                turns.append(self._turn(self.files[file], prompt, hits))
        return SessionHits(
            id=main.name,
            path=main.path,
            project=main.project,
            title=self._shown(main.title),
            last_active=_moment(main.ended),
            turns=turns,
            more=len(candidates) - sum(len(turn.hits) for turn in turns),
        )

    def _turn(self, file: File, prompt: int | None, hits: list[Hit]) -> TurnHits:
        text = None if hits[0].kind == "title" else self._prompt(file, prompt)
        name = self.files.short_name(file)
        return TurnHits(name, bool(file.is_subagent), self._shown(text), hits)

    def _hits(self, file: File, candidates: Sequence[Candidate]) -> list[Hit]:
        hits: list[Hit] = []
        for candidate in candidates:
            if len(hits) < self.options.hits:
                hits += self._hit(file, candidate)
        return hits

    def _hit(self, file: File, candidate: Candidate) -> list[Hit]:
        raw = self.reader.line(file, candidate.offset, candidate.size)
        texts = texts_in(raw, candidate.kind)
        for text in [text for text in texts if any(self.find(text))] or texts[:1]:
            key = (candidate.kind, candidate.at or file.id, text)
            if key not in self.told:
                self.told.add(key)
                shown = snippet_of(text, self.find, self.options.reveal)
                return [
                    Hit(
                        kind=candidate.kind,
                        tool=candidate.tool,
                        is_error=bool(candidate.is_error),
                        line=candidate.line,
                        time=_moment(candidate.at),
                        text=shown.text,
                        marks=shown.marks,
                    )
                ]
        return []

    def _prompt(self, file: File, prompt: int | None) -> str | None:
        """What was asked in a turn; of a sub-agent, what it was started with."""
        db = self.files.db
        if prompt is not None:
            row = db.execute("SELECT text FROM prompts WHERE id = ?", (prompt,)).fetchone()
            return row[0] if row else None
        first = "SELECT offset, size FROM docs WHERE file = ? AND kind = 'prompt' ORDER BY id"
        places = db.execute(f"{first} LIMIT 1", (file.id,)).fetchall()
        raws = [self.reader.line(file, offset, size) for offset, size in places]
        return next((text[:PROMPT] for raw in raws for text in texts_in(raw, "prompt")), None)

    def _shown(self, text: str | None) -> str | None:
        return text if text is None or self.options.reveal else mask(text)


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
