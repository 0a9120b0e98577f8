"""Seconds of the processor that processes took, as Linux counts them."""

import os
from pathlib import Path

from support.spark_cluster import descendants

TICK = os.sysconf("SC_CLK_TCK")
NOT_BUSY = (3, 4, 7)
"""Columns of /proc/stat: idle, waiting for a disk, stolen by the hypervisor."""


def busy_seconds() -> float:
    """Return the seconds that all processors of the machine worked."""
    words = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    return sum(int(word) for place, word in enumerate(words) if place not in NOT_BUSY) / TICK


def tree_seconds(pid: int) -> float:
    """Return the seconds of a process and its descendants, those included that have ended."""
    return sum(map(_seconds, (pid, *descendants(pid))))


def _seconds(pid: int) -> float:
    try:
        # The name of the program, in parentheses, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0
    return sum(int(field) for field in fields[11:15]) / TICK
