"""Are exact states of files the bytes on disk when a real client works?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/files_on_disk.py CLIENT

CLIENT is the command of an installed client. It works in a directory of its own against a scripted
API, which reads all files at every request. Then every file of the session is reconstructed as of
each of these moments. Prints how many states are exact, derived and gaps, and how many of them are
the bytes on disk; exits with 1 if an exact state is not.
"""

import json
import re
import shlex
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from client import bring_up_loopback, environment_of, run_client

from support.scripted_api import Fields, Reply, called, said, scripted_api
from turnlog.conversation.session import Session, open_session
from turnlog.format.json_values import is_array, is_object
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.moments import leaf_at
from turnlog.worktree.places import SessionPosition
from turnlog.worktree.worktree import FileRevision, Worktree, open_worktree

PLAY = re.compile(r"PLAY:(\w+)")
VARIABLES = {"IS_SANDBOX": "1", "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
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
        content: Any = messages[-1].get("content") if messages else None
        blocks = content if is_array(content) else []
        ids = [b["tool_use_id"] for b in blocks if is_object(b) and b.get("type") == "tool_result"]
        if ids:
            files = {path.name: path.read_bytes() for path in self.work.iterdir() if path.is_file()}
            self.seen.append((str(ids[-1]), files))


def work_through(client: list[str], home: Path) -> tuple[Path, list[Snapshot]]:
    """Let the client work in two turns, with an edit by the user in between."""
    work = home / "work"
    work.mkdir()
    for name, content in START.items():
        (work / name).write_bytes(content)
    director = Director(work)
    with scripted_api(said("Done.")) as api:
        api.choose = director
        environment = environment_of(home, api.url) | VARIABLES
        run_client([*client, "-p", "PLAY:first go", *MODE], work, environment)
        session = max((home / ".claude/projects").rglob("*.jsonl"), key=_size)
        with (work / "crlf.txt").open("ab") as file:
            file.write(b"by the user\n")
        more = ["-p", "PLAY:second go", "--resume", session.stem]
        run_client([*client, *more, *MODE], work, environment)
    return session, director.seen


def compare(session: Path, seen: list[Snapshot], work: Path) -> tuple[Counter[str], list[str]]:
    """Return how many states of each kind are right, and the exact ones that are wrong."""
    worktree = open_worktree(open_session(session))
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for call_id, files in seen:
        found = _moment(worktree, call_id)
        if found is None:
            continue
        place, leaf = found
        for name in worktree.files.values():
            if Path(name.path).parent != work:
                continue
            state = worktree.at(name, place, leaf)
            is_right = _is_on_disk(state, files.get(Path(name.path).name))
            counts[f"{state.certainty} {'right' if is_right else 'wrong'}"] += 1
            if state.certainty is Certainty.EXACT and not is_right:
                wrong.append(f"{name.path} after {call_id}: {state.tool} in line {state.line}")
    return counts, wrong


def _moment(worktree: Worktree, call_id: str) -> tuple[SessionPosition, int | None] | None:
    for source in worktree.sources:
        call = source.session.find_call(call_id)
        if call and call.result:
            main: Session = worktree.session
            line = source.call.use.line if source.call else call.result.line
            return source.place(call.result), leaf_at(main, line)
    return None


def _is_on_disk(state: FileRevision, content: bytes | None) -> bool:
    return content is None if state.is_absent else state.content == content


def _size(path: Path) -> int:
    return 0 if path.stem.startswith("agent-") else path.stat().st_size


def main() -> int:
    """Compare all states, print the counts."""
    bring_up_loopback()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        session, seen = work_through(shlex.split(sys.argv[1]), home)
        counts, wrong = compare(session, seen, home / "work")
    for name, count in sorted(counts.items()):
        print(f"{count:6}  {name}")
    for each in wrong:
        print(f"FALSE: {each}")
    return 1 if wrong or not counts["exact right"] else 0


if __name__ == "__main__":
    sys.exit(main())
