"""Evidence about files in the lines of a session: calls with their results, and attachments.

Results are read on demand: a session of 100 MB may have thousands of them, and most questions
concern one file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnlog.conversation.calls import result_text
from turnlog.format.blocks import ToolUseBlock
from turnlog.format.entries import Assistant, Attachment, ChainEntry, Entry, User
from turnlog.format.fields import given
from turnlog.format.file_views import (
    FileAttachment,
    NotebookEditResult,
    changed_paths,
    hunks_of,
    shell_changes,
)
from turnlog.format.fit import fit
from turnlog.format.json_values import Fields, as_object, is_array, is_object
from turnlog.format.tools import (
    BashResult,
    EditArguments,
    EditResult,
    MultiEditArguments,
    MultiEditResult,
    ReadArguments,
    ReadResult,
    WriteArguments,
    WriteResult,
)
from turnlog.text import is_shortened
from turnlog.worktree.beliefs import (
    EditedPart,
    Observation,
    RewrittenText,
    ShellEdit,
    SomeLines,
    UnknownChange,
    WholeText,
    WriteRule,
    WrittenText,
)
from turnlog.worktree.patches import Replacement
from turnlog.worktree.text_style import lines_of

VERBATIM_SINCE = (2, 1, 100)
# Both ends were observed. What versions between 2.1.45 and 2.1.100 do is not known.
CONVERTING = ((2, 0, 76), (2, 1, 45))
NUMBERED = re.compile(r" *(\d+)[\t→](.*)", re.DOTALL)
"""A line as Read shows it: `1→x` up to 2.1.45, `1\tx` in 2.1.325 (observed)."""
TAILS = ("\n\n<system-reminder>", "\n\n[This file ")
"""Starts of the remarks that the client appends to the lines of a Read."""
DEFAULT_LIMIT = 2000
"""Maximum lines that a Read without a limit returned in older clients."""
UPDATED = ("has been updated successfully", "`cat -n`", "successfully replaced")
CREATED = "File created successfully"
CELLS = ("Updated cell", "Inserted cell", "Deleted cell")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """The decoded lines of a call."""

    tool: str
    arguments: Fields
    result: Fields | None
    """The structured result; None in the files of sub-agents."""
    text: str
    version: str | None


def read_record(call_id: str, tool: str, use: Entry, answer: Entry | None) -> CallRecord:
    """Return the input and the result of a call, decoded from its lines."""
    blocks = use.content if isinstance(use, Assistant) else []
    uses = [b for b in blocks if isinstance(b, ToolUseBlock) and given(b.id) == call_id]
    arguments = given(uses[0].input) if uses else None
    structured = given(answer.tool_use_result) if isinstance(answer, User) else None
    text = result_text(answer, call_id) if isinstance(answer, User) else ""
    version = given(use.version) if isinstance(use, ChainEntry) else None
    return CallRecord(
        tool,
        as_object(arguments),
        _unshortened(structured) if is_object(structured) else None,
        text,
        version,
    )


def _unshortened(result: Fields) -> Fields:
    """Return a result without the fields that `turnlog clone --stub-results` shortened.

    A shortened text is not the content of a file, and a patch that lacks lines cannot be applied.
    """
    return {name: value for name, value in result.items() if not _has_shortened(value)}


def _has_shortened(value: Any) -> bool:
    if isinstance(value, str):
        return is_shortened(value)
    if is_array(value):
        return any(map(_has_shortened, value))
    return is_object(value) and any(map(_has_shortened, value.values()))


def path_in(arguments: Fields) -> str | None:
    """Return the path that the input of a file tool names."""
    path = arguments.get("file_path") or arguments.get("notebook_path")
    return path if isinstance(path, str) and path else None


def observe_call(record: CallRecord) -> Observation | None:
    """Return the observation that a successful call makes of its file; None if there is none."""
    read = OBSERVERS.get(record.tool)
    return read(record) if read else None


def observe_shell(record: CallRecord) -> Mapping[str, ShellEdit]:
    """Return the files that a shell command changed, as far as the client noticed, by path."""
    result = fit(BashResult, record.result or {}, [])
    changes = changed_paths(shell_changes(result.bash_edit_diff))
    return {path: ShellEdit(change) for path, change in changes.items()}


def observe_attachment(entry: Entry) -> tuple[str, Observation] | None:
    """Return the file that an attachment shows, and the observation; None if it shows no file."""
    if not isinstance(entry, Attachment):
        return None
    note = fit(FileAttachment, given(entry.attachment) or {}, [])
    path = given(note.filename)
    if not path:
        return None
    if given(note.type) == "edited_text_file":
        # The snippet contains only the lines around the change, numbered as after the change.
        lines = numbered_lines(given(note.snippet) or "")
        return path, UnknownChange(lines, "it was changed outside of the conversation")
    content = given(note.content)
    seen = _read_result(fit(ReadResult, content, [])) if is_object(content) else None
    return (path, seen) if seen else None


def numbered_lines(text: str) -> dict[int, str]:
    """Return the lines of a text that a client numbered; stop at the first that has no number.

    >>> numbered_lines("     1→a\\n     2→")
    {1: 'a', 2: ''}
    """
    for tail in TAILS:
        text = text.partition(tail)[0]
    found: dict[int, str] = {}
    expected: int | None = None
    for line in text.split("\n"):
        part = NUMBERED.fullmatch(line)
        if part is None or expected not in (None, int(part[1])):
            break
        expected = int(part[1]) + 1
        found[expected - 1] = part[2]
    return found


def version_number(version: str | None) -> tuple[int, ...] | None:
    """Return the parts of a client version; None if it is not three numbers.

    >>> version_number("2.1.325")
    (2, 1, 325)
    """
    parts = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version or "")
    return tuple(map(int, parts.groups())) if parts else None


def write_rule(version: str | None, text: str) -> WriteRule:
    """Return how the client that wrote a result treats line endings.

    The text decides first: `turnlog chat` records the version of the client whose format it
    follows, but words its results differently.
    """
    if not any(mark in text for mark in (*UPDATED, CREATED)):
        return WriteRule.PRESERVING if "has been" in text else WriteRule.UNKNOWN
    number = version_number(version)
    if number is None:
        return WriteRule.UNKNOWN
    if number >= VERBATIM_SINCE:
        return WriteRule.VERBATIM
    first, last = CONVERTING
    return WriteRule.CONVERTING if first <= number <= last else WriteRule.UNKNOWN


def _observe_read(record: CallRecord) -> Observation | None:
    if record.result is not None:
        return _read_result(fit(ReadResult, record.result, []))
    # Files of sub-agents have no structured results: the text that the model saw is all there is.
    given_input = fit(ReadArguments, record.arguments, [])
    lines = {} if is_shortened(record.text) else numbered_lines(record.text)
    if not lines:
        return None
    is_whole = given(given_input.limit) is None and min(lines) == 1
    if is_whole and len(lines) < DEFAULT_LIMIT and not _is_cut(record.text):
        return WholeText("\n".join(lines.values()))
    return SomeLines(lines)


def _is_cut(text: str) -> bool:
    """Return whether a Read is truncated: long lines are cut, or the end of the file is missing."""
    return "truncated" in text or "[Truncated" in text


def _read_result(result: ReadResult) -> Observation | None:
    file = given(result.file)
    if given(result.type) != "text" or file is None or given(file.content) is None:
        return None
    text = given(file.content) or ""
    start, total = given(file.start_line) or 1, given(file.total_lines)
    lines = lines_of(text)
    # Only a read from the first line to the last proves the whole content.
    if start == 1 and total == len(lines) and not given(file.truncated_by_token_cap):
        return WholeText(text)
    return SomeLines({start + n: line for n, line in enumerate(lines)}, total)


def _observe_write(record: CallRecord) -> Observation | None:
    arguments = fit(WriteArguments, record.arguments, [])
    result = fit(WriteResult, record.result or {}, [])
    text = given(result.content) if given(result.content) is not None else given(arguments.content)
    if text is None:
        return None
    is_new = given(result.type) == "create" if record.result else CREATED in record.text
    rule = write_rule(record.version, record.text)
    return WrittenText(
        text,
        is_new,
        given(result.original_file),
        rule,
        bool(given(result.user_modified)),
        shows_mark=rule is not WriteRule.PRESERVING,
    )


def _observe_edit(record: CallRecord) -> Observation | None:
    arguments = fit(EditArguments, record.arguments, [])
    result = fit(EditResult, record.result or {}, [])
    # The strings of the result are those that the client used: it may correct quotes.
    old = given(result.old_string)
    old = given(arguments.old_string) if old is None else old
    new = given(result.new_string)
    new = given(arguments.new_string) if new is None else new
    everywhere = bool(given(result.replace_all) or given(arguments.replace_all))
    if old is None or new is None:
        return UnknownChange({}, "it was edited; the edit is not recorded")
    return EditedPart(
        [Replacement(old, new, everywhere)],
        hunks_of(given(result.structured_patch)),
        given(result.original_file),
        bool(given(result.user_modified)),
        _is_from_client(record.text),
        is_as_asked=record.result is None,
    )


def _observe_multi_edit(record: CallRecord) -> Observation | None:
    arguments = fit(MultiEditArguments, record.arguments, [])
    result = fit(MultiEditResult, record.result or {}, [])
    listed: list[Any] = given(arguments.edits) or []
    edits = [each for each in listed if isinstance(each, EditArguments)]
    replacements = [
        Replacement(
            given(each.old_string) or "",
            given(each.new_string) or "",
            bool(given(each.replace_all)),
        )
        for each in edits
    ]
    original = given(result.original_file_contents)
    return EditedPart(
        replacements,
        hunks_of(given(result.structured_patch)),
        given(result.original_file) if original is None else original,
        bool(given(result.user_modified)),
        _is_from_client(record.text),
    )


def _observe_notebook(record: CallRecord) -> Observation | None:
    result = fit(NotebookEditResult, record.result or {}, [])
    if given(result.error):
        return None
    is_client = record.text.startswith(CELLS)
    return RewrittenText(given(result.original_file), given(result.updated_file), is_client)


def _is_from_client(text: str) -> bool:
    return any(mark in text for mark in UPDATED)


OBSERVERS = {
    "Read": _observe_read,
    "Write": _observe_write,
    "Edit": _observe_edit,
    "MultiEdit": _observe_multi_edit,
    "NotebookEdit": _observe_notebook,
}
"""By file tool, the function that extracts the evidence from a call."""
