"""Does MLflow have what turnlog sent: every span, its place, its times and its tokens?

    python tests/backends/mlflow.py MLFLOW [SESSION.jsonl ...]

MLFLOW is the command of an installed MLflow 3. It is started on loopback, on a SQLite file of its
own; the sessions, by default all that the tests have, are sent to it by `turnlog trace`, and read
back through its API. Then hooks send to it through a proxy that makes it slow. Exits with 1 if
anything differs.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from backends.sending import (
    Backend,
    Stored,
    expected_spans,
    free_port,
    given_paths,
    is_same,
    late_children,
    wait_for,
)
from turnlog.trace.attributes import attributes_of
from turnlog.trace.span import Span

API = "/api/3.0/mlflow/traces"
COUNTS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation_input_tokens": "gen_ai.usage.cache_creation.input_tokens",
}
Fields = dict[str, Any]


def main(command: str, paths: list[Path]) -> int:
    """Send sessions to a fresh MLflow, and compare what it stored with what was sent."""
    with tempfile.TemporaryDirectory() as folder, mlflow(command, Path(folder)) as url:
        backend = Backend("mlflow", url, "MLFLOW_TRACKING_URI")
        wanted = expected_spans(paths)
        if not is_same(backend, Path(folder), paths, lambda: list(compare(url, wanted))):
            return 1
    print(f"{len(wanted)} spans of {len(paths)} sessions are in MLflow as they were sent")
    return 0


@contextmanager
def mlflow(command: str, folder: Path) -> Generator[str]:
    """A running MLflow, on a SQLite file."""
    port = free_port()
    words = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    words += ["--artifacts-destination", str(folder / "artifacts")]
    settings = {"MLFLOW_DISABLE_TELEMETRY": "true", "HOME": str(folder)}
    with (
        (folder / "mlflow.log").open("wb") as log,
        subprocess.Popen(
            [str(Path(command).absolute()), "server", *words],
            env=os.environ | settings,
            stdout=log,
            stderr=log,
            cwd=folder,
        ) as run,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/health", run, "MLflow")
            yield f"http://127.0.0.1:{port}"
        finally:
            run.terminate()


def compare(url: str, wanted: dict[str, Span]) -> Generator[str]:
    """Yield what MLflow has differently."""
    traces = {trace["trace_id"].removeprefix("tr-"): trace for trace in infos(url)}
    by_trace: dict[str, list[Span]] = {}
    for span in wanted.values():
        by_trace.setdefault(span.trace.id, []).append(span)
    for name in traces.keys() ^ by_trace.keys():
        yield f"trace {name} is {'missing' if name in by_trace else 'not of turnlog'}"
    for name in traces.keys() & by_trace.keys():
        yield from compare_trace(traces[name], by_trace[name], spans_in(url, name))


def compare_trace(info: Fields, wanted: list[Span], got: list[Fields]) -> Generator[str]:
    """Yield how one trace differs: its spans, and what MLflow itself sums up."""
    stored = {hex_of(span["span_id"]): span for span in got}
    for name in stored.keys() ^ {span.id for span in wanted}:
        yield f"span {name} is missing or not of turnlog"
    if len(got) != len(stored):
        yield f"{info['trace_id']} has a span twice"
    for span in wanted:
        if span.id in stored:
            facts, meant = facts_in(stored[span.id]), facts_of(span)
            for field, value in meant.items():
                if facts[field] != value:
                    yield f"{span.id} {field}: {facts[field]!r} instead of {value!r}"
    yield from late_children(
        Stored(name, info["trace_id"], facts_in(each)["parent"], each["end_time_unix_nano"])
        for name, each in stored.items()
    )
    counted = json.loads(info["trace_metadata"].get("mlflow.trace.tokenUsage", "{}"))
    for field, attribute in COUNTS.items():
        meant_sum = sum(attributes_of(span).get(attribute) or 0 for span in wanted)  # pyright: ignore
        if counted.get(field, 0) != meant_sum:
            yield f"{info['trace_id']} {field}: {counted.get(field)} instead of {meant_sum}"


def facts_of(span: Span) -> Fields:
    return {
        "name": span.name,
        "parent": span.sent_parent,
        "start": span.begins,
        "end": span.ends,
        "session": span.trace.session_id,
    }


def facts_in(span: Fields) -> Fields:
    held = {each["key"]: each["value"] for each in span["attributes"]}
    session = held.get("session.id", {}).get("string_value")
    return {
        "name": span["name"],
        "parent": hex_of(span["parent_span_id"]) if span.get("parent_span_id") else None,
        "start": span["start_time_unix_nano"],
        "end": span["end_time_unix_nano"],
        "session": json.loads(session) if session and session.startswith('"') else session,
    }


def infos(url: str) -> Generator[Fields]:
    """Yield MLflow's information about each trace."""
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "0"}}
    asked: Fields = {"locations": [place], "max_results": 100}
    while True:
        page = requests.post(f"{url}{API}/search", json=asked, timeout=60).json()
        yield from page.get("traces", [])
        if not page.get("next_page_token") or not page.get("traces"):
            return
        asked["page_token"] = page["next_page_token"]


def spans_in(url: str, trace: str) -> list[Fields]:
    answer = requests.get(f"{url}{API}/get", {"trace_id": f"tr-{trace}"}, timeout=60)
    return answer.json()["trace"].get("spans", [])


def hex_of(text: str) -> str:
    return base64.b64decode(text).hex()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], given_paths(sys.argv[2:])))
