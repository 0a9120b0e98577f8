"""The texts that a query matches, best first, as far as the index can tell without reading them."""

import sqlite3
from collections.abc import Iterator
from math import exp

from msgspec import Struct

from turnlog.index.search.selection import Selection, conditions

COMMON = 20_000
"""A query that more texts match is asked of what tells most first, and of the rest if need be."""
TIERS = ("{asked}", "{said}", "{done}")
WEIGHTS = "bm25(8.0, 3.0, 1.0)"
"""Of words in what was asked, said and done."""
KIND_WEIGHTS = {"title": 3.0, "prompt": 2.5, "answer": 1.3, "input": 0.8, "result": 0.6}
COPY_WEIGHT = 0.5
"""Of a text that another file has as well, so that the other one comes first."""
AGENT_WEIGHT = 0.6
"""Of a text of a sub-agent, whose prompt no one typed."""
AGEING = 90 * 86_400
"""Seconds in which a text loses most of what it has for being new."""
COLUMNS = (
    "d.id, d.file, d.line, d.offset, d.size, d.kind, d.tool, d.is_error, d.at, d.prompt,"
    " coalesce(p.counts, 1), coalesce(nullif(f.session, ''), f.path), f.is_subagent,"
    " coalesce(d.at, f.ended, 0.0)"
)
JOINED = "docs d JOIN files f ON f.id = d.file LEFT JOIN prompts p ON p.id = d.prompt"


class Candidate(Struct, frozen=True):
    """A text that may be shown, and where it is."""

    id: int
    file: int
    line: int
    offset: int
    size: int
    kind: str
    tool: str | None
    is_error: bool
    at: float | None
    prompt: int | None
    counts: bool
    owner: str
    """The session that it belongs to, or the path of its file where that is not known."""
    is_subagent: bool
    newest: float
    """When it was said, or the last of what its file tells."""
    rank: float = 0.0
    """By its words alone: the lower the better."""


def tiers_of(db: sqlite3.Connection, match: str) -> tuple[str, ...]:
    """A query, or for a common one its parts, those that tell most first."""
    counted = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    is_common = db.execute(counted, (match, COMMON + 1)).fetchone()[0] > COMMON
    return tuple(f"{tier} : ({match})" for tier in TIERS) if is_common else (match,)


def ranked(db: sqlite3.Connection, match: str, selection: Selection) -> Iterator[Candidate]:
    """The texts that match, those with the best words first."""
    where, values = conditions(selection)
    rows = db.execute(
        f"SELECT {COLUMNS}, rank FROM words CROSS JOIN {JOINED}"
        " WHERE words MATCH :match AND rank MATCH :weights AND d.id = words.rowid"
        f" AND {where} ORDER BY rank",
        {**values, "match": match, "weights": WEIGHTS},
    )
    return (Candidate(*row) for row in rows)


def unranked(db: sqlite3.Connection, match: str, selection: Selection) -> Iterator[Candidate]:
    """The texts that match, in no order."""
    where, values = conditions(selection)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM words CROSS JOIN {JOINED}"
        f" WHERE words MATCH :match AND d.id = words.rowid AND {where}",
        {**values, "match": match},
    )
    return (Candidate(*row) for row in rows)


def in_file(db: sqlite3.Connection, file: int, selection: Selection) -> Iterator[Candidate]:
    """The texts of a file, in their order."""
    where, values = conditions(selection)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM {JOINED} WHERE d.file = :id AND {where} ORDER BY d.id",
        {**values, "id": file},
    )
    return (Candidate(*row) for row in rows)


def score(candidate: Candidate, now: float) -> float:
    """How good a candidate is: its words, what it is, and a little how new it is."""
    age = max(0.0, now - candidate.newest)
    weight = KIND_WEIGHTS.get(candidate.kind, 1.0) * (0.7 + 0.3 * exp(-age / AGEING))
    if not candidate.counts:
        weight *= COPY_WEIGHT
    if candidate.is_subagent:
        weight *= AGENT_WEIGHT
    return max(-candidate.rank, 1e-9) * weight
