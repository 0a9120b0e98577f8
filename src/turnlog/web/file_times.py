"""The files of a session at a message, and one file over time, as JSON for the viewer."""

from msgspec import to_builtins

from turnlog.errors import NotFound, UsageError
from turnlog.format.json_values import Fields
from turnlog.secrets import mask
from turnlog.web.session_cache import OpenedSession
from turnlog.worktree.file_names import FileName
from turnlog.worktree.file_steps import TurnPlaces, diff_change
from turnlog.worktree.moments import FileMoment, at_line, parse_moment, state_at
from turnlog.worktree.state_views import mask_lines, state_view
from turnlog.worktree.worktree import FileRevision, Worktree

LARGEST = 256 << 20
"""Maximum bytes of a session whose files are shown here."""
CLIP = 400_000
"""Maximum characters of a file that are shown."""
MOST_FILES = 500
MOST_VERSIONS = 2000


def files_at(opened: OpenedSession, line: int | None) -> Fields:
    """Return the changed files of a session, each with the certainty of its content at a line."""
    worktree, moment = _at(opened, line)
    # Files that the message only reads are listed too: the question is often what it saw.
    here = set(_files_in(worktree, line))
    names = worktree.changed_files
    names += [name for name in worktree.files.values() if name.key in here and name not in names]
    states = [state_at(worktree, name, moment) for name in names[:MOST_FILES]]
    order = list(worktree.files)
    files = [
        {
            "file": order.index(state.name.key),
            "is_here": state.name.key in here,
            **to_builtins(state_view(state, with_content=False)),
        }
        for state in states
    ]
    return {"files": files, "rest": max(0, len(names) - MOST_FILES), "moment": moment.label}


def file_at(
    opened: OpenedSession, file: int | str, line: int | None, version: int | None
) -> Fields:
    """Return a file at a line or in a numbered version, and the list of its versions.

    `file` is the number that `files_at` returned, or a path: paths are compared, never opened.
    """
    worktree, moment = _at(opened, line)
    name = _named(worktree, file)
    # The slider has a position for each version; with more than this, nobody could pick one.
    versions = worktree.versions(name, moment.leaf)[:MOST_VERSIONS]
    seen = [n for n, each in enumerate(versions) if each.place <= moment.place]
    number = min(version, len(versions) - 1) if version is not None else max(seen, default=-1)
    if version is None or not versions:
        state = state_at(worktree, name, moment)
    else:
        state = versions[number]
    before = versions[number - 1] if number > 0 else worktree.base(name, moment.leaf)
    diff = diff_change(before, versions[number]) if number >= 0 else []
    places = TurnPlaces(worktree, moment.leaf)
    return {
        "path": mask(name.path),
        "moment": moment.label,
        "number": number,
        "versions": [_version(each, places) for each in versions],
        "state": _clipped(state),
        "diff": mask_lines(diff),
    }


def _at(opened: OpenedSession, line: int | None) -> tuple[Worktree, FileMoment]:
    session = opened.session
    if session.state.size > LARGEST:
        raise UsageError("too large to show its files here", opened.command("files", "--at", "1"))
    worktree = opened.worktree
    moment = at_line(worktree, line) if line else parse_moment(worktree, None)
    return worktree, moment


def _files_in(worktree: Worktree, line: int | None) -> list[str]:
    """Return the keys of the files that a line, or the result of its call, reads or changes."""
    node = worktree.session.node_at(line) if line else None
    if node is None:
        return []
    return [
        key for key in worktree.files if any(line in lines for lines in worktree.lines_about(key))
    ]


def _named(worktree: Worktree, file: int | str) -> FileName:
    if isinstance(file, str):
        found = worktree.known(file)
    else:
        names = list(worktree.files.values())
        found = names[file] if 0 <= file < len(names) else None
    if found is None:
        raise NotFound("this session neither read nor changed that file", "turnlog files SESSION")
    return found


def _version(version: FileRevision, places: TurnPlaces) -> Fields:
    turn = places.turn_at(version.place)
    return {
        "line": None if version.agent_id else version.line,
        "turn": turn.n if turn else None,
        "time": version.time,
        "tool": version.tool,
        "certainty": version.certainty,
        "is_change": version.is_change,
        "agent_id": version.agent_id,
    }


def _clipped(state: FileRevision) -> Fields:
    view = to_builtins(state_view(state))
    content: str = view["content"] or ""
    view["is_cut"] = len(content) > CLIP
    if view["encoding"] == "base64":
        view["content"] = None
    elif view["is_cut"]:
        view["content"] = content[:CLIP]
    view["known"] = [[int(number), text] for number, text in view["known"].items()]
    return view
