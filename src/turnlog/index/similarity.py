"""Find sessions by what they are about: like a text, or like another session.

The first of these searches makes the vectors of all texts; from then on, they are kept up to date
along with words. Nothing is sent anywhere unless the configuration names an endpoint.
"""

import re
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from turnlog.errors import NotFound, UsageError
from turnlog.index.database import Index
from turnlog.index.search.selection import Selection
from turnlog.index.semantic.embedding_models import EmbeddingModel, configured_model
from turnlog.index.semantic.static_model import NAME
from turnlog.index.semantic.vector_codes import StoredVector, mean_of, quantize
from turnlog.index.semantic.vector_store import (
    is_incomplete,
    rows_of_session,
    stored_model,
    use_model,
)
from turnlog.index.service import ALL_TURNS, LIMIT
from turnlog.index.sync_policy import SILENT, Feedback, synced_index
from turnlog.store.paths import archive_folder
from turnlog.store.stores import AnyStores

if TYPE_CHECKING:
    from turnlog.index.search.search import SessionHits

PROMPTS = 8
"""Maximum number of prompts of a session whose words are compared with others."""
_REFERENCE = re.compile(r"last|agent-\S+|\S+\.jsonl|[0-9a-f]{6,8}|[0-9a-f]{8}-[0-9a-f-]*")

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class LikeRequest(NamedTuple):
    """A search by meaning."""

    text: str = ""
    session: Path | None = None
    """The file of a session to compare with, instead of a text."""
    selection: Selection = Selection()
    limit: int = LIMIT
    reveal: bool = False
    hides_secrets: bool = False
    """Search the masked texts, so that neither hits nor their order confirm a part of a secret."""


def like_sessions(
    stores: AnyStores, request: LikeRequest, feedback: Feedback = SILENT
) -> "Iterator[SessionHits]":
    """Yield the sessions that are about the same as a text or a session, best first."""
    if not request.session and not request.text.strip():
        raise UsageError("--like needs a text or a session", "turnlog search --help")
    model = configured_model()
    # Embed the text first: if the endpoint does not answer, all other work would be wasted.
    vector = None if request.session else model.embed_texts([request.text])[0]
    with _index_with_vectors(stores, model, feedback) as index:
        from turnlog.index.search.like_search import FLOOR, LikeTerms, search_like
        from turnlog.index.search.search import ResultLimits

        text, without = request.text, None
        if request.session:
            without = str(request.session)
            text, vector = _describe(index.db, without)
        terms = LikeTerms(
            text,
            vector,
            request.selection,
            request.limit,
            archive_folder(),
            without,
            request.hides_secrets,
            # Vectors of another model, and means of vectors, have other cosines.
            FLOOR if model.name == NAME and not request.session else 0.0,
        )
        shown = ResultLimits(
            ALL_TURNS if request.selection.session else ResultLimits().turns,
            reveal=request.reveal,
            hides_secrets=request.hides_secrets,
            needs_match=False,
        )
        yield from search_like(index.db, terms, shown)


def session_named(stores: AnyStores, text: str) -> Path | None:
    """Return the file of the session that a text names by id, path or `last`; None for prose.

    Titles do not count: searched for as a text, a title finds its session and similar ones.
    """
    if not is_reference(text):
        return None
    # Imported late: prose is searched for without the catalog of sessions, which is slow to import.
    from turnlog.store.session_lookup import find_session

    text = text.strip()
    if text.endswith(".jsonl") or text == "last" or is_whole_id(text):
        return find_session(stores, text).path
    # `facade` and `decade` look like the start of an id.
    with suppress(NotFound):
        return find_session(stores, text).path
    return None


def is_reference(text: str) -> bool:
    """Return whether a text looks like the id or the path of a session.

    >>> is_reference("5e551011"), is_reference("last"), is_reference("last deploy failed")
    (True, True, False)
    """
    return _REFERENCE.fullmatch(text.strip()) is not None


def is_whole_id(text: str) -> bool:
    """Return whether a text is a UUID, which can only be the id of a session.

    >>> is_whole_id("5e551011-0000-4000-8000-000000000001"), is_whole_id("5e551011-0000")
    (True, False)
    """
    return _UUID.fullmatch(text.strip()) is not None


@contextmanager
def _index_with_vectors(
    stores: AnyStores, model: EmbeddingModel, feedback: Feedback
) -> Generator[Index]:
    """Open the index with words and vectors up to date."""
    with synced_index(stores, words=True, model=model.name, feedback=feedback) as index:
        # A server opens an index as it is; its vectors may be of another model.
        if stored_model(index.db) != model.name:
            use_model(index.db, model.name)
        if is_incomplete(index.db):
            from turnlog.index.ingest.vector_phase import embed_missing

            with feedback.progress() as progress:
                embed_missing(index.db, model, archive_folder(), progress)
        yield index


def _describe(db: sqlite3.Connection, path: str) -> tuple[str, StoredVector | None]:
    """Return the title and the first prompts of a session, and the mean of its vectors."""
    row = db.execute("SELECT id, title FROM files WHERE path = ?", (path,)).fetchone()
    number, title = row or (None, None)
    prompts = db.execute(
        "SELECT text FROM prompts WHERE file = ? ORDER BY id LIMIT ?", (number, PROMPTS)
    )
    texts = [title, *(text for (text,) in prompts)]
    vector = quantize(mean_of(rows_of_session(db, path)))
    text = "\n".join(filter(None, texts))
    if not text and vector is None:
        raise NotFound(f"{path} has no text to compare with others", "turnlog search --help")
    return text, vector
