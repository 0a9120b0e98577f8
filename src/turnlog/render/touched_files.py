"""List the files that a session read or changed, with the calls that did it."""

from msgspec import Struct

from turnlog.conversation.calls import Call
from turnlog.conversation.session import Session
from turnlog.format.json_values import as_object
from turnlog.format.tools import CHANGING
from turnlog.render.tool_views import diff_of
from turnlog.secrets import mask

READING = "Read"


class ChangeView(Struct):
    """The change of a file by one call."""

    call_id: str
    tool: str
    line: int
    """Line of the call in the session file."""
    time: str | None
    diff: list[str]


class FileView(Struct):
    """A file, and how the session used it."""

    path: str
    reads: int
    changes: list[ChangeView]
    added: int
    removed: int


def touched_files(session: Session, reveal: bool = False) -> list[FileView]:
    """Return the files that calls read or changed, in order of first use."""
    files: dict[str, FileView] = {}
    for call in session.calls:
        if call.result is None or call.is_error or call.name not in CHANGING | {READING}:
            continue
        detail = session.detail(call)
        given = as_object(detail.input)
        path = given.get("file_path") or given.get("notebook_path")
        if not isinstance(path, str):
            continue
        shown = path if reveal else mask(path)
        # Group by the real path: paths with different secrets may look the same once masked.
        file = files.setdefault(path, FileView(shown, 0, [], 0, 0))
        if call.name == READING:
            file.reads += 1
        else:
            _add_change(file, call, diff_of(detail), reveal)
    return list(files.values())


def _add_change(file: FileView, call: Call, diff: list[str], reveal: bool) -> None:
    # Mask all lines at once: a private key spans many of them.
    shown = diff if reveal else mask("\n".join(diff)).split("\n")
    file.changes.append(ChangeView(call.id, call.name, call.use.line, call.use.time, shown))
    file.added += sum(line.startswith("+") for line in diff)
    file.removed += sum(line.startswith("-") for line in diff)
