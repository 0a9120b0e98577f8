"""The texts of an entry that can be searched: what the index takes in, and what a hit shows."""

from collections.abc import Iterator
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


class Passage(NamedTuple):
    """A text of an entry, by what it is; it may be blank."""

    kind: str
    """prompt, answer, thinking, input, result, summary, title or note"""
    text: str
    tool: str | None = None
    """That a call is of; a result names only the call."""
    call_id: str = ""
    is_error: bool = False


def texts_in(raw: bytes, kind: str) -> list[str]:
    """The texts of a kind in a line: usually one."""
    entries = decode_line(Line(raw, 0, 0)).entries
    passages = [p for entry in entries for p in (*slug_of(entry), *passages_of(entry))]
    return [composed(each.text) for each in passages if each.kind == kind and each.text.strip()]


def slug_of(entry: Entry) -> Iterator[Passage]:
    """The nickname of the session, which each of its lines names; the index takes it in once."""
    if isinstance(entry, User | Assistant) and entry.slug:
        yield Passage("title", entry.slug)


def passages_of(entry: Entry) -> Iterator[Passage]:
    """The texts of an entry, in their order."""
    match entry:
        case User():
            yield from _of_user(entry)
        case Assistant():
            yield from _of_assistant(entry)
        case Attachment():
            # A prompt that was typed while the model worked is kept as an attachment (2.1.91 on).
            held = given(entry.attachment) or {}
            if held.get("type") == "queued_command":
                yield Passage("prompt", "\n".join(_strings(held.get("prompt"))))
        case LocalCommand():
            held = given(entry.content)
            yield Passage("note", local_command_text(held) if isinstance(held, str) else "")
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
                text = "\n".join(_strings(given(block.input)))
                yield Passage("input", text, given(block.name) or "", given(block.id) or "")
            case _:
                pass


def _strings(value: object) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for held in value.values():
            yield from _strings(held)
    elif is_array(value):
        for held in value:
            yield from _strings(held)


USER_KINDS = {
    PromptKind.COMPACT_SUMMARY: "summary",
    PromptKind.META: "note",
    PromptKind.COMMAND_OUTPUT: "note",
    PromptKind.BASH_OUTPUT: "note",
    PromptKind.INTERRUPTION: "note",
}
"""What a user line is to a search, where it is not a prompt."""
