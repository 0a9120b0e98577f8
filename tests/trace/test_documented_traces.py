"""Traces of flat transcripts, and what the hook makes of them, as cc-langfuse's document asks."""

from pathlib import Path
from typing import Any

from support.build import call, moment, result_block, session, text, user
from support.hooked_client import Client
from support.otlp_receiver import Receiver, attributes
from support.traces import flat, spans, times_of
from turnlog.trace.attributes import attributes_of
from turnlog.trace.progress import load_progress
from turnlog.trace.sender import Sender
from turnlog.trace.settle import Patience
from turnlog.trace.spool import Spool
from turnlog.trace.targets import Target


def asked(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "content": content, **fields}


def answered(message_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"id": message_id, "role": "assistant", "content": content} | fields
    return {"message": message}


def test_a_message_without_usage_has_no_usage_details(tmp_path: Path) -> None:
    counted = {"input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 20}
    turns = asked("q1"), answered("m1", "a"), asked("q2"), answered("m2", "b", usage=counted)
    _, without, _, with_usage = map(attributes_of, spans(flat(tmp_path, *turns)))
    assert "langfuse.observation.usage_details" not in without
    assert with_usage["langfuse.observation.usage_details"]


def test_a_timestamp_that_is_no_string_is_none(tmp_path: Path) -> None:
    odd = asked("q", timestamp=12345)
    turn, generation = spans(flat(tmp_path, odd, answered("m", "a", timestamp=moment(3))))
    assert times_of([turn])[0][1] is None
    assert attributes_of(turn)["langfuse.observation.metadata.missing_times"] == "start"
    assert times_of([generation])[0][2] == 3


def test_a_line_with_a_result_among_texts_starts_no_turn(tmp_path: Path) -> None:
    called = answered("m1", [call("Read", call_id="t1")])
    mixed = asked([text("and"), result_block("t1")])
    found = spans(flat(tmp_path, asked("q"), called, mixed, answered("m2", "a")))
    assert [span.name for span in found] == ["Turn 1", "unknown", "Read", "unknown"]


# The hook


def turn(client: Client) -> None:
    client.ask()
    client.say(is_late=False)
    client.close()


def send(spool: Spool) -> list[str]:
    sender = Sender(spool, spool.folder.parent, Patience(0, 0, 0, 0))
    assert sender.run()
    return [f"{report.sent} sent, {report.open} open" for report in sender.reports]


def turns_of(receiver: Receiver, client: Client) -> set[str]:
    found = [attributes(span) for span in receiver.spans.values()]
    return {each["langfuse.trace.name"] for each in found if each["session.id"] == client.id}


def follow(client: Client, previous: str) -> None:
    """Start a session whose first line names another one."""
    client.path.write_bytes(session(user("copied", uuid="c", parent=None), session_id=previous))
    client.tip = "c"


def test_the_hook_passes_over_a_line_that_cannot_be_read(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]
    with client.path.open("ab") as file:
        file.write(b"{not json\n")
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]
    assert turns_of(receiver, client) == {"Turn 1", "Turn 2"}
    target = Target(f"{client.to}/v1/traces").name
    known = load_progress(spool.folder.parent, target, client.id)
    assert known
    assert known.turns == 2


def test_an_unanswered_prompt_is_sent_with_its_answer(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    turn(client)
    client.ask()
    client.call_hooks("Stop")
    send(spool)
    assert turns_of(receiver, client) == {"Turn 1"}
    client.say(is_late=False)
    client.close()
    send(spool)
    assert turns_of(receiver, client) == {"Turn 1", "Turn 2"}


def test_a_previous_session_that_is_not_there_is_no_failure(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    follow(client, "00000000-0000-4000-8000-00000000dead")
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]
    assert (spool.paths(), spool.failures) == ([], [])


def test_a_previous_session_that_cannot_be_read_does_not_hold_up_the_current_one(
    client: Client, spool: Spool, receiver: Receiver
) -> None:
    previous = "00000000-0000-4000-8000-00000000dead"
    (client.folder / f"{previous}.jsonl").mkdir()
    follow(client, previous)
    turn(client)
    assert send(spool) == ["2 sent, 0 open"]
    assert turns_of(receiver, client) == {"Turn 2"}
