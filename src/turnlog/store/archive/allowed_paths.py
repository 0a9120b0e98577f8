"""Which paths an archive may name: those of session files that `turnlog archive` itself writes.

An archive may come from anyone. Paths are matched against an allowlist of layouts, never against a
list of dangerous names: a file the client gains tomorrow (a new settings file, say) is refused too.
"""

import re
import unicodedata
from collections.abc import Iterable

from turnlog.store.paths import BY_SESSION, SUBAGENTS, is_session_name, is_subagent_name

LONGEST_NAME = 255
"""Bytes: what common file systems allow for one component."""
LONGEST_PATH = 1024
DEEPEST = 16
RUN_BY_CLIENT = "session-env"
"""Shell scripts that the client sources before each command: archived, but never restored."""
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
"""What the client names sessions (observed: 1.0.60 to 2.1.325)."""
RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.I)
DRIVE = re.compile(r"[A-Za-z]:")
BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that let a terminal show a name in another order."""
UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


def name_problem(name: str) -> str | None:
    """Why a component of a path is refused; None for one that is safe on every file system.

    >>> name_problem("agent-a1.jsonl"), name_problem(".."), name_problem("NUL.txt")
    (None, 'is no file name', 'is a reserved name')
    """
    if name in ("", ".", ".."):
        return "is no file name"
    if "/" in name or "\\" in name or "\0" in name:
        return "has a separator or NUL in a name"
    if any(unicodedata.category(each) in UNPRINTABLE or each in BIDI for each in name):
        return "has a control character in a name"
    if len(name.encode()) > LONGEST_NAME:
        return "has a name that is too long"
    if DRIVE.match(name):
        return "names a drive"
    if RESERVED.fullmatch(name.rstrip(" .")):
        return "is a reserved name"
    return None


def path_problem(session: str, path: str) -> str | None:
    """Why an archive may not name a path for a session; None for a path that belongs to it.

    >>> path_problem("a1", "projects/-home-ada/a1.jsonl"), path_problem("a1", "settings.json")
    (None, 'is not a file of this session')
    """
    if path.startswith("/"):
        return "is an absolute path"
    parts = path.split("/")
    if problem := next(filter(None, map(name_problem, parts)), None):
        return problem
    if len(path.encode()) > LONGEST_PATH or len(parts) > DEEPEST:
        return "is too long a path"
    return None if _is_of_session(session, parts) else "is not a file of this session"


def session_problem(session: str) -> str | None:
    """Why an archive may not hold a session of this id."""
    if problem := name_problem(session):
        return problem
    return None if is_session_name(f"{session}.jsonl") else "is no session id"


def collision(paths: Iterable[str]) -> str | None:
    """The first path that would take the place of an earlier one, or lie below it as a file.

    Names that differ in case or normalization only are one file on macOS and Windows.

    >>> collision(["todos/a.json", "todos/A.json"]), collision(["a/b", "a"]), collision(["a", "b"])
    ('todos/A.json', 'a', None)
    """
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        parts = folded.split("/")
        above = {"/".join(parts[:end]) for end in range(1, len(parts))}
        if folded in files or folded in folders or above & files:
            return path
        files.add(folded)
        folders |= above
    return None


def is_run_by_client(path: str) -> bool:
    """Whether the client would execute a file of the session."""
    return path.split("/", 1)[0] == RUN_BY_CLIENT


def is_session_id(name: str) -> bool:
    """Whether a session may have a directory of its own.

    A session file can be called anything, but `memory/` beside it holds notes that the client puts
    into every prompt: a session named `memory` must not write there.
    """
    return ID.fullmatch(name) is not None


def _is_of_session(session: str, parts: list[str]) -> bool:
    match parts:
        case ["projects", project, name]:
            is_own = name == f"{session}.jsonl" or is_subagent_name(name)
            return not project.startswith(".") and is_own
        case ["projects", project, folder, name] if folder == SUBAGENTS:
            return not project.startswith(".") and is_subagent_name(name)
        case ["projects", project, folder, *below]:
            is_own = folder == session and is_session_id(session)
            return not project.startswith(".") and is_own and bool(below)
        case ["todos", name]:
            is_own = name.startswith(f"{session}-agent-") and is_session_id(session)
            return is_own and name.endswith(".json")
        case [kind, folder, *below]:
            is_own = folder == session and is_session_id(session)
            return kind in BY_SESSION and is_own and bool(below)
        case _:
            return False
