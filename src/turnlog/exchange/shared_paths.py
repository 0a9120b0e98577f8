"""Map roles, the file names that all machines share, to paths on this machine and back.

A role is a file's path without the session's id and the project's folder. A role from another
machine is accepted only if the resulting path is on the allowlist.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnlog.store.archive.allowed_paths import (
    SHARED,
    is_run_by_client,
    name_problem,
    path_problem,
)
from turnlog.store.paths import THEIRS, folder_name

ID = "{id}"
STAGED = re.compile(r"(^|/)\.turnlog-|/\.[^/]*\.tmp\Z")
"""Temporary files of a change that was killed; the next change removes them."""
CWD = re.compile(rb'"cwd":("(?:[^"\\]|\\.){0,4096}")')
LITERAL = "="
"""Prefix of the shared name of a project whose directory is unknown; its folder name follows."""


class Places:
    """Maps the directories of projects to names that all machines share, and back."""

    def __init__(self, home: Path, mapped: Mapping[str, str]) -> None:
        # The longest path first, so that `/work/shop` wins over `/work`.
        pairs = sorted(mapped.items(), key=lambda pair: len(pair[0]), reverse=True)
        self._pairs = [*pairs, (str(home), "~")]

    def shared_project(self, folder: str, directories: Iterable[str]) -> str:
        """Return the shared name of a folder's project, given directories that it may belong to."""
        for directory in directories:
            if folder_name(directory) == folder:
                return self._to_shared(directory)
        return LITERAL + folder

    def local_folder(self, project: str) -> str:
        """Return the name of a project's folder on this machine."""
        if project.startswith(LITERAL):
            return project.removeprefix(LITERAL)
        return folder_name(self.local_directory(project))

    def local_directory(self, project: str) -> str:
        """Return a project's directory on this machine; if unknown, a path that does not exist."""
        for local, shared in self._pairs:
            if _is_at_or_below(project, shared):
                return local + project[len(shared) :]
        return project

    def _to_shared(self, directory: str) -> str:
        for local, shared in self._pairs:
            if _is_at_or_below(directory, local):
                return shared + directory[len(local) :].replace("\\", "/")
        return directory


def directories_in(raw: bytes) -> list[str]:
    """Return the values of `cwd` in raw lines, without decoding the lines."""
    found = dict.fromkeys(match[1] for match in CWD.finditer(raw))
    return [text for each in found if (text := _text(each))]


def role_of(path: str, session: str) -> tuple[str, str]:
    """Return the role of a session's file, and its project's folder (empty if it has none).

    >>> role_of("projects/-home-ada/a1/tool-results/x.txt", "a1")
    ('projects/{id}/tool-results/x.txt', '-home-ada')
    """
    match path.split("/"):
        case ["projects", folder, first, *rest]:
            return "/".join(["projects", _without_id(first, session), *rest]), folder
        case [kind, second, *rest] if session:
            return "/".join([kind, _without_id(second, session), *rest]), ""
        case _:
            return path, ""


def path_of(role: str, folder: str, session: str) -> str:
    """Return the path of a role in the store; the reverse of `role_of`."""
    match role.split("/"):
        case ["projects", first, *rest]:
            return "/".join(["projects", folder, first.replace(ID, session, 1), *rest])
        case [kind, second, *rest] if session:
            return "/".join([kind, second.replace(ID, session, 1), *rest])
        case _:
            return role


def role_problem(role: str, folder: str, session: str) -> str | None:
    """Return why a file is not exchanged; None if it is."""
    path = path_of(role, folder, session)
    if not session and not SHARED.fullmatch(path):
        return "is not a file that turnlog syncs"
    if session and (problem := path_problem(session, path)):
        return problem
    if is_run_by_client(path):
        return "would be executed by the client"
    return "is another machine's version" if is_set_aside(path) else None


def folder_problem(folder: str) -> str | None:
    """Return why a project's folder cannot be created; None if it can."""
    if folder.startswith("."):
        return "is hidden"
    return name_problem(folder)


def is_set_aside(path: str) -> bool:
    """Return whether a file is another machine's version of a document, or a crash leftover.

    >>> is_set_aside("projects/-p/a1/.turnlog-x/1/agent-a.jsonl"), is_set_aside("plans/x.md")
    (True, False)
    """
    return THEIRS.search(path) is not None or STAGED.search(path) is not None


def nested_role(role: str) -> str:
    """Return the role that a sub-agent's log next to its session gets in a fork.

    It cannot be in the project's folder, where the original session's sub-agent has the same name.
    """
    name = role.rpartition("/")[2]
    return f"projects/{ID}/subagents/{name}"


def is_loose(role: str) -> bool:
    """Return whether a role is a sub-agent next to its session (2.0.x); it has no session id."""
    return role.startswith("projects/") and not role.startswith(f"projects/{ID}")


def _without_id(name: str, session: str) -> str:
    is_named = name == session or name.startswith((f"{session}.jsonl", f"{session}-agent-"))
    return ID + name[len(session) :] if is_named else name


def _is_at_or_below(path: str, parent: str) -> bool:
    return path == parent or path.startswith((f"{parent}/", f"{parent}\\"))


def _text(spelled: bytes) -> str | None:
    try:
        found = json.loads(spelled)
        found.encode()
    except ValueError:
        return None
    return found
