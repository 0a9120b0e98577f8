"""The process behind `--acp`: its pipes, its end, and input that is not a message."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from acp.client.connection import ClientSideConnection

from support.acp_client import SECONDS, AcpRig, Editor, ask, opened
from support.scripted_api import ScriptedApi, called, said
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session


def start(rig: AcpRig) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [str(rig.client), "--acp"],
        cwd=rig.work,
        env=rig.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


BAD_LINES = {
    b"nonsense": -32700,
    b"\xff\xfe": -32700,
    b"[]": -32600,
    b"5": -32600,
    b"null": -32600,
    b'{"id": [], "method": "initialize"}': -32600,
    b'{"id": 3, "method": 5}': -32600,
    b'{"id": {}, "result": 1}': -32600,
    b'{"jsonrpc": "2.0", "id": 4, "method": "nonsense"}': -32601,
    b'{"jsonrpc": "2.0", "id": 5, "method": "session/new"}': -32602,
    b'{"jsonrpc": "2.0", "id": 6, "method": "session/new", "params": {"cwd": 5}}': -32602,
    b'{"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": []}': -32602,
    b'{"jsonrpc": "2.0", "id": 8, "method": "_custom/thing", "params": {}}': -32601,
}


def test_malformed_requests_are_answered_and_the_connection_goes_on(rig: AcpRig) -> None:
    unanswered = [b"", b'{"id": 99, "result": {}}', b'{"method": "session/cancel"}']
    hello = {"jsonrpc": "2.0", "id": "last", "method": "initialize"}
    hello |= {"params": {"protocolVersion": 7}}
    deep = b"[" * 100_000
    lines = [*BAD_LINES, deep, *unanswered, json.dumps(hello).encode()]
    with start(rig) as running:
        out, _ = running.communicate(b"\n".join(lines) + b"\n", timeout=SECONDS)
    answers = [json.loads(line) for line in out.splitlines()]
    codes = sorted(each["error"]["code"] for each in answers if "error" in each)
    assert codes == sorted([*BAD_LINES.values(), -32700])
    (welcome,) = [each for each in answers if each.get("id") == "last"]
    assert welcome["result"]["protocolVersion"] == 1
    assert running.returncode == 0


def test_nothing_but_messages_is_written_to_stdout(rig: AcpRig, editor_api: ScriptedApi) -> None:
    # A hook and a command that print, and a project that is not trusted: notes go to stderr.
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": "echo from a hook"}]}]}
    rig.store.root.mkdir()
    (rig.store.root / "settings.json").write_text(json.dumps({"hooks": hooks}))
    (rig.work / ".claude").mkdir()
    (rig.work / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    editor_api.replies[:] = [
        called(("t", "Bash", {"command": "echo hi; echo no >&2"})),
        said("Done."),
    ]
    params: dict[str, Any] = {"cwd": str(rig.work), "mcpServers": []}
    with start(rig) as running:
        assert running.stdin
        assert running.stdout
        read: list[dict[str, Any]] = []

        def request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            assert running.stdin
            assert running.stdout
            running.stdin.write(json.dumps(message).encode() + b"\n")
            running.stdin.flush()
            while True:
                read.append(json.loads(running.stdout.readline()))
                if read[-1].get("id") == number:
                    return read[-1]["result"]

        request(1, "initialize", {"protocolVersion": 1})
        session = request(2, "session/new", params)["sessionId"]
        prompt = [{"type": "text", "text": "go"}]
        answer = request(3, "session/prompt", {"sessionId": session, "prompt": prompt})
        assert answer["stopReason"] == "end_turn"
        running.stdin.close()
        rest = running.stdout.read()
        assert running.stderr
        err = running.stderr.read().decode()
    read += map(json.loads, rest.splitlines())
    assert {each["jsonrpc"] for each in read} == {"2.0"}
    assert "is not trusted" in err
    assert running.returncode == 0


def test_an_editor_that_dies_leaves_no_process_behind(rig: AcpRig, editor_api: ScriptedApi) -> None:
    """A command is running, another in the background, and nobody reads any more."""
    editor_api.replies[:] = [
        called(("b", "Bash", {"command": "sleep 1000", "run_in_background": True})),
        called(("t", "Bash", {"command": "echo > begun; sleep 1000"})),
    ]
    args = ("--allowedTools", "Bash")

    async def scene() -> "asyncio.subprocess.Process":
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(
            *(str(rig.client), "--acp", *args),
            cwd=rig.work,
            env=rig.environment,
            stdin=pipe,
            stdout=pipe,
        )
        editor = Editor()
        assert running.stdin
        assert running.stdout
        connection = ClientSideConnection(
            editor,  # pyright: ignore[reportArgumentType] - the methods that are called
            running.stdin,
            running.stdout,
        )
        await connection.initialize(protocol_version=1)
        session = await opened(connection, rig)
        turn = asyncio.create_task(ask(connection, session, "go"))
        await editor.until((rig.work / "begun").exists)
        running.stdin.close()
        async with asyncio.timeout(SECONDS):
            await running.wait()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        await connection.close()
        return running

    running = asyncio.run(scene())
    assert running.returncode == 0
    assert [
        finding for finding in check_session(open_session(rig.sessions()[0])) if finding.is_serious
    ] == []
    left = subprocess.run(
        ["pgrep", "-f", "sleep 1000"], capture_output=True, text=True, check=False
    )
    mine = [each for each in left.stdout.split() if _cwd(each) == str(rig.work)]
    assert mine == []


def _cwd(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


@pytest.mark.parametrize(
    "arguments", [("-p",), ("prompt",), ("--continue",), ("--input-format", "stream-json")]
)
def test_options_about_one_session_are_refused(arguments: tuple[str, ...], rig: AcpRig) -> None:
    done = subprocess.run(
        [str(rig.client), "--acp", *arguments],
        cwd=rig.work,
        env=rig.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--acp takes no prompt" in done.stderr


def test_a_program_that_writes_no_utf_8_is_not_kept_waiting(rig: AcpRig) -> None:
    stream = ("--input-format", "stream-json", "--output-format", "stream-json")
    done = subprocess.run(
        [str(rig.client), *stream],
        cwd=rig.work,
        env=rig.environment,
        input=b"\xff\n",
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert b"Error parsing streaming input line" in done.stderr
