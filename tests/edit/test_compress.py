"""A summary in place of older turns."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edit.conftest import Open
from support.build import (
    SESSION,
    Fields,
    assistant,
    attachment,
    call,
    compaction,
    line,
    moment,
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
from turnlog.edit.compaction_entries import HEAD
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import TRANSFORMS, EditOptions, build_plan
from turnlog.edit.transforms import TransformOptions
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store

TURNS = (
    user("fix the shop"),
    assistant(thinking("hm"), message_id="m1"),
    assistant(text("I look at it. It may take a while."), message_id="m1"),
    assistant(call("Read", {"file_path": "/home/ada/shop/till.py"}, "A"), message_id="m1"),
    assistant(call("Bash", {"command": "make test"}, "B"), message_id="m1"),
    result("A", "much code", parent=nth(4)),
    result("B", "Exit code 2\nno rule", is_error=True, parent=nth(5)),
    assistant(text("It is mended."), message_id="m2"),
    user("now the window"),
    assistant(call("Bash", {"command": "ls"}, "C"), message_id="m3"),
    assistant(call("Bash", {"command": "pwd"}, "D"), message_id="m3"),
    result("C", "till.py", parent=nth(10)),
    result("D", "/home/ada/shop", parent=nth(11)),
    assistant(text("Done."), message_id="m4"),
)
CONVERSATION = session(*TURNS)


def compressed(before: Session, keep_last: int = 0, *names: str, **choice: Any) -> Session:
    wanted = EditOptions([*names, "compress"], TransformOptions(keep_last, **choice))
    return written(before, wanted)


def written(before: Session, wanted: EditOptions) -> Session:
    after = before.path.parent / "after" / before.path.name
    after.parent.mkdir(exist_ok=True)
    after.write_bytes(b"".join(carry_out(build_plan(before, wanted))))
    return open_session(after)


def later(parent: str | None) -> bytes:
    """A turn that follows on an entry."""
    return session(
        user("and the roof", uuid=nth(90), parent=parent),
        assistant(text("Tight."), message_id="m9", uuid=nth(91)),
    )


def values(whole: Session) -> list[Fields]:
    return list(whole.values(whole.nodes))


def summary_of(whole: Session) -> str:
    (found,) = [value for value in values(whole) if value.get("isCompactSummary")]
    return found["message"]["content"]


def chain_of(whole: Session) -> list[Fields]:
    """The entries from the tip back to the root, by what the lines say alone."""
    by_uuid = {value["uuid"]: value for value in values(whole) if "uuid" in value}
    parents = {value["parentUuid"] for value in by_uuid.values()}
    (at,) = by_uuid.keys() - parents
    found: list[Fields] = []
    while at:
        found.append(by_uuid[at])
        at = found[-1]["parentUuid"]
    assert len(found) == len(by_uuid)
    return found[::-1]


def texts(whole: Session) -> list[str]:
    messages = whole.context()
    return [block["text"] for each in messages for block in each["content"] if "text" in block]


def test_what_is_sent_is_the_summary_and_the_messages_of_the_turns_that_stay(opened: Open) -> None:
    before = opened(CONVERSATION)
    after = compressed(before, 1)
    first, *rest = after.context()
    said, asked = first["content"]
    assert said["text"] == summary_of(after) + "\n"
    assert asked["text"] == "now the window"
    assert rest == before.context()[-3:]


def test_all_turns_go_unless_some_are_to_be_kept(opened: Open) -> None:
    after = compressed(opened(CONVERSATION))
    assert texts(after) == [summary_of(after), "No response requested."]
    assert "now the window" in summary_of(after)


def test_the_summary_tells_what_was_asked_said_and_done(opened: Open) -> None:
    assert summary_of(compressed(opened(CONVERSATION), 1)) == HEAD + (
        "[2026-11-15 06:00] USER: fix the shop\n"
        "ASSISTANT: I look at it. It may take a while.\n"
        "- Read: till.py\n"
        "- Bash: make test → failed (exit 2)\n"
        "ASSISTANT: It is mended."
    )


def test_boundary_and_summary_have_what_every_client_asks_of_a_line(opened: Open) -> None:
    boundary, summary, *_ = chain_of(compressed(opened(CONVERSATION), 1))
    common = {"isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch"}
    for each in (boundary, summary):
        assert common | {"uuid", "timestamp", "type", "parentUuid"} <= each.keys()
        assert each["sessionId"] == SESSION
    assert (boundary["subtype"], boundary["parentUuid"]) == ("compact_boundary", None)
    assert boundary["compactMetadata"] == {"trigger": "manual", "preTokens": 30}
    assert summary["isVisibleInTranscriptOnly"]


def test_what_stays_is_one_chain_with_rising_times_behind_the_summary(opened: Open) -> None:
    chain = chain_of(compressed(opened(CONVERSATION), 1))
    assert [value["type"] for value in chain[:3]] == ["system", "user", "user"]
    assert all(one["timestamp"] < other["timestamp"] for one, other in pairwise(chain))
    assert moment(8) < chain[0]["timestamp"] < chain[1]["timestamp"] < moment(9)


def test_times_that_fall_are_made_to_rise(opened: Open) -> None:
    content = CONVERSATION.replace(moment(12).encode(), moment(1).encode())
    chain = chain_of(compressed(opened(content), 1))
    assert all(one["timestamp"] < other["timestamp"] for one, other in pairwise(chain))


def test_lines_that_need_no_change_keep_their_bytes(opened: Open) -> None:
    after = compressed(opened(CONVERSATION), 1)
    kept = CONVERSATION.splitlines(keepends=True)
    lines = after.path.read_bytes().splitlines(keepends=True)
    assert [raw in lines for raw in (kept[9], kept[10], kept[13])] == [True] * 3


def test_compressed_again_a_session_keeps_every_byte(opened: Open) -> None:
    for keep_last in (0, 1):
        content = compressed(opened(CONVERSATION), keep_last).path.read_bytes()
        again = compressed(opened(content), keep_last)
        assert again.path.read_bytes() == content


@pytest.mark.parametrize("keep_last", [2, 3])
def test_with_no_turn_more_than_is_to_stay_nothing_is_done(opened: Open, keep_last: int) -> None:
    assert compressed(opened(CONVERSATION), keep_last).path.read_bytes() == CONVERSATION


def test_where_all_that_goes_is_a_summary_nothing_is_done(opened: Open) -> None:
    told = session(
        user("old"),
        *compaction("what came before"),
        user("<command-name>/compact</command-name>"),
        user("<local-command-stdout>Compacted</local-command-stdout>"),
        assistant(text("No response requested."), message={"model": "<synthetic>"}),
        user("new"),
        assistant(text("fine")),
    )
    assert compressed(opened(told), 1).path.read_bytes() == told


def test_an_earlier_summary_stays_whole_and_comes_first(opened: Open) -> None:
    earlier = f"Once upon a time.\n{'It went on. ' * 800}\nThe end."
    before = opened(
        session(
            user("before it"),
            assistant(text("long gone")),
            *compaction(earlier),
            user("after it"),
            assistant(text("fine")),
            user("last"),
            assistant(text("well")),
        )
    )
    after = compressed(before, 1)
    told = summary_of(after)
    assert told.startswith(HEAD + earlier + "\n\n[2026-11-15 06:00] USER: after it")
    assert "long gone" not in after.path.read_text("utf-8")
    assert texts(after)[1:] == ["last", "well"]


def test_turns_compressed_one_after_the_other_make_one_summary(opened: Open) -> None:
    once = compressed(opened(CONVERSATION))
    first = summary_of(once)
    told = summary_of(compressed(opened(once.path.read_bytes() + later(once.tree.chain[-1].uuid))))
    assert told.count(HEAD) == 1
    assert told.startswith(first)
    assert told.endswith("USER: and the roof\nASSISTANT: Tight.")


def test_prompts_of_an_earlier_summary_survive_however_long_it_is(opened: Open) -> None:
    prompts = [f"PROMPT{number:03d} {'do it with care. ' * 30}".strip() for number in range(400)]
    lines = [each for prompt in prompts for each in (user(prompt), assistant(text("done")))]
    once = compressed(opened(session(*lines)))
    again = opened(once.path.read_bytes() + later(once.tree.chain[-1].uuid))
    told = summary_of(compressed(again))
    assert [prompt for prompt in prompts if prompt not in told] == []
    assert "and the roof" in told


def test_what_a_compaction_preserved_is_part_of_what_is_sent(opened: Open) -> None:
    preserved = {"anchorUuid": nth(4), "uuids": [nth(2)], "allUuids": [nth(2)]}
    metadata = {"trigger": "auto", "preTokens": 9, "preservedMessages": preserved}
    before = opened(
        session(
            user("old"),
            assistant(text("preserved answer")),
            *compaction("what came before", compact_metadata=metadata),
            user("new"),
            assistant(text("fine")),
        )
    )
    after = compressed(before)
    assert summary_of(after) == (
        f"{HEAD}what came before\n\nASSISTANT: preserved answer\n"
        "[2026-11-15 06:00] USER: new\nASSISTANT: fine"
    )
    assert b"preservedMessages" not in after.path.read_bytes()


def test_other_branches_are_dropped(opened: Open) -> None:
    branch = session(user("left behind", uuid=nth(50), parent=nth(8)))
    lines = CONVERSATION.splitlines(keepends=True)
    after = compressed(opened(b"".join([*lines[:8], branch, *lines[8:]])), 1)
    assert b"left behind" not in after.path.read_bytes()
    assert texts(after)[1] == "now the window"


def test_no_half_of_a_call_stays(opened: Open) -> None:
    before = opened(
        session(
            user("first"),
            assistant(call("Bash", {"command": "sleep"}, "A"), message_id="m1"),
            user("second", prompt_source="queued"),
            result("A", "slept"),
            assistant(text("both"), message_id="m2"),
        )
    )
    after = compressed(before, 1)
    assert not after.calls
    assert not after.orphans
    assert "- Bash: sleep" in summary_of(after)
    assert texts(after)[1:] == ["second", "both"]


def test_what_refers_to_a_dropped_entry_refers_to_the_summary(opened: Open) -> None:
    odd = line("sparkle", about=nth(3), kept=nth(14))
    after = compressed(opened(CONVERSATION + odd), 1)
    (sparkle,) = [value for value in values(after) if value["type"] == "sparkle"]
    assert (sparkle["about"], sparkle["kept"]) == (chain_of(after)[1]["uuid"], nth(14))
    assert not {nth(n) for n in range(1, 9)} & set(after.path.read_text().split('"'))


def test_notes_go_with_the_entry_that_they_belong_to(opened: Open) -> None:
    notes = [
        line("file-history-snapshot", message_id=nth(1), snapshot={"messageId": nth(1)}),
        line("file-history-snapshot", message_id=nth(9), snapshot={"messageId": nth(9)}),
        line("file-history-delta", message_id=nth(3), snapshot_message_id=nth(1)),
        line("file-history-delta", message_id=nth(10), snapshot_message_id=nth(9)),
        line("last-prompt", last_prompt="fix the shop", leaf_uuid=nth(8)),
        line("last-prompt", last_prompt="now the window", leaf_uuid=nth(14)),
        line("custom-title", custom_title="Shop"),
        line("mode", mode="normal"),
    ]
    queue = line("queue-operation", operation="enqueue", content="fix the shop")
    after = compressed(opened(queue + CONVERSATION + b"".join(notes)), 1)
    kept = [value for value in values(after) if "uuid" not in value]
    named = [value.get("messageId") or value.get("leafUuid") or value["type"] for value in kept]
    assert named == [nth(9), nth(10), nth(14), "custom-title", "mode", nth(14)]


def test_sub_agents_inside_the_file_go_with_their_calls(opened: Open) -> None:
    def agent(number: int) -> bytes:
        return session(
            user(f"agent {number}", uuid=nth(number), is_sidechain=True),
            assistant(text("yes"), uuid=nth(number + 1), parent=nth(number), is_sidechain=True),
        )

    lines = CONVERSATION.splitlines(keepends=True)
    content = b"".join([*lines[:5], agent(60), *lines[5:10], agent(70), *lines[10:]])
    left = compressed(opened(content), 1).path.read_bytes()
    assert (b"agent 60" in left, b"agent 70" in left) == (False, True)


def test_entries_without_uuids_get_some(opened: Open) -> None:
    def said(role: str, content: str) -> bytes:
        return line(role, message={"role": role, "content": content}, timestamp=moment(1))

    talk = [
        said("user", "one"),
        said("assistant", "1"),
        said("user", "two"),
        said("assistant", "2"),
    ]
    after = compressed(opened(b"".join(talk)), 1)
    assert texts(after)[1:] == ["two", "2"]
    assert [value["type"] for value in chain_of(after)] == ["system", "user", "user", "assistant"]


def test_an_unknown_type_is_no_link_of_the_chain(opened: Open) -> None:
    content = session(
        *TURNS, line("sparkle", uuid=nth(80), parent=nth(14)), user("third", parent=nth(80))
    )
    after = compressed(opened(content), 2)
    assert texts(after)[-2:] == ["third", "No response requested."]
    sparkle, third, _ = values(after)[-3:]
    assert sparkle["parentUuid"] == third["parentUuid"] == nth(14)


def test_news_of_running_tools_hangs_beside_the_chain(opened: Open) -> None:
    news = line("progress", data={"type": "hook_progress"}, parent=nth(14))
    content = session(*TURNS, news, user("third"), assistant(text("3")))
    after = compressed(opened(content), 2)
    by_type = {value["type"]: value for value in values(after)}
    third = next(value for value in values(after) if value.get("uuid") == nth(16))
    assert by_type["progress"]["parentUuid"] == third["parentUuid"] == nth(14)
    assert by_type["progress"]["timestamp"] < third["timestamp"]


def test_the_picker_shows_what_was_asked_first(opened: Open) -> None:
    after = compressed(opened(CONVERSATION), 1)
    assert describe(locate_session(after.path)).title == "fix the shop"
    again = compressed(opened(after.path.read_bytes() + later(nth(14))), 1)
    assert describe(locate_session(again.path)).title == "fix the shop"
    assert [node.kind for node in again.nodes].count("summary") == 1


def test_a_model_writes_the_summary_from_longer_extracts(opened: Open) -> None:
    asked: list[str] = []

    def summarise(material: str) -> str:
        asked.append(material)
        return "The shop is mended."

    before = opened(session(*compaction("Earlier on."), *TURNS))
    after = compressed(before, summarise=summarise)
    assert summary_of(after) == (
        f"{HEAD}Earlier on.\n\nThe shop is mended.\n\nEverything the user said, verbatim:\n\n"
        "[2026-11-15 06:00] USER: fix the shop\n\n[2026-11-15 06:00] USER: now the window"
    )
    (material,) = asked
    assert "<earlier-summary>\nEarlier on.\n" in material
    assert "- Read: till.py\n  much code" in material


def test_a_model_is_not_asked_where_nothing_is_done(opened: Open) -> None:
    def summarise(material: str) -> str:
        raise AssertionError(material)

    compressed(opened(CONVERSATION), 2, summarise=summarise)


def test_until_and_branch_say_where_the_conversation_ends(opened: Open) -> None:
    before = opened(CONVERSATION + session(user("other", uuid=nth(99), parent=nth(8))))
    cut = written(before, EditOptions(["compress"], TransformOptions(), until=nth(3)))
    assert summary_of(cut).endswith(
        "USER: fix the shop\nASSISTANT: I look at it. It may take a while."
    )
    chosen = written(before, EditOptions(["compress"], TransformOptions(1), branch=nth(14)))
    assert texts(chosen)[1] == "now the window"


@pytest.mark.parametrize("keep_last", [0, 1])
@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_with_any_other_transform_the_result_is_sound(
    opened: Open, name: str, keep_last: int
) -> None:
    content = session(*TURNS, user("third"), attachment("date"), assistant(text("3")))
    after = compressed(opened(content), keep_last, name)
    assert [finding.message for finding in check_session(after)] == []
    chain_of(after)
    once = after.path.read_bytes()
    assert compressed(opened(once), keep_last, name).path.read_bytes() == once


def test_a_clone_says_where_all_of_the_conversation_stays(tmp_path: Path) -> None:
    path = tmp_path / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    told = f"Earlier on; read the full transcript at: {path}"
    turns = user("q"), assistant(text("a")), user("last"), assistant(text("answer"))
    path.write_bytes(session(*compaction(told), *turns))
    source = open_session(path)
    plan = build_plan(source, EditOptions(["compress"], TransformOptions(1, transcript=path)))
    made = plan_clone(Store(tmp_path), source, plan)
    made.path.write_bytes(b"".join(made.files[made.path]))
    clone = open_session(made.path)
    assert summary_of(clone).endswith(f"read the full transcript at: {path}")
    assert summary_of(clone).count(str(path)) == 2
    assert clone.links.previous == source.id
    assert {value["sessionId"] for value in chain_of(clone)} == {clone.id}
    assert clone.context()[1:] == source.context()[-1:]


def test_a_line_keeps_its_text_as_json(opened: Open) -> None:
    half = CONVERSATION.replace(b"fix the shop", b"fix \\ud83d \\u0000 \xe2\x80\xa8")
    after = compressed(opened(half), 1)
    assert "USER: fix \ufffd \0" in summary_of(after)
    assert all(json.loads(raw) for raw in after.path.read_bytes().splitlines())
