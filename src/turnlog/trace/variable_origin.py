"""Distinguish the user's environment variables from those set by a project's settings.

The client merges `env` of `.claude/settings*.json` into the environment of its hooks, so a
repository controls part of it. The client waits for the hook: this module imports only modules that
Python has already loaded.
"""

import os

from turnlog.store.directories import config_path, split_directories
from turnlog.trace.note import spool_folder
from turnlog.trace.settings_folders import SettingsFolders, read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

CONFIG_VARIABLES = ("TURNLOG_HOME", "XDG_CONFIG_HOME", "HOME", "USERPROFILE")
SPOOL_VARIABLES = ("TURNLOG_HOME", "XDG_DATA_HOME", "HOME", "USERPROFILE")
STORE_VARIABLES = ("CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE")
PLACES = {"config": CONFIG_VARIABLES, "spool": SPOOL_VARIABLES, "store": STORE_VARIABLES}
"""Paths that `hook install` writes into the command, and the variables they otherwise depend on."""
LOCATIONS = frozenset({*CONFIG_VARIABLES, *SPOOL_VARIABLES, *STORE_VARIABLES})
SETTINGS = ("settings.local.json", "settings.json")
MARK = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, which the client may skip."""


class ProjectVariables:
    """The variables that a project's settings files set."""

    def __init__(
        self, environment: "Mapping[str, str]", folders: "Iterable[str]", is_complete: bool = True
    ) -> None:
        self.environment = environment
        self.pairs: list[tuple[str, Any]] = []
        self.files: list[str] = []
        """The settings files that exist."""
        self.is_complete = is_complete
        """True if every settings file is known and could be read."""
        for folder in folders:
            for name in SETTINGS:
                self._read(os.path.join(folder, ".claude", name))
        self.names = {name for name, _ in self.pairs}

    def sets(self, name: str) -> bool:
        """Return whether the project sets a variable, even to an empty value."""
        # Only the name is compared: the value that the user's shell had exported is lost once the
        # project's settings replace it. Fail closed: settings that cannot be parsed may set
        # anything.
        return name in self.environment and (not self.is_complete or name in self.names)

    def holds(self, name: str, value: str) -> bool:
        """Return whether the project's settings contain a variable with exactly this value."""
        return (name, value) in self.pairs

    def blame(self, name: str) -> str:
        """Return a clause that explains how the project controls a variable."""
        if name in self.names:
            return f"the project's settings set {name}"
        return "the project's settings cannot be read"

    def _read(self, path: str) -> None:
        try:
            content = read_small(path)
            self.files.append(path)
            # Most settings have no "env" and need no parsing. Backslash escapes or NUL bytes
            # (UTF-16) could hide it.
            if any(mark in content for mark in (b'"env"', b"\\", b"\0")):
                _parse(content.removeprefix(MARK).decode(), self._collect)
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError, RecursionError):
            self.is_complete = False

    def _collect(self, pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
        # Every object counts, so that a second "env" in the same file does not hide the first.
        self.pairs += pairs
        return dict(pairs)


class HookPlaces:
    """The paths of turnlog's files for a hook call, and the variables that the project sets."""

    def __init__(
        self, arguments: "Sequence[str]", environment: "Mapping[str, str]", payload: bytes = b""
    ) -> None:
        fixed, self.options = split_places(arguments)
        here = _working_folder()
        named = environment.get("CLAUDE_PROJECT_DIR") or _folder_in(payload)
        named = os.path.join(here, named)
        self.project = os.path.realpath(named)
        # The client may have been started through a link, whose parent directories differ.
        found = SettingsFolders((self.project, here, os.path.normpath(named)))
        own = _own_settings(fixed.get("store"))
        theirs = [path for path in found.folders if os.path.join(path, ".claude") not in own]
        self.variables = ProjectVariables(environment, theirs, found.is_complete)
        if "CLAUDE_PROJECT_DIR" in self.variables.names:
            self.project = here
        self.directories = [self.project]
        """Directories that must all be switched on."""
        # Fail closed: unreadable settings of a project that is off may set CLAUDE_PROJECT_DIR to
        # another project, which is on.
        if not self.variables.is_complete:
            self.directories.append(here)
        self.environment = {
            name: value
            for name, value in environment.items()
            if name not in LOCATIONS or not self.variables.sets(name)
        }
        config = fixed.get("config") or config_path(self.environment)
        self.config = os.path.abspath(config)
        self.spool = os.path.abspath(fixed.get("spool") or spool_folder(self.environment))
        # One settings file may serve several stores; the user's variable says which one runs.
        usual = fixed.get("store") or os.path.expanduser("~/.claude")
        named = split_directories(self.environment.get("CLAUDE_CONFIG_DIR") or usual)
        self.store = named[0]
        self.problem = self._problem([name for name in PLACES if name not in fixed])
        self.has_spool = "spool" in fixed or not any(map(self.variables.sets, SPOOL_VARIABLES))
        """True if the location of the spool is certain."""

    def _problem(self, open_places: "Iterable[str]") -> str:
        """Return why the paths are uncertain; empty if they are certain.

        With XDG_CONFIG_HOME set by a project, the user's switches would not be found, and a project
        that is switched off would be traced.
        """
        for place in open_places:
            for name in PLACES[place]:
                if self.variables.sets(name):
                    return (
                        f"{self.variables.blame(name)}, so it is not certain where turnlog's files"
                        " are; to fix their paths, run turnlog hook install again"
                    )
        return ""


class _Scan:
    """The options of Python's JSON scanner."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float

    def __init__(self, collect: "Callable[[list[tuple[str, Any]]], Any]") -> None:
        self.object_pairs_hook = collect
        self.memo: dict[str, str] = {}


def _parse(text: str, collect: "Callable[[list[tuple[str, Any]]], Any]") -> None:
    """Parse JSON and pass the pairs of each object to `collect`; raise ValueError if invalid."""
    try:
        from _json import make_scanner

        scan: Any = make_scanner(_Scan(collect))  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):  # a Python with another scanner
        import json

        json.loads(text, object_pairs_hook=collect)
        return
    # json imports re, which takes half as long as starting Python; its C scanner needs neither.
    text = text.strip(" \t\r\n")
    try:
        _, end = scan(text, 0)
    except (StopIteration, SystemError) as error:  # JSONDecodeError is in json, which is not loaded
        raise ValueError("not valid JSON") from error
    if end != len(text):
        raise ValueError("unexpected text after the JSON value")


def _own_settings(store: str | None) -> "set[str]":
    """Return the paths of the user's own `.claude`, which is in a parent of many projects.

    Only the installed path and the account's home directory count: HOME=. set by a project would
    otherwise make the project's settings look like the user's.
    """
    if store is None:
        try:
            import pwd

            store = os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".claude")
        except (ImportError, KeyError):  # Windows; an account without an entry, as in containers
            return set()
    folder, name = os.path.split(os.path.abspath(store))
    # ~/.claude may itself be a link. A link in a project that points to it is the project's.
    return {
        os.path.realpath(store),
        os.path.join(folder, name),
        os.path.join(os.path.realpath(folder), name),
    }


def _working_folder() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        return os.path.sep


def _folder_in(payload: bytes) -> str:
    """Return the working directory in a hook's payload; empty if it names none."""
    objects: list[list[tuple[str, Any]]] = []
    try:
        _parse(payload.decode(), objects.append)
        cwd = dict(objects[-1]).get("cwd") if objects else None  # the outermost object ends last
        if isinstance(cwd, str) and os.path.isabs(cwd) and b"\0" not in os.fsencode(cwd):
            return cwd
    except (ValueError, RecursionError):
        pass
    return ""


def split_places(arguments: "Sequence[str]") -> "tuple[dict[str, str], list[str]]":
    """Return the paths among the options of a hook's command, and its other arguments.

    >>> split_places(["--config", "/c.toml", "--to", "phoenix"])
    ({'config': '/c.toml'}, ['--to', 'phoenix'])
    """
    fixed: dict[str, str] = {}
    others: list[str] = []
    for start in range(0, len(arguments), 2):
        pair = arguments[start : start + 2]
        if len(pair) == 2 and pair[0].startswith("--") and pair[0][2:] in PLACES:
            fixed[pair[0][2:]] = pair[1]
        else:
            others += pair
    return fixed, others
