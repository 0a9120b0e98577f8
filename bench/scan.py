"""The jobs that are measured inside Python: `scan.py read|decode|tokens|open PROCESSES PATH`."""

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


def tokens(paths: Sequence[Path]) -> int:
    """Add up the output tokens of all messages, decoding only lines that tell of usage."""
    from turnlog.index.ingest.partial_decode import glance

    largest: dict[str, int] = {}
    for path in paths:
        for line in read_lines(path):
            seen = glance(line.raw) if b'"usage"' in line.raw else None
            if seen and seen.message and seen.message.usage:
                key, count = str(seen.message.id), seen.message.usage.output_tokens or 0
                largest[key] = max(largest.get(key, 0), count)
    return sum(largest.values())


def open_all(paths: Sequence[Path]) -> int:
    """Open sessions, and find where each goes on."""
    from turnlog.conversation.session import open_session

    return sum(open_session(path).tree.active_leaf or 0 for path in paths)


def main(job: str, processes: str, place: str) -> None:
    function = {"read": read, "decode": decode, "tokens": tokens, "open": open_all}[job]
    path = Path(place)
    paths = list(path.rglob("*.jsonl")) if path.is_dir() else [path]
    print(sum(count for _, count in map_files(function, paths, int(processes))))


if __name__ == "__main__":
    main(*sys.argv[1:])
