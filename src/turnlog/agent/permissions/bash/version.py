"""The version of the bash that runs commands, because older ones read some commands differently."""

import re
import shutil
import subprocess
from functools import lru_cache

MODERN = (4, 4)
"""The first version that parses `$(…)` as the parser here does; macOS has 3.2."""


@lru_cache(maxsize=1)
def is_modern_bash() -> bool:
    """Whether bash is 4.4 or newer; False if that cannot be found out."""
    program = shutil.which("bash")
    try:
        command = [program or "bash", "--norc", "--noprofile", "--version"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r"version ([0-9]+)\.([0-9]+)", shown.stdout)
    return bool(found) and (int(found[1]), int(found[2])) >= MODERN
