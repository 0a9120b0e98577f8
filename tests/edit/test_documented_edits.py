"""Clones and transforms do what public documents of the format ask of them, line by line."""

import json
from pathlib import Path

import pytest

from support.build import (
    SESSION,
    Fields,
    assistant,
    call,
    line,
    nth,
    result,
    session,
    text,
    thinking,
    user,
)
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.clone import plan_clone
from turnlog.edit.plan import Plan, carry_out
from turnlog.edit.plan_builder import EditOptions, build_plan
from turnlog.edit.transforms import TransformOptions
from turnlog.store.paths import Store

FOREIGN = "deadbeef-0000-4000-8000-000000000000"


def snapshot(message_id: str, inner: str) -> bytes:
    held = {"messageId": inner, "timestamp": "2026-11-15T06:00:00Z"}
    return line("file-history-snapshot", message_id=message_id, snapshot=held)


LINES = (
    line("queue-operation", operation="enqueue", content="first"),
    user("first"),
    assistant(thinking("hm", "EpMCCkYI"), message_id="m1"),
    assistant(text("I look"), message_id="m1"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    result("A", "till.py"),
    assistant(text("done"), message_id="m2"),
    snapshot(nth(2), nth(2)),
    snapshot(nth(6), FOREIGN),
    line("summary", summary="A shop", leaf_uuid=nth(7)),
)


@pytest.fixture
def source(tmp_path: Path) -> Session:
    path = tmp_path / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(*LINES))
    return open_session(path)


@pytest.fixture
def clone(source: Session, tmp_path: Path) -> Session:
    made = plan_clone(Store(tmp_path), source, Plan(source))
    made.path.write_bytes(b"".join(made.files[made.path]))
    return open_session(made.path)


def edited(source: Session, *names: str, keep_last: int = 0) -> Session:
    after = source.path.parents[2] / "after" / source.path.name
    after.parent.mkdir()
    plan = build_plan(source, EditOptions(list(names), TransformOptions(keep_last)))
    after.write_bytes(b"".join(carry_out(plan)))
    return open_session(after)


def values(whole: Session, kind: str = "") -> list[Fields]:
    found = [json.loads(raw) for raw in whole.path.read_bytes().splitlines()]
    return [value for value in found if kind in ("", value["type"])]


def new_ids(source: Session, clone: Session) -> dict[str | None, str | None]:
    """Map each uuid to its new one."""
    pairs = zip(values(source), values(clone), strict=True)
    return {None: None} | {old["uuid"]: new["uuid"] for old, new in pairs if "uuid" in old}


def test_every_line_of_a_clone_names_the_clone(source: Session, clone: Session) -> None:
    named = {value["sessionId"] for value in values(clone) if "sessionId" in value}
    assert named == {clone.id} != {source.id}


def test_every_parent_of_a_clone_is_the_new_uuid_of_the_old_parent(
    source: Session, clone: Session
) -> None:
    ids = new_ids(source, clone)
    parents = [
        (ids[old["parentUuid"]], new["parentUuid"])
        for old, new in zip(values(source), values(clone), strict=True)
        if "uuid" in old
    ]
    assert [expected for expected, _ in parents] == [found for _, found in parents]
    assert set(ids) & set(ids.values()) == {None}


def test_queue_lines_of_a_clone_get_no_uuid(clone: Session) -> None:
    (queued,) = values(clone, "queue-operation")
    assert (queued["sessionId"], queued["content"]) == (clone.id, "first")
    assert "uuid" not in queued


def test_snapshots_of_a_clone_name_its_entries_and_keep_ids_of_others(
    source: Session, clone: Session
) -> None:
    ids = new_ids(source, clone)
    first, second = values(clone, "file-history-snapshot")
    assert (first["messageId"], first["snapshot"]["messageId"]) == (ids[nth(2)], ids[nth(2)])
    assert (second["messageId"], second["snapshot"]["messageId"]) == (ids[nth(6)], FOREIGN)


def test_the_summary_of_a_clone_names_its_own_leaf(source: Session, clone: Session) -> None:
    (summary,) = values(clone, "summary")
    assert summary["leafUuid"] == new_ids(source, clone)[nth(7)]


def test_messages_of_a_clone_keep_content_and_signatures(source: Session, clone: Session) -> None:
    answers = [
        [value["message"] for value in values(whole, "assistant")] for whole in (source, clone)
    ]
    assert answers[0] == answers[1]
    assert answers[1][0]["content"][0]["signature"] == "EpMCCkYI"


def test_stripping_tools_drops_calls_and_results_and_closes_the_chain(source: Session) -> None:
    after = edited(source, "strip_tools")
    assert (after.calls, after.orphans, after.tree.orphans) == ([], [], [])
    assert b"tool_result" not in after.path.read_bytes()
    said = [
        block["text"] for each in after.context() for block in each["content"] if "text" in block
    ]
    assert said == ["first", "I look", "done"]
    assert [finding for finding in check_session(after) if finding.is_serious] == []


def test_a_snapshot_of_a_stripped_entry_names_the_entry_before_it(source: Session) -> None:
    _, second = values(edited(source, "strip_tools"), "file-history-snapshot")
    assert second["messageId"] == nth(4)


def test_stripping_thinking_leaves_usage_as_the_api_counted_it(source: Session) -> None:
    after = edited(source, "strip_thinking")
    assert b'"thinking"' not in after.path.read_bytes()
    assert [message.usage for message in after.messages] == [
        message.usage for message in source.messages
    ]


def test_compressing_writes_a_summary_line_that_names_the_tip(source: Session) -> None:
    after = edited(source, "compress")
    *_, summary = values(after, "summary")
    assert after.tree.active_leaf is not None
    assert summary["leafUuid"] == after.tree.chain[after.tree.active_leaf].uuid
    assert [value["subtype"] for value in values(after, "system")] == ["compact_boundary"]
