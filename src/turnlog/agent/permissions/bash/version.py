"""The version of the bash that runs commands, because older ones read some commands differently."""

import re
import subprocess
from functools import lru_cache

from turnlog.agent.workspace.shell.command_environment import find_program

MODERN = (4, 4)
"""The first version that parses `$(…)` as the parser here does; macOS has 3.2."""


def version_of(program: str) -> tuple[int, int] | None:
    """Return the major and minor version of a bash; None if that cannot be found out."""
    try:
        shown = _show_version(program)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"version ([0-9]+)\.([0-9]+)", shown)
    return (int(found[1]), int(found[2])) if found else None


@lru_cache(maxsize=8)
def _show_version(program: str) -> str:
    command = [program, "--norc", "--noprofile", "--version"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=5, check=False, env={}
    ).stdout


def is_modern_bash() -> bool:
    """Return whether bash is 4.4 or newer; False if its version is unknown."""
    version = version_of(find_program("bash") or "bash")
    return version is not None and version >= MODERN
