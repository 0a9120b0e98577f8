"""The programs that turnlog is measured against, as a user would install them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "20.0.24"
"""Pinned: some later releases came without the program for this platform."""
LOG_TOOL = "claude-code-log==1.7.0"
AGENTSVIEW = "agentsview==0.46.1"
CC_SEARCH = "claude-session-search==0.2.0"
ALONE = {"AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_TELEMETRY_ENABLED": "0"}
"""What keeps agentsview from starting a server that goes on, and from telling of it."""
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


def install_claude_code_log(folder: Path) -> Path | None:
    """claude-code-log; None where it cannot be installed."""
    return install_package(folder, LOG_TOOL, "claude-code-log")


def install_package(folder: Path, package: str, name: str) -> Path | None:
    """A program from a package, in an environment of its own; None where it cannot be installed."""
    command = folder / "bin" / name
    if not command.exists():
        # Our own pins are not meant for it.
        environment = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}
        for arguments in (("venv", folder), ("pip", "--python", folder, "install", "-q", package)):
            if arguments[0] == "pip" and shutil.which("pip") is None:
                return None
            starter = [sys.executable, "-m"] if arguments[0] == "venv" else []
            subprocess.run([*starter, *map(str, arguments)], env=environment, check=False)
    return command if command.exists() else None
