"""Measure files at a moment, and a git export: `python bench/file_moments.py`."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from generate import UNITS
from measure import Job, measure, measure_peaks

CACHE = Path(__file__).parent.parent / ".cache/bench"
SIZE = 100 * UNITS["MB"]
TURNS = 1000
FILES = 80
FILE_AIMS = (3.0, 3.0, 10.0)
"""Seconds that each job should take at most."""
ROOT = "/home/ada/shop"
SESSION = "f11e5000-0000-4000-8000-000000000000"
LONG = "".join(f"    row_{number} = compute(row_{number - 1}, {number})\n" for number in range(420))


def write_session(path: Path) -> int:
    """Write a session of 1,000 turns that read, edit and write files; return its size."""
    if path.exists():
        return path.stat().st_size
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    with beside.open("w") as file:
        parent = None
        for number, fields in enumerate(_lines()):
            name = f"{number:08x}-0000-4000-8000-000000000000"
            stamp = (
                f"2026-01-{1 + number // 2000:02d}T{number % 2000 // 100:02d}:00:{number % 60:02d}Z"
            )
            common = {"parentUuid": parent, "uuid": name, "timestamp": stamp, "cwd": ROOT}
            common |= {"sessionId": SESSION, "version": "2.1.325", "isSidechain": False}
            file.write(json.dumps(common | fields) + "\n")
            parent = name
    beside.replace(path)
    return path.stat().st_size


def _lines() -> Iterator[dict[str, Any]]:
    contents: dict[str, str] = {}
    for turn in range(TURNS):
        path = f"{ROOT}/src/module_{turn % FILES}.py"
        yield {"type": "user", "message": {"role": "user", "content": f"Change module {turn}"}}
        if path not in contents:
            contents[path] = f"# {path}\n{LONG}"
            done = {"type": "create", "filePath": path, "content": contents[path]}
            told = f"File created successfully at: {path}"
            yield from _call(turn, "Write", {"content": contents[path]}, done, path, told)
        text = contents[path]
        file = {"filePath": path, "content": text, "startLine": 1}
        file |= {"totalLines": text.count("\n") + 1}
        yield from _call(turn, "Read", {}, {"type": "text", "file": file}, path, text)
        old, new = f"row_{turn % 400} = compute", f"row_{turn % 400} = recompute"
        if old in text:
            contents[path] = text.replace(old, new, 1)
            done = {"filePath": path, "oldString": old, "newString": new, "originalFile": text}
            told = f"The file {path} has been updated successfully."
            given = {"old_string": old, "new_string": new}
            yield from _call(turn, "Edit", given, done, path, told)
        output = {"stdout": "ok\n" * 8000, "stderr": ""}
        yield from _call(turn, "Bash", {"command": "make"}, output, "", "ok\n" * 8000)
        yield _answer(turn, {"type": "text", "text": "Done."})


def _call(
    turn: int, tool: str, given: dict[str, str], done: dict[str, Any], path: str, told: str
) -> Iterator[dict[str, Any]]:
    name = f"toolu_{turn}_{tool}"
    arguments = ({"file_path": path} if path else {}) | given
    yield _answer(turn, {"type": "tool_use", "id": name, "name": tool, "input": arguments})
    block = {"type": "tool_result", "tool_use_id": name, "content": told}
    yield {"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": done}


def _answer(turn: int, block: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 20}
    message = {"id": f"msg_{turn}", "role": "assistant", "model": "claude-opus-5", "usage": usage}
    return {"type": "assistant", "message": message | {"content": [block]}}


def file_jobs(folder: Path, turnlog: Path, environment: Mapping[str, str]) -> list[Job]:
    """The commands that show a file at a moment, blame it, and export the session."""
    path = folder / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    size = write_session(path)
    target = folder / "repository"
    shown = (turnlog, "files", path, "module_7.py")
    export = (turnlog, "git", path, "-o", target)
    places = {**environment, "TURNLOG_HOME": str(folder / "turnlog")}
    megabytes = f"{size / UNITS['MB']:.0f} MB"
    return [
        Job(f"turnlog files PATH --at 500, of {megabytes}", (*shown, "--at", "500"), places, size),
        Job(f"turnlog files PATH --blame, of {megabytes}", (*shown, "--blame"), places, size),
        Job(
            f"turnlog git, {TURNS:,} turns",
            export,
            places,
            size,
            lambda: shutil.rmtree(target, ignore_errors=True),
        ),
    ]


def main() -> None:
    home = CACHE / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    if path := os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] = path
    jobs = file_jobs(CACHE / "files", Path(sys.executable).parent / "turnlog", environment)
    measure(jobs, 2)
    measure_peaks(jobs)
    for job in jobs:
        print(f"{job.name}: {job.seconds:.2f} s, {job.peak / UNITS['MB']:.0f} MB")


if __name__ == "__main__":
    main()
