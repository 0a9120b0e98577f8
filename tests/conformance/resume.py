"""Does turnlog's context equal what the real client sends when it resumes a session?

    sudo unshare --net python tests/conformance/resume.py CLIENT SESSION.jsonl ...

CLIENT is the command of an installed client, such as `node …/cli.js` or the path of its binary.
Each session is copied into a home of its own, and the client talks to a scripted API on loopback:
in a network namespace (`unshare --net`) it can reach nothing else. Prints a row for each session,
and exits with 1 if any differs.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from turnlog.conversation.session import open_session
from turnlog.store.paths import folder_name, sidecar_folder

PROMPT = "CONFORMANCE what came before?"
REMINDER = "<system-reminder>"
Messages = list[tuple[str, list[dict[str, Any]]]]


class ScriptedApi(ThreadingHTTPServer):
    """Answers every request with a short text, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, ScriptedApi)
        self.server.requests.append(body)
        self.send_response(200)
        self.send_header(
            "Content-Type", "text/event-stream" if body.get("stream") else "application/json"
        )
        self.end_headers()
        self.wfile.write(events() if body.get("stream") else json.dumps(answer()).encode())

    def do_GET(self) -> None:
        self.send_error(404)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep quiet."""


def answer() -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    content = [{"type": "text", "text": "Done."}]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5"}
    return head | {"content": content, "stop_reason": "end_turn", "usage": usage, "input_tokens": 1}


def events() -> bytes:
    start: dict[str, Any] = answer() | {"content": list[Any](), "stop_reason": None}
    text = {"type": "text_delta", "text": "Done."}
    parts: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": text},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n" for p in parts).encode()


def resume(client: list[str], session: Path) -> list[dict[str, Any]] | None:
    """The messages that the client sends when it resumes a session; None if it refuses."""
    with tempfile.TemporaryDirectory() as home, ScriptedApi() as api:
        Thread(target=api.serve_forever, daemon=True).start()
        work = Path(home, "work")
        folder = Path(home, ".claude", "projects", folder_name(str(work)))
        folder.mkdir(parents=True)
        work.mkdir()
        shutil.copy(session, folder)
        if sidecar_folder(session).is_dir():
            shutil.copytree(sidecar_folder(session), folder / session.stem)
        arguments = ["-p", PROMPT, "--resume", session.stem]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TMPDIR": home,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_address[1]}",
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        subprocess.run(
            [*client, *arguments],
            cwd=work,
            env=environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        api.shutdown()
        asked = [body["messages"] for body in api.requests if PROMPT in json.dumps(body)]
        return asked[0] if asked else None


def said(messages: list[dict[str, Any]]) -> Messages:
    """Messages without what the client makes anew: reminders, system notes, the new prompt."""
    found: Messages = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = [shorn(block) for block in blocks if not is_added(block)]
        if blocks and message["role"] != "system":
            found.append((message["role"], blocks))
    return found


def is_added(block: dict[str, Any]) -> bool:
    text = str(block.get("text") or "").lstrip()
    return text.startswith(REMINDER) or text == PROMPT


def shorn(block: dict[str, Any]) -> dict[str, Any]:
    """A block without cache marks, and without reminders appended to its result."""
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(kept.get("content"), str):
        kept["content"] = kept["content"].partition(f"\n\n{REMINDER}")[0].rstrip()
    if isinstance(kept.get("text"), str):
        kept["text"] = kept["text"].removesuffix("\n")
    if kept.get("is_error") is False:
        del kept["is_error"]
    if kept.get("type") == "tool_use" and kept.get("name") == "Task":
        kept["name"] = "Agent"  # as the newest client calls it, in old sessions too
    return kept


def main() -> int:
    """Compare sessions, print a row for each."""
    client = shlex.split(sys.argv[1])
    if os.geteuid() == 0:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    different = 0
    for path in map(Path, sys.argv[2:]):
        sent = resume(client, path)
        ours = said(open_session(path).context())
        verdict = "refused" if sent is None else "equal" if said(sent) == ours else "DIFFERENT"
        different += verdict == "DIFFERENT"
        print(f"{verdict:10} {path}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
