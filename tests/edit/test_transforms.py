"""The effect of each transform: what it removes and what it keeps."""

import json
from typing import Any

import pytest

from edit.conftest import Open
from support.build import (
    assistant,
    call,
    compaction,
    encode,
    line,
    nth,
    result,
    session,
    text,
    thinking,
    user,
)
from turnlog.conversation.session import Session, open_session
from turnlog.edit.plan import Plan, carry_out
from turnlog.edit.plan_builder import EditOptions, build_plan, prepared
from turnlog.edit.transforms import TransformOptions
from turnlog.errors import NotFound

LONG = "x" * 5000
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
CONVERSATION = session(
    user("first"),
    assistant(thinking("hm"), message_id="m1"),
    assistant(text("looking"), message_id="m1"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    assistant(call("Read", {"file_path": "/a"}, "B"), message_id="m1"),
    result("A", LONG, parent=nth(4), tool_use_result={"stdout": LONG, "stderr": ""}),
    result("B", [IMAGE], parent=nth(5)),
    assistant(text("done"), message_id="m2"),
    line("progress", data={"type": "hook_progress", "hookEvent": "Stop"}, uuid="p", parent=nth(8)),
    user("second", parent="p"),
    assistant(thinking("only a call"), message_id="m3"),
    assistant(call("Bash", {"command": "pwd"}, "C"), message_id="m3"),
    result("C", "/home"),
    assistant(text("there"), message_id="m4"),
)


def applied(before: Session, *names: str, **wanted: Any) -> Session:
    plan = build_plan(before, EditOptions(list(names), **wanted))
    after = before.path.with_name("after.jsonl")
    after.write_bytes(b"".join(carry_out(plan)))
    return open_session(after)


def said(session: Session) -> list[tuple[str, list[str]]]:
    """Return the roles and the types of blocks."""
    return [
        (message["role"], [block["type"] for block in message["content"]])
        for message in session.context()
    ]


def test_an_empty_plan_changes_no_byte(opened: Open) -> None:
    before = opened(CONVERSATION)
    assert b"".join(carry_out(Plan(before))) == CONVERSATION


def test_strip_tools_takes_calls_with_their_results_and_thinking_that_led_to_nothing_else(
    opened: Open,
) -> None:
    after = applied(opened(CONVERSATION), "strip_tools")
    assert said(after) == [
        ("user", ["text"]),
        ("assistant", ["thinking", "text"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
        ("assistant", ["text"]),
    ]
    assert not after.tree.orphans


def test_strip_tools_spares_the_last_turns_that_have_calls(opened: Open) -> None:
    after = applied(opened(CONVERSATION), "strip_tools", choice=TransformOptions(keep_last=1))
    assert [each.id for each in after.calls] == ["C"]


def test_stripping_again_takes_away_no_more(opened: Open) -> None:
    choice = TransformOptions(keep_last=1)
    once = applied(opened(CONVERSATION), "strip_tools", choice=choice)
    content = once.path.read_bytes()
    assert applied(opened(content), "strip_tools", choice=choice).path.read_bytes() == content


def test_strip_thinking_leaves_all_else(opened: Open) -> None:
    before = opened(CONVERSATION)
    after = applied(before, "strip_thinking")
    kept = [[kind for kind in kinds if kind != "thinking"] for _, kinds in said(before)]
    assert [kinds for _, kinds in said(after)] == kept


def test_what_a_compaction_preserved_stays_without_what_is_stripped(opened: Open) -> None:
    preserved = {"anchorUuid": nth(5), "uuids": [nth(2), nth(3)], "allUuids": [nth(2), nth(3)]}
    segment = {"headUuid": nth(2), "anchorUuid": nth(5), "tailUuid": nth(3)}
    metadata = {"preservedMessages": preserved, "preservedSegment": segment}
    before = opened(
        session(
            user("old"),
            assistant(thinking("hm"), message_id="m1"),
            assistant(text("kept"), message_id="m1"),
            *compaction("what came before", compact_metadata=metadata),
            user("new"),
            assistant(text("fine"), message_id="m2"),
        )
    )
    assert said(before)[1] == ("assistant", ["thinking", "text"])
    after = applied(before, "strip_thinking")
    assert said(after) == [
        ("user", ["text"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
        ("assistant", ["text"]),
    ]


def test_strip_images_puts_a_word_in_their_place(opened: Open) -> None:
    after = applied(opened(CONVERSATION), "strip_images")
    assert b'"image"' not in after.path.read_bytes()
    assert b"[image removed]" in after.path.read_bytes()
    assert len(after.calls) == 3


def test_stub_results_shortens_both_copies_and_keeps_the_call(opened: Open) -> None:
    after = applied(opened(CONVERSATION), "stub_results")
    detail = after.detail(after.calls[0])
    assert detail.result == f"{'x' * 200}\n[4,800 characters removed]"
    assert detail.structured["stdout"] == detail.result
    assert after.detail(after.calls[2]).result == "/home"


def test_strip_progress_closes_the_gap(opened: Open) -> None:
    before = opened(CONVERSATION)
    after = applied(before, "strip_progress")
    assert not any(node.kind.startswith("progress") for node in after.nodes)
    assert after.context() == before.context()
    assert not after.tree.orphans


def test_what_followed_on_a_dropped_first_line_becomes_the_first(opened: Open) -> None:
    first = line("progress", data={"type": "hook_progress"}, uuid="p", parent=None)
    before = opened(session(first, user("one", parent="p"), assistant(text("so"))))
    after = applied(before, "strip_progress")
    assert [node.parent for node in after.tree.chain] == [None, nth(2)]


def test_lines_that_a_transform_does_not_concern_keep_their_bytes(opened: Open) -> None:
    odd = b'{ "type" : "sparkle", "n":1e5 , "s":"\\u00e9" }\n'
    first = CONVERSATION.splitlines()[0]
    after = applied(opened(CONVERSATION + odd), "strip_tools")
    kept = after.path.read_bytes().splitlines(keepends=True)
    assert kept[-1] == odd
    assert kept[0] == first[:-1] + b',"turnlogRemoved":{"afterUuid":null}}\n'


def test_until_keeps_what_is_up_to_a_turn_or_an_entry(opened: Open) -> None:
    assert len(applied(opened(CONVERSATION), until="1").turns) == 1
    assert said(applied(opened(CONVERSATION), until=nth(3)))[-1][1] == ["thinking", "text"]
    with pytest.raises(NotFound):
        applied(opened(CONVERSATION), until="9")


def test_branch_keeps_only_that_one(opened: Open) -> None:
    before = opened(CONVERSATION + session(user("other", uuid=nth(99))))
    after = applied(before, branch=nth(14))
    assert [turn.n for turn in after.turns] == [1, 2]
    assert b"other" not in after.path.read_bytes()


def test_straighten_leaves_entries_without_a_time_as_they_are(opened: Open) -> None:
    lines = [user("q1"), assistant(text("a1"), timestamp=""), user("q2")]
    after = applied(opened(session(*lines)), "straighten")
    values = [json.loads(raw) for raw in after.path.read_bytes().splitlines()]
    assert [bool(value["timestamp"]) for value in values] == [True, False, True]


def test_straighten_starts_again_at_a_compaction(opened: Open) -> None:
    lines = [user("q1"), assistant(text("a1")), *compaction("So far."), user("q2")]
    after = applied(opened(session(*lines)), "straighten")
    values = [json.loads(raw) for raw in after.path.read_bytes().splitlines()]
    assert [value["parentUuid"] is None for value in values] == [True, False, True, False, False]


def test_straighten_makes_one_chain_with_rising_times(opened: Open) -> None:
    before = opened(CONVERSATION)
    after = applied(before, "straighten")
    assert after.context() == before.context()
    values = [json.loads(raw) for raw in after.path.read_bytes().splitlines()]
    by_uuid = {value["uuid"]: value for value in values}
    walked: set[str] = set()
    at = values[-1]["uuid"]
    while at:
        parent = by_uuid[at]["parentUuid"]
        assert parent is None or by_uuid[parent]["timestamp"] < by_uuid[at]["timestamp"]
        walked.add(at)
        at = parent
    # Progress hangs beside the chain: clients up to 2.0.76 lose what is before it in the chain.
    assert by_uuid.keys() - walked == {"p"}


def test_straighten_gives_a_repeated_last_line_one_time(opened: Open) -> None:
    late, last = "2026-11-15T07:00:00.000Z", assistant(text("done"), message_id="m")
    lines = (last, user("first"), user("other", timestamp=late), user("second", parent=nth(2)))
    content = session(*lines).splitlines(keepends=True)
    repeated = json.loads(content[0]) | {"parentUuid": nth(4), "timestamp": late}
    before = opened(b"".join([encode(repeated), *content[1:], encode(repeated)]))
    after = applied(before, "straighten")
    once = after.path.read_bytes()
    times = [json.loads(raw)["timestamp"] for raw in (once.splitlines()[0], once.splitlines()[-1])]
    assert times[0] == times[1] > late
    assert applied(after, "straighten").path.read_bytes() == once


def test_straighten_puts_what_a_compaction_preserved_behind_its_summary(opened: Open) -> None:
    preserved = {"anchorUuid": nth(5), "uuids": [nth(2)], "allUuids": [nth(2)]}
    metadata = {"trigger": "manual", "preservedMessages": preserved}
    before = opened(
        session(
            user("first"),
            assistant(text("kept"), message_id="m1"),
            user("second"),
            *compaction("summary", compact_metadata=metadata, logical_parent=nth(3)),
            user("third"),
            assistant(text("done"), message_id="m2"),
        )
    )
    after = applied(before, "straighten")
    assert after.context() == before.context()
    values = {v["uuid"]: v for v in map(json.loads, after.path.read_bytes().splitlines())}
    assert [values[nth(n)]["parentUuid"] for n in (2, 6)] == [nth(5), nth(2)]
    assert values[nth(4)]["compactMetadata"] == {"trigger": "manual"}


def test_straighten_leaves_what_is_to_follow_on_one_of_its_own(opened: Open) -> None:
    preserved = {"anchorUuid": nth(4), "uuids": [nth(2), nth(4)], "allUuids": [nth(2), nth(4)]}
    before = opened(
        session(
            user("first"),
            assistant(text("kept"), message_id="m1"),
            *compaction("summary", compact_metadata={"preservedMessages": preserved}),
            user("second"),
        )
    )
    assert applied(before, "straighten").context() == before.context()


def test_straighten_lets_a_note_of_the_tip_follow_what_was_put_behind_a_summary(
    opened: Open,
) -> None:
    preserved = {"anchorUuid": nth(4), "uuids": [nth(2)], "allUuids": [nth(2)]}
    before = opened(
        session(
            user("first"),
            assistant(text("kept"), message_id="m1"),
            *compaction("summary", compact_metadata={"preservedMessages": preserved}),
            line("last-prompt", last_prompt="first", leaf_uuid=nth(4)),
        )
    )
    after = applied(before, "straighten")
    assert after.context() == before.context()
    [note] = [json.loads(raw) for raw in after.path.read_bytes().splitlines() if b"leafUuid" in raw]
    assert note["leafUuid"] == nth(2)


def mended(before: Session) -> Session:
    """A session as `--straighten` writes it, mended for older clients first."""
    path = before.path.with_name("after.jsonl")
    with prepared(before, EditOptions(["straighten"])) as ready:
        path.write_bytes(b"".join(carry_out(ready.plan, ready.tally)))
    return open_session(path)


def test_straighten_closes_a_call_at_the_end_as_the_newest_client_does(opened: Open) -> None:
    before = opened(session(user("go"), assistant(text("now"), call("Bash", call_id="A"))))
    after = mended(before)
    assert [call.result is not None for call in after.calls] == [True]
    assert after.context() == before.context()


def test_straighten_leaves_a_message_that_is_a_text(opened: Open) -> None:
    answers = [assistant(text("a")), result("A"), line("assistant", message="b", uuid=nth(4))]
    lines = [json.loads(raw) for raw in session(user("go"), *answers).splitlines()]
    del lines[1]["message"]["id"]
    with prepared(opened(b"".join(map(encode, lines))), EditOptions(["straighten"])) as ready:
        after = [json.loads(raw) for raw in carry_out(ready.plan)]
    assert after[-1]["message"] == "b"


def test_straighten_leaves_an_open_call_in_a_plain_log(opened: Open) -> None:
    lines = [json.loads(raw) for raw in session(user("go"), assistant(call("Bash"))).splitlines()]
    for each in lines:
        del each["uuid"], each["parentUuid"]
    before = opened(b"".join(map(encode, lines)))
    assert len(before.context()) > 2
    assert mended(before).context() == before.context()


def test_straighten_leaves_a_blank_answer_at_the_tip_of_a_branch(opened: Open) -> None:
    left = [user("one"), assistant(text("first")), user("two"), assistant(text("second"))]
    before = opened(session(*left, assistant(text("\n"), parent=nth(3))))
    assert mended(before).context() == before.context()


def test_straighten_makes_the_tip_later_than_other_branches(opened: Open) -> None:
    """Clients up to 2.1.45 go on at the latest time, 2.1.45 also at a progress entry."""
    late = "2026-11-15T09:00:00.000Z"
    for stray in (
        user("left", parent=nth(1), timestamp=late),
        line("progress", uuid="p", parent=nth(1), timestamp=late),
    ):
        before = opened(
            session(user("q1"), assistant(text("a1")), stray, user("q2", parent=nth(2)))
        )
        after = applied(before, "straighten")
        assert after.context() == before.context()
        assert after.tree.newest_leaf == after.tree.active_leaf


def test_straighten_starts_where_the_client_does_if_a_parent_is_missing(opened: Open) -> None:
    start = user("q2", parent="gone", timestamp="2026-11-15T05:00:00.000Z")
    for missing in (start, user("q2", parent="p", timestamp="2026-11-15T09:00:00.000Z")):
        progress = line("progress", uuid="p", parent="gone")
        talk = user("q1"), assistant(text("a1")), progress, missing, assistant(text("a2"))
        before = opened(session(*talk))
        after = applied(before, "straighten")
        assert [message["content"][0]["text"] for message in before.context()] == ["q2", "a2"]
        assert after.context() == before.context()
        assert len(after.history()) == len(before.history())


def test_straighten_keeps_what_the_client_reads_in_place_of_a_missing_parent(opened: Open) -> None:
    # `first` has the time of its parent `asked`, whose own parent is missing: from the second child
    # of `asked`, the client goes on to `first`.
    same = "2026-11-15T06:00:03.000Z"
    asked = user("asked", parent="gone", timestamp=same)
    first, second = user("first", timestamp=same), user("second", parent=nth(2))
    before = opened(session(user("start"), asked, first, second))
    after = applied(before, "straighten")
    [sent, _] = before.context()
    texts = [block["text"].strip() for block in sent["content"]]
    assert texts == ["start", "first", "asked", "second"]
    assert after.context() == before.context()
