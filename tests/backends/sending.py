"""Shared by checks of real backends: servers, sending, and a proxy that makes them slow."""

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from data.files import CLIENT_FILES
from turnlog.conversation.session import open_session
from turnlog.store.paths import is_session_name
from turnlog.trace.content import ContentPolicy
from turnlog.trace.span import Span
from turnlog.trace.spans import SpanOptions, spans_of

START_SECONDS = 300
SLOW_SECONDS = 10.0
SLOW_SESSIONS = 3


class Backend(NamedTuple):
    """The address and settings of a backend."""

    to: str
    url: str
    variable: str
    """The variable that holds its address."""
    more: Mapping[str, str] = {}

    def environment(self, home: Path) -> dict[str, str]:
        places = {
            "TURNLOG_HOME": str(home / "turnlog"),
            "CLAUDE_CONFIG_DIR": str(home / "store"),
            self.variable: self.url,
        }
        inherited = {name: text for name, text in os.environ.items() if "TRACE" not in name}
        return inherited | places | dict(self.more)


class Stored(NamedTuple):
    """A span as a backend has it."""

    id: str
    trace: str
    parent: str | None
    end: Any


def given_paths(names: list[str]) -> list[Path]:
    """Return the sessions that are named, or all that the tests have."""
    known = [
        path
        for path in CLIENT_FILES
        if is_session_name(path.name) and "subagents" not in path.parts
    ]
    return [Path(name) for name in names] or known


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def wait_for(url: str, run: subprocess.Popen[bytes], name: str) -> None:
    """Wait until a server answers."""
    for _ in range(START_SECONDS):
        try:
            if requests.get(url, timeout=1).ok:
                return
        except requests.RequestException:
            time.sleep(1)
        if run.poll() is not None:
            sys.exit(f"{name} did not start")
    sys.exit(f"{name} takes too long to start")


def send(backend: Backend, home: Path, paths: list[Path], options: list[str]) -> str:
    """Run `turnlog trace`; return what it prints."""
    command = [sys.executable, "-m", "turnlog", "trace", "--to", backend.to, *options]
    done = subprocess.run(
        [*command, *map(str, paths)],
        env=backend.environment(home),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def expected_spans(paths: Iterable[Path]) -> dict[str, Span]:
    """Return what a backend should have, by the ids of the spans; a copied turn is the same."""
    found: dict[str, Span] = {}
    for path in paths:
        for span in spans_of(open_session(path), SpanOptions(ended=True)):
            found.setdefault(span.id, ContentPolicy().of(span))
    return found


def late_children(stored: Iterable[Stored]) -> Generator[str]:
    """Yield the roots that end before a span below them."""
    spans = list(stored)
    last: dict[str, Any] = {}
    for span in spans:
        last[span.trace] = max(last.get(span.trace, span.end), span.end)
    for span in spans:
        if span.parent is None and span.end < last[span.trace]:
            yield f"{span.id} ends at {span.end}, a child at {last[span.trace]}"


@contextmanager
def slow(url: str, counts: Counter[str]) -> Generator[str]:
    """A proxy that needs ten seconds for each request, and counts the spans that pass."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            plain = gzip.decompress(body) if self.headers["content-encoding"] else body
            request = ExportTraceServiceRequest.FromString(plain)
            spans = (
                span
                for each in request.resource_spans
                for scope in each.scope_spans
                for span in scope.spans
            )
            counts.update(span.span_id.hex() for span in spans)
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            answer = requests.post(f"{url}{self.path}", body, headers=headers, timeout=60)
            time.sleep(SLOW_SECONDS)
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers.get("content-type", "text/plain"))
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def is_same(
    backend: Backend, folder: Path, paths: list[Path], compare: Callable[[], list[str]]
) -> bool:
    """Send sessions once, again and from scratch, then through a slow proxy; print differences."""
    for options in ([], [], ["--again"]):
        print(send(backend, folder, paths, options))
        if _has_printed(compare()):
            return False
    return not _has_printed(differences_when_slow(backend, folder / "slow"))


def _has_printed(differences: list[str]) -> bool:
    for difference in differences:
        print(f"DIFFERS {difference}")
    return bool(differences)


def differences_when_slow(backend: Backend, home: Path) -> list[str]:
    """Let hooks send through a slow proxy; return the spans that did not arrive exactly once."""
    counts: Counter[str] = Counter()
    folder = home / "store" / "projects" / "-slow"
    folder.mkdir(parents=True)
    names = [path for path in given_paths([]) if path.stat().st_size > 1000][-SLOW_SESSIONS:]
    paths = [Path(shutil.copy(path, folder / path.name)) for path in names]
    with slow(backend.url, counts) as url:
        proxied = backend._replace(url=url)
        environment = proxied.environment(home) | {"CLAUDE_PROJECT_DIR": _cwd_of(paths[0])}
        for event in ("Stop", "SubagentStop", "SessionEnd", "SessionEnd"):
            for path in paths:
                _call_hook(proxied.to, environment, event, path)
        command = [sys.executable, "-m", "turnlog", "hook", "send"]
        while list((home / "turnlog" / "trace" / "spool").glob("*.note")):
            subprocess.run(command, env=environment, check=False, capture_output=True)
            time.sleep(1)
    if not counts:
        return ["no hook sent anything"]
    print(f"{counts.total()} spans of {len(paths)} sessions passed the slow proxy")
    return [f"{name} arrived {count} times" for name, count in counts.items() if count != 1]


def _cwd_of(path: Path) -> str:
    for line in path.read_text("utf-8").splitlines():
        if cwd := json.loads(line).get("cwd"):
            return cwd
    return "/"


def _call_hook(to: str, environment: dict[str, str], event: str, path: Path) -> None:
    told = {"hook_event_name": event, "session_id": path.stem, "transcript_path": str(path)}
    subprocess.run(
        [sys.executable, "-m", "turnlog", "hook", "run", "--to", to],
        env=environment | {"CLAUDE_PROJECT_DIR": _cwd_of(path)},
        input=json.dumps(told).encode(),
        check=True,
    )
