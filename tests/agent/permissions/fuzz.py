"""Try generated commands until the time is up: `make fuzz SECONDS=600 SEED=7`.

Every command that the policy allows runs in a real bash. Prints those that get through.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from agent.permissions.arena import TRIALS, Arena
from agent.permissions.grammar import GROUPS


def try_command(arena: Arena, command: str) -> list[str]:
    """Return what a command does without permission, under any of the policies."""
    found: list[str] = []
    for trial in TRIALS:
        if arena.is_allowed(command, trial):
            found += [f"{trial.name}: {each}" for each in arena.breaches(command, trial)]
    return found


def main(seconds: float, seed: int) -> int:
    """Generate commands from a seed; return how many get through."""
    random = Random(seed)
    tried = through = 0
    with tempfile.TemporaryDirectory() as place:
        arena = Arena(Path(place) / "arena")
        os.environ["HOME"] = str(arena.world / "home")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            group = random.choice(list(GROUPS))
            command = GROUPS[group](random)
            tried += 1
            if found := try_command(arena, command):
                through += 1
                print(f"{group}: {command!r}: {'; '.join(found)}", flush=True)
    print(f"seed {seed}: {tried:,} commands tried, {through} got through")
    return through


if __name__ == "__main__":
    sys.exit(bool(main(float(sys.argv[1]), int(sys.argv[2]))))
