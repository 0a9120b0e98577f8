"""turnlog hook: its output, and the effect of real processes."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.hooked_client import PROJECT, Client, Clock, Names
from support.otlp_receiver import Receiver, receiving
from turnlog.conversation.session import open_session
from turnlog.trace.note import split_note
from turnlog.trace.spans import SpanOptions, spans_of
from turnlog.trace.spool import Spool

EVENTS = ["SessionStart", "Stop", "SubagentStop", "SessionEnd"]
COMMAND = [sys.executable, "-m", "turnlog", "hook"]


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_TRACE_TIMEOUT", "10")
    monkeypatch.delenv("TURNLOG_TRACE_TO", raising=False)


@pytest.fixture
def client(project: Path, tmp_path: Path, receiver: Receiver) -> Client:
    spool = tmp_path / "turnlog" / "trace" / "spool"
    spool.mkdir(parents=True)
    return Client(spool, receiver.url, project, (Clock(), Names()))


def turn(client: Client) -> None:
    client.ask()
    client.work(parallel=2)
    client.say(is_late=False)
    client.close()


def wanted(client: Client) -> set[str]:
    return {span.id for span in spans_of(open_session(client.path), SpanOptions(ended=True))}


def arrived(receiver: Receiver) -> Counter[str]:
    requests = list(receiver.requests)
    return Counter(span.span_id.hex() for request in requests for span in request.spans)


def wait_for(spans: set[str], receiver: Receiver) -> None:
    """Wait until spans are there; those who send them are processes of their own."""
    limit = time.time() + 30
    while spans - set(arrived(receiver)) and time.time() < limit:
        time.sleep(0.02)
    assert set(arrived(receiver)) == spans


def wait_until_idle(spool: Path) -> None:
    """Wait until no note is left; the lock is for senders alone, which look once more after it."""
    limit = time.time() + 30
    while Spool(spool).paths() and time.time() < limit:
        time.sleep(0.02)
    assert Spool(spool).paths() == []


def test_the_hooks_are_installed_and_removed(turnlog: Run, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{\n  "model": "opus"\n}\n', "utf-8")
    done = turnlog("hook", "install", "--to", "http://127.0.0.1:9", "--max-chars", "100")
    told = f"in {settings}; traces go to http://127.0.0.1:9/v1/traces\n"
    assert (done.code, done.out) == (0, f"Installed {told}")
    again = turnlog("hook", "install", "--to", "http://127.0.0.1:9", "--max-chars", "100")
    assert again.out == f"Already installed {told}"
    hooks = json.loads(settings.read_bytes())["hooks"]
    assert list(hooks) == EVENTS
    command = hooks["Stop"][0]["hooks"][0]["command"]
    assert "turnlog hook run --to http://127.0.0.1:9 --max-chars 100 --config /" in command
    assert "hook installed: turnlog hook run" in turnlog("history").out
    assert turnlog("hook", "uninstall").out == f"Removed from {settings}\n"
    assert settings.read_text("utf-8") == '{\n  "model": "opus"\n}\n'
    assert turnlog("hook", "uninstall").out == f"Not installed in {settings}\n"


def test_uninstall_removes_settings_that_install_created(turnlog: Run, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.unlink(missing_ok=True)
    turnlog("hook", "install", "--to", "http://127.0.0.1:9")
    assert settings.exists()
    assert turnlog("hook", "uninstall").out == f"Removed from {settings}\n"
    assert not settings.exists()
    assert turnlog("undo").code == 0
    assert "hook run" in settings.read_text("utf-8")


@pytest.mark.parametrize(
    "name", ["routes.json", "spool/failures.json", "spool/queues/x.json", "x/sessions/x.json"]
)
def test_status_ignores_damaged_files(turnlog: Run, client: Client, name: str) -> None:
    path = client.spool.parent / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(b"[" * 100_000)
    assert turnlog("hook", "status").code == 0


def test_an_invalid_configuration_is_one_line_with_a_hint(turnlog: Run, tmp_path: Path) -> None:
    config = tmp_path / "turnlog" / "config.toml"
    config.parent.mkdir()
    config.write_text("[trace]\nto = 5\n")
    for command in (("hook", "status"), ("hook", "doctor"), ("trace", "last")):
        done = turnlog(*command)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert done.err.endswith(f"(try: $EDITOR {config})\n")


@pytest.mark.parametrize("to", [(), ("--to", "nowhere"), ("--to", "x.json"), ("--to", "langfuse")])
def test_without_a_backend_nothing_is_installed(
    turnlog: Run, tmp_path: Path, to: tuple[str, ...]
) -> None:
    done = turnlog("hook", "install", *to)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert not (tmp_path / "settings.json").exists()


def test_status_tells_what_was_sent_what_waits_and_what_failed(
    turnlog: Run, client: Client, receiver: Receiver
) -> None:
    assert "not installed" in turnlog("hook", "status").out
    turnlog("hook", "install", "--to", receiver.url)
    turn(client)
    assert turnlog("hook", "send").out == f"{client.id}  5 spans sent\n"
    receiver.always = 401
    turn(client)
    failed = turnlog("hook", "send")
    assert (failed.code, failed.err.count("\n")) == (1, 1)
    assert "401" in failed.err
    (client.spool / "1-1.note").write_bytes(b"turnlog-note 2\0project=/x\0\0{")
    assert turnlog("hook", "send").code == 1
    told = turnlog("hook", "status").out
    for part in ("sent     5 spans of 1 session", "waits    1 note\n", "401", "failed   1", "JSON"):
        assert part in told
    held: dict[str, Any] = json.loads(turnlog("hook", "status", "--json").out)
    assert held["events"] == EVENTS
    assert held["target"] == f"{receiver.url}/v1/traces"
    (sent,) = held["sessions"]
    assert (sent["session"], sent["turns"], sent["spans"]) == (client.id, 2, 5)
    (waiting,) = held["waiting"]
    assert (waiting["session"], waiting["event"]) == (client.id, "Stop")
    (project,) = held["projects"]
    assert (project["project"], project["is_on"], project["waiting"]) == (PROJECT, True, 1)
    assert (project["target"], project["content"]) == (f"{receiver.url}/v1/traces", "redacted")
    assert project["sent"]
    assert "401" in project["reason"]
    assert len(held["failures"]) == 1


def test_send_tells_what_it_did_in_json(turnlog: Run, client: Client) -> None:
    assert turnlog("hook", "send").out == "nothing is waiting\n"
    turn(client)
    (report,) = json.loads(turnlog("hook", "send", "--json").out)
    assert (report["session"], report["sent"], report["open"]) == (client.id, 5, 0)


def test_what_was_refused_is_sent_again_when_asked_for(
    turnlog: Run, client: Client, receiver: Receiver
) -> None:
    receiver.always = 400
    turn(client)
    assert turnlog("hook", "send").out == f"{client.id}  0 spans sent, 5 refused\n"
    receiver.always = 200
    assert turnlog("hook", "send").out == "nothing is waiting\n"
    assert turnlog("hook", "send", "--again").out == f"{client.id}  5 spans sent\n"


def test_doctor_says_that_all_is_well(turnlog: Run, receiver: Receiver) -> None:
    turnlog("hook", "install", "--to", receiver.url)
    done = turnlog("hook", "doctor")
    assert done.code == 0
    assert done.out.startswith(f"ok  {receiver.url}/v1/traces: 200 after ")
    assert [span.name for span in receiver.spans.values()] == ["turnlog hook doctor"]


def test_doctor_says_what_is_wrong(
    turnlog: Run, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    receiver.always = 401
    absent = turnlog("hook", "doctor", "--to", receiver.url)
    assert absent.code == 1
    assert "401" in absent.out
    assert "no hook at SessionStart, Stop, SubagentStop, SessionEnd" in absent.out
    gone = {"type": "command", "command": "/gone/turnlog hook run --to http://127.0.0.1:9"}
    held = {"disableAllHooks": True, "hooks": {"Stop": [{"hooks": [gone]}]}}
    (tmp_path / "settings.json").write_text(json.dumps(held), "utf-8")
    found = json.loads(turnlog("hook", "doctor", "--json").out)
    assert found["is_well"] is False
    assert found["answer"]["status"] is None
    assert found["missing_events"] == ["SessionStart", "SubagentStop", "SessionEnd"]
    assert found["missing_programs"] == [gone["command"]]
    assert found["disabled_in"] == [str(tmp_path / "settings.json")]


def run_hook(told: bytes, *arguments: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [*COMMAND, "run", *arguments],
        env=os.environ | {"CLAUDE_PROJECT_DIR": PROJECT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(told)
    process.stdin.close()
    return process


def last_note(client: Client) -> bytes:
    """Take the last note out of the spool; return the payload that the client passed."""
    path = Spool(client.spool).paths()[-1]
    parts = split_note(path.read_bytes())
    assert parts
    path.unlink()
    return parts[1]


def outcome(process: "subprocess.Popen[bytes]") -> tuple[int, bytes, bytes]:
    assert process.stdout
    assert process.stderr
    with process.stdout, process.stderr:
        told = process.stdout.read(), process.stderr.read()
    return process.wait(), *told


def test_the_hook_sends_by_itself_and_says_nothing(client: Client, receiver: Receiver) -> None:
    turn(client)
    hook = run_hook(last_note(client), "--to", receiver.url)
    assert outcome(hook) == (0, b"", b"")
    wait_for(wanted(client), receiver)
    wait_until_idle(client.spool)


@pytest.mark.parametrize("told", [b"", b"no json", b"{}"])
def test_the_hook_takes_anything_and_says_nothing(
    client: Client, receiver: Receiver, told: bytes
) -> None:
    assert outcome(run_hook(told, "--to", receiver.url)) == (0, b"", b"")
    wait_until_idle(client.spool)
    assert len(Spool(client.spool).failures) == 1


def test_the_hook_says_nothing_where_it_cannot_write(client: Client, tmp_path: Path) -> None:
    client.spool.rmdir()
    client.spool.write_bytes(b"in the way")
    assert outcome(run_hook(b"{}")) == (0, b"", b"")


def test_hooks_at_once_send_each_span_once(client: Client, receiver: Receiver) -> None:
    clients = [client, Client(client.spool, client.to, client.folder, (client.clock, client.names))]
    for each in clients:
        turn(each)
    told = [last_note(client), last_note(client)]
    for hook in [run_hook(each, "--to", receiver.url) for each in told * 4]:
        assert outcome(hook) == (0, b"", b"")
    wait_until_idle(client.spool)
    expected = wanted(clients[0]) | wanted(clients[1])
    assert arrived(receiver) == dict.fromkeys(expected, 1)


def test_a_sender_that_is_killed_again_and_again_loses_nothing(
    client: Client, receiver: Receiver
) -> None:
    moments = random.Random(1)
    for _ in range(8):
        turn(client)
        with subprocess.Popen([*COMMAND, "send"], stdout=subprocess.DEVNULL) as sender:
            time.sleep(moments.uniform(0.1, 0.5))
            sender.kill()
    client.end()
    assert (
        subprocess.run([*COMMAND, "send"], stdout=subprocess.DEVNULL, check=False).returncode == 0
    )
    assert set(arrived(receiver)) == wanted(client)
    sent = {span.SerializeToString() for r in receiver.requests for span in r.spans}
    assert len(sent) == len(receiver.spans), "what was sent again was the same"


def test_the_hook_is_told_from_one_that_a_person_calls(turnlog: Run) -> None:
    done = turnlog("hook", "run")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_the_hook_loads_hardly_anything_before_the_client_goes_on(tmp_path: Path) -> None:
    code = (
        "import os, sys, io\n"
        "sys.argv = ['turnlog', 'hook', 'run']\n"
        "before = set(sys.modules)\n"
        "os.fork = lambda: 1\n"
        "os._exit = lambda code: print(*sorted(set(sys.modules) - before)) or sys.exit(code)\n"
        "from turnlog.cli.main import main\n"
        "main()\n"
    )
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"env": {"A": "1"}}', "utf-8")
    environment = os.environ | {"TURNLOG_HOME": str(tmp_path), "CLAUDE_PROJECT_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="{}",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = [name for name in done.stdout.split() if not name.startswith("turnlog")]
    assert set(modules) <= {"gc", "_json", "pwd"}  # all of them part of the interpreter


def test_hook_alone_tells_what_it_can_do(turnlog: Run) -> None:
    told = turnlog("hook")
    assert told.code == 2
    assert "\n  install " in told.err
