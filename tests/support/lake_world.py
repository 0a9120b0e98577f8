"""Twenty machines with copied, resumed and forked sessions, and what all of them add up to."""

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

from support.build import START, assistant, call, result, session, stamp, text, user
from support.lake_machines import PushingMachine

MODEL = "claude-opus-4-5-20251101"
INPUT_RATE, OUTPUT_RATE = 5, 25
"""Dollars per million tokens."""

RUNNER = """
import os, signal, sys, threading, time
skew, stop, phase, *arguments = sys.argv[1:]
real = time.time
time.time = lambda: real() + float(skew)
from pathlib import Path
from turnlog.lake.lake_storage import LakeStorage
from turnlog.__main__ import main
write, lock, count = LakeStorage.write, threading.Lock(), 0

def write_and_die(self, path, content):
    global count
    with lock:
        count += 1
        if count != int(stop):
            return write(self, path, content)
        if phase == "half":
            target = Path(self.full(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f".{target.name}.00.tmp").write_bytes(content[: len(content) // 2])
        if phase == "after":
            write(self, path, content)
        os.kill(os.getpid(), signal.SIGKILL)

LakeStorage.write = write_and_die
sys.argv = ["turnlog", *arguments]
sys.exit(main())
"""
"""A push by a clock that is wrong, killed at its nth write: before, in the middle or after it."""


class WorldTurn(NamedTuple):
    """A turn: a prompt, a call, its result and an answer."""

    number: int
    tokens: tuple[int, int, int, int]
    """Input and output of the first message, then of the second."""
    seconds: float
    """Seconds since the start of time."""

    def lines(self, owner: str) -> list[bytes]:
        at = [stamp(START + timedelta(seconds=self.seconds + each)) for each in range(4)]
        name = f"{self.number:08d}"
        call_id = f"toolu_{name}"
        use = call("Bash", {"command": "ls"}, call_id)
        texts = [
            user(f"Prompt {name}", timestamp=at[0]),
            assistant(
                use, message_id=f"msg_{name}a", message=_said(self.tokens[:2]), timestamp=at[1]
            ),
            result(call_id, timestamp=at[2]),
            assistant(
                text("Done"),
                message_id=f"msg_{name}b",
                message=_said(self.tokens[2:]),
                timestamp=at[3],
            ),
        ]
        return session(*texts, session_id=owner).splitlines(keepends=True)

    def shortened(self) -> "WorldTurn":
        """The same turn, copied while the answer was still being written."""
        first, second, third, _ = self.tokens
        return self._replace(tokens=(first, second, third, 1))


def _said(tokens: Sequence[int]) -> dict[str, object]:
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    return {"model": MODEL, "usage": usage, "stop_reason": "end_turn"}


class WorldFile(NamedTuple):
    """A session file: its turns, and the session in which each was written first."""

    session: str
    turns: tuple[tuple[str, WorldTurn], ...]

    def content(self) -> bytes:
        return b"".join(line for owner, turn in self.turns for line in turn.lines(owner))


class LakeWorld:
    """Machines that push to one lake, and the files that each has."""

    def __init__(self, folder: Path, count: int, seed: int) -> None:
        self.dest = str(folder / "lake")
        self.random = Random(seed)
        self.machines = [PushingMachine(folder / f"user{n:02d}", self.dest) for n in range(count)]
        self.skews = [self.random.choice([0, 0, 3600, -86400, 40 * 86400]) for _ in self.machines]
        self.files: list[dict[str, WorldFile]] = [{} for _ in self.machines]
        self.forgotten: set[str] = set()
        self._turns = 0
        for number, machine in enumerate(self.machines):
            config = machine.home / "config" / "turnlog" / "config.toml"
            config.parent.mkdir(parents=True)
            config.write_text(
                f'[lake]\nkey = "{machine.settings.key}"\nuser = "user{number:02d}"\n'
                f'host = "{machine.settings.host}"\n',
                "utf-8",
            )

    def new_turn(self, machine: int) -> WorldTurn:
        self._turns += 1
        tokens = tuple(self.random.randint(1, 5000) for _ in range(4))
        seconds = self._turns * 977.0 + self.skews[machine]
        return WorldTurn(self._turns, tokens, seconds)  # pyright: ignore[reportArgumentType]

    def new_session(self, machine: int, turns: int) -> WorldFile:
        name = f"{self.random.getrandbits(128):032x}"
        name = "-".join([name[:8], name[8:12], name[12:16], name[16:20], name[20:]])
        found = WorldFile(name, tuple((name, self.new_turn(machine)) for _ in range(turns)))
        self.put(machine, found)
        return found

    def put(self, machine: int, file: WorldFile) -> None:
        """Write a file of a machine."""
        self.files[machine][file.session] = file
        self.machines[machine].write(file.content(), file.session)

    def grow(self, machine: int, name: str) -> None:
        """Add a turn to a session of a machine."""
        file = self.files[machine][name]
        self.put(machine, file._replace(turns=(*file.turns, (name, self.new_turn(machine)))))

    def populate(self) -> None:
        """Give every machine sessions of its own, and copies of those of others."""
        count = len(self.machines)
        for machine in range(count):
            for _ in range(2):
                self.new_session(machine, self.random.randint(1, 4))
        for machine in range(count):
            # The first session of each machine is copied; the second one is its own.
            other = (machine + 1) % count
            first = next(iter(self.files[machine].values()))
            kind = machine % 4
            fresh = f"{self.random.getrandbits(32):08x}{first.session[8:]}"
            if kind == 0:  # the same file on another machine
                self.put(other, first)
            elif kind == 1:  # resumed under another id: old lines keep theirs
                self.put(other, WorldFile(fresh, (*first.turns, (fresh, self.new_turn(other)))))
            elif kind == 2:  # forked after its first turn
                self.put(other, WorldFile(fresh, (first.turns[0], (fresh, self.new_turn(other)))))
            else:  # copied while it was being written
                *turns, (owner, last) = first.turns
                self.put(other, first._replace(turns=(*turns, (owner, last.shortened()))))

    def push(self, machine: int, stop: int = 0, phase: str = "before") -> int:
        """Push in a process of its own, by the clock of the machine; return its exit code."""
        with self.start_push(machine, stop, phase) as process:
            return process.wait()

    def start_push(self, machine: int, stop: int, phase: str) -> "subprocess.Popen[bytes]":
        which = self.machines[machine]
        skew = str(self.skews[machine])
        words = ["--store", str(which.store.root), "lake", "push", self.dest, "--quiet"]
        return subprocess.Popen(
            [sys.executable, "-c", RUNNER, skew, str(stop), phase, *words],
            env={**os.environ, **which.variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def totals(self, files: list[dict[str, WorldFile]] | None = None) -> dict[str, int | float]:
        """Return the expected totals of the lake, from what was generated."""
        chosen = [
            file
            for each in (self.files if files is None else files)
            for file in each.values()
            if file.session not in self.forgotten
        ]
        outputs: dict[str, list[int]] = {}
        for file in chosen:
            for _, turn in file.turns:
                first, second, third, fourth = turn.tokens
                known = outputs.setdefault(f"{turn.number:08d}", [first, second, third, 0])
                known[3] = max(known[3], fourth)
        read = sum(each[0] + each[2] for each in outputs.values())
        written = sum(each[1] + each[3] for each in outputs.values())
        return {
            "messages": 2 * len(outputs),
            "input": read,
            "output": written,
            "cost": (read * INPUT_RATE + written * OUTPUT_RATE) / 1e6,
            "turns": len(outputs),
            "calls": len(outputs),
            "sessions": len({file.session for file in chosen}),
        }

    def snapshot(self) -> list[dict[str, WorldFile]]:
        """Return the current files of all machines."""
        return [dict(each) for each in self.files]
