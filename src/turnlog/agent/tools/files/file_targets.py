"""Checks shared by the file tools: whether a file can be read, and whether it may be changed."""

import difflib
import os
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from turnlog.agent.tools.files.pinned_files import Pinned
from turnlog.agent.workspace.read_state import read_state_of, state_of
from turnlog.agent.workspace.tool import ToolError
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.jsonl import FileState


@contextmanager
def refusals(doing: str, path: Path) -> Generator[None]:
    """Turn system errors into messages for the model."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"Cannot {doing} {path}: {error.strerror or error}") from error


def require_file(path: Path) -> None:
    """Raise unless the path is a regular file."""
    with refusals("read", path):
        if path.is_file():
            return
        if path.is_dir():
            raise ToolError(f"{path} is a directory; list it with Glob, or with ls in Bash")
        if path.exists():
            raise ToolError(f"{path} is neither a file nor a directory")
        raise ToolError(f"File does not exist: {path}{_nearest(path)}")


def require_read(pinned: Pinned, file: BufferedReader, workspace: Workspace) -> None:
    """Raise if the model has not read the file in its present state."""
    path, last_read = pinned.path, workspace.read_states.get(pinned.target)
    if last_read is None:
        raise ToolError(f"{path} has not been read yet. Read it first, then change it.")
    if not last_read.still_holds(file):
        raise ToolError(f"{path} has changed since it was read. Read it again, then change it.")


def remember(
    pinned: Pinned, file: BufferedReader, workspace: Workspace, state: FileState | None = None
) -> None:
    """Remember the state of a file that the model has just seen."""
    workspace.read_states[pinned.target] = read_state_of(file, state or state_of(file))


def _nearest(path: Path) -> str:
    """Return a hint for a missing file: similar names, or the directory that does exist."""
    parent = next(place for place in path.parents if place.is_dir())
    if parent != path.parent:
        return f". There is no directory {path.parent}; {parent} is there."
    names = os.listdir(parent)
    alike = difflib.get_close_matches(path.name, names, n=3)
    alike += [name for name in names if Path(name).stem == path.stem and name not in alike][:3]
    return f". Did you mean {' or '.join(str(parent / name) for name in alike)}?" if alike else ""
