"""Measure `turnlog mcp`: answers per kind of question, their tokens, and the first answer's time.

    python bench/recall.py [STORE PROJECT]

Questions and answers are those of tests/support/recall_questions.py and recall_held_out.py. With a
STORE, a server is started for it five times and asked once; its index should be warm.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.mcp_peer import HELLO, server_command
from support.recall_held_out import HELD_OUT_PROJECT, build_held_out
from support.recall_questions import PROJECT, RecallQuestion, build_history
from turnlog.mcp_server.answers import estimate_tokens
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.store.paths import Store

ROUNDS = 5
AIM = 0.5
"""Seconds from the start to the first answer."""


SETS: dict[str, Callable[[Path], list[RecallQuestion]]] = {
    PROJECT: build_history,
    HELD_OUT_PROJECT: build_held_out,
}
"""The questions about each project."""


def answer_questions(project: str) -> Iterator[str]:
    """Yield the rows of a table: questions answered and tokens per answer, by kind."""
    with tempfile.TemporaryDirectory() as folder:
        questions = SETS[project](Path(folder))
        runs = ToolRuns([Store(Path(folder))], Path(project))
        kinds: dict[str, list[tuple[bool, int]]] = {}
        for each in questions:
            answer, _ = runs.run(each.tool, each.given, {})
            found = (each.answer in answer, estimate_tokens(answer))
            kinds.setdefault(f"{each.kind} | `{each.tool}`", []).append(found)
    yield "| questions about | tool | answered | tokens, median | tokens, most |"
    yield "|---|---|--:|--:|--:|"
    everything = [each for found in kinds.values() for each in found]
    for kind, found in [*kinds.items(), ("all | ", everything)]:
        tokens = [count for _, count in found]
        right = f"{sum(is_right for is_right, _ in found)} of {len(found)}"
        yield f"| {kind} | {right} | {median(tokens):.0f} | {max(tokens)} |"


def first_answer(store: Path, project: str) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of a server up to its first answer."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ask = {"name": "search", "arguments": {"query": "why did the migration fail"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": ask},
    ]
    start = time.perf_counter()
    with subprocess.Popen(
        server_command(store, project), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        for line in lines:
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            process.stdout.readline()
        seconds = time.perf_counter() - start
        process.stdin.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used


def main() -> None:
    for project in SETS:
        print(f"{project}\n", *answer_questions(project), "", sep="\n")
    if len(sys.argv) == 3:
        found = [first_answer(Path(sys.argv[1]), sys.argv[2]) for _ in range(ROUNDS)]
        seconds, used = (median(each) for each in zip(*found, strict=True))
        print(f"first answer: {seconds:.2f} s, {used:.2f} s of CPU (aim: {AIM} s)")


if __name__ == "__main__":
    main()
