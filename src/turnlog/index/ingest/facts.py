"""The facts of a part of a session file, the figures of a message, and the carried state."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct, field

from turnlog.conversation.cost import cache_writes, cost_on, searches
from turnlog.format.blocks import Usage
from turnlog.format.json_values import Fields, is_array, is_object, objects_in
from turnlog.format.jsonl import Bookmark

FIGURES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "searches", "cost")
"""Columns of `messages` with figures."""

LARGEST = 10**12
"""Larger or negative numbers are discarded as implausible; `Tokens` has the same bounds."""

HEAD = 300
"""Characters of a prompt, command or error that the index stores."""
DAY = 86400
Figures = tuple[float | None, ...]


def figures_of(model: str | None, at: float | None, usage: Usage) -> Figures:
    """Return the figures of a message in the order of `FIGURES`."""
    return (
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        *cache_writes(usage),
        usage.cache_read_input_tokens or 0,
        searches(usage),
        cost_on(model, usage, None if at is None else _day(at // DAY)),
    )


# Prices depend on the day alone, and a million messages fall on few days.
@lru_cache(4096)
def _day(number: float) -> str:
    return datetime.fromtimestamp(number * DAY, UTC).date().isoformat()


class Carry(Struct):
    """State carried from one part of a file to the next."""

    bookmark: Bookmark = Bookmark()
    lines: int = 0
    loose: str | None = None
    """Key of the message that the last line belonged to, if that message has no id."""
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """Tools of calls without a result yet, by call id."""
    is_clone: bool = False
    """True if an entry was cloned from another session: it has a new uuid, and names the old."""


class PromptFact(Struct, array_like=True):
    """A prompt that begins a turn."""

    line: int
    key: str
    kind: str
    at: float | None
    ended: float | None
    branch: str | None
    text: str
    """The start of the text; the writer cuts it to `HEAD` characters."""
    is_copy: bool
    model: str | None = None
    """The model of the first answer."""
    working: float | None = None
    """Working time in seconds, as measured by the client."""
    permission_mode: str | None = None


class MessageFact(Struct, array_like=True):
    """A message, as far as this part contains it."""

    line: int
    prompt: int | None
    key: str
    request: str | None
    """The id of its API request."""
    model: str | None
    at: float | None
    branch: str | None
    version: str | None
    is_copy: bool
    is_subagent: bool
    usage: Usage
    stop_reason: str | None = None
    figures: Figures = ()
    """Figures of this part alone, computed once it has been read."""


class CallFact(Struct, array_like=True):
    """A tool call, with its result if that is in the same part."""

    line: int
    prompt: int | None
    key: str
    tool: str
    at: float | None
    branch: str | None
    path: str | None
    command: str | None
    """The start of the text; the writer cuts it to `HEAD` characters."""
    model: str | None
    is_copy: bool
    is_subagent: bool
    added: int = 0
    removed: int = 0
    result_line: int | None = None
    ended: float | None = None
    is_error: bool | None = None
    error: str | None = None
    is_rejected: bool = False


class ResultFact(Struct):
    """A result of a call in an earlier part."""

    key: str
    line: int
    at: float | None
    is_error: bool
    error: str | None
    added: int | None
    """Lines added: 0 if the call failed, None if the result has no patch."""
    removed: int | None
    is_rejected: bool = False
    """True if the user denied the call."""


class Pull(NamedTuple):
    line: int
    number: int | None
    url: str | None
    repository: str | None


class Commit(NamedTuple):
    line: int
    at: float | None
    branch: str | None
    hash: str


class Compaction(NamedTuple):
    line: int
    at: float | None
    trigger: str | None
    pre_tokens: int | None


class FileFacts(Struct):
    """The facts of a part of a file.

    Prompts are referred to by their position in this part; None refers to the last prompt before
    it.
    """

    carry: Carry
    prompts: list[PromptFact] = field(default_factory=list[PromptFact])
    said: dict[str, MessageFact] = field(default_factory=dict[str, MessageFact])
    uses: dict[str, CallFact] = field(default_factory=dict[str, CallFact])
    answers: dict[str, ResultFact] = field(default_factory=dict[str, ResultFact])
    """Results of calls in earlier parts."""
    pulls: list[Pull] = field(default_factory=list[Pull])
    commits: list[Commit] = field(default_factory=list[Commit])
    compactions: list[Compaction] = field(default_factory=list[Compaction])
    slug: str | None = None
    session: str | None = None
    """The session named by the first entry."""
    cwd: str | None = None
    started: float | None = None
    ended: float | None = None
    ended_before: float | None = None
    """Last activity in the turn that began before this part."""
    working_before: float | None = None
    """Working time of that turn in seconds, as measured by the client."""
    model_before: str | None = None
    """Model of the first answer in that turn within this part."""
    is_last: bool = True
    """True if the end of the file was reached."""
    malformed: int = 0
    """Number of lines that do not contain exactly one JSON object."""

    def mark_subagent(self) -> None:
        """Mark all messages and calls as those of a sub-agent."""
        for each in (*self.said.values(), *self.uses.values()):
            each.is_subagent = True


def patched_lines(patch: Any) -> tuple[int, int] | None:
    """Return the lines added and removed by a `structuredPatch`; None if there is none."""
    if not is_array(patch) or not patch:
        return None
    hunks = [hunk.get("lines") for hunk in objects_in(patch)]
    marks = [str(line)[:1] for lines in hunks if is_array(lines) for line in lines]
    return marks.count("+"), marks.count("-")


def requested_lines(fields: Fields) -> tuple[int, int]:
    """Return the lines that a call asks to add and remove, for results without a patch."""
    edits = fields.get("edits") if is_array(fields.get("edits")) else [fields]
    pairs = [
        (_lines(e, "old_string"), _lines(e, "new_string", "content", "new_source"))
        for e in edits or []
        if is_object(e)
    ]
    return sum(len(new) for _, new in pairs), sum(len(old) for old, _ in pairs)


def _lines(edit: Fields, *names: str) -> list[str]:
    text = next((edit[name] for name in names if isinstance(edit.get(name), str)), "")
    return text.splitlines()
