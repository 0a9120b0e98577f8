"""The server as the official client, strict schemas and hostile peers see it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client, StdioServerParameters

from support.build import assistant, session, text, user
from support.mcp_peer import FIRST, HELLO, SHOP, peer, put, server_command
from support.terminal import Terminal
from turnlog.errors import UsageError
from turnlog.mcp_server.argument_checks import check_arguments
from turnlog.mcp_server.tool_table import TOOLS

CALLS: dict[str, dict[str, Any]] = {
    "search": {"query": "which database for orders?"},
    "sessions": {},
    "read": {"ref": f"{FIRST}:10"},
    "files": {"path": "a.py"},
    "usage": {"report": "session"},
    "context": {"session": "last"},
    "errors": {"command": "pytest"},
}
EXPECTED = {
    "search": "We decided on Postgres",
    "sessions": "Should we use Postgres",
    "read": "No module named 'attrs'",
    "files": "+two",
    "usage": "cost_usd",
    "context": "14 messages",
    "errors": "pip install attrs",
}


def test_the_official_client_calls_every_tool(root: Path) -> None:
    async def talk() -> dict[str, Any]:
        command, *arguments = server_command(root)

        started = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
        async with Client(started) as client:
            resources = (await client.list_resources()).resources
            return {
                "tools": (await client.list_tools()).tools,
                "answers": {name: await client.call_tool(name, CALLS[name]) for name in CALLS},
                "resources": resources,
                "read": await client.read_resource(str(resources[0].uri)),
                "templates": (await client.list_resource_templates()).resource_templates,
                "prompts": (await client.list_prompts()).prompts,
                "recall": await client.get_prompt("recall", {"topic": 'the "orders" table'}),
            }

    found = asyncio.run(talk())
    assert {tool.name for tool in found["tools"]} == set(CALLS) == set(TOOLS)
    for name, answer in found["answers"].items():
        assert not answer.is_error, answer
        assert EXPECTED[name] in answer.content[0].text, name
    assert [str(each.uri) for each in found["resources"]] == [f"turnlog://session/{FIRST}"]
    assert "Ended with" in found["read"].contents[0].text
    assert len(found["templates"]) == 1
    assert [prompt.name for prompt in found["prompts"]] == ["recall", "handoff"]
    assert 'topic "the \\"orders\\" table"' in found["recall"].messages[0].content.text


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_valid_and_arguments_are_checked_as_they_say(name: str) -> None:
    schema = TOOLS[name].schema
    jsonschema.Draft202012Validator.check_schema(schema)
    validator: Any = jsonschema.Draft202012Validator(schema)
    values: list[Any] = [
        "",
        "x",
        "x" * 5_000,
        0,
        1,
        3.0,
        1.5,
        10**9,
        True,
        None,
        [],
        ["prompt"],
        ["x"],
        {},
    ]
    cases: list[Any] = [
        *values,
        *({key: value} for key in schema["properties"] for value in values),
    ]
    cases += [case | CALLS[name] for case in cases if isinstance(case, dict)]
    cases += [CALLS[name] | {key: value} for key in schema["properties"] for value in values]
    for case in cases:
        assert validator.is_valid(case) == _accepts(schema, case), case


def _accepts(schema: dict[str, Any], given: Any) -> bool:
    try:
        check_arguments(schema, given)
    except UsageError:
        return False
    return True


MALFORMED: list[bytes] = [
    b"nonsense",
    b"\xff\xfe\x00",
    b"[]",
    b"[" * 100_000,
    b"null",
    b"1",
    b'"text"',
    b"{}",
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["read"]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"recall"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x","arguments":[]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":5}}',
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read",'
    b'"params":{"uri":"turnlog://session/../../x"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 5_000_000 + b'"}',
]


def test_a_hundred_malformed_requests_each_get_an_error_and_the_server_goes_on(root: Path) -> None:
    with peer(root) as server:
        for number in range(100):
            server.send_raw(MALFORMED[number % len(MALFORMED)] + b"\n")
            answer = server.receive()
            assert "error" in answer, MALFORMED[number % len(MALFORMED)][:100]
            assert set(answer) == {"jsonrpc", "id", "error"}
        server.send_raw(b"nonsense\n")
        assert server.receive()["error"]["code"] == -32700
        assert server.ask("ping")["result"] == {}
        assert server.close() == 0
        assert server.process.stdout
        assert server.process.stdout.read() == b""


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"ref": "../../../etc/passwd"}, "not a reference"),
    ("read", {"ref": "nosuch:1"}, "no session 'nosuch'"),
    ("read", {"ref": f"{FIRST}:9999"}, "in no turn"),
    ("read", {"ref": FIRST, "turn": 99}, "has 3 turns, not 99"),
    ("search", {}, "query is missing"),
    ("search", {"query": "("}, "Nothing found"),
    ("search", {"query": "x", "since": "soon"}, "soon"),
    ("search", {"query": "[", "regex": True}, "["),
    ("search", {"query": "Postgr.s", "regex": True}, "We decided"),
    ("search", {"query": "\ud800 Postgres", "limit": 3.0}, "We decided"),
    ("files", {"path": "a.py", "session": "last", "at": "turn 99"}, "not 99"),
    ("files", {"path": "\0"}, "0 changes"),
    ("usage", {"by": ["nothing"]}, "must be one of"),
    ("usage", {"report": "tool", "by": ["model"]}, "cannot be grouped"),
    ("errors", {}, "name a command"),
    ("sessions", {"cursor": "7-00000000"}, "another call"),
    ("sessions", {"nosuch": 1}, "no argument 'nosuch'"),
]


def test_wrong_arguments_are_explained_to_the_model(root: Path) -> None:
    with peer(root) as server:
        for tool, given, expected in WRONG:
            assert expected in server.call(tool, **given), (tool, given)


def test_twenty_concurrent_requests_are_all_answered(root: Path) -> None:
    with peer(root) as server:
        names = [list(CALLS)[number % len(CALLS)] for number in range(20)]
        sent = {
            server.send("tools/call", {"name": name, "arguments": CALLS[name]}): name
            for name in names
        }
        answers = [server.receive() for _ in sent]
        assert sorted(answer["id"] for answer in answers) == sorted(sent)
        for answer in answers:
            assert EXPECTED[sent[answer["id"]]] in answer["result"]["content"][0]["text"]


def test_a_cancelled_request_is_not_answered(root: Path) -> None:
    with peer(root) as server:
        params = {"name": "search", "arguments": {"query": "orders"}}
        lines: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": f"c{n}", "method": "tools/call", "params": params}
            for n in range(30)
        ]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        lines.append(cancel | {"params": {"requestId": "c29"}})
        server.send_raw(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        answered = {server.receive()["id"] for _ in range(29)}
        assert answered == {f"c{n}" for n in range(29)}


def test_cancelling_by_an_id_that_is_none_does_not_end_the_server(root: Path) -> None:
    with peer(root) as server:
        params = {"name": "search", "arguments": {"query": "orders"}}
        ids: list[Any] = [*(f"c{n}" for n in range(30)), ["list"]]
        lines: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params} for id_ in ids
        ]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        lines.append(cancel | {"params": {"requestId": ["list"]}})
        server.send_raw(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        answered = [server.receive()["id"] for _ in ids]
        assert sorted(id_ for id_ in answered if id_) == sorted(ids[:-1])
        assert "result" in server.ask("ping")


def test_an_id_can_be_used_again_after_its_request_was_dropped(root: Path) -> None:
    with peer(root) as server:
        params = {"name": "search", "arguments": {"query": "orders"}}
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "c29"},
        }
        lines: list[dict[str, Any]] = [call | {"id": f"c{n}"} for n in range(30)]
        lines += [cancel, call | {"id": "c29"}]
        server.send_raw(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        answered = [server.receive()["id"] for _ in range(30)]
        assert sorted(answered) == sorted(f"c{n}" for n in range(30))


def test_requests_in_a_file_are_answered_before_the_server_exits(root: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "sessions"}}
    done = subprocess.run(
        server_command(root),
        input=b"".join(json.dumps(each).encode() + b"\n" for each in (hello, ask)),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert done.stderr == b""


DYING = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sessions"}}')
process.stdin.write(b"\\n" * 3)
process.stdin.flush()
print(process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_dying_client_leaves_no_process_behind(root: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", DYING, *server_command(root)],
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    pid = int(killed.stdout)
    deadline = time.monotonic() + 60
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_server_whose_answers_nobody_reads_exits(root: Path) -> None:
    with peer(root) as server:
        assert server.process.stdout
        server.process.stdout.close()
        server.send("ping")
        assert server.process.wait(60) == 0


def test_nothing_is_written_to_the_store(root: Path) -> None:
    before = _state_of(root)
    with peer(root) as server:
        for name, given in CALLS.items():
            server.call(name, **given)
    assert _state_of(root) == before


def _state_of(root: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in root.rglob("*")}


def test_tools_are_answered_without_the_sdk_and_other_heavy_packages() -> None:
    code = (
        "import sys, turnlog.mcp_server.stdio_server, turnlog.mcp_server.tool_runs as runs;"
        "runs._load_all(); print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"mcp", "pydantic", "click", "rich", "starlette", "asyncio"} & set(loaded)


def test_what_was_appended_is_found_by_the_next_call(root: Path) -> None:
    with peer(root) as server:
        assert "Nothing found" in server.call("search", query="zeppelin")
        _append(root, "The zeppelin is ready.")
        deadline = time.monotonic() + 60
        while "zeppelin is ready" not in server.call("search", query="zeppelin"):
            assert time.monotonic() < deadline


def _append(root: Path, said: str) -> None:
    path = next(root.rglob(f"{FIRST}.jsonl"))
    last = json.loads(path.read_bytes().splitlines()[-1])
    last |= {"uuid": "0" * 8, "parentUuid": last["uuid"]}
    last["message"] |= {"id": "msg_new", "content": [{"type": "text", "text": said}]}
    with path.open("ab") as file:
        file.write(json.dumps(last).encode() + b"\n")


def test_an_expensive_expression_neither_blocks_the_server_nor_outlives_it(root: Path) -> None:
    id_ = "0e000000-0000-4000-8000-000000000006"
    put(root, SHOP, session(user("a" * 60 + "!"), assistant(text("Yes.")), session_id=id_), id_)
    with peer(root) as server:
        slow = {"name": "search", "arguments": {"query": "(a+)+$", "regex": True}}
        server.send("tools/call", slow)
        assert server.ask("ping")["result"] == {}
        assert server.close() == 0


def test_a_terminated_server_exits_at_once(root: Path) -> None:
    with peer(root) as server:
        server.process.terminate()
        assert server.process.wait(60) == 0


def test_a_person_at_a_terminal_learns_how_to_connect_a_client(root: Path) -> None:
    terminal = Terminal()
    command = [sys.executable, "-m", "turnlog", "mcp"]
    with subprocess.Popen(
        command, stdin=terminal.follower, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr
        printed = [server.stderr.readline(), server.stderr.readline()]
        server.terminate()
    terminal.close()
    assert printed[0].startswith("Waiting for an MCP client on stdin")
    assert printed[1] == "(try: claude mcp add turnlog -- turnlog mcp)\n"
