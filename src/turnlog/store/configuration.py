"""The configuration file, and the stores that the environment or the file names.

One file has all settings: `config.toml` in turnlog's configuration directory. Its `[trace]` table
is read by `trace`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.regular_files import read_regular
from turnlog.store.directories import config_path, split_directories

USUAL = "~/.claude"
LARGEST = 1 << 20
"""Maximum bytes of a configuration file."""


def configuration_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the configuration, which need not exist."""
    return Path(config_path(environment))


def read_configuration(path: Path) -> Fields:
    """Return the configuration; empty if there is none. Raise UsageError if it is not TOML."""
    # Unlike `Path.exists`, this does not raise if a directory on the path is not searchable.
    if not os.path.exists(path):  # noqa: PTH110
        return {}
    try:
        # A pipe in its place must not block every command.
        return parse_toml(read_regular(path, LARGEST))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{path} is not valid: {error}", f"$EDITOR {path}") from error


def read_section(name: str, path: Path) -> Fields:
    """Return a table of the configuration, empty if there is none; raise UsageError if invalid."""
    section = read_configuration(path).get(name, {})
    if not is_object(section):
        raise UsageError(f"{path}: [{name}] is not a table", f"$EDITOR {path}")
    return section


def parse_toml(content: bytes) -> Fields:
    """Parse TOML; raise `ValueError` if it is invalid or nested too deeply."""
    # Nearly every command looks for stores, and importing tomllib takes as long as a status line.
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def store_directories(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the directories of the user's stores: `CLAUDE_CONFIG_DIR`, `stores`, or `~/.claude`.

    `CLAUDE_CONFIG_DIR` may list several, separated by commas; `stores` is a key of the
    configuration.
    """
    if named := split_directories(environment.get("CLAUDE_CONFIG_DIR") or ""):
        return named
    return _configured(environment) or [os.path.expanduser(USUAL)]  # noqa: PTH111


def _configured(environment: Mapping[str, str]) -> list[str]:
    path = configuration_file(environment)
    listed = read_configuration(path).get("stores", [])
    if not is_array(listed) or not all(map(_is_directory_name, listed)):
        message = f'stores in {path} is not a list of directories, such as ["{USUAL}"]'
        raise UsageError(message, f"$EDITOR {path}")
    # A relative path in a file must not depend on where turnlog was started.
    return [os.path.join(path.parent, os.path.expanduser(each)) for each in listed]  # noqa: PTH111, PTH118


def _is_directory_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value
