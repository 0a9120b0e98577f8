"""What a user line really is: most are not typed by anyone.

The fields that newer clients write decide first (promptSource, origin, turnOrigin, isMeta), then
the shape of the content, as older ones leave no other trace (observed: 1.0.60 to 2.1.325).
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from turnlog.format.blocks import ImageBlock, TextBlock, ToolResultBlock, command_text
from turnlog.format.entries import MessageEntry, User
from turnlog.format.fields import given
from turnlog.format.timestamps import parse_timestamp

RESUMED_AFTER = timedelta(minutes=5)
"""Silence after which a turn counts as resumed, unless a caller names another threshold."""


class PromptKind(StrEnum):
    """What a user line is."""

    TYPED = "typed"
    QUEUED = "queued"
    IMAGE = "image"
    IDE_SELECTION = "ide_selection"
    IDE_OPENED_FILE = "ide_opened_file"
    COMMAND = "command"
    COMMAND_OUTPUT = "command_output"
    BASH_INPUT = "bash_input"
    BASH_OUTPUT = "bash_output"
    TASK_NOTIFICATION = "task_notification"
    INTERRUPTION = "interruption"
    COMPACT_SUMMARY = "compact_summary"
    META = "meta"
    TOOL_RESULT = "tool_result"


class Round(StrEnum):
    """How a turn follows on what was before."""

    NEW_SESSION = "new_session"
    NEW_ROUND = "new_round"
    CONTINUE = "continue"
    RESUME = "resume"


ASKING = frozenset(
    {
        PromptKind.TYPED,
        PromptKind.QUEUED,
        PromptKind.IMAGE,
        PromptKind.IDE_SELECTION,
        PromptKind.IDE_OPENED_FILE,
        PromptKind.TASK_NOTIFICATION,
    }
)
"""Lines that ask the model for an answer."""
LOCAL = frozenset({PromptKind.COMMAND, PromptKind.BASH_INPUT})
"""Lines that may be answered by the client alone."""

WORK = frozenset({PromptKind.TOOL_RESULT, PromptKind.INTERRUPTION})
"""Lines at which a turn is still going on; others may come after it, or before the next one."""

IDE_TAG = re.compile(r"\s*<(ide_selection|ide_opened_file)>(.*?)</\1>\s*", re.DOTALL)
"""What the editor tells the model; it starts a block (observed: 2.0.50 to 2.1.101)."""
BASH_INPUT = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
TOLD = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)
INTERRUPTION = "[Request interrupted by user"
"""How lines start that say so."""
SUMMARY_START = "This session is being continued from a previous conversation"
BY_START = (
    ("<task-notification>", PromptKind.TASK_NOTIFICATION),
    (INTERRUPTION, PromptKind.INTERRUPTION),
    ("<command-name>", PromptKind.COMMAND),
    ("<command-message>", PromptKind.COMMAND),
    ("<local-command-stdout>", PromptKind.COMMAND_OUTPUT),
    ("<local-command-stderr>", PromptKind.COMMAND_OUTPUT),
    ("<bash-input>", PromptKind.BASH_INPUT),
    ("<bash-stdout>", PromptKind.BASH_OUTPUT),
    ("<bash-stderr>", PromptKind.BASH_OUTPUT),
    ("<local-command-caveat>", PromptKind.META),
    ("Caveat: The messages below were generated", PromptKind.META),
)


def prompt_kind(entry: User) -> PromptKind:
    """Say what a user line is."""
    content = entry.content
    if isinstance(content, list) and any(isinstance(each, ToolResultBlock) for each in content):
        return PromptKind.TOOL_RESULT
    return _kind_by_fields(entry) or _kind_by_shape(entry)


def prompt_text(entry: User) -> str:
    """Return the text of a user line, without what the editor put before it."""
    return "\n".join(_typed(text) for text in _texts(entry)).strip()


def ide_context(entry: MessageEntry) -> list[tuple[PromptKind, str]]:
    """Return what the editor told the model with a prompt: selected lines, an opened file."""
    return [
        (PromptKind(tag[1]), tag[2].strip()) for text in _texts(entry) for tag in _ide_tags(text)
    ]


def prompt_label(entry: User) -> str:
    """What a user line asks for, as a person would put it: a command as it was typed."""
    return label_of(prompt_text(entry))


def label_of(text: str) -> str:
    """The same of a text."""
    if command := command_text(text):
        return command
    if shell := BASH_INPUT.search(text):
        return f"! {shell[1].strip()}"
    if text.startswith("<task-notification>") and (told := TOLD.search(text)):
        return told[1].strip()
    return text


def full_text(entry: MessageEntry) -> str:
    """All text of a line; its blocks on lines of their own."""
    return "\n".join(_texts(entry))


def _texts(entry: MessageEntry) -> list[str]:
    content = entry.content
    if isinstance(content, str):
        return [content]
    return [given(block.text) or "" for block in content if isinstance(block, TextBlock)]


def _ide_tags(text: str) -> Iterator[re.Match[str]]:
    """Find the tags that a text starts with: one further on may be quoted by the user."""
    tag = IDE_TAG.match(text)
    while tag:
        yield tag
        tag = IDE_TAG.match(text, tag.end())


def _typed(text: str) -> str:
    end = 0
    for tag in _ide_tags(text):
        end = tag.end()
    return text[end:]


def round_of(kind: PromptKind, is_first: bool, previous: str | None, current: str | None) -> Round:
    """How a prompt follows on what was said before, from the times of both."""
    if kind is PromptKind.TOOL_RESULT:
        return Round.CONTINUE
    if is_first:
        return Round.NEW_SESSION
    before, now = parse_timestamp(previous), parse_timestamp(current)
    if before and now and now - before > RESUMED_AFTER:
        return Round.RESUME
    return Round.NEW_ROUND


def _kind_by_fields(entry: User) -> PromptKind | None:
    if given(entry.is_compact_summary):
        return PromptKind.COMPACT_SUMMARY
    origin = (given(entry.origin) or {}).get("kind")
    if origin == "task-notification" or given(entry.turn_origin) == "task_notification":
        return PromptKind.TASK_NOTIFICATION
    if given(entry.is_meta):
        return PromptKind.META
    if given(entry.prompt_source) == "queued":
        return PromptKind.QUEUED
    return None


def _kind_by_shape(entry: User) -> PromptKind:
    text = full_text(entry).lstrip()
    for start, kind in BY_START:
        if text.startswith(start):
            return kind
    if text.startswith(SUMMARY_START):
        return PromptKind.COMPACT_SUMMARY
    if "<ide_" in text and (told := ide_context(entry)):
        return told[0][0]
    content = entry.content
    if not text.strip() and any(isinstance(block, ImageBlock) for block in content):
        return PromptKind.IMAGE
    return PromptKind.TYPED
