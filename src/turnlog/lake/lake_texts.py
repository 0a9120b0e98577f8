"""Extract the texts of session files for the table `texts`, which needs the user's consent.

Secrets are masked. Texts are read from the files again, because an index does not have them.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnlog.errors import Damaged
from turnlog.format.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from turnlog.format.decode import decode_line
from turnlog.format.entries import Assistant, ChainEntry, Entry
from turnlog.format.fields import given
from turnlog.format.jsonl import Line, read_lines
from turnlog.format.timestamps import seconds_of
from turnlog.index.ingest.fact_reader import storable
from turnlog.index.searchable_texts import Passage, passages_of
from turnlog.lake.lake_names import NameFilter, day_of
from turnlog.lake.lake_rows import FileRows, file_rows
from turnlog.lake.lake_schema import TEXTS
from turnlog.secrets import mask_value

TABLE = "texts"
QUARTER = 900
"""Seconds in a quarter of an hour."""

_encode = msgspec.json.Encoder().encode


class TextSource(NamedTuple):
    """A session file, and the offset up to which the index has read it."""

    path: Path
    reached: int


def all_rows(
    db: sqlite3.Connection, numbers: Sequence[int], keep: NameFilter
) -> Iterator[FileRows]:
    """Yield the rows of some files of an index, with their texts if the user consents."""
    yield from file_rows(db, numbers, keep)
    if TEXTS in keep.names.consents:
        marks = ", ".join("?" * len(numbers))
        found = db.execute(
            f"SELECT id, path, reached FROM files WHERE NOT is_gone AND id IN ({marks})", numbers
        )
        yield from text_rows({id_: TextSource(Path(path), end) for id_, path, end in found}, keep)


def text_rows(files: Mapping[int, TextSource], keep: NameFilter) -> Iterator[FileRows]:
    """Yield the rows of `texts` for files, given by their ids in the index."""
    for number, file in files.items():
        try:
            rows = list(_rows(file, keep))
        except (OSError, Damaged):  # deleted since its figures were read
            continue
        if rows:
            yield FileRows(TABLE, number, rows)


def _rows(file: TextSource, keep: NameFilter) -> Iterator[tuple[str, tuple[object, ...]]]:
    tools: dict[str, str] = {}
    for number, line in enumerate(read_lines(file.path), 1):
        # The next push writes lines that were appended since, with their figures.
        if line.offset >= file.reached:
            return
        for entry in _entries(line):
            at = seconds_of(entry.when)
            quarter = None if at is None else int(at / QUARTER)
            for role, passage, key in _passages(entry):
                # A result names its call but not the tool; the call comes first and does.
                if passage.kind == "input":
                    tools[passage.call_id] = passage.tool or ""
                if not passage.text.strip():
                    continue
                tool = passage.tool or tools.get(passage.call_id)
                row = (
                    *(number, at, quarter, role, passage.kind, tool and keep.tool(tool)),
                    *(keep.identifier(key), keep.text(passage.text)),
                )
                yield day_of(at), row


def _entries(line: Line) -> tuple[Entry, ...]:
    return decode_line(storable(line)).entries


def _passages(entry: Entry) -> Iterator[tuple[str, Passage, str | None]]:
    """Yield role, text and id of each text of an entry."""
    if not isinstance(entry, Assistant):
        own = given(entry.uuid) if isinstance(entry, ChainEntry) else None
        for passage in passages_of(entry):
            yield "user", passage, passage.call_id or own
        return
    message = given(entry.body.id) if entry.body else None
    for passage in _answer_passages(entry):
        yield "assistant", passage, passage.call_id or message


def _answer_passages(entry: Assistant) -> Iterator[Passage]:
    """Yield the texts of an answer; inputs of calls are JSON, so that readers can parse them."""
    if isinstance(entry.content, str):
        yield Passage("answer", entry.content)
        return
    for block in entry.content:
        match block:
            case TextBlock():
                yield Passage("answer", given(block.text) or "")
            case ThinkingBlock():
                yield Passage("thinking", given(block.thinking) or "")
            case ToolUseBlock():
                text = _encode(mask_value(given(block.input))).decode(errors="replace")
                yield Passage("input", text, given(block.name) or "", given(block.id) or "")
            case _:
                pass
