"""Read the texts of a preview: those around a match, or the last texts of a session.

The index knows the offset of each text, so only these lines are read, however large the session is.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from turnlog.index.known_files import Files
from turnlog.index.search.candidates import IndexedText
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.query import Query
from turnlog.index.search.session_ranking import (
    find_document,
    last_texts,
    texts_around,
)
from turnlog.index.search.snippets import Snippet, finder_of, snippet_of
from turnlog.index.searchable_texts import text_at
from turnlog.secrets import mask_start

SHOWN_KINDS = ("prompt", "answer", "summary")
"""Kinds of texts around a match that a preview shows."""
BEFORE, AFTER = 2, 6
LAST = 6
"""Number of texts at the end of a session that are shown without a search."""
LONGEST = 600
"""Characters of a text in the preview."""


class PreviewText(NamedTuple):
    """A text of a preview."""

    place: IndexedText
    snippet: Snippet
    is_match: bool


class SessionPreview(NamedTuple):
    """Texts around a match, or the last ones of a session."""

    path: str
    """The file that they are in."""
    texts: list[PreviewText]


def read_preview(
    db: sqlite3.Connection, number: int, query: Query | None, document: int | None
) -> SessionPreview | None:
    """Return the texts around the best match in a session, or its last texts; mask secrets."""
    if query and document is None:
        document = find_document(db, number, query)
    if document is not None:
        places = texts_around(db, document, SHOWN_KINDS, BEFORE, AFTER)
    else:
        places = last_texts(db, number, SHOWN_KINDS, LAST)
    if not places:
        return None
    file = Files(db)[places[0].file]
    with closing(Reader()) as reader:
        lines = [(place, reader.line(file, place.offset, place.size)) for place in places]
    texts = [
        PreviewText(place, snippet, place.id == document)
        for place, raw in lines
        if (snippet := _snippet(place, raw, query if place.id == document else None)).text
    ]
    return SessionPreview(str(Path(file.path)), texts)


def _snippet(place: IndexedText, raw: bytes, query: Query | None) -> Snippet:
    text = text_at(raw, place.part)
    if query is None:
        return Snippet(mask_start(text, LONGEST), [])
    return snippet_of(text, finder_of(query))
