"""Check the paths in an archive: only paths that `turnlog archive` itself writes are allowed.

An archive may come from anyone. Paths are matched against an allowlist of layouts rather than a
denylist of dangerous names, so that settings files of future clients are refused, too.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from turnlog.store.paths import BY_SESSION, SUBAGENTS, is_session_name, is_subagent_file

LONGEST_NAME = 255
"""In bytes: the limit of common file systems for one component."""
LONGEST_PATH = 1024
DEEPEST = 16
RUN_BY_CLIENT = re.compile(r"session-env/|(.*/)?workflows/(.*/)?scripts/", re.I | re.S)
"""Shell scripts that the client sources before each command, and scripts of workflows.

On macOS and Windows, `Workflows/SCRIPTS` is the same folder.
"""
HISTORY = "history.jsonl"
SHARED = re.compile(
    r"history\.jsonl|plans/[\w-]{1,200}(\.[0-9a-f]{8}\.theirs)?\.md|paste-cache/[0-9a-f]{8,64}\.txt",
    re.A,
)
"""Files that sessions share: the prompt history, plans and pasted texts."""
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
"""The client's session ids (observed: 1.0.60 to 2.1.325)."""
RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.I)
DRIVE = re.compile(r"[A-Za-z]:")
BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that make a terminal display a name in another order."""
UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


def name_problem(name: str) -> str | None:
    """Return why a path component is refused; None if it is safe on every file system.

    >>> name_problem("agent-a1.jsonl"), name_problem(".."), name_problem("NUL.txt")
    (None, 'is not a file name', 'is a reserved name')
    """
    if name in ("", ".", ".."):
        return "is not a file name"
    if "/" in name or "\\" in name or "\0" in name:
        return "has a separator or NUL in a name"
    # A name such as "x\x1b[2J.jsonl" would reach a terminal as soon as the archive is listed.
    is_plain = name.isascii() and name.isprintable()  # most are: no need to look at each character
    if not is_plain and any(
        unicodedata.category(char) in UNPRINTABLE or char in BIDI for char in name
    ):
        return "has a control character in a name"
    if len(name.encode()) > LONGEST_NAME:
        return "has a name that is too long"
    if DRIVE.match(name):
        return "names a drive"
    # Windows drops trailing spaces and dots: "NUL . " is the device as well.
    if RESERVED.fullmatch(name.rstrip(" .")):
        return "is a reserved name"
    return None


def path_problem(session: str, path: str) -> str | None:
    """Return why a path cannot be part of an archived session; None if it can.

    >>> path_problem("a1", "projects/-home-ada/a1.jsonl"), path_problem("a1", "settings.json")
    (None, 'is not a file of this session')
    """
    if path.startswith("/"):
        return "is an absolute path"
    parts = path.split("/")
    if problem := next(filter(None, map(name_problem, parts)), None):
        return problem
    if len(path.encode()) > LONGEST_PATH or len(parts) > DEEPEST:
        return "is too long"
    return None if _is_of_session(session, parts) else "is not a file of this session"


def archived_problem(session: str, path: str) -> str | None:
    """Return why an archived session may not have a path: its own, or one that sessions share."""
    is_shared = is_session_id(session) and SHARED.fullmatch(path)
    return None if is_shared else path_problem(session, path)


def session_problem(session: str) -> str | None:
    """Return why an archive may not contain a session with this id; None if it may."""
    if problem := name_problem(session):
        return problem
    return None if is_session_name(f"{session}.jsonl") else "is not a session id"


def collision(paths: Iterable[str]) -> str | None:
    """Return the first path that collides with an earlier one: the same file, above it or below it.

    >>> collision(["todos/a.json", "todos/A.json"]), collision(["a/b", "a"]), collision(["a", "b"])
    ('todos/A.json', 'a', None)
    """
    return next(collisions(paths), None)


def collisions(paths: Iterable[str]) -> Iterator[str]:
    """Yield each path that collides with an earlier one that was not yielded.

    Paths collide if both name the same file, or one is below the other. Names that differ only in
    case or Unicode normalization are the same file on macOS and Windows.
    """
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        parts = folded.split("/")
        above = {"/".join(parts[:end]) for end in range(1, len(parts))}
        if folded in files or folded in folders or above & files:
            yield path
        else:
            files.add(folded)
            folders |= above


def is_run_by_client(path: str) -> bool:
    """Return whether the client would execute a file of the session; it is never written."""
    return RUN_BY_CLIENT.match(path) is not None


def is_session_id(name: str) -> bool:
    """Return whether a session may have a directory of its own."""
    # A session file can have any name, but `projects/<project>/memory/` contains notes that the
    # client adds to every prompt: a session called `memory` must not write there.
    return ID.fullmatch(name) is not None


def _is_of_session(session: str, parts: list[str]) -> bool:
    match parts:
        case ["projects", project, name]:
            is_own = name == f"{session}.jsonl" or is_subagent_file(name)
            return not project.startswith(".") and is_own
        case ["projects", project, folder, name] if folder == SUBAGENTS:
            return not project.startswith(".") and is_subagent_file(name)
        case ["projects", project, folder, below, *_, name] if (
            # Programs may name sessions as they like. Even in a folder called `memory`, the client
            # does not read such a file as a note.
            below == SUBAGENTS and is_subagent_file(name)
        ):
            return not project.startswith(".") and folder == session
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
