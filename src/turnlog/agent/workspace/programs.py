"""Find the programs that turnlog itself starts, never one that a project may have planted."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

STARTUP: Mapping[str, str] = MappingProxyType(dict(os.environ))
"""Variables as the user's shell set them, before any settings file was read."""
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def search_path(folders: Iterable[Path] = (), startup: Mapping[str, str] = STARTUP) -> str:
    """Return the `PATH` from startup without relative entries and entries in the given folders."""
    inside = [Path(os.path.realpath(folder)) for folder in folders]
    entries = startup.get("PATH", DEFAULT_PATH).split(os.pathsep)
    return os.pathsep.join(
        entry
        for entry in entries
        if Path(entry).is_absolute()
        and not any(Path(os.path.realpath(entry)).is_relative_to(folder) for folder in inside)
    )


def find_program(name: str, folders: Iterable[Path] = ()) -> str | None:
    """Return the absolute path of a program, outside of the given folders."""
    return shutil.which(name, path=search_path(folders))
