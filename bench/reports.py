"""Time every report on an index, with its query plan, as Markdown; `make bench` includes it.

    python bench/reports.py NAME=INDEX.db …

CPU seconds, the best of three: they depend less on what else the machine does.
"""

import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from turnlog.index.command_names import program
from turnlog.index.reports.reports import EVERYTHING, REPORTS, query, run_report

ROUNDS = 3


def seconds(db: sqlite3.Connection, name: str) -> float:
    """The CPU seconds of a report."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        run_report(db, name)
        best = min(best, time.process_time() - started)
    return best


def plan(db: sqlite3.Connection, name: str) -> tuple[str, ...]:
    """The steps of a report, as SQLite explains them."""
    values = {**EVERYTHING._asdict(), "now": time.time()}
    return tuple(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query(name)}", values))


def describe(indexes: dict[str, Path]) -> str:
    """A table of all reports on some indexes, and their plans."""
    opened = {name: sqlite3.connect(path) for name, path in indexes.items()}
    lines = [f"| report | {' | '.join(f'{name}, CPU s' for name in opened)} |"]
    lines.append(f"|---|{'---|' * len(opened)}")
    for report in REPORTS:
        cells = " | ".join(f"{seconds(db, report):.3f}" for db in opened.values())
        lines.append(f"| {report} | {cells} |")
    return "\n".join([*lines, *_plans(next(iter(opened.values())))]) + "\n"


def _plans(db: sqlite3.Connection) -> Iterator[str]:
    db.create_function("program", 1, program, deterministic=True)
    reports_by_plan: dict[tuple[str, ...], list[str]] = {}
    for report in REPORTS:
        reports_by_plan.setdefault(plan(db, report), []).append(report)
    for steps, names in reports_by_plan.items():
        yield f"\n{', '.join(names)}:\n\n```text\n{chr(10).join(steps)}\n```"


if __name__ == "__main__":
    named = (each.partition("=") for each in sys.argv[1:])
    print(describe({name: Path(path) for name, _, path in named}), end="")
