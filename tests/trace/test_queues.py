"""Queues of targets: slow ones are waited for, dead ones delay nobody else."""

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.hook_projects import Project, turns_at
from support.hooked_client import Client, Clock, Names
from support.otlp_receiver import Receiver, receiving
from turnlog.cli.hook_status import print_status, status_of
from turnlog.store.paths import Store
from turnlog.trace.queue import QueueState, all_queues
from turnlog.trace.sender import Sender
from turnlog.trace.settle import Patience
from turnlog.trace.spool import Spool

AT_ONCE = Patience(0, 0, 0, 0)
Make = Callable[..., Project]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("TURNLOG_TRACE_TIMEOUT", raising=False)
    return tmp_path / "turnlog"


@pytest.fixture
def spool(home: Path) -> Spool:
    made = Spool(home / "trace" / "spool")
    made.begin()
    return made


@pytest.fixture
def make(tmp_path: Path, spool: Spool) -> Generator[Make]:
    world = (Clock(), Names())
    with ExitStack() as stack:

        def made(name: str, **more: str) -> Project:
            folder = tmp_path / name
            folder.mkdir()
            receiver = stack.enter_context(receiving())
            return Project(folder, tmp_path, receiver, "full", world, more)

        yield made


def turn(client: Client) -> None:
    client.ask()
    client.say(is_late=False)
    client.close()


def send(spool: Spool, patience: Patience = AT_ONCE) -> Sender:
    sender = Sender(spool, spool.folder.parent, patience)
    assert sender.run()
    return sender


def most_often(receiver: Receiver) -> int:
    """Return how many times the receiver got its most frequent span."""
    arrived = [span.span_id for request in receiver.requests for span in request.spans]
    return max(Counter(arrived).values(), default=0)


def wait_for(what: Callable[[], bool], seconds: float = 20) -> None:
    limit = time.time() + seconds
    while not what() and time.time() < limit:
        time.sleep(0.02)
    assert what()


def test_a_backend_that_needs_seconds_gets_each_span_once(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    receiver.delay = 2.5
    turn(client)
    send(spool)
    turn(client)
    send(spool)
    assert (len(receiver.spans), most_often(receiver), spool.paths()) == (4, 1, [])


def test_a_backend_slower_than_the_timeout_is_given_more_time(
    client: Client, spool: Spool, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_TRACE_TIMEOUT", "0.2")
    receiver.delay = 0.5
    for _ in range(5):
        turn(client)
        send(spool)
    assert spool.paths() == []
    assert len(receiver.spans) == 10
    assert receiver.asked == 5  # twice too late, then all that waits, then once for each hook


def test_a_target_that_failed_is_left_alone_for_a_while(
    client: Client, spool: Spool, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_TRACE_TIMEOUT", "0.05")
    receiver.always = 503
    patience = Patience(0, 0, 0, delay=0.4)
    turn(client)
    send(spool, patience)
    asked = receiver.asked
    receiver.always = 200
    turn(client)
    assert list(send(spool, patience).problems.values()) != []
    assert receiver.asked == asked
    time.sleep(0.4)
    assert send(spool, patience).problems == {}
    assert (len(receiver.spans), spool.paths()) == (4, [])


def test_each_failure_doubles_the_delay_up_to_ten_minutes() -> None:
    queue = QueueState()
    delays: list[float] = []
    for _ in range(40):
        queue.fail("down", 2.0, is_timeout=True)
        delays.append(queue.retry_at - time.time())
    for nth, delay in enumerate(delays[:8]):
        assert 2**nth - 0.1 <= delay <= 2 ** (nth + 1)
    assert len(set(delays)) > 30, "at random"
    assert max(delays) <= 600 == queue.timeout(60)


def test_status_tells_when_a_target_is_tried_again(
    client: Client, spool: Spool, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    client.to = "http://127.0.0.1:9"
    turn(client)
    send(spool, Patience(0, 0, 0, delay=300))
    held = status_of(Store(client.folder.parent.parent), spool)
    (queue,) = held["queues"]
    assert (queue["target"], queue["waiting"], queue["failures"]) == (
        "http://127.0.0.1:9/v1/traces",
        1,
        1,
    )
    assert 100 < queue["retry_in"] <= 300
    print_status(held)
    assert "1 note waiting, 1 failed attempt, next attempt in " in capsys.readouterr().out


def test_a_hook_s_sender_tries_again_by_itself(make: Make, spool: Spool) -> None:
    alpha = make("alpha", TURNLOG_TRACE_TIMEOUT="0.2")
    alpha.receiver.statuses.append(503)
    session = alpha.session()
    session.turn()
    session.hook()
    wait_for(lambda: turns_at(alpha) == 1)
    wait_for(lambda: spool.paths() == [])


def test_a_hung_target_does_not_delay_another(make: Make, spool: Spool) -> None:
    hung, well = make("hung", TURNLOG_TRACE_TIMEOUT="30"), make("well")
    hung.receiver.hangs = True
    one, other = hung.session(), well.session()
    one.turn()
    one.hook()
    wait_for(lambda: hung.receiver.asked == 1)
    for count in (1, 2):
        other.turn()
        other.hook()
        wait_for(lambda count=count: turns_at(well) == count, 5)
    assert hung.receiver.asked == 1
    hung.receiver.released.set()


def test_targets_are_served_side_by_side(client: Client, spool: Spool, receiver: Receiver) -> None:
    with receiving() as slow:
        slow.delay = 1.5
        behind = Client(client.spool, slow.url, client.folder, (client.clock, client.names))
        turn(behind)
        turn(client)
        start = time.time()
        send(spool)
        assert receiver.asked_at[0] - start < 1.4 < time.time() - start
    assert {each.target for each in all_queues(spool.folder).values()} >= {f"{slow.url}/v1/traces"}
