"""Search the index and return hits grouped by session and turn, best first.

Texts are read from the session files only as hits are shown.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from msgspec import Struct

from turnlog.index.known_files import File, Files
from turnlog.index.search.candidates import Candidate
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.pattern_search import scan
from turnlog.index.search.query import Query
from turnlog.index.search.snippets import finder_of, snippet_of
from turnlog.index.search.word_search import Begun, SearchTerms, begin, rank
from turnlog.index.searchable_texts import text_at
from turnlog.secrets import cut_whole, mask
from turnlog.store.paths import Store
from turnlog.store.resume_command import file_command

READ = 7
"""Maximum number of texts read per text shown, to make up for duplicates that are skipped."""
PROMPT = 300
"""Characters of a prompt that are shown."""


class Hit(Struct):
    """A text that matched."""

    kind: str
    """title, prompt, answer, thinking, input, result, summary or note"""
    tool: str | None
    is_error: bool
    line: int
    time: str | None
    text: str
    """The snippet around the match."""
    marks: list[tuple[int, int]]
    """Character ranges of the matches in `text`."""


class TurnHits(Struct):
    """The hits in one turn, or in a sub-agent."""

    id: str
    """The id of the session or sub-agent, for `turnlog show`."""
    is_subagent: bool
    prompt: str | None
    """The start of the prompt; None for titles, which belong to no turn."""
    hits: list[Hit]


class SessionHits(Struct):
    """The hits in one session."""

    id: str
    path: str
    store: str
    """The directory of the store that it is in."""
    project: str | None
    title: str | None
    last_active: str | None
    turns: list[TurnHits]
    more: int
    """At least this many more hits."""
    resume: str | None = None
    """The shell command that resumes the session; None if no client resumes it."""
    score: float | None = None
    """How similar it is, from 0 to 1, in a search by meaning."""


class ResultLimits(Struct, frozen=True):
    """Limits on the hits shown per session."""

    turns: int = 3
    hits: int = 2
    """Hits per turn."""
    reveal: bool = False
    """Show secrets instead of masking them."""
    hides_secrets: bool = False
    """Leave out texts that match only inside of a secret."""
    needs_match: bool = True
    """False if texts were also found by meaning, and may have none of the words."""


def search(
    db: sqlite3.Connection, terms: SearchTerms, shown: ResultLimits, begun: Begun | None = None
) -> Iterator[SessionHits]:
    """Yield the sessions with hits, best first; for a pattern, the most recently active first."""
    if terms.query.pattern:
        with closing(Reader(terms.archive)) as reader:
            yield from read_hits(db, terms, scan(Files(db), reader, terms), shown)
    else:
        yield from read_hits(db, terms, rank(db, terms, begun or begin(db, terms)), shown)


def read_hits(
    db: sqlite3.Connection,
    terms: SearchTerms,
    found: Iterable[list[Candidate]],
    shown: ResultLimits,
) -> Iterator[SessionHits]:
    """Yield the hits to show for candidates grouped by session, as many as the limit."""
    with closing(Reader(terms.archive)) as reader:
        snippets = SnippetReader(Files(db), reader, terms.query, shown)
        results = (hits for candidates in found if (hits := snippets.read(candidates)).turns)
        yield from islice(results, terms.limit or None)


class SnippetReader:
    """Reads the texts of candidates and dedupes them across files."""

    def __init__(self, files: Files, reader: Reader, query: Query, shown: ResultLimits) -> None:
        self.files = files
        self.reader = reader
        self.find = finder_of(query)
        self.shown = shown
        self.shown_keys: set[tuple[object, ...]] = set()

    def read(self, candidates: list[Candidate]) -> SessionHits:
        """Return the hits to show for a session."""
        main = self.files.main(self.files[candidates[0].file])
        if self.shown.hides_secrets and self.shown.needs_match:
            candidates = self.visible(candidates)
        by_turn: dict[tuple[int, int | None], list[Candidate]] = {}
        for each in candidates[: self._most]:
            prompt = None if each.kind == "title" else each.prompt
            by_turn.setdefault((each.file, prompt), []).append(each)
        turns: list[TurnHits] = []
        for (file, prompt), members in by_turn.items():
            hits = self._hits(self.files[file], members)
            if hits and len(turns) < self.shown.turns:
                turns.append(self._turn(self.files[file], prompt, hits))
        path = Path(main.path)
        return SessionHits(
            id=main.opened_by,
            path=main.path,
            store=main.store,
            project=main.project,
            title=self._masked(main.title),
            last_active=_moment(main.ended),
            turns=turns,
            more=len(candidates) - sum(len(turn.hits) for turn in turns),
            resume=file_command(path, main.project, Store(path.parents[2])),
        )

    def visible(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return the first candidates, omitting those that match only inside of a secret.

        Otherwise searches for `ghp_a`, `ghp_b` … could spell out a secret: it is enough to see
        which of them succeed.
        """
        return [each for each in candidates[: self._most] if self._is_visible(each)]

    @property
    def _most(self) -> int:
        return READ * self.shown.turns * self.shown.hits

    def _turn(self, file: File, prompt: int | None, hits: list[Hit]) -> TurnHits:
        text = None if hits[0].kind == "title" else self._prompt(file, prompt)
        name = self.files.short_name(file)
        return TurnHits(name, bool(file.is_subagent), self._masked(text), hits)

    def _hits(self, file: File, candidates: Sequence[Candidate]) -> list[Hit]:
        hits: list[Hit] = []
        for candidate in candidates:
            if len(hits) < self.shown.hits and (hit := self._hit(file, candidate)):
                hits.append(hit)
        return hits

    def _hit(self, file: File, candidate: Candidate) -> Hit | None:
        text = self.text_of(candidate)
        if self.shown.hides_secrets:  # a snippet around a part of a secret would confirm it, too
            text = mask(text)
        # A forked session repeats the lines of its origin with the same times: show each text once.
        key = (candidate.kind, candidate.at or file.id, text)
        if not text or key in self.shown_keys:
            return None
        self.shown_keys.add(key)
        snippet = snippet_of(text, self.find, self.shown.reveal)
        return Hit(
            kind=candidate.kind,
            tool=candidate.tool,
            is_error=bool(candidate.is_error),
            line=candidate.line,
            time=_moment(candidate.at),
            text=snippet.text,
            marks=snippet.marks,
        )

    def _is_visible(self, candidate: Candidate) -> bool:
        """Return whether a text matches outside of its secrets, or has none."""
        text = self.text_of(candidate)
        masked = mask(text)
        return masked == text or any(self.find(masked))

    def text_of(self, candidate: Candidate) -> str:
        """Return the whole text of a candidate."""
        line = self.reader.line(self.files[candidate.file], candidate.offset, candidate.size)
        return text_at(line, candidate.part)

    def _prompt(self, file: File, prompt: int | None) -> str | None:
        """Return the prompt of a turn, or the prompt that started a sub-agent."""
        db = self.files.db
        if prompt is not None:
            row = db.execute("SELECT text FROM prompts WHERE id = ?", (prompt,)).fetchone()
            return row[0] if row else None
        first = "SELECT offset, size, part FROM docs WHERE file = ? AND kind = 'prompt' ORDER BY id"
        row = db.execute(f"{first} LIMIT 1", (file.id,)).fetchone()
        text = text_at(self.reader.line(file, *row[:2]), row[2]) if row else ""
        return cut_whole(text, PROMPT) or None

    def _masked(self, text: str | None) -> str | None:
        return text if text is None or self.shown.reveal else mask(text)


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
