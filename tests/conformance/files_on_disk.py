"""Are exact states of files the bytes on disk when a real client works?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/files_on_disk.py CLIENT …
        [--without-backups] [--recovery PYTHON]

CLIENT is the command of an installed client. It works in a directory of its own against a scripted
API, which reads all files at every request. Then every file of the session is reconstructed as of
each of these moments. Prints how many states are exact, derived and gaps, and how many of them are
the bytes on disk; exits with 1 if an exact state is not, or if a client leaves none.

PYTHON is the interpreter of an environment with claude-file-recovery. Its `extract-files --before`
is then asked for the same files at the same moments. A file that it does not extract is missing.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client import bring_up_loopback, environment_of, run_client

from support.scripted_api import Fields, Reply, called, said, scripted_api
from turnlog.conversation.session import open_session
from turnlog.format.json_values import is_array, is_object
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.moments import leaf_at
from turnlog.worktree.places import SessionPosition
from turnlog.worktree.worktree import FileRevision, Worktree, open_worktree

PLAY = re.compile(r"PLAY:(\w+)")
VARIABLES = {"IS_SANDBOX": "1"}
BACKUPS = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
"""Lets `claude -p` back up files as an interactive client does by default."""
MODE = ("--permission-mode", "bypassPermissions")
NOTEBOOK: Fields = {"cells": [{"cell_type": "code", "id": "c1", "source": "x", "metadata": {}}]}
START: dict[str, bytes] = {
    "crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "mixed.txt": b"one\r\ntwo\nthree\n",
    "bom.txt": b"\xef\xbb\xbfone\ntwo\n",
    "utf16.txt": "one\ntwo\n".encode("utf-16"),
    "latin.txt": b"caf\xe9\ntwo\n",
    "open.txt": b"one\ntwo",
    "tabs.txt": b"\tone\n\ttwo\n",
    "sub.txt": b"one\ntwo\n",
    "n.ipynb": json.dumps(NOTEBOOK | {"metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode(),
}
Snapshot = tuple[str, dict[str, bytes]]
"""The last call that had a result, and the files then."""
OWN = ("exact right", "exact wrong", "derived right", "derived wrong", "gap", "gap, no file")
PEER = ("recovered right", "recovered wrong", "missing", "missing, no file")
"""Verdicts on states of turnlog and of claude-file-recovery.

Either may know nothing of a file that is on disk at that moment, or of one that is not.
"""


@dataclass(frozen=True, slots=True)
class DiskMoment:
    """A moment of a session, and the files on disk then."""

    call_id: str
    files: dict[str, bytes]
    place: SessionPosition
    leaf: int | None
    time: str
    """The timestamp of the result."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """claude-file-recovery in an environment of its own."""

    python: str
    home: Path

    def files_before(self, time: str) -> dict[str, bytes]:
        """Return the files that it extracts as of a time, by path."""
        with tempfile.TemporaryDirectory(dir=self.home) as folder:
            command = [self.python, "-m", "claude_file_recovery", "extract-files"]
            store = ["--claude-dir", str(self.home / ".claude")]
            subprocess.run(
                [*command, *store, "--before", time, "--output", folder],
                env={"HOME": str(self.home)},
                stdout=subprocess.DEVNULL,
                check=True,
            )
            found = [path for path in Path(folder).rglob("*") if path.is_file()]
            return {f"/{path.relative_to(folder)}": path.read_bytes() for path in found}


def plays(work: Path) -> dict[str, list[tuple[str, Fields]]]:
    """The calls that the model makes, by the name of a play."""
    at = {name: str(work / name) for name in (*START, "new.txt", "late.txt", "other.txt")}

    def edit(name: str, old: str, new: str) -> tuple[str, Fields]:
        return "Edit", {"file_path": at[name], "old_string": old, "new_string": new}

    def write(name: str, content: str) -> tuple[str, Fields]:
        return "Write", {"file_path": at[name], "content": content}

    def read(name: str) -> tuple[str, Fields]:
        return "Read", {"file_path": at[name]}

    def bash(command: str) -> tuple[str, Fields]:
        return "Bash", {"command": command, "description": "a command"}

    first = [write("new.txt", "one\ntwo\n"), edit("new.txt", "two", "TWO\nTOO")]
    for name in ("crlf.txt", "mixed.txt", "bom.txt", "utf16.txt", "open.txt", "tabs.txt"):
        first += [read(name), edit(name, "two", "TWO\nTOO")]
    notebook = {"notebook_path": at["n.ipynb"], "cell_id": "c1", "new_source": "y"}
    first += [read("latin.txt"), edit("latin.txt", "two", "2"), read("n.ipynb")]
    first += [("NotebookEdit", notebook), bash("ls"), edit("new.txt", "one", "1")]
    agent = {"description": "help", "prompt": "PLAY:helper", "subagent_type": "general-purpose"}
    return {
        "first": [*first, bash("sed -i s/TOO/2/ new.txt"), edit("new.txt", "TWO", "two")],
        "second": [
            read("new.txt"),
            write("new.txt", "again\n"),
            ("Agent", agent),
            ("Task", agent),
            bash("sleep 3"),
            read("sub.txt"),
            bash("(sleep 1; echo late >> late.txt) & true"),
            write("late.txt", "late\n"),
            bash("sleep 2; mv other.txt moved.txt"),
            write("other.txt", "b\r\n"),
            read("late.txt"),
        ],
        "helper": [
            read("sub.txt"),
            edit("sub.txt", "two", "TWO"),
            write("other.txt", "a\n"),
            edit("other.txt", "a", "b"),
            bash("echo more >> sub.txt"),
        ],
    }


class Director:
    """Answers requests by the play that the last prompt names, and looks at the disk."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.plays = plays(work)
        self.seen: list[Snapshot] = []
        self.count = 0

    def __call__(self, body: Fields) -> Reply | None:
        messages: list[Fields] = body.get("messages") or []
        self._look(messages)
        for place in range(len(messages) - 1, -1, -1):
            found = PLAY.findall(json.dumps(messages[place]))
            if messages[place].get("role") == "user" and found:
                done = sum(each.get("role") == "assistant" for each in messages[place + 1 :])
                return self._reply(self.plays.get(found[-1], []), done)
        return said("Done.")

    def _reply(self, play: list[tuple[str, Fields]], done: int) -> Reply:
        if done >= len(play):
            return said("Done.")
        tool, given = play[done]
        self.count += 1
        return called((f"toolu_{self.count:04d}", tool, given))

    def _look(self, messages: list[Fields]) -> None:
        if call_id := _last_answered(messages):
            files = {path.name: path.read_bytes() for path in self.work.iterdir() if path.is_file()}
            self.seen.append((call_id, files))


def _last_answered(messages: list[Fields]) -> str | None:
    """Return the call whose result ends a request; newer clients put notes after it."""
    for message in reversed(messages):
        if message.get("role") == "assistant":
            break
        content: Any = message.get("content")
        for block in reversed(content if is_array(content) else []):
            if is_object(block) and block.get("type") == "tool_result":
                return str(block["tool_use_id"])
    return None


def work_through(
    client: list[str], home: Path, variables: dict[str, str]
) -> tuple[Path, list[Snapshot]]:
    """Let the client work in two turns, with an edit by the user in between."""
    work = home / "work"
    work.mkdir()
    for name, content in START.items():
        (work / name).write_bytes(content)
    director = Director(work)
    with scripted_api(said("Done.")) as api:
        api.choose = director
        environment = environment_of(home, api.url) | variables
        run_client([*client, "-p", "PLAY:first go", *MODE], work, environment)
        session = max((home / ".claude/projects").rglob("*.jsonl"), key=_size)
        with (work / "crlf.txt").open("ab") as file:
            file.write(b"by the user\n")
        more = ["-p", "PLAY:second go", "--resume", session.stem]
        run_client([*client, *more, *MODE], work, environment)
    return session, director.seen


def compare(
    worktree: Worktree, seen: list[Snapshot], recovery: Recovery | None
) -> tuple[Counter[str], list[str]]:
    """Return how many states of each kind are right, and the exact ones that are wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for moment in _moments(worktree, seen):
        recovered = recovery.files_before(moment.time) if recovery else {}
        for name in worktree.files.values():
            path = Path(name.path)
            if str(path.parent) != worktree.root:
                continue
            on_disk = moment.files.get(path.name)
            state = worktree.at(name, moment.place, moment.leaf)
            kind = _kind(state, on_disk)
            counts[kind] += 1
            if kind == "exact wrong":
                wrong.append(f"{path} after {moment.call_id}: {state.tool} in line {state.line}")
            if recovery:
                counts[_peer_kind(recovered.get(name.path), on_disk)] += 1
    return counts, wrong


def _moments(worktree: Worktree, seen: list[Snapshot]) -> Iterator[DiskMoment]:
    for call_id, files in seen:
        for source in worktree.sources:
            call = source.session.find_call(call_id)
            if call and call.result:
                line = source.call.use.line if source.call else call.result.line
                leaf = leaf_at(worktree.session, line)
                place, time = source.place(call.result), call.result.time or ""
                yield DiskMoment(call_id, files, place, leaf, time)
                break


def _kind(state: FileRevision, on_disk: bytes | None) -> str:
    if state.certainty is Certainty.GAP:
        return "gap" if on_disk is not None else "gap, no file"
    is_right = on_disk is None if state.is_absent else state.content == on_disk
    return f"{state.certainty} {'right' if is_right else 'wrong'}"


def _peer_kind(recovered: bytes | None, on_disk: bytes | None) -> str:
    if recovered is None:
        return "missing" if on_disk is not None else "missing, no file"
    return f"recovered {'right' if recovered == on_disk else 'wrong'}"


def _size(path: Path) -> int:
    return 0 if path.stem.startswith("agent-") else path.stat().st_size


def examine(client: str, options: argparse.Namespace) -> tuple[str, Counter[str], list[str]]:
    """Let a client work and compare; return its version, the counts and the wrong exact states."""
    variables = VARIABLES | ({} if options.without_backups else BACKUPS)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        path, seen = work_through(shlex.split(client), home, variables)
        session = open_session(path)
        recovery = Recovery(options.recovery, home) if options.recovery else None
        counts, wrong = compare(open_worktree(session), seen, recovery)
        return _version(path), counts, wrong


def _version(path: Path) -> str:
    found = re.search(r'"version":"([^"]+)"', path.read_text())
    return found[1] if found else "?"


def print_table(rows: list[tuple[str, Counter[str]]], columns: tuple[str, ...]) -> None:
    """Print one row per client and their sum, as Markdown."""
    total = sum((counts for _, counts in rows), Counter[str]())
    print("| client | states |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 2) + "|")
    for version, counts in [*rows, ("all", total)]:
        states = sum(counts[each] for each in OWN)
        print("|", version, "|", states, "|", " | ".join(str(counts[c]) for c in columns), "|")


def main() -> int:
    """Compare all states, print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("clients", nargs="+")
    parser.add_argument("--without-backups", action="store_true")
    parser.add_argument("--recovery", metavar="PYTHON")
    options = parser.parse_args()
    bring_up_loopback()
    found = [examine(client, options) for client in options.clients]
    print_table([row[:2] for row in found], OWN + PEER if options.recovery else OWN)
    for version, _, wrong in found:
        for each in wrong:
            print(f"FALSE: {version}: {each}")
    return 0 if all(counts["exact right"] and not wrong for _, counts, wrong in found) else 1


if __name__ == "__main__":
    sys.exit(main())
