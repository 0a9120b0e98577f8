"""Calls on files with results in the shape that the real client records (2.1.325, observed)."""

from pathlib import Path
from typing import Any

from support.build import SESSION, Fields, assistant, call, nth, result, session, text, user
from turnlog.conversation.session import open_session
from turnlog.worktree.moments import parse_moment, state_at
from turnlog.worktree.worktree import FileRevision, Worktree, open_worktree

ROOT = "/home/ada/shop"
UPDATED = "The file {} has been updated successfully."
CREATED = "File created successfully at: {}"


class Calls:
    """Builds pairs of lines: a call and its result. Ids are counted."""

    def __init__(self, **fields: Any) -> None:
        self.count = 0
        self.fields = fields
        """Fields of every line, such as the client's version."""

    def pair(self, tool: str, arguments: Any, answer: str, structured: Any) -> list[bytes]:
        """A call and its result."""
        self.count += 1
        name = f"toolu_{self.count}"
        extra = {} if structured is None else {"tool_use_result": structured}
        return [
            assistant(call(tool, arguments, name), **self.fields),
            result(name, answer, **extra, **self.fields),
        ]

    def write(self, path: str, content: str, original: str | None = None) -> list[bytes]:
        """A Write: of a new file, or over the text `original`."""
        full = full_path(path)
        kind, answer = ("create", CREATED) if original is None else ("update", UPDATED)
        done: Fields = {"type": kind, "filePath": full, "content": content, "structuredPatch": []}
        done |= {"originalFile": original, "userModified": False}
        given = {"file_path": full, "content": content}
        return self.pair("Write", given, answer.format(full), done)

    def edit(
        self, path: str, old: str, new: str, original: str | None, **changed: Any
    ) -> list[bytes]:
        """An Edit of the text `original`; `changed` replaces fields of the result."""
        full = full_path(path)
        done: Fields = {"filePath": full, "oldString": old, "newString": new}
        done["originalFile"] = original
        done |= {"replaceAll": False, "userModified": False}
        done["structuredPatch"] = [] if original is None else patch(original, old, new)
        given = {"file_path": full, "old_string": old, "new_string": new}
        return self.pair("Edit", given, UPDATED.format(full), done | changed)

    def read(
        self, path: str, content: str, start: int = 1, total: int | None = None
    ) -> list[bytes]:
        """A Read of a whole file, or of some lines."""
        full = full_path(path)
        lines = content.split("\n")
        file = {"filePath": full, "content": content, "numLines": len(lines), "startLine": start}
        file["totalLines"] = len(lines) if total is None else total
        shown = "\n".join(f"{start + n}\t{line}" for n, line in enumerate(lines))
        return self.pair("Read", {"file_path": full}, shown, {"type": "text", "file": file})

    def bash(self, command: str, changes: list[Any] | None = None) -> list[bytes]:
        """A Bash call; `changes` are the files of its `bashEditDiff`."""
        done: Fields = {"stdout": "", "stderr": "", "interrupted": False}
        if changes is not None:
            paths = [change["filePath"] for change in changes]
            done["bashEditDiff"] = {"files": changes, "moreFiles": 0, "changedFiles": paths}
        return self.pair("Bash", {"command": command}, "", done)


def full_path(path: str) -> str:
    """A path below the project, unless it is absolute."""
    return path if path.startswith(("/", "C:")) else f"{ROOT}/{path}"


def patch(before: str, old: str, new: str) -> list[Any]:
    """The structured patch of a replacement in a short text: one hunk with all of it."""
    after = before.replace(old, new, 1) if old else new
    removed, added = before.splitlines(), after.splitlines()
    head = 0
    while head < min(len(removed), len(added)) and removed[head] == added[head]:
        head += 1
    tail = 0
    while tail < min(len(removed), len(added)) - head and removed[-1 - tail] == added[-1 - tail]:
        tail += 1
    lines = [f" {line}" for line in removed[:head]]
    lines += [f"-{line}" for line in removed[head : len(removed) - tail]]
    lines += [f"+{line}" for line in added[head : len(added) - tail]]
    lines += [f" {line}" for line in removed[len(removed) - tail :]] if tail else []
    if after and not after.endswith("\n"):
        lines.append("\\ No newline at end of file")
    hunk = {"oldStart": 1, "oldLines": len(removed), "newStart": 1, "newLines": len(added)}
    return [hunk | {"lines": lines}]


def recorded(folder: Path, *parts: list[bytes] | bytes) -> Path:
    """A session file in a store below a folder; a prompt and an answer are put around the parts."""
    lines = [user("Change the files")]
    for part in parts:
        lines += part if isinstance(part, list) else [part]
    path = folder / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(session(*lines, assistant(text("Done."))))
    return path


def forked(folder: Path, calls: Calls, *second: bytes) -> Path:
    """A session file with two branches: a.py is changed on the first; the second is given."""
    path = recorded(folder)
    path.write_bytes(
        session(
            user("start"),
            *calls.write("a.py", "one\n"),
            assistant(text("done")),
            user("first way"),
            *calls.write("a.py", "two\n", "one\n"),
            assistant(text("done")),
            user("second way", parent=nth(4)),
            *second,
            assistant(text("done")),
        )
    )
    return path


def worktree_of(folder: Path, *parts: list[bytes] | bytes) -> Worktree:
    """The files of a session with these lines."""
    return open_worktree(open_session(recorded(folder, *parts)))


def state_of(worktree: Worktree, path: str, at: str | None = None) -> FileRevision:
    """A file at a moment, or at the end."""
    moment = parse_moment(worktree, at)
    return state_at(worktree, worktree.find(full_path(path)), moment)
