"""The texts of a session's lines, to be searched: read after the figures, from where it stopped.

What is read rests on its own line and on what reading carries along, as figures do.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.conversation.prompts import PromptKind, prompt_kind
from turnlog.format.blocks import ToolUseBlock
from turnlog.format.decode import decode_line, decode_sound
from turnlog.format.entries import Assistant, Attachment, Entry, User
from turnlog.format.fields import given
from turnlog.format.jsonl import Bookmark, Line, Trail
from turnlog.format.state import AiTitle, CustomTitle, Summary
from turnlog.format.system import LocalCommand
from turnlog.format.timestamps import seconds_of
from turnlog.index.ingest.fact_reader import begins_turn, storable
from turnlog.index.searchable_texts import Passage, passages_of, slug_of
from turnlog.index.tokenizer import searchable

PROGRESS = b'"type":"progress"'
NEAR = 512
"""How near to a line's start or end its type stands in most lines."""
READ = (User, Assistant, Attachment, LocalCommand, CustomTitle, AiTitle, Summary)
"""Entries that have texts."""


class _Typed(Struct):
    type: str = ""


_decode_type = msgspec.json.Decoder(_Typed).decode


class DocCarry(Struct):
    """What reading takes along from one part of a file to the next."""

    bookmark: Bookmark = Bookmark()
    lines: int = 0
    prompts: int = 0
    """Prompts so far."""
    slug: str | None = None
    """The nickname of the session, as the last line named it."""
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """The tools of calls that have no result yet, by their ids."""


class Doc(NamedTuple):
    """A text to search."""

    line: int
    offset: int
    size: int
    kind: str
    tool: str | None
    is_error: bool
    at: float | None
    prompt: int
    """How many prompts the file has up to here; 0 before the first."""
    text: str


class Docs(Struct):
    """The texts of a part of a file."""

    carry: DocCarry
    found: list[Doc] = field(default_factory=list[Doc])
    is_last: bool = True
    """Whether the end was reached."""


def read_docs(name: str, lines: Iterable[Line], carry: DocCarry, limit: int) -> Docs:
    """Read the texts of lines up to an offset; `carry` is left as it is."""
    docs = Docs(replace(carry, pending=dict(carry.pending)))
    trail = Trail(carry.bookmark)
    for line in lines:
        if line.offset >= limit:
            docs.is_last = False
            break
        docs.carry.lines += 1
        for entry in _entries(line):
            _read_entry(docs, name, line, entry)
        trail.add(line)
    docs.carry.bookmark = trail.bookmark
    return docs


def _entries(line: Line) -> tuple[Entry, ...]:
    if line.is_blank or _is_textless(line.raw):
        return ()
    return (decode_sound(line) or decode_line(storable(line))).entries


def _is_textless(raw: bytes) -> bool:
    """Return whether a line only reports progress; its data need not be decoded."""
    if PROGRESS not in raw[:NEAR] and PROGRESS not in raw[-NEAR:]:
        return False
    try:
        return _decode_type(raw).type == "progress"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _read_entry(docs: Docs, name: str, line: Line, entry: Entry) -> None:
    if not isinstance(entry, READ):
        return
    carry, passages = docs.carry, passages_of(entry)
    if isinstance(entry, User):
        kind = prompt_kind(entry)
        if kind is PromptKind.TOOL_RESULT:
            passages = (each._replace(tool=_tool(carry, each)) for each in passages)
        elif begins_turn(entry, kind):
            carry.prompts += 1
    elif isinstance(entry, Assistant):
        for block in entry.content:
            if isinstance(block, ToolUseBlock):
                key = given(block.id) or f"{name}:{carry.lines}"
                carry.pending[key] = given(block.name) or ""
    at = seconds_of(entry.when)
    for kind, text, tool, _, is_error in (*_new_slug(carry, entry), *passages):
        if text and not text.isspace():
            where = carry.lines, line.offset, len(line.raw)
            docs.found.append(
                Doc(*where, kind, tool, is_error, at, carry.prompts, searchable(text))
            )


def _new_slug(carry: DocCarry, entry: Entry) -> Iterator[Passage]:
    for passage in slug_of(entry):
        if passage.text != carry.slug:
            carry.slug = passage.text
            yield passage


def _tool(carry: DocCarry, result: Passage) -> str | None:
    return carry.pending.pop(result.call_id, None)
