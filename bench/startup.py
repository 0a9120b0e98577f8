"""CPU seconds before the first request: turnlog and the client in turns, in the same run.

    PYTHONPATH=tests:bench BENCH_CLIENT=PATH/TO/claude python bench/startup.py [ROUNDS]

Measured for `-p`, for a program that drives the chat, and for resuming a session of 200 MB. Prints
the best and the median of each, and the ratio of the best.
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from chat import PROMPT, RESUMED_SIZE, SESSION, STREAM, Chats
from chat_model import write_compacted
from measure import Job

from turnlog.store.paths import folder_name

HELLO = {
    "type": "control_request",
    "request_id": "1",
    "request": {"subtype": "initialize", "hooks": None},
}
LINES = "".join(f"{json.dumps(each)}\n" for each in (HELLO, PROMPT)).encode()
CASES = {
    "-p": ("-p", "hello"),
    "a program's first prompt": (*STREAM[1:], "--verbose"),
    "-p --resume, 200 MB": ("-p", "hello", "--resume", SESSION),
}


def main() -> None:
    """Measure and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    turnlog, client = Path(sys.executable).parent / "turnlog", os.environ["BENCH_CLIENT"]
    print(
        "| before the first request | turnlog CPU s, best (median) | client | ratio of the best |"
    )
    print("|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        chats = Chats(Path(folder).resolve(), turnlog)
        path = chats.store / "projects" / folder_name(str(chats.work)) / f"{SESSION}.jsonl"
        write_compacted(path, RESUMED_SIZE)
        size = path.stat().st_size
        for name, arguments in CASES.items():
            own, other = chats.job(name, *arguments), chats.job(name, *arguments)
            other.command = (client, *arguments)
            for _ in range(rounds):
                for job in (own, other):
                    chats.measure_request(job, LINES if arguments[0] != "-p" else b"")
                    os.truncate(path, size)
            ratio = own.cpu_seconds / other.cpu_seconds
            print(f"| {name} | {_shown(own)} | {_shown(other)} | {ratio:.2f} |", flush=True)


def _shown(job: Job) -> str:
    return f"{job.cpu_seconds:.2f} ({statistics.median(job.busy):.2f})"


if __name__ == "__main__":
    main()
