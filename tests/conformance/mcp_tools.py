"""Does the real client call every tool of `turnlog mcp`, and does it get answers?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/mcp_tools.py CLIENT ...

Each CLIENT is the command of an installed client. It talks to a scripted API on loopback, whose
model calls each tool once. Its home has an earlier session; the calling one asks about the same
words, and must not be quoted. Prints a row for each tool, and exits with 1 if an answer is wrong, a
server is left behind, or the client did not pass on the instructions.
"""

import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from client import bring_up_loopback, environment_of, run_client

from support.build import assistant, call, result, session, text, user
from support.mcp_peer import FIRST, put
from support.plays import play, use
from support.plays import text as said
from support.scripted_api import ScriptedApi, scripted_api
from support.scripted_api import said as reply
from turnlog.mcp_server.tool_table import TOOLS

MARK = "PLAY:recall the zeppelin"
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "search": ({"query": "zeppelin"}, "We decided on hydrogen"),
    "sessions": ({}, FIRST[:8]),
    "read": ({"ref": FIRST}, "We decided on hydrogen"),
    "files": ({"path": "notes.md"}, "+hydrogen"),
    "usage": ({"report": "session"}, "cost_usd"),
    "context": ({"session": FIRST}, "hydrogen"),
    "errors": ({"message": "No module named 'airship'"}, "pip install airship"),
}


def earlier_session(work: Path) -> bytes:
    """A session of a directory with a decision, a file and an error that was fixed."""
    write = {"file_path": f"{work}/notes.md", "content": "hydrogen\n"}
    lines = [
        user("What does the zeppelin need?"),
        assistant(text("We decided on hydrogen.")),
        user("Write it down and test it"),
        assistant(call("Write", write, "w1")),
        result("w1", tool_use_result={"type": "create", "filePath": f"{work}/notes.md", **write}),
        assistant(call("Bash", {"command": "pytest"}, "b1")),
        result("b1", "ModuleNotFoundError: No module named 'airship'", is_error=True),
        assistant(call("Bash", {"command": "pip install airship"}, "b2")),
        result("b2", "ok"),
        assistant(call("Bash", {"command": "pytest"}, "b3")),
        result("b3", "1 passed"),
    ]
    placed = [json.dumps(json.loads(line) | {"cwd": str(work)}).encode() + b"\n" for line in lines]
    return session(*placed, session_id=FIRST)


def talk(client: str, home: Path, api: ScriptedApi) -> None:
    """Let a client call all tools."""
    work = home / "work"
    work.mkdir()
    put(home / ".claude", str(work), earlier_session(work), FIRST)
    # The log of what the client sent shows which metadata it adds to requests.
    server = f"tee {home}/requests.log | {shlex.quote(sys.executable)} -m turnlog mcp"
    paths = {"PYTHONPATH": ":".join(sys.path[1:])}
    servers = {"turnlog": {"command": "sh", "args": ["-c", server], "env": paths}}
    config = home / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    names = ",".join(f"mcp__turnlog__{name}" for name in TOOLS)
    options = ["--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", names]
    environment = environment_of(home, f"http://127.0.0.1:{api.server_port}")
    command = [*shlex.split(client), "-p", MARK, *options]
    run_client(command, work, environment | {"ENABLE_TOOL_SEARCH": "false"})


def results_in(api: ScriptedApi) -> dict[str, str]:
    """The last result of each tool that the client sent to the model."""
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for request in api.requests:
        for message in request.body["messages"]:
            content: Any = message["content"]
            blocks: list[dict[str, Any]] = [] if isinstance(content, str) else content
            for block in blocks:
                if block["type"] == "tool_use":
                    names[block["id"]] = block["name"].removeprefix("mcp__turnlog__")
                if block["type"] == "tool_result" and block["tool_use_id"] in names:
                    found[names[block["tool_use_id"]]] = json.dumps(
                        block["content"], ensure_ascii=False
                    )
    return found


def faults(home: Path, api: ScriptedApi) -> list[str]:
    """Return what is wrong after a conversation, and a row for each tool."""
    wrong: list[str] = []
    found = results_in(api)
    for name, (_, expected) in CALLS.items():
        is_right = expected in found.get(name, "") and "is_error" not in found.get(name, "")
        # The prompt of the calling session contains the word that was searched for.
        is_echo = name == "search" and MARK in found.get(name, "")
        print(f"  {name:10} {'ok' if is_right and not is_echo else 'WRONG'}")
        if not is_right or is_echo:
            wrong.append(f"{name}: {found.get(name, 'no result')[:600]}")
    if not any("turnlog is the record of all" in json.dumps(each.body) for each in api.requests):
        wrong.append("the instructions did not reach the model")
    log = home / "requests.log"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    metas = {key for line in lines for key in line.get("params", {}).get("_meta", {})}
    print(f"  metadata   {', '.join(sorted(metas)) or 'none'}")
    if left := servers_of(home):
        wrong.append(f"processes left behind: {left}")
    return wrong


def servers_of(home: Path) -> list[str]:
    """The processes whose environment names a home."""
    mark = f"HOME={home}".encode()
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


def main() -> int:
    bring_up_loopback()
    wrong: list[str] = []
    script = [[use(f"mcp__turnlog__{name}", **given)] for name, (given, _) in CALLS.items()]
    for client in sys.argv[1:]:
        print(client)
        with tempfile.TemporaryDirectory() as folder, scripted_api(reply("Done.")) as api:
            api.choose = play({MARK: [*script, [said("Done.")]]})
            talk(client, Path(folder).resolve(), api)
            wrong += faults(Path(folder).resolve(), api)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
