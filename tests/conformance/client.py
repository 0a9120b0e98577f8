"""The real client, confined to a home and a scripted API."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 120


def environment_of(home: Path, api: str) -> dict[str, str]:
    """The variables that a client gets; none of those that this machine has."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "ANTHROPIC_BASE_URL": api,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def run_client(command: Sequence[str], work: Path, environment: Mapping[str, str]) -> None:
    """Let a client run to its end, whatever that is."""
    subprocess.run(
        command,
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )


def bring_up_loopback() -> None:
    """Make loopback work in a network namespace; elsewhere it does already."""
    if os.geteuid() == 0:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
