"""Does Phoenix show what turnlog sent: every span, its place, its times and its tokens?

    python tests/backends/phoenix.py PHOENIX [SESSION.jsonl ...]

PHOENIX is the command of an installed Phoenix. It is started on loopback, with a store of its own;
the sessions, by default all that the tests have, are sent to it by `turnlog trace`, and read back
through its API. Then hooks send to it through a proxy that makes it slow. Exits with 1 if anything
differs.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime, timedelta
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
from turnlog.trace.span_times import EPOCH

PROJECT = "turnlog-test"
STORE_SECONDS = 120
PAUSE = 5
QUERY = """{ projects { edges { node { name traceCount recordCount tokenCountTotal
    tokenCountPrompt tokenCountCompletion } } } }"""
SHOWN = (
    "session.id",
    "llm.model_name",
    "llm.token_count.prompt",
    "llm.token_count.completion",
    "llm.token_count.total",
    "llm.token_count.prompt_details.cache_read",
    "llm.token_count.prompt_details.cache_write",
    "tool.name",
    "input.value",
    "output.value",
    "gen_ai.tool.call.id",
)
Facts = dict[str, Any]


def main(command: str, paths: list[Path]) -> int:
    """Send sessions to a fresh Phoenix, and compare what it stored with what was sent."""
    with tempfile.TemporaryDirectory() as folder, phoenix(command, Path(folder)) as url:
        more = {"PHOENIX_PROJECT_NAME": PROJECT}
        backend = Backend("phoenix", url, "PHOENIX_COLLECTOR_ENDPOINT", more)
        if not is_same(backend, Path(folder), paths, lambda: settled(url, expected(paths))):
            return 1
    print(f"{len(expected(paths))} spans of {len(paths)} sessions are in Phoenix as they were sent")
    return 0


@contextmanager
def phoenix(command: str, folder: Path) -> Generator[str]:
    """A running Phoenix, which reaches nothing but loopback."""
    port, other = free_port(), free_port()
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(other),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "HOME": str(folder),
    }
    log = (folder / "phoenix.log").open("wb")
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [command, "serve"], env=os.environ | settings, stdout=log, stderr=log
    ) as run:
        try:
            wait_for(f"{url}/healthz", run, "Phoenix")
            yield url
        finally:
            run.terminate()


def settled(url: str, wanted: dict[str, Facts]) -> list[str]:
    """Return the differences once Phoenix has stored all spans, after it has responded."""
    differences = ["nothing was stored"]
    for _ in range(STORE_SECONDS // PAUSE):
        time.sleep(PAUSE)
        differences = list(compare(wanted, stored(url), totals(url)))
        if not differences:
            break
    return differences


def expected(paths: Iterable[Path]) -> dict[str, Facts]:
    """Return the spans that Phoenix should have, by id; a copy of a turn is the same turn."""
    return {name: facts_of(span) for name, span in expected_spans(paths).items()}


def facts_of(span: Span) -> Facts:
    attributes = attributes_of(span)
    return {
        "name": span.name,
        "trace": span.trace.id,
        "parent": span.parent_id,
        "kind": attributes["openinference.span.kind"],
        "start": moment(span.begins),
        "end": moment(span.ends),
        "status": "ERROR" if span.error is not None else "UNSET" if span.is_interrupted else "OK",
        "events": [event.name for event in span.events],
        **{name: attributes.get(name) for name in SHOWN},
    }


def moment(nanoseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


def stored(url: str) -> dict[str, Facts]:
    """Return the spans that Phoenix has, by id."""
    found: dict[str, Facts] = {}
    cursor: str | None = ""
    while cursor is not None:
        asked = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
        page = requests.get(f"{url}/v1/projects/{PROJECT}/spans", asked, timeout=60).json()
        found |= {span["context"]["span_id"]: facts_in(span) for span in page["data"]}
        cursor = page["next_cursor"]
    return found


def facts_in(span: Facts) -> Facts:
    return {
        "name": span["name"],
        "trace": span["context"]["trace_id"],
        "parent": span["parent_id"],
        "kind": span["span_kind"],
        "start": datetime.fromisoformat(span["start_time"]),
        "end": datetime.fromisoformat(span["end_time"]),
        "status": span["status_code"],
        "events": [event["name"] for event in span["events"]],
        **{name: span["attributes"].get(name) for name in SHOWN},
    }


def totals(url: str) -> Facts:
    """Return Phoenix's own counts."""
    answer = requests.post(f"{url}/graphql", json={"query": QUERY}, timeout=60).json()
    nodes: list[Facts] = [edge["node"] for edge in answer["data"]["projects"]["edges"]]
    (found,) = [node for node in nodes if node["name"] == PROJECT]
    return found


def compare(wanted: dict[str, Facts], got: dict[str, Facts], counts: Facts) -> Generator[str]:
    for name in wanted.keys() ^ got.keys():
        yield f"{name} is {'missing' if name in wanted else 'not of turnlog'}"
    for name in wanted.keys() & got.keys():
        for field, value in wanted[name].items():
            if got[name][field] != value:
                yield f"{name} {field}: {got[name][field]!r} instead of {value!r}"
    yield from late_children(
        Stored(name, facts["trace"], facts["parent"], facts["end"]) for name, facts in got.items()
    )
    sums = {
        "recordCount": len(wanted),
        "traceCount": len({facts["trace"] for facts in wanted.values()}),
        "tokenCountPrompt": total(wanted, "llm.token_count.prompt"),
        "tokenCountCompletion": total(wanted, "llm.token_count.completion"),
        "tokenCountTotal": total(wanted, "llm.token_count.total"),
    }
    for field, value in sums.items():
        if counts.get(field) != value:
            yield f"{field}: {counts.get(field)} instead of {value}"


def total(wanted: dict[str, Facts], field: str) -> int:
    return sum(facts[field] or 0 for facts in wanted.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], given_paths(sys.argv[2:])))
