"""The program that turnlog is measured against: ccusage, as a user would install it."""

import shutil
import subprocess
from pathlib import Path

VERSION = "20.0.24"
"""Pinned: some later releases came without the program for this platform."""
ARGUMENTS = ("daily", "--offline", "--json")


def install_ccusage(folder: Path) -> dict[str, Path]:
    """ccusage by the way it is started; nothing where it cannot be installed."""
    command = folder / "node_modules/.bin/ccusage"
    if not command.exists() and not _install(folder):
        return {}
    native = sorted(folder.glob("node_modules/@ccusage/*/bin/ccusage"))
    if not native:
        return {}
    native[0].chmod(0o755)
    return {f"ccusage {VERSION}": command, f"ccusage {VERSION}, without node": native[0]}


def _install(folder: Path) -> bool:
    npm = shutil.which("npm")
    if npm is None:
        return False
    options = ("--prefix", folder, "--ignore-scripts", "--no-fund", "--no-audit", "--silent")
    command = (npm, "install", *options, f"ccusage@{VERSION}")
    return subprocess.run(command, check=False).returncode == 0
