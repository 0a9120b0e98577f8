"""A server of the viewer and one session, under the strict policy of the web app."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import RLock, Thread
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from turnlog.conversation.session import Session
from turnlog.errors import NotFound
from turnlog.render.html import session_pages
from turnlog.render.html.find_in_session import find_labels, find_text
from turnlog.render.html.lanes import agent_page, lanes_of
from turnlog.render.html.line_views import context_at_line, lost_at, raw_line
from turnlog.render.html.session_pages import CLIP, PageOptions, SessionPages
from turnlog.store.paths import Store
from turnlog.web.file_times import file_at, files_at
from turnlog.web.session_cache import OpenedSession

VIEWER = Path(session_pages.__file__).parent / "viewer"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types turnlog"
)
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>session</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/viewer/theme.css"><link rel="stylesheet" href="/viewer/viewer.css">
<link rel="stylesheet" href="/page.css"><script type="module" src="/page.js"></script></head>
<body><main id="viewer"></main></body></html>"""
STYLE = "html, body { margin: 0; height: 100% } #viewer { height: 100% }"
SCRIPT = """import { mountViewer } from "/viewer/viewer.js";
import { webSource } from "/viewer/web_source.js";
const source = webSource("/api");
source.onGrow = (callback) => { globalThis.grow = callback; };
globalThis.viewer = mountViewer(document.getElementById("viewer"), source);
"""
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".json": "text/json"}
Query = dict[str, str]


class Backend(Protocol):
    """The interface that answers the viewer's requests."""

    def answer(self, path: str, query: Query) -> Any: ...


class SessionBackend:
    """Answers from a session, as the web app does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.findings: list[dict[str, Any]] = []
        self._lock = RLock()

    def answer(self, path: str, query: Query) -> Any:
        with self._lock:
            self.session.refresh()
            kind, _, name = path.partition("/")
            if kind == "findings":
                return self.findings
            if kind in ("raw", "context", "lost"):
                view = {"raw": raw_line, "context": context_at_line, "lost": lost_at}[kind]
                return view(self.session, int(name))
            if kind in ("files", "file"):
                return self._files(kind, query)
            if kind == "agents":
                return agent_page(self.session, name, PageOptions(first=int(query["first"])))
            return self._of_branch(kind, query)

    def _files(self, kind: str, query: Query) -> Any:
        opened = OpenedSession(self.session)
        line = int(query.get("line", 0)) or None
        if kind == "files":
            return files_at(opened, line)
        version = query.get("version")
        return file_at(opened, int(query["file"]), line, int(version) if version else None)

    def _of_branch(self, kind: str, query: Query) -> Any:
        store = Store(Path.home() / ".claude")
        pages = SessionPages(self.session, PageOptions(leaf=query.get("leaf"), store=store))
        first, last = int(query.get("first", 1)), int(query.get("last", 0))
        turns = range(first, min(last, len(pages.turns)) + 1)
        if kind == "rows":
            clip = None if "whole" in query else CLIP
            options = PageOptions(first=first, count=last - first, clip=clip)
            return pages.page(int(query["n"]), options)
        answers = {
            "head": lambda: pages.head(int(query.get("since", 1))),
            "turns": lambda: [pages.page(n) for n in turns],
            "opening": lambda: {
                "head": pages.head(),
                "turns": pages.screenful(int(query.get("turn", 1))),
            },
            "outline": lambda: pages.outline(first, last),
            "labelled": lambda: find_labels(pages, query["q"]),
            "find": lambda: find_text(pages, query["q"]),
            "lanes": lambda: lanes_of(pages),
        }
        return answers[kind]()


@contextmanager
def serve_viewer(backend: Backend) -> Generator[str]:
    """Serve the viewer on a free port and give its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            try:
                kind, body = _body(backend, unquote(split.path), dict(parse_qsl(split.query)))
                status = 200
            except (NotFound, KeyError, FileNotFoundError) as error:
                status, kind, body = 404, ".json", json.dumps({"error": str(error)})
            self.send_response(status)
            self.send_header("Content-Type", f"{TYPES[kind]}; charset=utf-8")
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(body.encode("utf-8", "replace"))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _body(backend: Backend, path: str, query: Query) -> tuple[str, str]:
    if path.startswith("/api/"):
        return ".json", json.dumps(backend.answer(path.removeprefix("/api/"), query))
    if path.startswith("/viewer/"):
        name = Path(path).name
        return Path(name).suffix, (VIEWER / name).read_text("utf-8")
    known = {"/": (".html", PAGE), "/page.css": (".css", STYLE), "/page.js": (".js", SCRIPT)}
    return known[path]
