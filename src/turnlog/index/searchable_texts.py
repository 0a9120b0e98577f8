"""Extract the searchable texts of an entry.

Indexing and showing a hit use the same functions, so a hit's text is found again in its line.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from turnlog.conversation.nodes import SYNTHETIC
from turnlog.conversation.prompts import PromptKind, ide_context, prompt_kind, prompt_label
from turnlog.format.blocks import (
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    local_command_text,
)
from turnlog.format.decode import decode_line
from turnlog.format.entries import Assistant, Attachment, Entry, User
from turnlog.format.fields import given
from turnlog.format.json_values import is_array, is_object
from turnlog.format.jsonl import Line
from turnlog.format.state import AiTitle, CustomTitle, Summary
from turnlog.format.system import LocalCommand
from turnlog.index.tokenizer import composed
from turnlog.secrets import mask_by_name, mask_value


class Passage(NamedTuple):
    """A searchable text of an entry, possibly blank."""

    kind: str
    """prompt, answer, thinking, input, result, summary, title or note"""
    text: str
    tool: str | None = None
    """The tool of a call; None for results, which carry only the call's id."""
    call_id: str = ""
    is_error: bool = False


def texts_in(raw: bytes, kind: str) -> list[str]:
    """Return the texts of one kind in a line, usually a single one."""
    passages = [each for each in _passages_in(raw) if each.kind == kind]
    return [composed(each.text) for each in passages if each.text.strip()]


def text_at(raw: bytes, part: int) -> str:
    """Return a line's text by its number, counted from 0; empty if the line has no such text."""
    return next((composed(each.text) for each in islice(_passages_in(raw), part, None)), "")


def _passages_in(raw: bytes) -> Iterator[Passage]:
    for entry in decode_line(Line(raw, 0, 0)).entries:
        yield from slug_of(entry)
        yield from passages_of(entry)


def slug_of(entry: Entry) -> Iterator[Passage]:
    """Yield the session's nickname; every line repeats it, but the index stores it once."""
    if isinstance(entry, User | Assistant) and entry.slug:
        yield Passage("title", entry.slug)


def passages_of(entry: Entry) -> Iterator[Passage]:
    """Yield the texts of an entry in order."""
    match entry:
        case User():
            yield from _of_user(entry)
        case Assistant():
            yield from _of_assistant(entry)
        case Attachment():
            # Since 2.1.91, a prompt typed while the model works is stored as an attachment.
            attached = given(entry.attachment) or {}
            if attached.get("type") == "queued_command":
                yield Passage("prompt", "\n".join(_strings(attached.get("prompt"))))
        case LocalCommand():
            content = given(entry.content)
            yield Passage("note", local_command_text(content) if isinstance(content, str) else "")
        case CustomTitle():
            yield Passage("title", given(entry.custom_title) or "")
        case AiTitle():
            yield Passage("title", given(entry.ai_title) or "")
        case Summary():
            yield Passage("title", given(entry.summary) or "")
        case _:
            pass


def _of_user(entry: User) -> Iterator[Passage]:
    kind = prompt_kind(entry)
    if kind is not PromptKind.TOOL_RESULT:
        yield Passage(USER_KINDS.get(kind, "prompt"), prompt_label(entry))
        yield from (Passage("note", text) for _, text in ide_context(entry))
        return
    for block in entry.content:
        if isinstance(block, ToolResultBlock):
            call_id, is_error = given(block.tool_use_id) or "", bool(given(block.is_error))
            yield Passage("result", block.text, None, call_id, is_error)


def _of_assistant(entry: Assistant) -> Iterator[Passage]:
    is_error = bool(given(entry.is_api_error_message))
    is_synthetic = entry.body is not None and given(entry.body.model) == SYNTHETIC
    # The client writes synthetic messages such as "No response requested." itself: the model did
    # not say them, so they rank as notes. API errors are synthetic too, but users do search for
    # them.
    kind = "note" if is_synthetic and not is_error else "answer"
    content = entry.content
    if isinstance(content, str):
        yield Passage(kind, content, is_error=is_error)
        return
    for block in content:
        match block:
            case TextBlock():
                yield Passage(kind, given(block.text) or "", is_error=is_error)
            case ThinkingBlock():
                yield Passage("thinking", given(block.thinking) or "")
            case ToolUseBlock():
                # Without its field, a password is not recognized: it must not get into the index.
                shown = mask_value(given(block.input), mask_text=mask_by_name)
                text = "\n".join(_strings(shown))
                yield Passage("input", text, given(block.name) or "", given(block.id) or "")
            case _:
                pass


def _strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, depth first."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for item in value.values():
            yield from _strings(item)
    elif is_array(value):
        for item in value:
            yield from _strings(item)


USER_KINDS = {
    PromptKind.COMPACT_SUMMARY: "summary",
    PromptKind.META: "note",
    PromptKind.COMMAND_OUTPUT: "note",
    PromptKind.BASH_OUTPUT: "note",
    PromptKind.INTERRUPTION: "note",
}
"""Kinds of user lines that are not prompts, and the kind of text they are indexed as."""
