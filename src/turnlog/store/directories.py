"""The user's directories for turnlog's own files, by the XDG base directory specification.

Hooks import this module while the client waits, so it needs nothing but `os`. Not platformdirs: its
directories differ on macOS, where existing archives and undo journals would not be found again.
"""

import os

# Type checkers treat this name as true; `typing` itself would take too long to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "turnlog"


def data_directory(environment: "Mapping[str, str]") -> str:
    """Return the directory for archives, journals and spools: `TURNLOG_HOME` if it is set."""
    return environment.get("TURNLOG_HOME") or _xdg(environment, "XDG_DATA_HOME", "~/.local/share")


def config_directory(environment: "Mapping[str, str]") -> str:
    """Return the directory of config.toml: `TURNLOG_HOME` if it is set."""
    return environment.get("TURNLOG_HOME") or _xdg(environment, "XDG_CONFIG_HOME", "~/.config")


def config_path(environment: "Mapping[str, str]") -> str:
    """Return the path of turnlog's configuration."""
    return os.path.join(config_directory(environment), "config.toml")


def cache_directory(environment: "Mapping[str, str]") -> str:
    """Return the directory for indexes, which can be deleted at any time."""
    return _xdg(environment, "XDG_CACHE_HOME", "~/.cache")


def split_directories(value: str) -> list[str]:
    """Return the directories of a `CLAUDE_CONFIG_DIR`: absolute, with `~` expanded.

    A shell expands only the first tilde of `~/.claude,~/old`.

    >>> split_directories("/a, /b,")
    ['/a', '/b']
    """
    # The name of a directory may contain a comma; the client itself does not support lists.
    listed = [value] if os.path.isdir(value) else [part.strip() for part in value.split(",")]
    return [os.path.abspath(os.path.expanduser(each)) for each in listed if each]


def _xdg(environment: "Mapping[str, str]", variable: str, default: str) -> str:
    return os.path.join(environment.get(variable) or os.path.expanduser(default), NAME)
