"""Paths of everything on disk.

A project folder's name does not identify its working directory, because different directories can
share a name. Only the entries identify it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from turnlog.format.regular_files import entries_of, is_folder, is_regular, regular_paths
from turnlog.store.configuration import store_directories
from turnlog.store.directories import cache_directory, data_directory

NAME_LIMIT = 200
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TOOL_RESULTS = "tool-results"
SUBAGENTS = "subagents"
META_SUFFIX = ".meta.json"
BY_SESSION = ("file-history", "image-cache", "uploads", "session-env", "tasks")
"""Folders of the store with one subfolder per session (2.1.325, and as documented)."""
THEIRS = re.compile(r"\.[0-9a-f]{8}\.theirs(\.[^.]*)?\Z")
"""The end of a name that `set_aside` returns."""


class Store(NamedTuple):
    """The client's configuration directory, with the paths in it that turnlog knows."""

    root: Path

    @property
    def projects(self) -> Path:
        return self.root / "projects"

    @property
    def history(self) -> Path:
        """Every prompt typed into an interactive session, of all projects."""
        return self.root / "history.jsonl"

    @property
    def registry(self) -> Path:
        """One file per running client: `<pid>.json`."""
        return self.root / "sessions"

    @property
    def file_history(self) -> Path:
        """Backups of edited files: `<session>/<hash>@v<n>`."""
        return self.root / "file-history"

    @property
    def todos(self) -> Path:
        """To-do lists of clients up to 2.1.45: `<session>-agent-<agent>.json`."""
        return self.root / "todos"

    @property
    def plans(self) -> Path:
        return self.root / "plans"

    @property
    def pastes(self) -> Path:
        """Long texts that were pasted into prompts: `<hash>.txt` (2.1.29 on)."""
        return self.root / "paste-cache"

    @property
    def logs(self) -> Path:
        """The client's debug log of each session: `<session>.txt`."""
        return self.root / "debug"

    @property
    def agent_notes(self) -> Path:
        """Notes that sub-agents keep from task to task: `<kind>/MEMORY.md` and others."""
        return self.root / "agent-memory"

    @property
    def settings(self) -> Path:
        return self.root / "settings.json"

    def client_state(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Return the file with the client's own state and that of its projects.

        It is next to the configuration directory, or inside if `CLAUDE_CONFIG_DIR` is set
        (observed: 2.1.325).
        """
        folder = self.root if environment.get("CLAUDE_CONFIG_DIR") else self.root.parent
        return folder / ".claude.json"

    def project_of(self, cwd: str) -> Path:
        """Return the folder with the sessions of a working directory."""
        return self.projects / folder_name(cwd)

    def session_files(self, cwd: str | None = None) -> Iterator[Path]:
        """Yield every session file, or those of a working directory, without sub-agents."""
        folders = _folders(self.projects) if cwd is None else [str(self.project_of(cwd))]
        for folder in folders:
            yield from map(Path, _sessions_in(folder))


def open_store(environment: Mapping[str, str] = os.environ) -> Store:
    """Return the user's first store, the one that chat and hooks use; it need not exist."""
    return Store(Path(store_directories(environment)[0]))


def client_store(environment: Mapping[str, str] = os.environ) -> Store:
    """Return the store that the client uses.

    The client takes `CLAUDE_CONFIG_DIR` for one directory and ignores turnlog's configuration.
    """
    return Store(Path(environment.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude"))


def archive_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's archive folder: `TURNLOG_ARCHIVE`, or else in turnlog's data folder."""
    if named := environment.get("TURNLOG_ARCHIVE"):
        return Path(named).absolute()
    return _own_folder(environment) / "archive"


def journal_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the journal of changes."""
    return _own_folder(environment) / "journal"


def trust_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file that lists trusted directories."""
    return _own_folder(environment) / "trusted.json"


def imports_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file that lists which outside files the memory of projects may import."""
    return _own_folder(environment) / "imports.json"


def servers_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file that lists which MCP servers of projects the user approved."""
    return _own_folder(environment) / "servers.json"


def unpacking_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory in which bundles are packed and unpacked."""
    return Path(cache_directory(environment)) / "bundles"


def _own_folder(environment: Mapping[str, str]) -> Path:
    return Path(data_directory(environment))


def real_path(path: Path) -> Path:
    """Resolve a path. Unlike `Path.resolve`, this accepts a link to itself."""
    try:
        return Path(os.path.realpath(path))
    except OSError:  # links that only their owner may follow, such as `/proc/1/root`
        return Path(os.path.normpath(path))


def expand_user(path: str) -> Path:
    """Expand `~` and `~user` in a path; a path of an unknown user stays as written.

    Unlike `Path.expanduser`, this never fails: a prompt may contain `@~nobody/x`.

    >>> str(expand_user("~no-such-user/x"))
    '~no-such-user/x'
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


def short_path(path: str | Path, root: Path | None = None) -> str:
    """Return the shortest name of a file: below a root, below the home directory, or in full.

    >>> short_path("/srv/shop/a.py", Path("/srv/shop")), short_path("/etc/hosts")
    ('./a.py', '/etc/hosts')
    """
    named = str(path)
    for folder, short_name in ((root, "."), (Path.home(), "~")):
        if folder and named.startswith(f"{folder}/"):
            return f"{short_name}{named.removeprefix(str(folder))}"
    return named


def is_there(path: Path) -> bool:
    """Return whether a path exists; False for a name that is too long, unlike `Path.exists`."""
    return os.path.exists(path)  # noqa: PTH110


def is_windows_path(path: str) -> bool:
    r"""Return whether a path was written on Windows: it starts with a drive, or is a UNC path.

    >>> [is_windows_path(path) for path in (r"C:\a", "e:/a", r"\\srv\share", "/a", "a:b")]
    [True, True, True, False, False]
    """
    return re.match(r"[A-Za-z]:[\\/]|\\\\", path) is not None


def last_part(path: str) -> str:
    r"""Return the name of a file, regardless of the system its path was written on.

    >>> last_part(r"C:\Users\ada\x.txt"), last_part("/home/ada/a\\b")
    ('x.txt', 'a\\b')
    """
    return re.split(r"[/\\]" if is_windows_path(path) else "/", path)[-1]


def is_session_name(name: str) -> bool:
    """Return whether a file in a project's folder is a session."""
    # Clients 2.0.x keep the files of sub-agents among the sessions.
    return name.endswith(".jsonl") and not name.startswith(("agent-", "."))


def is_subagent_name(name: str) -> bool:
    """Return whether a file is a sub-agent's log."""
    return name.startswith("agent-") and name.endswith(".jsonl")


def is_subagent_file(name: str) -> bool:
    """Return whether a file is a sub-agent's log, or records what started a sub-agent."""
    return is_subagent_name(name) or (name.startswith("agent-") and name.endswith(META_SUFFIX))


def folder_name(cwd: str) -> str:
    r"""Return a project's folder name: non-alphanumeric UTF-16 units become dashes.

    A name of more than 200 characters is truncated and gets a hash of the whole path as a suffix;
    clients up to 2.1.45 did not truncate it (observed: 1.0.60 to 2.1.325). The caller resolves
    symbolic links.

    >>> folder_name("/home/ada/my.shop"), folder_name(r"E:\work\x"), folder_name("/日本")
    ('-home-ada-my-shop', 'E--work-x', '---')
    """
    units = _utf16_units(cwd)
    name = "".join(_dashed(unit) for unit in units)
    return name if len(name) <= NAME_LIMIT else f"{name[:NAME_LIMIT]}-{_base36(_hash(units))}"


def sidecar_folder(session: Path) -> Path:
    """Return the folder next to a session file for its sub-agents, tool results and title."""
    return session.with_suffix("")


def title_file(session: Path) -> Path:
    """Return the file with the name that the user gave a session (2.1.325)."""
    return sidecar_folder(session) / "custom-title.json"


def tool_results(session: Path) -> Path:
    """Return the folder for outputs too large for the session file."""
    return sidecar_folder(session) / TOOL_RESULTS


def subagents_folder(session: Path) -> Path:
    """Return the folder of sub-agents (2.1.29 on); those of workflows are in subfolders."""
    return sidecar_folder(session) / SUBAGENTS


def subagent_meta(subagent: Path) -> Path:
    """Return the file that records what started a sub-agent (2.1.97 on)."""
    return subagent.with_suffix(META_SUFFIX)


def set_aside(path: Path, digest: bytes) -> Path:
    """Return where another machine's version of a file is kept, next to our own.

    >>> str(set_aside(Path("plans/x.md"), bytes(32)))
    'plans/x.00000000.theirs.md'
    """
    return path.with_name(f"{path.stem}.{digest[:4].hex()}.theirs{path.suffix}")


def nested_subagents(session: Path) -> list[Path]:
    """Return the sub-agent files in a session's own folder, including workflows."""
    return regular_paths(subagents_folder(session).rglob("agent-*.jsonl"))


def project_notes(project: Path) -> list[Path]:
    """Return the files that a project's sessions share: notes, and an index (up to 2.1.30)."""
    index = project / "sessions-index.json"
    notes = regular_paths((project / "memory").rglob("*.md"))
    return [*notes, *([index] if index.is_file() else [])]


def adjacent_subagents(project: Path) -> list[Path]:
    """Return the sub-agent files that are not in a session's own folder.

    They are among the sessions (2.0.x) or in `<project>/subagents` (documented, not observed);
    their entries name the session.
    """
    shared = (project / SUBAGENTS).glob("agent-*.jsonl")
    return regular_paths([*project.glob("agent-*.jsonl"), *shared])


def _folders(parent: Path) -> list[str]:
    return sorted(entry.path for entry in entries_of(parent) if is_folder(entry))


def _sessions_in(folder: str) -> list[str]:
    # The name is checked first: `is_regular` reports everything that is not a regular file.
    named = (entry for entry in entries_of(folder) if is_session_name(entry.name))
    return [entry.path for entry in named if is_regular(entry)]


def _utf16_units(text: str) -> list[int]:
    raw = text.encode("utf-16-le", "surrogatepass")
    return [raw[i] | raw[i + 1] << 8 for i in range(0, len(raw), 2)]


def _dashed(unit: int) -> str:
    return chr(unit) if unit < 128 and re.match(r"[A-Za-z0-9]", chr(unit)) else "-"


def _hash(units: list[int]) -> int:
    # The client runs JavaScript: `hash = (hash * 31 + unit) | 0` wraps to a signed 32-bit integer.
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value & 0x80000000 else value)


def _base36(value: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = DIGITS[digit] + digits
    return digits or "0"
