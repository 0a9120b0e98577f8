"""Rank the texts that match a query, using only what the index stores about them."""

import sqlite3
from collections.abc import Iterator
from math import exp

from msgspec import Struct

from turnlog.index.search.selection import Selection, conditions

COMMON = 20_000
"""With more matches than this, columns are searched one by one, the most relevant first."""
TIERS = ("{asked}", "{said}", "{done}")
WEIGHTS = "bm25(8.0, 3.0, 1.0)"
"""Weights of the columns: asked, said, done."""
KIND_WEIGHTS = {"title": 3.0, "prompt": 2.5, "answer": 1.3, "input": 0.8, "result": 0.6}
COPY_WEIGHT = 0.5
"""Factor for a copy, so that the original comes first."""
AGENT_WEIGHT = 0.6
"""Factor for texts of sub-agents, whose prompts nobody typed."""
AGEING = 90 * 86_400
"""Seconds after which most of the bonus for recent texts is gone."""
COLUMNS = (
    "d.id, d.file, d.line, d.offset, d.size, d.part, d.kind, d.tool, d.is_error, d.at, d.prompt,"
    " coalesce(p.counts, 1), f.store || ' ' || coalesce(nullif(f.session, ''), f.path),"
    " f.is_subagent, coalesce(d.at, f.ended, 0.0)"
)
JOINED = "docs d JOIN files f ON f.id = d.file LEFT JOIN prompts p ON p.id = d.prompt"


class IndexedText(Struct, frozen=True):
    """A text of the index, and its position in a file."""

    id: int
    file: int
    line: int
    offset: int
    size: int
    part: int
    """Its number among the texts of the line."""
    kind: str
    tool: str | None
    is_error: bool
    at: float | None


class Candidate(IndexedText, frozen=True):
    """A text that may be shown."""

    prompt: int | None
    counts: bool
    owner: str
    """The store and the session, or the path of the file if the session is unknown."""
    is_subagent: bool
    newest: float
    """The time of the text, or the last time in its file."""
    rank: float = 0.0
    """FTS5's bm25 rank: the lower, the better."""


def tiers_of(db: sqlite3.Connection, match: str) -> tuple[str, ...]:
    """Split a query with many matches into one per column, the most relevant first."""
    counted = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    is_common = db.execute(counted, (match, COMMON + 1)).fetchone()[0] > COMMON
    return tuple(f"{tier} : ({match})" for tier in TIERS) if is_common else (match,)


def ranked(db: sqlite3.Connection, match: str, selection: Selection) -> Iterator[Candidate]:
    """Return the matching texts, the best bm25 rank first."""
    where, values = conditions(selection)
    rows = db.execute(
        # CROSS JOIN fixes the join order: FTS5 has to come first to deliver rows sorted by rank.
        f"SELECT {COLUMNS}, rank FROM words CROSS JOIN {JOINED}"
        " WHERE words MATCH :match AND rank MATCH :weights AND d.id = words.rowid"
        f" AND {where} ORDER BY rank",
        {**values, "match": match, "weights": WEIGHTS},
    )
    return (Candidate(*row) for row in rows)


def unranked(db: sqlite3.Connection, match: str, selection: Selection) -> Iterator[Candidate]:
    """Return the matching texts in no particular order."""
    where, values = conditions(selection)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM words CROSS JOIN {JOINED}"
        f" WHERE words MATCH :match AND d.id = words.rowid AND {where}",
        {**values, "match": match},
    )
    return (Candidate(*row) for row in rows)


def in_file(db: sqlite3.Connection, file: int, selection: Selection) -> Iterator[Candidate]:
    """Return the texts of a file in order."""
    where, values = conditions(selection)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM {JOINED} WHERE d.file = :id AND {where} ORDER BY d.id",
        {**values, "id": file},
    )
    return (Candidate(*row) for row in rows)


def score(candidate: Candidate, now: float) -> float:
    """Return a candidate's score from its words, its kind and, slightly, its age."""
    age = max(0.0, now - candidate.newest)
    weight = KIND_WEIGHTS.get(candidate.kind, 1.0) * (0.7 + 0.3 * exp(-age / AGEING))
    if not candidate.counts:
        weight *= COPY_WEIGHT
    if candidate.is_subagent:
        weight *= AGENT_WEIGHT
    return max(-candidate.rank, 1e-9) * weight
