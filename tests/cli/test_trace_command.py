"""turnlog trace: output, spans and files."""

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.conftest import Run
from support.build import SESSION, assistant, call, encode, result, session, text, user
from support.otlp_receiver import Receiver, attributes, receiving

KEY = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyzAB"[::-1][:36]
OTHER = SESSION.replace("5e55", "07e4")
CONVERSATION = (
    user("q1"),
    assistant(call("Bash", {"command": f"login {KEY}"}), message_id="m1"),
    result("toolu_1", "denied", is_error=True),
    assistant(text("a1"), message_id="m2"),
)
PLACES = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_HOST", "TURNLOG_TRACE_TO")


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture(autouse=True)
def file(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session, and a home of turnlog's own."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*CONVERSATION))
    return path


def test_a_session_is_sent_once(turnlog: Run, receiver: Receiver) -> None:
    first = turnlog("trace", "last", "--to", receiver.url)
    assert (first.code, first.out) == (0, f"{SESSION}  1 turn, 4 spans sent\n")
    again = turnlog("trace", "last", "--to", receiver.url)
    assert (again.code, again.out) == (0, f"{SESSION}  0 turns, 0 spans sent, 4 skipped\n")
    assert len(receiver.requests) == 1


@pytest.fixture
def langfuse(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: Path
) -> Receiver:
    """Langfuse, to which cc-langfuse sent the first of two turns."""
    for name, value in zip(PLACES, ("pk", "sk", receiver.url), strict=False):
        monkeypatch.setenv(name, value)
    file.write_bytes(session(*CONVERSATION, user("q2"), assistant(text("a2"), message_id="m3")))
    state = tmp_path / "state" / "cc-langfuse_state.json"
    state.parent.mkdir()
    state.write_bytes(encode({SESSION: {"last_line": 4, "turn_count": 2}}))
    return receiver


def test_what_cc_langfuse_sent_is_not_sent_again(turnlog: Run, langfuse: Receiver) -> None:
    first = turnlog("trace", "last", "--to", "langfuse")
    assert first.code == 0
    assert first.out.startswith(f"{SESSION}  1 turn, 2 spans sent, 4 skipped\n")
    names = {attributes(span)["langfuse.trace.name"] for span in langfuse.spans.values()}
    assert names == {"Turn 2"}
    again = turnlog("trace", "last", "--to", "langfuse")
    assert again.out == f"{SESSION}  0 turns, 0 spans sent, 6 skipped\n"


def test_what_cc_langfuse_sent_is_sent_where_it_never_sent_anything(
    turnlog: Run, langfuse: Receiver
) -> None:
    assert "2 turns, 6 spans sent" in turnlog("trace", "last", "--to", langfuse.url).out


def test_what_cc_langfuse_sent_is_sent_again_when_asked_for(
    turnlog: Run, langfuse: Receiver
) -> None:
    assert "2 turns, 6 spans sent" in turnlog("trace", "last", "--to", "langfuse", "--again").out


def test_what_was_sent_before_is_sent_again_when_asked_for(
    turnlog: Run, receiver: Receiver
) -> None:
    turnlog("trace", "last", "--to", receiver.url)
    assert "4 spans sent" in turnlog("trace", "last", "--to", receiver.url, "--again").out
    assert len(receiver.spans) == 4


def test_only_what_is_new_of_a_session_that_grew_is_sent(
    turnlog: Run, receiver: Receiver, file: Path
) -> None:
    turnlog("trace", "last", "--to", receiver.url)
    file.write_bytes(session(*CONVERSATION, user("q2"), assistant(text("a2"))))
    assert turnlog("trace", "last", "--to", receiver.url).out == (
        f"{SESSION}  1 turn, 2 spans sent, 4 skipped\n"
    )


def test_of_a_fork_only_what_is_its_own_is_sent(
    turnlog: Run, receiver: Receiver, file: Path
) -> None:
    turnlog("trace", "last", "--to", receiver.url)
    more = (user("instead"), assistant(text("a2"), message_id="m3"))
    fork = file.with_name(f"{OTHER}.jsonl")
    fork.write_bytes(session(*CONVERSATION, *more, session_id=OTHER))
    assert turnlog("trace", OTHER, "--to", receiver.url).out == (
        f"{OTHER}  1 turn, 2 spans sent, 4 skipped\n"
    )
    sessions = {attributes(span)["session.id"] for span in receiver.requests[1].spans}
    assert sessions == {OTHER}


def test_the_last_turn_of_a_session_that_is_open_waits(
    turnlog: Run, receiver: Receiver, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "sessions").mkdir()
    claim = tmp_path / "sessions" / f"{os.getpid()}.json"
    claim.write_bytes(encode({"sessionId": SESSION}))
    out = turnlog("trace", "last", "--to", receiver.url).out
    assert out == f"{SESSION}  1 turn, 2 spans sent, 2 open\n"
    claim.unlink()
    out = turnlog("trace", "last", "--to", receiver.url).out
    assert out == f"{SESSION}  1 turn, 2 spans sent, 2 skipped\n"


def test_all_sessions_or_those_of_late_are_sent(
    turnlog: Run, receiver: Receiver, file: Path
) -> None:
    other = file.with_name(f"{OTHER}.jsonl")
    old = user("old", uuid="old", timestamp="2020-01-01T00:00:00Z")
    late = assistant(text("a"), uuid="answer", timestamp="2020-01-01T00:00:09Z")
    other.write_bytes(session(old, late, session_id=OTHER))
    recent = json.loads(
        turnlog("trace", "--since", "2026-01-01", "--to", receiver.url, "--json").out
    )
    assert [(report["session"], report["sent"]) for report in recent] == [(SESSION, 4)]
    every = json.loads(turnlog("trace", "--all", "--to", receiver.url, "--json").out)
    assert {report["session"]: report["sent"] for report in every} == {SESSION: 0, OTHER: 2}


def test_secrets_are_masked_unless_all_is_wanted(turnlog: Run, receiver: Receiver) -> None:
    turnlog("trace", "last", "--to", receiver.url)
    assert KEY not in str(receiver.requests[0].body)
    turnlog("trace", "last", "--to", receiver.url, "--again", "--content", "full")
    assert KEY in str(receiver.requests[1].body)


def test_options_reach_the_spans(turnlog: Run, receiver: Receiver) -> None:
    options = ("--layout", "nested", "--user", "ada", "--max-chars", "1", "--content", "none")
    assert "5 spans sent" in turnlog("trace", "last", "--to", receiver.url, *options).out
    assert {attributes(span)["user.id"] for span in receiver.spans.values()} == {"ada"}
    assert "denied" not in str(receiver.requests[0].body)


def test_what_could_not_be_sent_is_told_and_is_a_failure(
    turnlog: Run, receiver: Receiver, file: Path
) -> None:
    file.with_name(f"{OTHER}.jsonl").write_bytes(session(*CONVERSATION, session_id=OTHER))
    receiver.always = 401
    found = turnlog("trace", "--all", "--to", receiver.url)
    assert found.code == 1
    assert "0 turns, 0 spans sent, 4 failed" in found.out
    assert "401" in found.err
    assert "not tried: 1 session" in found.err
    receiver.always = 200
    assert turnlog("trace", SESSION, "--to", receiver.url).code == 0


def test_langfuse_is_reached_by_its_variables(
    turnlog: Run, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGFUSE_HOST", receiver.url)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    assert turnlog("trace", "last", "--to", "langfuse").code == 0
    (got,) = receiver.requests
    assert got.path == "/api/public/otel/v1/traces"
    assert got.headers["authorization"] == "Basic cGs6c2s="
    assert got.headers["x-langfuse-ingestion-version"] == "4"


def test_the_target_may_be_in_the_configuration(
    turnlog: Run, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "turnlog").mkdir()
    table = f'[trace]\nto = "phoenix"\n[trace.phoenix]\nhost = "{receiver.url}"\n'
    (tmp_path / "turnlog" / "config.toml").write_text(table, "utf-8")
    assert turnlog("trace", "last").code == 0
    assert receiver.requests[0].resource["openinference.project.name"] == "claude-code"


def test_a_dry_run_draws_the_spans_with_their_times(turnlog: Run) -> None:
    assert turnlog("trace", "last", "--dry-run").out == snapshot("""\
span                                      start       time  working  state
5e551011-0000-4000-8000-000000000000
  Turn 1                    2026-11-15 06:00:01     3.000s
    claude-opus-5-5                     +0.000s     1.000s
    Bash                                +1.000s     1.000s           failed
    claude-opus-5-5                     +2.000s     1.000s
""")


def test_a_dry_run_in_json_has_all_that_would_be_sent(turnlog: Run) -> None:
    found = json.loads(turnlog("trace", "last", "--dry-run", "--json").out)
    assert [span["name"] for span in found] == [
        "Turn 1",
        "claude-opus-5-5",
        "Bash",
        "claude-opus-5-5",
    ]
    assert KEY not in json.dumps(found)


def test_spans_are_written_to_files(turnlog: Run, tmp_path: Path) -> None:
    plain, drawn = tmp_path / "t.json", tmp_path / "p.json"
    assert turnlog("trace", "last", "--to", str(plain)).out == f"{plain}: 1 turn, 4 spans\n"
    assert len(json.loads(plain.read_bytes())["resourceSpans"]) == 1
    assert turnlog("trace", "--to", "perfetto", str(drawn), "last").code == 0
    assert len(json.loads(drawn.read_bytes())["traceEvents"]) == 5


def test_json_about_a_written_file_is_all_that_is_printed(turnlog: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    (written,) = json.loads(turnlog("trace", SESSION, "--to", str(path), "--json").out)
    assert written["file"] == str(path)


@pytest.mark.parametrize(
    "arguments",
    [("last",), (), ("--all", "last", "--to", "http://x"), ("last", "--to", "langfuse")],
)
def test_what_makes_no_sense_is_a_mistake(turnlog: Run, arguments: tuple[str, ...]) -> None:
    assert turnlog("trace", *arguments).code == 2


def test_help_loads_no_opentelemetry() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from turnlog.cli.root import run; run(['trace', '--help']);"
        "sys.exit(any(name.startswith(('opentelemetry', 'requests')) for name in sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode
        == 0
    )
