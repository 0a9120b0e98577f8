"""A client of `turnlog mcp` that sends raw lines, and a small store to ask about."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.build import assistant, call, result, session, text, user

SHOP = "/home/ada/shop"
FIRST = "5e551011-0000-4000-8000-000000000001"
OTHER = "07e40000-0000-4000-8000-000000000002"
SECRET = "ghp_" + "Zk3Jq8LwN5vT2yRb7XcM1dPf6HsG9aUe4oKi"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


BANK_PROMPT = "00000000-0000-4000-8000-0000000000b1"


def write_history(root: Path) -> None:
    """Write a session about a shop, and one of another project."""
    edit = {"file_path": f"{SHOP}/a.py", "old_string": "one", "new_string": "two"}
    write = {"file_path": f"{SHOP}/a.py", "content": "one\n"}
    lines = [
        user("Should we use Postgres or SQLite for orders?"),
        assistant(text(f"We decided on Postgres: orders are concurrent. Token {SECRET}.")),
        user("Write a.py"),
        assistant(call("Write", write, "w1")),
        result("w1", tool_use_result={"type": "create", "filePath": f"{SHOP}/a.py", **write}),
        assistant(call("Edit", edit, "e1")),
        result("e1"),
        user("Run the tests"),
        assistant(call("Bash", {"command": "pytest -q"}, "b1")),
        result("b1", "ModuleNotFoundError: No module named 'attrs'", is_error=True),
        assistant(call("Bash", {"command": "pip install attrs"}, "b2")),
        result("b2", "Successfully installed attrs"),
        assistant(call("Bash", {"command": "pytest -q"}, "b3")),
        result("b3", "12 passed"),
        assistant(text("All tests pass.")),
    ]
    put(root, SHOP, session(*lines, session_id=FIRST), FIRST)
    other = session(
        user("Postgres password of the bank?", cwd="/home/ada/bank", uuid=BANK_PROMPT),
        assistant(text("Postgres of the bank."), cwd="/home/ada/bank"),
        session_id=OTHER,
    )
    put(root, "/home/ada/bank", other, OTHER)


def put(root: Path, project: str, content: bytes, id_: str) -> Path:
    """Write a session file into a store."""
    folder = root / "projects" / project.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{id_}.jsonl"
    path.write_bytes(content)
    return path


def server_command(root: Path, project: str = SHOP) -> list[str]:
    """The command of a server for one store and project."""
    return [sys.executable, "-m", "turnlog", "--store", str(root), "mcp", "--directory", project]


class Peer:
    """A server's process, and what was sent to it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._number = 0

    def send_raw(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, method: str, params: Any = None, **fields: Any) -> int:
        """Send a request; return its id."""
        self._number += 1
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": self._number,
            "method": method,
            "params": params or {},
        }
        self.send_raw(json.dumps(message | fields).encode() + b"\n")
        return self._number

    def receive(self) -> dict[str, Any]:
        """Return the next message; anything else on stdout is an error."""
        assert self.process.stdout
        message = json.loads(self.process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        number = self.send(method, params)
        answer = self.receive()
        assert answer["id"] == number
        return answer

    def call(self, tool: str, meta: dict[str, Any] | None = None, **given: Any) -> str:
        """Return the text that a tool answers with."""
        params: dict[str, Any] = {"name": tool, "arguments": given}
        return self.ask("tools/call", params | ({"_meta": meta} if meta else {}))["result"][
            "content"
        ][0]["text"]

    def close(self) -> int:
        """End the input; return the exit code."""
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(60)


@contextmanager
def peer(root: Path, project: str = SHOP, **environment: str) -> Generator[Peer]:
    """Start a server and shake hands with it."""
    with subprocess.Popen(
        server_command(root, project),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ) | environment,
    ) as process:
        connected = Peer(process)
        try:
            connected.ask("initialize", HELLO)
            yield connected
        finally:
            process.kill()
