"""Find a text in the rows of a session.

Only masked rows are searched, so a secret cannot be guessed letter by letter.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from turnlog.conversation.turn_blocks import BLOCK
from turnlog.conversation.turns import Turn
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.jsonl import read_lines
from turnlog.render.html.page_rows import row_json
from turnlog.render.html.session_pages import SessionPages

MOST_MATCHES = 1_000
MOST_DECODED = 200
"""Sessions with fewer turns are searched without scanning their bytes first."""
AROUND = 60
"""Characters of a snippet before and after the match."""
SEARCHED = ("text", "name", "title", "input", "result", "body")
PLAIN = re.compile(r"[ !#-.0-;=-\[\]-~]+")
"""Queries of characters that JSON never escapes, so that scanning bytes finds them."""


def find_text(pages: SessionPages, text: str, limit: int = MOST_MATCHES) -> Fields:
    """Return the rows that contain a text, ignoring case, each with its turn, line and snippet."""
    if not text.strip():
        return {"matches": [], "is_complete": True}
    found = list(islice(_matches(pages, text), limit + 1))
    return {"matches": found[:limit], "is_complete": len(found) <= limit}


def _matches(pages: SessionPages, text: str) -> Iterator[Fields]:
    pattern = re.compile(re.escape(text), re.IGNORECASE)
    for turn in candidate_turns(pages, text):
        for index, row in enumerate(pages.rows(turn)):
            fields = row_json(row, None, prose=False)
            if snippet := _snippet(fields, pattern):
                yield {"turn": turn.n, "row": index, "line": fields.get("line"), **snippet}


def find_labels(pages: SessionPages, text: str, limit: int = MOST_MATCHES) -> Fields:
    """Return the turns whose labels contain a text, ignoring case."""
    wanted = text.strip().lower()
    labelled = _labels(pages, wanted) if wanted else ()
    matches = ({"turn": n, "label": label} for n, label in labelled if wanted in label.lower())
    found = list(islice(matches, limit + 1))
    return {"matches": found[:limit], "is_complete": len(found) <= limit}


def _labels(pages: SessionPages, text: str) -> Iterator[tuple[int, str]]:
    """Yield the labels that may contain a text, with their turns."""
    if _is_scanned(pages, text):
        for line in matching_lines(pages.session.path, text):
            turn = pages.turn_at(line)
            if turn and pages.prompt_line(turn) == line:
                yield turn, pages.labels(turn, turn)[0]
        return
    for first in range(1, len(pages.turns) + 1, BLOCK):
        yield from enumerate(pages.labels(first, first + BLOCK - 1), first)


def candidate_turns(pages: SessionPages, text: str) -> Iterable[Turn]:
    """Return the turns that may contain a text, judged by the bytes of their lines."""
    if not _is_scanned(pages, text):
        return pages.turns
    numbers = {pages.turn_at(line) for line in matching_lines(pages.session.path, text)} - {None}
    return (pages.turns[number - 1] for number in sorted(filter(None, numbers)))


def _is_scanned(pages: SessionPages, text: str) -> bool:
    """Return whether to scan the bytes of the file before building rows."""
    # Decoding and masking a million lines takes minutes, a search of their bytes a second. Masking
    # and shortening only remove text, so a match in a row is also in the bytes of a line, unless
    # turnlog wrote it itself ("interrupted by the user") or the client escaped it.
    return len(pages.turns) >= MOST_DECODED and PLAIN.fullmatch(text) is not None


def matching_lines(path: Path, text: str) -> Iterator[int]:
    """Yield the numbers of the lines whose bytes contain a text in any case."""
    needle = text.lower().encode()
    return (line.number for line in read_lines(path) if needle in line.raw.lower())


def _snippet(fields: Fields, pattern: re.Pattern[str]) -> Fields | None:
    for name in SEARCHED:
        for text in _texts(fields.get(name)):
            if match := pattern.search(text):
                start, end = max(0, match.start() - AROUND), match.end() + AROUND
                shown = " ".join(text[start:end].split())
                return {"field": name, "snippet": f"{'…' if start else ''}{shown}"}
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for name, each in value.items():
            yield from (f"{name}: {text}" for text in _texts(each))
    elif is_array(value):
        for each in value:
            yield from _texts(each)
    elif value is not None:
        yield json.dumps(value)
