"""The jobs that are measured inside Python: `scan.py read|decode PROCESSES STORE`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from turnlog.format.decode import decode_line
from turnlog.format.jsonl import read_lines
from turnlog.store.parallel import map_files


def read(paths: Sequence[Path]) -> int:
    """Read all lines, and look at none."""
    return sum(1 for path in paths for _ in read_lines(path))


def decode(paths: Sequence[Path]) -> int:
    """Decode every line into its typed entry."""
    return sum(len(decode_line(line).entries) for path in paths for line in read_lines(path))


def main(job: str, processes: str, store: str) -> None:
    function = {"read": read, "decode": decode}[job]
    paths = list(Path(store).rglob("*.jsonl"))
    print(sum(count for _, count in map_files(function, paths, int(processes))))


if __name__ == "__main__":
    main(*sys.argv[1:])
