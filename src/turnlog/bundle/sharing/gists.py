"""Publish a file as a GitHub gist with the `gh` command, which has the user's login."""

import subprocess
from pathlib import Path

from turnlog.errors import Unavailable

LOGIN = "gh auth login"
MISSING = "gh is not installed: see https://cli.github.com"


def create_gist(file: Path, description: str, is_public: bool) -> str:
    """Create a gist of one file; return its address."""
    visibility = ["--public"] if is_public else []
    done = _gh("gist", "create", str(file), "--desc", description, *visibility)
    # gh prints progress to stderr and the address, alone, to stdout.
    address = done.stdout.strip().splitlines()[-1:] if not done.returncode else []
    if not address or not address[0].startswith("https://"):
        raise Unavailable(f"gh could not create the gist: {_last_line(done)}", LOGIN)
    return address[0]


def delete_gist(address: str) -> None:
    """Delete a gist."""
    done = _gh("gist", "delete", address, "--yes")
    if done.returncode and "unknown flag" in done.stderr:  # gh before 2.63 does not ask
        done = _gh("gist", "delete", address)
    if not done.returncode:
        return
    if "not found" not in done.stderr.lower():
        raise Unavailable(f"gh could not delete {address}: {_last_line(done)}", LOGIN)
    # GitHub answers "not found" for a gist of another account as well, though anyone can read it.
    if not _gh("gist", "view", address, "--files").returncode:
        message = f"{address} belongs to another account than the one that gh uses"
        raise Unavailable(message, "gh auth switch")


def _gh(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["gh", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise Unavailable(MISSING, "turnlog share SESSION --to FILE") from error


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
