"""Time every report on an index, and print its query plan, as Markdown.

    python bench/reports.py NAME=INDEX.db …

CPU seconds, the best of three: they hardly depend on what else the machine does.
"""

import sqlite3
import sys
import time
from pathlib import Path

from turnlog.index.programs import program
from turnlog.index.reports import EVERYTHING, REPORTS, query, run_report

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


def main(indexes: dict[str, Path]) -> None:
    opened = {name: sqlite3.connect(path) for name, path in indexes.items()}
    print(f"| report | {' | '.join(opened)} |")
    print(f"|---|{'---|' * len(opened)}")
    for report in REPORTS:
        cells = " | ".join(f"{seconds(db, report):.3f}" for db in opened.values())
        print(f"| {report} | {cells} |")
    db = next(iter(opened.values()))
    db.create_function("program", 1, program, deterministic=True)
    reports_by_plan: dict[tuple[str, ...], list[str]] = {}
    for report in REPORTS:
        reports_by_plan.setdefault(plan(db, report), []).append(report)
    for steps, names in reports_by_plan.items():
        print(f"\n{', '.join(names)}:\n\n```text\n{chr(10).join(steps)}\n```")


if __name__ == "__main__":
    main({name: Path(path) for name, _, path in (each.partition("=") for each in sys.argv[1:])})
