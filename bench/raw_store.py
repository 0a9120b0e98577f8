"""Write what several machines left on shared storage: stores with copies, and broken lines.

    python bench/raw_store.py --size 1GB --machines 8 --to /tmp/raw

The same arguments give the same files. Beside the folder, `<folder>.json` tells what is in it.
"""

import argparse
import json
import os
import shutil
from itertools import pairwise
from pathlib import Path
from random import Random

from generate import default_sessions, generate, parse_size

COPIED = 0.05
"""Share of the sessions that the next machine has as well."""
BROKEN = 0.02
"""Share of the sessions with a malformed line."""
GARBAGE = (b'{"type":"user","message":\n', b"\xff\xfe\x00\n", b"5\n", b"not JSON at all\n")
FIRST = 1_767_571_200
"""The first time that a file was changed, in seconds; a day passes from one to the next."""


def write_raw(folder: Path, size: int, machines: int, seed: int = 1) -> dict[str, int]:
    """Fill `folder` with about `size` bytes; return the number of files, bytes and broken lines."""
    rng = Random(seed)
    stores = [folder / f"machine-{number:02}" for number in range(machines)]
    share = size // machines
    for number, store in enumerate(stores):
        generate(store, share, default_sessions(share), seed * 1000 + number)
    copied = sum(_copy_some(rng, a, b) for a, b in pairwise(stores))
    malformed = 0
    files = sorted(folder.rglob("*.jsonl"))
    for path in files:
        if rng.random() < BROKEN:
            malformed += 1
            with path.open("ab") as file:
                file.write(rng.choice(GARBAGE))
        moment = FIRST + rng.randrange(300) * 86_400
        os.utime(path, (moment, moment))
    total = sum(path.stat().st_size for path in files)
    return {"files": len(files), "bytes": total, "malformed": malformed, "copied": copied}


def _copy_some(rng: Random, source: Path, target: Path) -> int:
    found = sorted(source.glob("projects/*/*.jsonl"))
    chosen = [path for path in found if rng.random() < COPIED]
    for path in chosen:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return len(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write raw sessions of several machines.")
    parser.add_argument("--size", type=parse_size, default="1GB")
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    written = write_raw(options.to, options.size, options.machines, options.seed)
    text = json.dumps(written)
    options.to.with_suffix(".json").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
