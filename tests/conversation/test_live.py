"""Running sessions: their states, figures and sub-agents, read from real processes and files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.build import Fields, assistant, call, compaction, result, system, text, user
from support.live_store import RunningSession, running_sessions
from turnlog.conversation.cost import cost_of
from turnlog.conversation.live import LiveReader, LiveSession
from turnlog.conversation.live_files import LiveFile
from turnlog.conversation.session import open_session
from turnlog.format import jsonl
from turnlog.format.jsonl import Line
from turnlog.store import watch
from turnlog.store.client_report import ClientReport, list_running
from turnlog.store.paths import Store
from turnlog.store.registry import claim, release

DATA = Path(__file__).parents[1] / "data"
CALLED: Fields = {"stop_reason": "tool_use"}
ENDED: Fields = {"stop_reason": "end_turn"}
STATUSES = [
    ("busy", None, "working"),
    ("waiting", "permission prompt", "waiting for permission"),
    ("waiting", "input needed", "waiting for input"),
    ("waiting", "dialog open", "waiting for input"),
    ("waiting", "something newer", "waiting for input"),
    ("idle", None, "waiting for input"),
]
"""Statuses that 2.1.325 writes, and one that it does not."""
INTERRUPTED = user([text("[Request interrupted by user]")])
INFERRED: list[tuple[list[bytes], float, str]] = [
    ([], 0, "waiting for input"),
    ([user("go")], 0, "working"),
    ([user("go")], 700, "idle"),
    ([user("go"), assistant(text("so"), message=ENDED)], 0, "waiting for input"),
    ([user("go"), assistant(text("so"), message=ENDED)], 700, "idle"),
    ([user("go"), assistant(text("so"))], 0, "working"),
    ([user("go"), assistant(text("so"))], 40, "waiting for input"),
    ([user("go"), assistant(call("Bash"), message=CALLED)], 0, "working"),
    ([user("go"), assistant(call("Bash"), message=CALLED)], 8, "waiting for permission"),
    ([user("go"), assistant(call("Bash"), message=CALLED)], 7000, "waiting for permission"),
    ([user("go"), assistant(call("Read"), message=CALLED)], 60, "working"),
    ([user("go"), assistant(call("Edit"), message=CALLED)], 8, "waiting for permission"),
    ([user("go"), assistant(call("AskUserQuestion"), message=CALLED)], 0, "waiting for input"),
    ([user("go"), assistant(call("ExitPlanMode"), message=CALLED)], 0, "waiting for permission"),
    ([user("go"), assistant(call("Bash"), message=CALLED), result("toolu_1")], 8, "working"),
    ([user("go"), assistant(call("Bash"), message=CALLED), INTERRUPTED], 8, "waiting for input"),
    (
        [user("go"), assistant(call("Bash"), message=CALLED), result("toolu_1"), INTERRUPTED],
        8,
        "waiting for input",
    ),
    ([user("go"), *compaction("so far", compact_metadata={"trigger": "auto"})], 8, "working"),
    ([user("go"), *compaction("so far")], 8, "waiting for input"),
    ([user("go"), assistant(text("API Error"), is_api_error_message=True)], 1, "waiting for input"),
    (
        [user("go"), assistant(text("so"), message=ENDED), user("<note>", is_meta=True)],
        8,
        "waiting for input",
    ),
    (
        [user("go"), assistant(text("so")), system("turn_duration", duration_ms=5)],
        8,
        "waiting for input",
    ),
]
MODES = [
    ("default", "Edit", "waiting for permission"),
    ("plan", "Bash", "waiting for permission"),
    ("acceptEdits", "Edit", "working"),
    ("acceptEdits", "Bash", "waiting for permission"),
    ("bypassPermissions", "Bash", "working"),
    ("auto", "Bash", "working"),
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[RunningSession]:
    with running_sessions(tmp_path) as sessions:
        yield sessions[0]


def read_one(session: RunningSession) -> LiveSession:
    found = LiveReader([session.store]).read()
    assert len(found) == 1
    return found[0]


def usage(tokens: int, stop_reason: str = "end_turn", **counts: int) -> Fields:
    """A message whose request had so many tokens."""
    counts = {"input_tokens": tokens, "output_tokens": 0} | counts
    return {"model": "claude-sonnet-4-5", "stop_reason": stop_reason, "usage": counts}


@pytest.mark.parametrize(("status", "waiting_for", "state"), STATUSES)
def test_a_status_of_the_client_is_reported(
    session: RunningSession, status: str, waiting_for: str | None, state: str
) -> None:
    session.write(user("go"), assistant(call("Bash"), message=CALLED), ago=60)
    session.report(status, waiting_for, ago=30)
    found = read_one(session)
    assert (found.state, found.source, found.detail) == (state, "reported", waiting_for)
    assert 29 < time.time() - found.since < 40


def test_a_client_at_its_prompt_is_idle_after_ten_minutes(session: RunningSession) -> None:
    session.report("idle", ago=700)
    assert read_one(session).state == "idle"
    session.write(user("go"), assistant(text("so"), message=ENDED), ago=5)
    found = read_one(session)
    assert (found.state, found.source) == ("waiting for input", "reported")


def test_an_unknown_status_is_inferred(session: RunningSession) -> None:
    session.write(user("go"))
    session.report("dreaming")
    assert read_one(session).source == "inferred"


@pytest.mark.parametrize(("lines", "ago", "state"), INFERRED)
def test_a_state_is_inferred_from_the_last_lines(
    session: RunningSession, lines: list[bytes], ago: float, state: str
) -> None:
    session.register(startedAt=(time.time() - ago) * 1000)
    session.write(*lines, ago=ago)
    found = read_one(session)
    assert (found.state, found.source) == (state, "inferred")
    assert ago - 0.1 < time.time() - found.since < ago + 10


@pytest.mark.parametrize(("mode", "tool", "state"), MODES)
def test_an_unanswered_call_waits_only_in_modes_that_ask(
    session: RunningSession, mode: str, tool: str, state: str
) -> None:
    session.register()
    session.write(user("go", permission_mode=mode), ago=9)
    session.write(assistant(call(tool), message=CALLED), ago=8)
    assert read_one(session).state == state


def test_a_running_command_is_not_taken_for_a_question(tmp_path: Path) -> None:
    script = "import subprocess; subprocess.run(['sleep', '60'])"
    # Without /proc, nobody can tell the two apart.
    state = "working" if Path("/proc/self/task").exists() else "waiting for permission"
    with running_sessions(tmp_path) as (session,):
        command = [sys.executable, "-S", "-E", "-c", script]
        client = subprocess.Popen(command, start_new_session=True)
        try:
            session.pid = client.pid
            session.register()
            session.write(user("go"), assistant(call("Bash"), message=CALLED), ago=6)
            assert _eventually(session, state)
        finally:
            os.killpg(client.pid, signal.SIGKILL)
            client.wait()


def _eventually(session: RunningSession, state: str) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if read_one(session).state == state:
            return True
        time.sleep(0.05)
    return False


def test_a_state_changes_with_appended_lines(session: RunningSession) -> None:
    session.register()
    reader = LiveReader([session.store])
    assert reader.read()[0].path is None
    session.write(user("go"))
    (working,) = reader.read()
    assert (working.state, working.path) == ("working", str(session.path))
    session.write(assistant(text("so"), message=ENDED))
    assert reader.read()[0].state == "waiting for input"


def test_half_a_line_counts_once_it_is_whole(session: RunningSession) -> None:
    session.register()
    session.write(user("go"))
    before = session.path.read_bytes()
    session.write(assistant(text("so"), message=usage(1000)))
    whole = session.path.read_bytes()
    session.path.write_bytes(whole[:-20])
    reader = LiveReader([session.store])
    assert reader.read()[0].cost_usd == 0
    with session.path.open("ab") as file:
        file.write(whole[-20:])
    assert reader.read()[0].cost_usd == pytest.approx(0.003)
    assert len(before) < len(whole)


def test_a_rewritten_file_is_counted_anew(session: RunningSession) -> None:
    session.register()
    session.write(user("a long prompt"), assistant(text("so"), message=usage(1000)))
    reader = LiveReader([session.store])
    reader.read()
    session.path.write_bytes(b"")
    session.write(user("b"), assistant(text("so"), message=usage(3000)), user("c" * 900))
    assert reader.read()[0].cost_usd == pytest.approx(0.009)


def test_a_killed_client_disappears(session: RunningSession) -> None:
    session.report("busy")
    reader = LiveReader([session.store])
    assert len(reader.read()) == 1
    session.kill()
    assert (session.store.registry / f"{session.pid}.json").exists()
    assert reader.read() == []


def test_a_later_process_with_the_same_id_is_not_the_client(session: RunningSession) -> None:
    session.register(procStart="1", status="busy")
    assert LiveReader([session.store]).read() == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"sessionId": 5}', b'{"sessionId": "../../etc/x"}', b"[" * 50_000],
)
def test_a_malformed_registration_is_ignored(session: RunningSession, content: bytes) -> None:
    session.report("busy")
    (session.store.registry / f"{os.getpid()}.json").write_bytes(content)
    (session.store.registry / "17.abc.key").write_bytes(b"{}")
    assert [each.pid for each in LiveReader([session.store]).read()] == [session.pid]


def test_the_registration_of_the_real_client_is_understood(session: RunningSession) -> None:
    # As 2.1.325 wrote it while it showed a permission prompt, with other paths and process ids.
    written = {
        "peerProtocol": 1,
        "peerFeatures": ["notify_idle", "reply_across_default_dirs", "artifact_yield"],
        "pidDomain": "linux:3d1219c7c4c5404aaa1f6d2a48adfda4:pid:[4026532178]",
        "asksForConvertedSkills": None,
        "messagingSocketPath": "/tmp/cc-socks/17.sock",
        "name": "work-5d",
        "nameSource": "derived",
        "nameSince": 1794830158605,
        "status": "waiting",
        "updatedAt": 1794830230299,
        "statusUpdatedAt": 1794830230299,
        "waitingFor": "permission prompt",
    }
    session.register(**written)
    found = read_one(session)
    assert (found.state, found.source) == ("waiting for permission", "reported")
    assert (found.since, found.title, found.project) == (1794830230.299, "work-5d", "shop")
    assert (found.version, found.entrypoint, found.pid) == ("2.1.325", "cli", session.pid)


def test_a_typed_name_is_the_title(session: RunningSession) -> None:
    session.register(name="shop-5d", nameSource="derived")
    session.write(user("Fix the login"))
    assert read_one(session).title == "Fix the login"
    session.register(name="Login", nameSource="user")
    assert read_one(session).title == "Login"


def test_context_and_turns_until_compaction(session: RunningSession) -> None:
    session.register()
    for turn in range(3):
        for request in (10_000, 20_000):
            tokens = usage(40_000 * turn + request, cache_read_input_tokens=1000)
            session.write(*([user("go")] if request == 10_000 else []))
            session.write(assistant(text("so"), message=tokens))
    found = read_one(session)
    assert (found.context_tokens, found.window) == (101_000, 200_000)
    assert found.fill == pytest.approx(0.505)
    # 30,000 tokens per turn, and 66,000 are left of the 167,000 at which the client compacts.
    assert found.turns_left == 2


def test_a_compaction_starts_the_estimate_anew(session: RunningSession) -> None:
    session.register()
    for tokens in (50_000, 100_000, 150_000):
        session.write(user("go"), assistant(text("so"), message=usage(tokens)))
    session.write(*compaction("so far"))
    session.write(user("go"), assistant(text("so"), message=usage(20_000)))
    session.write(user("go"), assistant(text("so"), message=usage(30_000)))
    assert read_one(session).turns_left == (167_000 - 30_000) // 5_000


def test_a_context_beyond_the_usual_window_is_in_a_long_one(session: RunningSession) -> None:
    session.register()
    session.write(user("go"), assistant(text("so"), message=usage(250_000)))
    assert read_one(session).window == 1_000_000


def test_cost_per_hour_counts_the_last_hour(session: RunningSession) -> None:
    session.register(startedAt=(time.time() - 7200) * 1000)
    session.write(user("go"), assistant(text("so"), message=usage(100_000)), ago=5000)
    session.write(user("go"), assistant(text("so"), message=usage(50_000)), ago=600)
    found = read_one(session)
    assert found.cost_usd == pytest.approx(0.45)
    assert found.usd_per_hour == pytest.approx(0.15)


def test_cost_per_hour_of_a_young_process_is_scaled(session: RunningSession) -> None:
    session.register(startedAt=(time.time() - 1200) * 1000)
    session.write(user("go"), assistant(text("so"), message=usage(100_000)), ago=5000)
    session.write(user("go"), assistant(text("so"), message=usage(50_000)), ago=600)
    assert read_one(session).usd_per_hour == pytest.approx(0.45, rel=0.05)


def test_looks_at_unchanged_sessions_are_equal(session: RunningSession) -> None:
    session.register(startedAt=(time.time() // 60 * 60 - 1200) * 1000)
    session.write(user("go"), assistant(text("so"), message=usage(50_000)), ago=600)
    reader, now = LiveReader([session.store]), time.time() // 60 * 60
    assert reader.read(now + 1) == reader.read(now + 2)


def test_a_model_without_a_price_makes_the_cost_incomplete(session: RunningSession) -> None:
    session.register()
    session.write(user("go"), assistant(text("so"), message={"model": "unheard-of"}))
    assert not read_one(session).is_cost_complete


def test_sub_agents_are_listed_until_they_finish(session: RunningSession) -> None:
    session.report("busy")
    session.write(user("go"), assistant(call("Agent"), message=CALLED))
    session.describe_agent("a1", description="Explore", toolUseId="toolu_1")
    session.write(user("look"), assistant(call("Read"), message=usage(1000)), agent="a1")
    reader = LiveReader([session.store])
    found = reader.read()[0]
    assert [(each.id, each.title, each.state) for each in found.agents] == [
        ("a1", "Explore", "working")
    ]
    assert found.agents[0].source == "inferred"
    # The session's cost includes its sub-agents'.
    assert found.cost_usd == pytest.approx(0.003 + 0.00044)
    session.write(result("toolu_1"), agent="a1")
    session.write(assistant(text("It is so."), message=usage(2000)), agent="a1")
    found = reader.read()[0]
    assert (found.agents, found.finished_agents) == ([], 1)


def test_a_sub_agent_that_starts_later_is_found_at_once(session: RunningSession) -> None:
    session.report("busy")
    session.write(user("go"))
    reader = LiveReader([session.store])
    assert reader.read()[0].agents == []
    session.write(user("look"), agent="a1")
    assert [each.id for each in reader.read()[0].agents] == ["a1"]


def test_a_question_of_a_sub_agent_is_one_of_its_session(session: RunningSession) -> None:
    session.register()
    session.write(user("go"), assistant(call("Agent"), message=CALLED), ago=60)
    session.write(user("look"), assistant(call("Edit"), message=CALLED), agent="a1", ago=20)
    found = read_one(session)
    assert (found.state, found.source) == ("waiting for permission", "inferred")
    assert found.agents[0].state == "waiting for permission"


def test_a_reported_question_is_that_of_a_sub_agent_with_an_open_call(
    session: RunningSession,
) -> None:
    session.report("waiting", "permission prompt")
    session.write(user("go"), assistant(call("Agent"), message=CALLED))
    session.write(user("look"), assistant(call("Bash"), message=CALLED), agent="a1")
    session.write(user("look"), assistant(call("Read"), message=CALLED), agent="a2")
    states = {each.id: each.state for each in read_one(session).agents}
    assert states == {"a1": "waiting for permission", "a2": "working"}


def test_a_chat_of_turnlog_is_found_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.registry.mkdir(parents=True)
    claim(store, "5e55", Path("/home/ada/shop"), "cli", "2.1.325")
    found = LiveReader([store]).read()
    assert [(each.pid, each.source) for each in found] == [(os.getpid(), "inferred")]
    release(store, "5e55")
    assert LiveReader([store]).read() == []


def test_a_busy_client_has_no_sub_agent_that_waits(session: RunningSession) -> None:
    session.report("busy")
    session.write(user("look"), assistant(call("Edit"), message=CALLED), agent="a1", ago=20)
    session.write(user("go"))
    assert [each.state for each in read_one(session).agents] == ["working"]


def test_a_sub_agent_of_an_earlier_process_is_not_running(session: RunningSession) -> None:
    session.write(user("go"), ago=9000)
    session.write(user("look"), assistant(call("Edit"), message=CALLED), agent="a1", ago=9000)
    session.report("idle")
    assert read_one(session).agents == []


def test_sessions_that_need_the_user_come_first(tmp_path: Path) -> None:
    with running_sessions(tmp_path, 4) as sessions:
        for session, status in zip(sessions, STATUSES[:3], strict=False):
            session.report(*status[:2])
        sessions[3].report("idle", ago=900)
        states = [each.state for each in LiveReader([Store(tmp_path)]).read()]
    assert states == ["waiting for permission", "waiting for input", "working", "idle"]


def test_fifty_sessions_are_read_and_followed(tmp_path: Path) -> None:
    with running_sessions(tmp_path, 50) as sessions:
        for session in sessions:
            session.report("busy")
            lines = [user("go"), assistant(text("so"), message=usage(1000))] * 20
            session.write(*lines)
            session.write(user("look"), agent="a1")
        reader = LiveReader([Store(tmp_path)])
        assert len(reader.read()) == 50
        assert sum(len(each.agents) for each in reader.read()) == 50


def test_files_are_read_from_where_the_last_look_ended(
    session: RunningSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.register()
    session.write(*[user("go"), assistant(text("so" * 500), message=usage(1000))] * 50)
    reader = LiveReader([session.store])
    reader.read()
    starts: list[int] = []

    def read_lines(path: Path, start: int = 0) -> Iterator[Line]:
        starts.append(start)
        return jsonl.read_lines(path, start)

    monkeypatch.setattr(watch, "read_lines", read_lines)
    size = session.path.stat().st_size
    reader.read()
    assert starts == []
    session.write(user("more"))
    reader.read()
    assert starts == [size]


def test_a_large_file_starts_with_its_tail(session: RunningSession) -> None:
    session.register()
    lines = [user("go"), assistant(text("so" * 5000), message=usage(1000))]
    session.write(*lines * 100)
    reader = LiveReader([session.store])
    found = reader.read(most=100_000)[0]
    assert (found.state, found.is_cost_complete) == ("waiting for input", False)
    looks = 1
    while not found.is_cost_complete:
        found, looks = reader.read(most=100_000)[0], looks + 1
    assert looks > 5
    assert found.cost_usd == pytest.approx(0.3)


def test_many_large_files_share_the_bytes_of_a_look(tmp_path: Path) -> None:
    lines = [user("go"), assistant(text("so" * 5000), message=usage(1000))]
    with running_sessions(tmp_path, 5) as sessions:
        for session in sessions:
            session.report("busy")
            session.write(*lines * 30)
            session.write(*lines * 30, agent="a1")
        reader = LiveReader([Store(tmp_path)])
        sizes: list[int] = []
        real = LiveFile.refresh

        def refresh(file: LiveFile, most: int | None) -> int:
            sizes.append(real(file, most))
            return sizes[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LiveFile, "refresh", refresh)
            reader.read(most=500_000)
        assert 500_000 < sum(sizes) < 500_000 + 10 * 80_000
        while not all(each.is_cost_complete for each in reader.read(most=500_000)):
            pass
        assert {round(each.cost_usd, 6) for each in reader.read()} == {0.18}


@pytest.mark.parametrize("most", [None, 3000])
def test_costs_of_the_samples_equal_those_of_opened_sessions(most: int | None) -> None:
    paths = sorted(DATA.rglob("*.jsonl"))
    assert len(paths) > 10
    for path in paths:
        if not path.read_bytes().endswith(b"\n"):
            continue
        messages = open_session(path).messages
        costs = [cost_of(each.model, each.usage, each.started) for each in messages]
        followed = LiveFile(path)
        while followed.refresh(most):
            pass
        assert followed.figures.cost() == pytest.approx(sum(c or 0 for c in costs)), path


def test_the_installed_client_is_asked_about_sessions_without_a_status(
    session: RunningSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [{"sessionId": session.id, "status": "waiting", "waitingFor": "permission prompt"}]
    program = _install_client(tmp_path / "bin", f"echo '{json.dumps(listed)}'")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    session.register()
    session.write(user("go"))
    reader = LiveReader([session.store])
    end = time.monotonic() + 5
    while (found := reader.read()[0]).source == "inferred":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert found.state == "waiting for permission"
    assert (tmp_path / "bin/asked").read_text() == f"agents --json {session.store.root}\n"


@pytest.mark.parametrize("answer", ["exit 1", "echo hello", "echo '{}'", "sleep 9"])
def test_a_client_that_cannot_answer_is_asked_once(
    session: RunningSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    program = _install_client(tmp_path / "bin", answer)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    session.register()
    assert not list_running(session.store, timeout=0.3)
    report = ClientReport(session.store, pause=0, timeout=0.3)
    assert report.status_of(session.id) is None
    time.sleep(0.6)
    asked = (tmp_path / "bin/asked").read_text()
    if answer != "echo '{}'":
        assert report.status_of(session.id) is None
        assert (tmp_path / "bin/asked").read_text() == asked


def test_no_client_is_asked_about_reported_sessions(
    session: RunningSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _install_client(tmp_path / "bin", "exit 0")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    session.report("busy")
    read_one(session)
    time.sleep(0.3)
    assert not (tmp_path / "bin/asked").exists()


def _install_client(folder: Path, answer: str) -> Path:
    """Install a program named `claude` that notes how it was called."""
    folder.mkdir()
    program = folder / "claude"
    note = f'echo "$@" "$CLAUDE_CONFIG_DIR" >> {folder}/asked'
    program.write_text(f"#!/bin/sh\n{note}\n{answer}\n")
    program.chmod(0o755)
    return program
