"""The figures of a part of a session file, and what reading carries from part to part."""

from typing import NamedTuple

from msgspec import Struct, field

from turnlog.format.blocks import Usage
from turnlog.format.jsonl import Bookmark
from turnlog.index.ingest.figures import Figures


class Carry(Struct):
    """What reading takes along from one part of a file to the next."""

    bookmark: Bookmark = Bookmark()
    lines: int = 0
    loose: str | None = None
    """The key of the message without an id that the last line was of."""
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """The tools of calls that have no result yet, by their ids."""


class PromptFact(Struct):
    line: int
    key: str
    kind: str
    at: float | None
    ended: float | None
    branch: str | None
    text: str
    is_copy: bool
    model: str | None = None
    """Of the first answer."""
    working: float | None = None
    """Seconds that the client measured."""
    permission_mode: str | None = None


class MessageFact(Struct):
    """A message, as far as this part tells."""

    line: int
    prompt: int | None
    key: str
    request: str | None
    """The id of the request that it answers."""
    model: str | None
    at: float | None
    branch: str | None
    version: str | None
    is_copy: bool
    is_subagent: bool
    usage: Usage
    stop_reason: str | None = None
    figures: Figures = ()
    """Of this part alone; worked out when it has been read."""


class CallFact(Struct):
    """A call, with what came back for it in the same part."""

    line: int
    prompt: int | None
    key: str
    tool: str
    at: float | None
    branch: str | None
    path: str | None
    command: str | None
    added: int
    removed: int
    model: str | None
    is_copy: bool
    is_subagent: bool
    result_line: int | None = None
    ended: float | None = None
    is_error: bool | None = None
    error: str | None = None


class ResultFact(Struct):
    """What came back for a call."""

    key: str
    line: int
    at: float | None
    is_error: bool
    error: str | None
    added: int | None
    """Lines that it added: none if it failed, what it asked for if its result does not tell."""
    removed: int | None


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
    """What a part of a file tells. A prompt is named by its rank here; None is the one before."""

    carry: Carry
    prompts: list[PromptFact] = field(default_factory=list[PromptFact])
    said: dict[str, MessageFact] = field(default_factory=dict[str, MessageFact])
    uses: dict[str, CallFact] = field(default_factory=dict[str, CallFact])
    answers: dict[str, ResultFact] = field(default_factory=dict[str, ResultFact])
    """For calls of earlier parts."""
    pulls: list[Pull] = field(default_factory=list[Pull])
    commits: list[Commit] = field(default_factory=list[Commit])
    compactions: list[Compaction] = field(default_factory=list[Compaction])
    slug: str | None = None
    session: str | None = None
    """The session that the first entry names."""
    cwd: str | None = None
    started: float | None = None
    ended: float | None = None
    ended_before: float | None = None
    """The last time of work on the turn that began before this part."""
    working_before: float | None = None
    """What the client measured of that turn, in seconds."""
    model_before: str | None = None
    """The model that first answered in that turn, as far as this part tells."""
    is_last: bool = True
    """Whether the end of the file was reached."""
