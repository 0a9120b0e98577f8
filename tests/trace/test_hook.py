"""The sender: what becomes of the notes that hooks leave."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from support.build import encode, session, user
from support.hooked_client import Client
from support.otlp_receiver import Receiver, attributes
from turnlog.trace import delivery
from turnlog.trace.ledger import Ledger
from turnlog.trace.note import leave_note
from turnlog.trace.progress import load_progress, save_progress
from turnlog.trace.route_capture import capture
from turnlog.trace.sender import Sender
from turnlog.trace.settle import PATIENCE, Patience
from turnlog.trace.spool import Spool
from turnlog.trace.targets import Target
from turnlog.trace.unsent_tail import is_tail_sufficient
from turnlog.trace.variable_origin import HookPlaces, ProjectVariables

AT_ONCE = Patience(0, 0, 0, 0)
NOBODY = 2**31 - 2
"""The number of no process."""


@pytest.fixture(autouse=True)
def timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_TRACE_TIMEOUT", "10")


def another(client: Client) -> Client:
    """Another session of the same project."""
    return Client(client.spool, client.to, client.folder, (client.clock, client.names))


def send(spool: Spool, patience: Patience = AT_ONCE, again: bool = False) -> list[str]:
    """Send pending notes; return which spans of which session were sent."""
    sender = Sender(spool, spool.folder.parent, patience)
    assert sender.run(again)
    return [f"{report.sent} sent, {report.open} open" for report in sender.reports]


def turn(client: Client) -> None:
    """A turn from its prompt to the last line."""
    client.ask()
    client.say(is_late=False)
    client.close()


def problems(spool: Spool) -> list[str]:
    """Send pending notes; return why some are still pending."""
    sender = Sender(spool, spool.folder.parent, AT_ONCE)
    assert sender.run()
    return list(sender.problems.values())


def names(receiver: Receiver) -> list[str]:
    return [span.name for request in receiver.requests for span in request.spans]


def target(client: Client) -> str:
    return Target(f"{client.to}/v1/traces").name


def test_a_turn_is_sent_once_it_is_over(client: Client, spool: Spool, receiver: Receiver) -> None:
    client.ask()
    client.work()
    client.say(is_late=True)
    assert send(spool) == ["2 sent, 2 open"]
    client.close()
    assert send(spool) == ["2 sent, 0 open"]
    assert spool.paths() == []
    assert sorted(names(receiver)) == ["Bash", "Turn 1", "claude-opus-5-5", "claude-opus-5-5"]


def test_a_turn_that_another_hook_sends_back_is_sent_when_it_is_through(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    client.ask()
    client.say(is_late=False)
    client.be_sent_back()
    assert send(spool) == ["0 sent, 2 open"]
    client.say(is_late=False)
    client.close()
    assert send(spool) == ["3 sent, 0 open"]
    (turn,) = [span for span in receiver.spans.values() if span.name == "Turn 1"]
    assert len(turn.events) == 2


def test_the_last_lines_are_waited_for(client: Client, spool: Spool, receiver: Receiver) -> None:
    client.ask()
    client.say(is_late=True)
    timer = Timer(0.1, client.close)
    timer.start()
    assert send(spool, PATIENCE) == ["2 sent, 0 open"]
    timer.join()


def test_old_clients_have_written_all_when_they_call(client: Client, spool: Spool) -> None:
    client.is_new = False
    turn(client)
    assert send(spool, Patience(whole=0.1)) == ["2 sent, 0 open"]


def test_only_what_was_appended_is_read(
    client: Client, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def watched(session: Any, *others: Any) -> bool:
        read.append(session.nodes[0].offset)
        return is_tail_sufficient(session, *others)

    monkeypatch.setattr(delivery, "is_tail_sufficient", watched)
    sizes: list[int] = []
    for _ in range(4):
        sizes.append(client.path.stat().st_size if client.path.exists() else 0)
        turn(client)
        assert send(spool) == ["2 sent, 0 open"]
    assert read == [0, *sizes[1:3]]
    known = load_progress(spool.folder.parent, target(client), client.id)
    assert known
    assert (known.turns, known.spans, known.mark and known.mark.turns) == (4, 8, 3)


def test_what_a_backend_that_is_down_missed_is_sent_when_it_is_up(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]
    receiver.always = 401
    for _ in range(2):
        turn(client)
        send(spool)
    assert len(spool.paths()) == 2
    (problem,) = problems(spool)
    assert "401" in problem
    receiver.always = 200
    turn(client)
    assert send(spool) == ["6 sent, 0 open"]
    assert (spool.paths(), problems(spool)) == ([], [])
    numbers = sorted(attributes(s)["langfuse.trace.name"] for s in receiver.spans.values())
    assert numbers == [f"Turn {n}" for n in (1, 1, 2, 2, 3, 3, 4, 4)]


def test_after_one_failure_no_other_session_is_tried(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    receiver.always = 401
    for each in (client, another(client)):
        turn(each)
    assert len(send(spool)) == 1
    receiver.always = 200
    assert send(spool) == ["2 sent, 0 open", "2 sent, 0 open"]


def test_a_target_that_is_down_does_not_hold_up_another(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    down = another(client)
    down.to = "http://127.0.0.1:9"
    for each in (down, client):
        turn(each)
    assert sorted(send(spool)) == ["0 sent, 0 open", "2 sent, 0 open"]
    assert len(spool.paths()) == 1


def test_what_is_refused_for_good_is_told_and_not_tried_again(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    receiver.always = 400
    turn(client)
    assert send(spool) == ["0 sent, 0 open"]
    assert spool.paths() == []
    (failure,) = spool.failures
    assert failure.session == client.id
    assert "400" in failure.reason
    receiver.always = 200
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]
    assert send(spool, again=True) == ["2 sent, 0 open"]
    assert spool.failures == []
    assert len(receiver.spans) == 4


def test_a_session_that_ends_is_sent_to_its_last_line(client: Client, spool: Spool) -> None:
    client.ask()
    client.work()
    client.be_interrupted()
    client.ask()
    client.end()
    assert send(spool, Patience(whole=1, quiet=0.05)) == ["3 sent, 0 open"]


def test_subagents_in_the_background_are_sent_when_they_are_done(
    client: Client, spool: Spool
) -> None:
    client.ask()
    client.delegate(in_background=True)
    client.say(is_late=False)
    client.close()
    assert send(spool) == ["2 sent, 4 open"]
    client.notify()
    client.say(is_late=False)
    client.close()
    assert send(spool) == ["7 sent, 0 open"]


def test_the_end_of_a_session_counts_though_another_note_comes_after_it(
    client: Client, spool: Spool
) -> None:
    client.ask()
    client.delegate(in_background=True)
    client.end()
    client.say(is_late=False)
    client.close()
    assert send(spool) == ["6 sent, 0 open"]
    client.start("resume")
    client.ask()
    client.work()
    client.call_hooks("SubagentStop")
    assert send(spool) == ["1 sent, 2 open"]


@contextmanager
def registered(client: Client, pid: int) -> Generator[None]:
    """A client that says which session it has open."""
    folder = client.folder.parent.parent / "sessions"
    folder.mkdir(exist_ok=True)
    claim = folder / f"{pid}.json"
    claim.write_bytes(encode({"sessionId": client.id}))
    yield
    claim.unlink()


def test_a_session_whose_client_was_killed_is_caught_up_when_another_starts(
    client: Client, spool: Spool
) -> None:
    client.ask()
    client.work()
    with registered(client, os.getpid()):
        another(client).start("startup")
        assert send(spool) == []
    another(client).start("startup")
    assert send(spool) == ["1 sent, 2 open"]
    with registered(client, NOBODY):
        another(client).start("startup")
        assert send(spool) == ["2 sent, 0 open"]
    assert spool.paths() == []


def test_so_is_one_that_nobody_has_touched_for_long(client: Client, spool: Spool) -> None:
    os.utime(spool.folder / "since", (0, 0))
    client.ask()
    client.work()
    client.die()
    another(client).start("startup")
    assert send(spool) == ["3 sent, 0 open"]


def test_sessions_from_before_the_hooks_were_installed_are_left_alone(
    client: Client, spool: Spool
) -> None:
    client.ask()
    client.work()
    client.die()
    another(client).start("startup")
    assert send(spool) == []


def test_the_session_that_another_goes_on_with_is_recovered(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    client.ask()
    client.work()
    client.die()
    later = another(client)
    first = session(user("copied", uuid="c", parent=None), session_id=client.id)
    later.path.write_bytes(first)
    later.tip = "c"
    turn(later)
    assert send(spool) == ["2 sent, 0 open", "3 sent, 0 open"]
    sessions = {attributes(span)["session.id"] for span in receiver.spans.values()}
    assert sessions == {client.id, later.id}


def test_a_fork_sends_only_what_is_its_own(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    turn(client)
    client.end()
    client.fork()
    turn(client)
    assert send(spool) == ["2 sent, 0 open", "2 sent, 0 open"]
    assert len(receiver.spans) == 4


def test_a_session_is_found_where_its_project_was_moved(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    turn(client)
    client.folder.rename(client.folder.with_name("-moved"))
    assert send(spool) == ["2 sent, 0 open"]


def test_a_session_whose_file_is_gone_is_a_failure(client: Client, spool: Spool) -> None:
    turn(client)
    client.path.unlink()
    assert send(spool, Patience(whole=0.1)) == []
    assert [failure.reason for failure in spool.failures] == [f"{client.path} does not exist"]
    assert spool.paths() == []


def test_a_session_that_has_no_file_yet_is_none(client: Client, spool: Spool) -> None:
    client.start("startup")
    assert send(spool) == []
    assert (spool.paths(), spool.failures) == ([], [])


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (b"", "not JSON"),
        (b"{torn", "not JSON"),
        (b"[1]", "transcript_path"),
        (b'{"transcript_path": 1}', "transcript_path"),
    ],
)
def test_what_makes_no_sense_is_a_failure(spool: Spool, told: bytes, reason: str) -> None:
    (fields,) = capture(HookPlaces(["--to", "http://127.0.0.1:9"], os.environ))
    leave_note(str(spool.folder), fields, told)
    assert send(spool) == []
    (failure,) = spool.failures
    assert reason in failure.reason
    assert spool.paths() == []


@pytest.mark.parametrize(
    ("settings", "is_theirs"),
    [
        (b'{"env": {"TURNLOG_TRACE_TO": "x"}}', True),
        (b'{"\\u0065nv": {"TURNLOG_TRACE_TO": "x"}}', True),
        (b'{"env": {"TURNLOG_TRACE_TO": "a\\\\b"}}\0', True),
        (b'{"env": {"OTHER": "x"}}', False),
        (b'{"env": {"OTHER": "x"}', True),
        (b'{"model": "opus"', False),
    ],
)
def test_settings_that_may_set_a_variable_are_parsed(
    tmp_path: Path, settings: bytes, is_theirs: bool
) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_bytes(settings)
    variables = ProjectVariables({"TURNLOG_TRACE_TO": "x"}, [str(tmp_path)])
    assert variables.sets("TURNLOG_TRACE_TO") == is_theirs


@pytest.mark.parametrize("to", ["nowhere", "out.json", ""])
def test_a_note_without_a_backend_is_a_failure(client: Client, spool: Spool, to: str) -> None:
    client.to = to
    turn(client)
    (problem,) = problems(spool)
    assert [failure.reason for failure in spool.failures] == [problem]
    assert spool.paths() == []


def test_a_session_that_goes_wrong_holds_up_no_other(client: Client, spool: Spool) -> None:
    wrong = another(client)
    in_the_way = spool.folder.parent / target(client) / "sessions" / f"{wrong.id}.json"
    in_the_way.mkdir(parents=True)
    for each in (wrong, client):
        turn(each)
    assert send(spool) == ["2 sent, 0 open"]
    assert [failure.session for failure in spool.failures] == [wrong.id]
    in_the_way.rmdir()
    assert send(spool) == ["0 sent, 0 open"]
    assert spool.paths() == []


def test_a_note_that_is_left_at_the_last_moment_is_taken(
    client: Client, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = another(client)
    save = Ledger.save

    def save_late(self: Ledger) -> None:
        """The last thing that a sender does before it lets go of the lock."""
        save(self)
        if not late.path.exists():
            turn(late)

    monkeypatch.setattr(Ledger, "save", save_late)
    turn(client)
    assert send(spool) == ["2 sent, 0 open", "2 sent, 0 open"]


def test_what_is_told_of_a_session_while_it_is_sent_counts(
    client: Client, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_late(*arguments: Any) -> None:
        if client.background:
            client.end()
        save_progress(*arguments)

    monkeypatch.setattr(delivery, "save_progress", save_late)
    client.ask()
    client.delegate(in_background=True)
    client.say(is_late=False)
    client.close()
    assert send(spool) == ["2 sent, 4 open", "4 sent, 0 open"]
    assert spool.paths() == []


def test_who_finds_another_at_it_goes(client: Client, spool: Spool) -> None:
    turn(client)
    with spool.lock() as is_ours:
        assert is_ours
        assert not Sender(spool, spool.folder.parent, AT_ONCE).run()
    assert send(spool) == ["2 sent, 0 open"]


def test_turns_that_cc_langfuse_sent_are_not_sent_to_langfuse_again(
    client: Client, spool: Spool, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HOST": receiver.url, "PUBLIC_KEY": "pk", "SECRET_KEY": "sk"}.items():
        monkeypatch.setenv(f"LANGFUSE_{name}", value)
    client.to = "langfuse"
    for _ in range(2):
        turn(client)
    lines = len(client.path.read_bytes().splitlines())
    folder = client.folder.parent.parent / "state"
    folder.mkdir()
    # The last line decides, not the count.
    noted = {client.id: {"last_line": lines, "turn_count": 9, "updated": "2026-11-15T00:00:00Z"}}
    (folder / "cc-langfuse_state.json").write_bytes(encode(noted))
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]
    assert {attributes(s)["langfuse.trace.name"] for s in receiver.spans.values()} == {"Turn 3"}
    noted[client.id] |= {"last_line": 99}
    (folder / "cc-langfuse_state.json").write_bytes(encode(noted))
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]


@pytest.mark.parametrize(
    ("noted", "sent"),
    [({"turn_count": 1}, 2), ({"last_line": "x"}, 4), ({}, 4), (None, 4), ({"turn_count": -1}, 4)],
)
def test_what_cc_langfuse_notes_may_be_anything(
    client: Client,
    spool: Spool,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    noted: Any,
    sent: int,
) -> None:
    for name, value in {"HOST": receiver.url, "PUBLIC_KEY": "pk", "SECRET_KEY": "sk"}.items():
        monkeypatch.setenv(f"LANGFUSE_{name}", value)
    folder = client.folder.parent.parent / "state"
    folder.mkdir()
    (folder / "cc-langfuse_state.json").write_bytes(encode({client.id: noted}))
    client.to = "langfuse"
    for _ in range(2):
        turn(client)
    send(spool)
    assert len(receiver.spans) == sent
