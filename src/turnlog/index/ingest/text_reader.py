"""Read the searchable texts of a session file, continuing where the last read stopped.

Like figures, a text depends only on its own line and on the carried state, never on later lines.
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
"""Bytes at either end of a line in which its type usually appears."""
READ = (User, Assistant, Attachment, LocalCommand, CustomTitle, AiTitle, Summary)
"""Entry types with searchable texts."""


class _Typed(Struct):
    type: str = ""


_decode_type = msgspec.json.Decoder(_Typed).decode


class DocCarry(Struct):
    """State carried from one part of a file to the next."""

    bookmark: Bookmark = Bookmark()
    lines: int = 0
    prompts: int = 0
    """Number of prompts so far."""
    slug: str | None = None
    """The session's nickname in the last line."""
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """Tools of calls without a result yet, by call id."""


class Doc(NamedTuple):
    """A text to be indexed."""

    line: int
    offset: int
    size: int
    part: int
    """The number of the text among those of its line, from 0."""
    kind: str
    tool: str | None
    is_error: bool
    at: float | None
    prompt: int
    """Number of prompts in the file up to here; 0 before the first."""
    text: str


class Docs(Struct):
    """The texts of a part of a file."""

    carry: DocCarry
    found: list[Doc] = field(default_factory=list[Doc])
    is_last: bool = True
    """True if the end of the file was reached."""


def read_docs(name: str, lines: Iterable[Line], carry: DocCarry, limit: int) -> Docs:
    """Read the texts of lines up to an offset without changing `carry`."""
    docs = Docs(replace(carry, pending=dict(carry.pending)))
    trail = Trail(carry.bookmark)
    for line in lines:
        if line.offset >= limit:
            docs.is_last = False
            break
        docs.carry.lines += 1
        _read_line(docs, name, line)
        trail.add(line.raw)
    docs.carry.bookmark = trail.bookmark
    return docs


def _entries(line: Line) -> tuple[Entry, ...]:
    if line.is_blank or _is_textless(line.raw):
        return ()
    return (decode_sound(line) or decode_line(storable(line))).entries


def _is_textless(raw: bytes) -> bool:
    """Return whether a line only reports progress, so that it need not be decoded."""
    if PROGRESS not in raw[:NEAR] and PROGRESS not in raw[-NEAR:]:
        return False
    # The bytes may also be quoted text of a prompt: confirm by decoding the type alone.
    try:
        return _decode_type(raw).type == "progress"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _read_line(docs: Docs, name: str, line: Line) -> None:
    carry, part = docs.carry, 0
    for entry in _entries(line):
        if not isinstance(entry, READ):
            continue
        at = seconds_of(entry.when)
        for kind, text, tool, _, is_error in _read_entry(carry, name, entry):
            if text and not text.isspace():
                where = carry.lines, line.offset, len(line.raw), part
                docs.found.append(
                    Doc(*where, kind, tool, is_error, at, carry.prompts, searchable(text))
                )
            part += 1


def _read_entry(carry: DocCarry, name: str, entry: Entry) -> Iterator[Passage]:
    """Yield the texts of an entry as `text_at` counts them; a known nickname is blank."""
    passages = passages_of(entry)
    if isinstance(entry, User):
        kind = prompt_kind(entry)
        if kind is PromptKind.TOOL_RESULT:
            # A result names only its call; the call may have been in an earlier part of the file.
            passages = (each._replace(tool=_tool(carry, each)) for each in passages)
        elif begins_turn(entry, kind):
            carry.prompts += 1
    elif isinstance(entry, Assistant):
        for block in entry.content:
            if isinstance(block, ToolUseBlock):
                key = given(block.id) or f"{name}:{carry.lines}"
                carry.pending[key] = given(block.name) or ""
    for passage in slug_of(entry):
        yield passage if passage.text != carry.slug else passage._replace(text="")
        carry.slug = passage.text
    yield from passages


def _tool(carry: DocCarry, result: Passage) -> str | None:
    return carry.pending.pop(result.call_id, None)
