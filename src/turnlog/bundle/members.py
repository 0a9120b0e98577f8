"""The files of a session that a bundle may contain, and their names in it.

An allowlist of names and suffixes that the client writes for its own use. It does not contain
settings, credentials, hooks, memory, shell snapshots or scripts of workflows, nor anything that
the client adds in the future.
"""

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from turnlog.bundle.container import fits_header
from turnlog.bundle.manifest import Omission
from turnlog.bundle.path_tokens import PREFIX
from turnlog.edit.tracked_files import BACKUP
from turnlog.store.archive.allowed_paths import is_session_id, name_problem, path_problem
from turnlog.store.footprint import NICKNAME, footprint_of
from turnlog.store.paths import THEIRS, TOOL_RESULTS, Store, is_subagent_file, sidecar_folder
from turnlog.store.prompt_history import paste_files, prompts_of
from turnlog.store.symlinks import without_links

TRANSCRIPT = "session.jsonl"
PROMPTS = "prompts.jsonl"
SIDECARS = "sidecars"
ADJACENT = "subagents"
TODOS = "todos"
PLANS = "plans"
PASTES = "pastes"
FILE_HISTORY = "file-history"
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
SUFFIXES: dict[str, tuple[str, ...]] = {
    "image-cache": IMAGES,
    "uploads": (*IMAGES, ".txt", ".md", ".csv", ".pdf"),
    "tasks": (".json", ".jsonl", ".md", ".txt"),
}
"""Allowed suffixes in those of the client's folders that have a subfolder per session."""
TEXTS = (".json", ".jsonl", ".md", ".txt")
PASTE = re.compile(r"[0-9a-f]{8,64}\.txt")
SIDECAR = re.compile(
    r"custom-title\.json"
    r"|subagents/(?:[\w.@-]+/){0,4}(?:agent-[\w.@-]+(?:\.jsonl|\.meta\.json)|journal\.jsonl)"
    r"|workflows/[\w.@-]+\.json"
    rf"|{TOOL_RESULTS}/(?:[\w.@-]+/){{0,4}}[\w.@ -]+"
    r"\.(?:txt|json|jsonl|md|png|jpe?g|gif|webp)"
)
"""Files in a session's own folder, except scripts of workflows (`workflows/scripts/*.js`)."""
LARGEST = (1 << 33) - 1
"""The largest file size that fits into a tar header."""


class BundleMember(NamedTuple):
    """A file of a session, and its name in the bundle."""

    name: str
    path: Path
    lines: frozenset[int] | None = None
    """Numbers of the lines that belong to the session; None for all."""


@dataclass
class Gathered:
    """The files of a session: those for the bundle, and the omitted ones with a reason."""

    members: list[BundleMember] = field(default_factory=list[BundleMember])
    omitted: list[Omission] = field(default_factory=list[Omission])


def gather(store: Store, session: Path) -> Gathered:
    """Return the files of a session that go into a bundle; the transcript comes first."""
    name = session.stem
    found = footprint_of(store, session)
    prompts = [p for p in prompts_of(store, name, ()) if p.session == name]
    pastes = without_links(store.root, paste_files(store, prompts))
    folder = sidecar_folder(session)
    named = [(f"{SIDECARS}/{path.relative_to(folder).as_posix()}", path) for path in found.sidecars]
    named += [(f"{ADJACENT}/{path.name}", path) for path in found.subagents]
    for path in found.backups:
        kind, _, *rest = path.relative_to(store.root).parts
        named.append(("/".join([kind, *rest]), path))
    named += [(f"{TODOS}/{path.name}", path) for path in found.todos]
    named += [(f"{PLANS}/{path.name}", path) for path in found.plans]
    named += [(f"{PASTES}/{path.name}", path) for path in pastes]
    gathered = Gathered([BundleMember(f"{name}/{TRANSCRIPT}", session)])
    for inner, path in sorted(named):
        _add(gathered, f"{name}/{inner}", path)
    if prompts:
        lines = frozenset(prompt.line for prompt in prompts)
        gathered.members.append(BundleMember(f"{name}/{PROMPTS}", store.history, lines))
    omitted = [*found.logs, *found.outputs]
    gathered.omitted += [Omission(f"{name}/{path.name}", _kind(store, path)) for path in omitted]
    return gathered


def _kind(store: Store, path: Path) -> str:
    is_log = path.parent == store.logs
    return "a debug log of the client" if is_log else "a temporary output of a background task"


def _add(gathered: Gathered, name: str, path: Path) -> None:
    status = path.stat()
    reason = member_problem(name)
    # A copy of an edited script is data, and loses its mode; any other program is left out.
    is_backup = name.split("/")[1] == FILE_HISTORY
    if not reason and status.st_mode & stat.S_IXUSR and not is_backup:
        reason = "is executable"
    if not reason and status.st_size > LARGEST:
        reason = "is larger than 8 GiB"
    if reason:
        gathered.omitted.append(Omission(name, reason))
    else:
        gathered.members.append(BundleMember(name, path))


def member_problem(name: str) -> str | None:
    """Return why a bundle may not contain a file of this name; None if it may.

    >>> member = "0a1b2c3d-0000-4000-8000-000000000000"
    >>> member_problem(f"{member}/session.jsonl"), member_problem(f"{member}/settings.json")
    (None, 'is not a file of a session')
    """
    session, *inner = name.split("/")
    if problem := next(filter(None, map(name_problem, [session, *inner])), None):
        return problem
    if not is_session_id(session):
        return "does not start with a session id"
    # A token would be expanded to a path of the receiver.
    if PREFIX.search(name):
        return "has a token in its name"
    if not fits_header(name):
        return "has a name that is too long"
    return None if _is_allowed(session, inner) else "is not a file of a session"


def _is_allowed(session: str, inner: list[str]) -> bool:
    rest = "/".join(inner[1:])
    match inner:
        case [name]:
            return name in (TRANSCRIPT, PROMPTS)
        case ["sidecars", *_]:
            return SIDECAR.fullmatch(rest) is not None
        case ["subagents", name]:
            return is_subagent_file(name) and SIDECAR.fullmatch(f"subagents/{name}") is not None
        case ["todos", name]:
            stem = name.removeprefix(f"{session}-agent-")
            return stem != name and re.fullmatch(r"[\w-]+\.json", stem) is not None
        case ["plans", name]:
            return name.endswith(".md") and NICKNAME.fullmatch(name[:-3]) is not None
        case ["pastes", name]:
            return PASTE.fullmatch(name) is not None
        case ["file-history", name]:
            # Without another machine's version next to it, a backup would look certain.
            return BACKUP.fullmatch(THEIRS.sub("", name)) is not None
        case [kind, *below] if kind in SUFFIXES and below:
            return below[-1].lower().endswith(SUFFIXES[kind]) and not below[-1].startswith(".")
        case _:
            return False


def store_path(name: str, folder: str) -> str | None:
    """Return the path below the store for a file of the bundle; None for the prompt history.

    `folder` is the name of the project's folder.
    """
    session, kind, *rest = name.split("/")
    below = "/".join(rest)
    places = {
        TRANSCRIPT: f"projects/{folder}/{session}.jsonl",
        SIDECARS: f"projects/{folder}/{session}/{below}",
        ADJACENT: f"projects/{folder}/{below}",
        TODOS: f"todos/{below}",
        PLANS: f"plans/{below}",
        PASTES: f"paste-cache/{below}",
    }
    return None if kind == PROMPTS else places.get(kind, f"{kind}/{session}/{below}")


def place_problem(name: str, path: str) -> str | None:
    """Return why a file may not be written to a path below the store; None if it may."""
    session, kind, *_ = name.split("/")
    # Plans and pastes are named by a nickname or a hash; `member_problem` has matched both.
    return None if kind in (PLANS, PASTES) else path_problem(session, path)


def has_tokens(name: str) -> bool:
    """Return whether directories in a file are replaced by tokens.

    Copies of the user's own files keep every byte, apart from secrets.
    """
    _, kind, *_ = name.split("/")
    return kind not in (FILE_HISTORY, PASTES, "image-cache", "uploads") and name.endswith(TEXTS)


def is_json_name(name: str) -> bool:
    """Return whether a file contains JSON."""
    return name.endswith((".json", ".jsonl"))
