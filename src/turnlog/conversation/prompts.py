"""The kind of each user line; most of them are not typed by anyone.

Fields that newer clients write decide first (promptSource, origin, turnOrigin, isMeta), then the
shape of the content, the only evidence that older clients left (observed: 1.0.60 to 2.1.325).
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from turnlog.format.blocks import ImageBlock, TextBlock, ToolResultBlock, command_text
from turnlog.format.entries import MessageEntry, User
from turnlog.format.fields import given

REFUSED = "The user doesn't want to proceed with this tool use"
PUT_OFF = "The user doesn't want to take this action right now"
REJECTED = "user-rejected"
"""The client's word for a call that the user denied (2.1.x on)."""
RESUMED_AFTER = timedelta(minutes=5)
"""Default silence after which a turn counts as resumed."""


class PromptKind(StrEnum):
    """The kind of a user line."""

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
    """The way a turn follows the one before it."""

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
"""Lines that the client may answer without the model."""

WORK = frozenset({PromptKind.TOOL_RESULT, PromptKind.INTERRUPTION})
"""Lines that belong to a running turn; others may come between two turns."""

IDE_TAG = re.compile(r"\s*<(ide_selection|ide_opened_file)>(.*?)</\1>\s*", re.DOTALL)
"""Context from the editor, at the start of a block (observed: 2.0.50 to 2.1.101)."""
BASH_INPUT = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
NOTIFICATION_SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)
INTERRUPTION = "[Request interrupted by user"
"""Prefix of the lines that record an interruption."""
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
    """Return the kind of a user line."""
    # Results come first: a line that answers a call asks nothing, whatever its other fields are.
    content = entry.content
    if isinstance(content, list) and any(isinstance(block, ToolResultBlock) for block in content):
        return PromptKind.TOOL_RESULT
    return _kind_by_fields(entry) or _kind_by_shape(entry)


def prompt_text(entry: User) -> str:
    """Return the text of a user line, without the editor's context before it."""
    return "\n".join(_typed(text) for text in _texts(entry)).strip()


def ide_context(entry: MessageEntry) -> list[tuple[PromptKind, str]]:
    """Return the context that the editor added to a prompt: selected lines, an opened file."""
    return [
        (PromptKind(tag[1]), tag[2].strip()) for text in _texts(entry) for tag in _ide_tags(text)
    ]


def prompt_label(entry: User) -> str:
    """Return a short form of a user line: for a slash command, the command as typed."""
    return label_of(prompt_text(entry))


def label_of(text: str) -> str:
    """Return a short form of a prompt's text: for a slash command, the command as typed."""
    if command := command_text(text):
        return command
    if shell := BASH_INPUT.search(text):
        return f"! {shell[1].strip()}"
    if text.startswith("<task-notification>") and (summary := NOTIFICATION_SUMMARY.search(text)):
        return summary[1].strip()
    return text


def full_text(entry: MessageEntry) -> str:
    """Return all text of a line, one block per line."""
    return "\n".join(_texts(entry))


def _texts(entry: MessageEntry) -> list[str]:
    content = entry.content
    if isinstance(content, str):
        return [content]
    return [given(block.text) or "" for block in content if isinstance(block, TextBlock)]


def _ide_tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the editor's tags at the start of a text; later ones may be quoted by the user."""
    tag = IDE_TAG.match(text)
    while tag:
        yield tag
        tag = IDE_TAG.match(text, tag.end())


def _typed(text: str) -> str:
    end = 0
    for tag in _ide_tags(text):
        end = tag.end()
    return text[end:]


def round_of(
    kind: str | None, n: int, idle_ms: int | None, resumed_after: timedelta = RESUMED_AFTER
) -> Round:
    """Return how turn `n` follows the one before, given the kind of its prompt and the silence."""
    # A file that was cut in the middle of a turn may start with a result instead of a prompt.
    if kind == PromptKind.TOOL_RESULT:
        return Round.CONTINUE
    if n == 1:
        return Round.NEW_SESSION
    is_resumed = idle_ms is not None and timedelta(milliseconds=idle_ms) > resumed_after
    return Round.RESUME if is_resumed else Round.NEW_ROUND


def turn_marks(follows: str, kind: str) -> list[str]:
    """Return the round and kind of a turn as words, without the usual ones.

    >>> turn_marks("new_round", "typed"), turn_marks("resume", "ide_selection")
    ([], ['resume', 'ide selection'])
    """
    usual = (Round.NEW_ROUND, PromptKind.TYPED)
    return [name.replace("_", " ") for name in (follows, kind) if name not in usual]


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
    # Only the start counts: a typed prompt may quote these tags further on.
    text = full_text(entry).lstrip()
    for start, kind in BY_START:
        if text.startswith(start):
            return kind
    if text.startswith(SUMMARY_START):
        return PromptKind.COMPACT_SUMMARY
    if "<ide_" in text and (context := ide_context(entry)):
        return context[0][0]
    content = entry.content
    if not text.strip() and any(isinstance(block, ImageBlock) for block in content):
        return PromptKind.IMAGE
    return PromptKind.TYPED


def is_rejection(entry: User, result: ToolResultBlock) -> bool:
    """Return whether a result says that the user denied the call, which therefore never ran.

    Older clients record the text only (observed: 1.0.60 to 2.0.76).
    """
    if not given(result.is_error):
        return False
    kind = given(entry.tool_denial_kind)
    return kind == REJECTED if kind else result.text[:80].startswith((REFUSED, PUT_OFF))
