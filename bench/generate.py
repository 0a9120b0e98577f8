"""Write a store of made-up sessions in the mix of real ones; the same arguments, the same files.

    python bench/generate.py --size 1GB --to /tmp/store

Many small sessions instead of the usual few large ones: `--size 500MB --sessions 3000`.
"""

import argparse
import re
from pathlib import Path
from random import Random

from lines import Files, session_files
from texts import make_pools

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
SESSIONS_PER_GB = 800
SPREAD = 1.4
"""Of the sizes of sessions, which have a log-normal distribution."""
PROJECTS = 40


def parse_size(text: str) -> int:
    """A number of bytes, as `1GB`, `250MB`, `64kB`."""
    found = re.fullmatch(r"([\d.]+) ?(B|kB|MB|GB)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 250MB")
    return int(float(found[1]) * UNITS[found[2]])


def default_sessions(size: int) -> int:
    """As many sessions as stores of this size have."""
    return max(1, size * SESSIONS_PER_GB // UNITS["GB"])


def generate(folder: Path, size: int, sessions: int, seed: int = 1) -> None:
    """Fill `folder` with about `size` bytes of sessions, laid out as the client does."""
    rng = Random(seed)
    pools = make_pools(rng)
    weights = [min(rng.lognormvariate(0, SPREAD), 20) for _ in range(sessions)]
    to_write, to_share = size, sum(weights)
    for weight in weights:
        project = f"project-{rng.randrange(PROJECTS)}"
        wanted = int(to_write * weight / to_share)
        made = session_files(pools, rng, f"/home/ada/{project}", wanted)
        to_write = max(0, to_write - _write(folder / "projects" / f"-home-ada-{project}", made))
        to_share -= weight


def _write(project: Path, made: Files) -> int:
    written = 0
    for path, lines in made.items():
        target = project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        written += target.write_bytes("".join(lines).encode())
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a store of made-up sessions.")
    parser.add_argument("--size", type=parse_size, default="1GB")
    parser.add_argument("--sessions", type=int, help=f"default: {SESSIONS_PER_GB} per GB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    sessions = options.sessions or default_sessions(options.size)
    generate(options.to, options.size, sessions, options.seed)


if __name__ == "__main__":
    main()
