"""Read the event log of a Spark job: when its tasks ran, and on which executors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CONFIGURATION = "spark-defaults.conf"


class StageTimes(NamedTuple):
    """The stage of a job that had the most work; all times are in seconds."""

    tasks: int
    seconds: float
    """Time from the first task's start to the last one's end."""
    longest: float
    """Time of the longest task."""
    by_executor: list[float]
    """Time that each executor spent on tasks, the busiest first."""


def configure_events(folder: Path) -> dict[str, str]:
    """Return variables for a cluster whose jobs write their events to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / CONFIGURATION).write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(folder)}


def last_stage(folder: Path) -> StageTimes:
    """Return the stage with the most work of the job that ended last."""
    logs = [path for path in folder.iterdir() if path.name != CONFIGURATION]
    stages: dict[int, list[tuple[str, float, float]]] = {}
    for event in _events(max(logs, key=lambda path: path.stat().st_mtime)):
        if event["Event"] == "SparkListenerTaskEnd":
            about = event["Task Info"]
            times = about["Launch Time"] / 1e3, about["Finish Time"] / 1e3
            stages.setdefault(event["Stage ID"], []).append((about["Executor ID"], *times))
    chosen = max(stages.values(), key=lambda tasks: sum(end - start for _, start, end in tasks))
    busy: dict[str, float] = {}
    for executor, start, end in chosen:
        busy[executor] = busy.get(executor, 0) + end - start
    return StageTimes(
        tasks=len(chosen),
        seconds=max(end for _, _, end in chosen) - min(start for _, start, _ in chosen),
        longest=max(end - start for _, start, end in chosen),
        by_executor=sorted(busy.values(), reverse=True),
    )


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        yield from map(json.loads, file)
