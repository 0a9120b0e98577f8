"""Where things lie on disk. A folder's name never tells its working directory: entries do."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from turnlog.format.regular_files import entries_of, is_folder, is_regular, regular_paths

NAME_LIMIT = 200
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
TOOL_RESULTS = "tool-results"
SUBAGENTS = "subagents"
BY_SESSION = ("file-history", "image-cache", "uploads", "session-env", "tasks")
"""Folders of the store that have one folder for each session (2.1.325, and as documented)."""


class Store(NamedTuple):
    """The client's configuration directory, and every place in it that turnlog knows."""

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
        """What the client notes for itself of a session: `<session>.txt`."""
        return self.root / "debug"

    @property
    def agent_notes(self) -> Path:
        """Notes that sub-agents keep from task to task: `<kind>/MEMORY.md` and others."""
        return self.root / "agent-memory"

    @property
    def settings(self) -> Path:
        return self.root / "settings.json"

    def client_state(self, environment: Mapping[str, str] = os.environ) -> Path:
        """What the client remembers of itself and of projects: beside its directory, or in it if a
        variable names that (observed: 2.1.325)."""
        folder = self.root if environment.get("CLAUDE_CONFIG_DIR") else self.root.parent
        return folder / ".claude.json"

    def project_of(self, cwd: str) -> Path:
        """The folder that holds the sessions of a working directory."""
        return self.projects / folder_name(cwd)

    def session_files(self, cwd: str | None = None) -> Iterator[Path]:
        """Every session file, or those of a working directory; sub-agents are no sessions."""
        folders = _folders(self.projects) if cwd is None else [str(self.project_of(cwd))]
        for folder in folders:
            yield from map(Path, _sessions_in(folder))


def open_store(environment: Mapping[str, str] = os.environ) -> Store:
    """The store of the user: `CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    return Store(Path(environment.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude"))


def archive_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the archive of the user lies: `TURNLOG_ARCHIVE`, else among turnlog's own data."""
    if named := environment.get("TURNLOG_ARCHIVE"):
        return Path(named).absolute()
    return _own_folder(environment) / "archive"


def journal_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the journal of changes lies, among turnlog's own data."""
    return _own_folder(environment) / "journal"


def trust_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Which directories the user trusts, among turnlog's own data."""
    return _own_folder(environment) / "trusted.json"


def imports_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Which files from outside the memory of projects may import, among turnlog's own data."""
    return _own_folder(environment) / "imports.json"


def _own_folder(environment: Mapping[str, str]) -> Path:
    """Where turnlog keeps data of its own: `TURNLOG_HOME`, else in the user's data directory."""
    if home := environment.get("TURNLOG_HOME"):
        return Path(home)
    data = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "turnlog"


def real_path(path: Path) -> Path:
    """Return where a path leads. Unlike `Path.resolve`, this accepts a link to itself."""
    return Path(os.path.realpath(path))


def expand_user(path: str) -> Path:
    """Return a path with its home directory filled in; one of an unknown user stays as written.

    Unlike `Path.expanduser`, this never fails, as in a shell: a text may say `@~nobody/x`.

    >>> str(expand_user("~no-such-user/x"))
    '~no-such-user/x'
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


def is_there(path: Path) -> bool:
    """Whether a path exists. Unlike `Path.exists`, this says no of a name that is too long."""
    return os.path.exists(path)  # noqa: PTH110


def is_windows_path(path: str) -> bool:
    r"""Whether a path was written on Windows: it starts with a drive, or is a UNC path.

    >>> [is_windows_path(path) for path in (r"C:\a", "e:/a", r"\\srv\share", "/a", "a:b")]
    [True, True, True, False, False]
    """
    return re.match(r"[A-Za-z]:[\\/]|\\\\", path) is not None


def last_part(path: str) -> str:
    r"""The name of a file, whichever system its path was written on.

    >>> last_part(r"C:\Users\ada\x.txt"), last_part("/home/ada/a\\b")
    ('x.txt', 'a\\b')
    """
    return re.split(r"[/\\]" if is_windows_path(path) else "/", path)[-1]


def is_session_name(name: str) -> bool:
    """Whether a file in a project's folder holds a session."""
    return name.endswith(".jsonl") and not name.startswith(("agent-", "."))


def is_subagent_name(name: str) -> bool:
    """Return whether a file holds a sub-agent."""
    return name.startswith("agent-") and name.endswith(".jsonl")


def folder_name(cwd: str) -> str:
    r"""The name of a project's folder: each UTF-16 unit that is no letter or digit becomes a dash.

    A name of more than 200 characters is cut and ends in a hash of the whole path; clients up to
    2.1.45 did not cut it (observed: 1.0.60 to 2.1.325). Symbolic links are resolved before this.

    >>> folder_name("/home/ada/my.shop"), folder_name(r"E:\work\x"), folder_name("/日本")
    ('-home-ada-my-shop', 'E--work-x', '---')
    """
    units = _utf16_units(cwd)
    name = "".join(_dashed(unit) for unit in units)
    return name if len(name) <= NAME_LIMIT else f"{name[:NAME_LIMIT]}-{_base36(_hash(units))}"


def sidecar_folder(session: Path) -> Path:
    """The folder beside a session file for its sub-agents, tool results and title."""
    return session.with_suffix("")


def title_file(session: Path) -> Path:
    """The name that the user gave a session (2.1.325)."""
    return sidecar_folder(session) / "custom-title.json"


def tool_results(session: Path) -> Path:
    """Outputs too large for the session file."""
    return sidecar_folder(session) / TOOL_RESULTS


def subagents_folder(session: Path) -> Path:
    """Sub-agents of 2.1.29 and later; those of workflows lie in folders below it."""
    return sidecar_folder(session) / SUBAGENTS


def subagent_meta(subagent: Path) -> Path:
    """What started a sub-agent (2.1.97 on)."""
    return subagent.with_suffix(".meta.json")


def nested_subagents(session: Path) -> list[Path]:
    """The files of a session's sub-agents in its own folder, workflows included."""
    return regular_paths(subagents_folder(session).rglob("agent-*.jsonl"))


def project_notes(project: Path) -> list[Path]:
    """What sessions of a project share: the model's notes, and a list of sessions (to 2.1.30)."""
    index = project / "sessions-index.json"
    notes = regular_paths((project / "memory").rglob("*.md"))
    return [*notes, *([index] if index.is_file() else [])]


def adjacent_subagents(project: Path) -> list[Path]:
    """Return sub-agent files that sessions of a project share a folder for.

    They lie among the sessions (2.0.x) or in `<project>/subagents` (documented, not observed);
    their entries name the session.
    """
    beneath = (project / SUBAGENTS).glob("agent-*.jsonl")
    return regular_paths([*project.glob("agent-*.jsonl"), *beneath])


def _folders(parent: Path) -> list[str]:
    return sorted(each.path for each in entries_of(parent) if is_folder(each))


def _sessions_in(folder: str) -> list[str]:
    named = (each for each in entries_of(folder) if is_session_name(each.name))
    return [each.path for each in named if is_regular(each)]


def _utf16_units(text: str) -> list[int]:
    raw = text.encode("utf-16-le", "surrogatepass")
    return [raw[i] | raw[i + 1] << 8 for i in range(0, len(raw), 2)]


def _dashed(unit: int) -> str:
    return chr(unit) if unit < 128 and re.match(r"[A-Za-z0-9]", chr(unit)) else "-"


def _hash(units: list[int]) -> int:
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
