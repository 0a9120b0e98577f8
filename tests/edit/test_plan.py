"""Plans for lines that are damaged, duplicated, or belong to another session."""

import json
from pathlib import Path

import pytest

from support.build import (
    SESSION,
    Fields,
    assistant,
    call,
    image,
    line,
    nth,
    result,
    result_block,
    session,
    text,
    thinking,
    user,
)
from turnlog.conversation.session import Session, open_session
from turnlog.edit.effect import Tally
from turnlog.edit.plan import Plan, carry_out, id_replacer
from turnlog.edit.plan_builder import EditOptions, build_plan
from turnlog.edit.transforms import TransformOptions

TALK = session(
    user("first"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    result("A", "out"),
    assistant(text("done"), message_id="m2"),
)
FIRST, CALL, RESULT, LAST = TALK.splitlines(keepends=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{SESSION}.jsonl"


def opened(path: Path, content: bytes) -> Session:
    path.write_bytes(content)
    return open_session(path)


def edited(
    path: Path, content: bytes, *names: str, choice: TransformOptions | None = None
) -> bytes:
    plan = build_plan(opened(path, content), EditOptions(list(names), choice or TransformOptions()))
    return b"".join(carry_out(plan))


def fields_of(content: bytes) -> list[Fields]:
    return [json.loads(raw) for raw in content.splitlines()]


def test_a_last_line_without_its_newline_stays_so(path: Path) -> None:
    assert edited(path, TALK.rstrip(b"\n"), "strip_tools").endswith(b"}")


def test_what_is_added_behind_such_a_line_has_a_line_of_its_own(path: Path) -> None:
    plan = Plan(opened(path, TALK.rstrip(b"\n")))
    plan.add_after(3, {"type": "mode"})
    assert b"".join(carry_out(plan)) == TALK + b'{"type":"mode"}\n'


def test_entries_on_one_line_stay_on_it_and_keep_their_bytes(path: Path) -> None:
    odd = b'{ "type" : "sparkle", "n":1e5 , "s":"\\u00e9" }'
    joined = FIRST + CALL.rstrip(b"\n") + odd + b"\n" + RESULT + LAST
    assert edited(path, joined, "strip_tools").splitlines()[1] == odd
    assert edited(path, joined, "strip_thinking") == joined


def test_the_newline_of_a_rewritten_line_is_not_counted_as_saved(path: Path) -> None:
    log = opened(path, session(user("short"), assistant(text("done"))))
    plan, tally = Plan(log), Tally(log)
    plan.rewrite(log.nodes[0], lambda value: value | {"isMeta": True})
    written = b"".join(carry_out(plan, tally))
    effect = tally.effect()
    assert len(written) == effect.bytes_after > effect.bytes_before
    assert effect.rewritten["user"].bytes == effect.bytes_before - effect.bytes_after


def test_what_cannot_be_read_stays_behind_an_entry_that_is_rewritten(path: Path) -> None:
    long = result("A", "x" * 5000, uuid=nth(3), parent=nth(2))
    torn = FIRST + CALL + long.rstrip(b"\n") + b'{"type":"us\n' + LAST
    rewritten = edited(path, torn, "stub_results").splitlines()[2]
    assert b"characters removed" in rewritten
    assert rewritten.endswith(b'} {"type":"us')


def test_a_line_can_be_laid_out_anew(path: Path) -> None:
    plan = Plan(opened(path, FIRST.rstrip(b"\n") + CALL.rstrip(b"\n") + b'[1]{"type":"us\n'))
    plan.dropped_lines.add(1)
    assert b"".join(carry_out(plan)) == FIRST + CALL


def test_an_entry_that_was_replaced_goes_with_the_one_that_replaced_it(path: Path) -> None:
    twin = RESULT.replace(b'"out"', b'"another"')
    assert edited(path, FIRST + twin + CALL + RESULT + LAST, "strip_tools").count(b"\n") == 2


def test_straightened_lines_that_stand_twice_stay_the_same(path: Path) -> None:
    late = TALK.replace(b"06:00:02", b"06:30:00")
    lines = edited(path, late + late.splitlines(keepends=True)[2], "straighten").splitlines()
    assert lines[2] == lines[4]


def test_straighten_names_no_entry_that_goes(path: Path) -> None:
    content = session(
        user("first"),
        user("more"),
        assistant(call("Bash", {}, "A"), message_id="m1"),
        result("A"),
        result("A", parent=nth(1)),
        assistant(text("done"), message_id="m2", parent=nth(4)),
    )
    after = edited(path, content, "strip_tools", "straighten")
    assert [each["parentUuid"] for each in fields_of(after)] == [None, nth(1), nth(2)]


def test_sub_agents_inside_the_file_keep_their_calls(path: Path) -> None:
    aside = session(
        user("look", is_sidechain=True, uuid="s1", parent=None),
        assistant(call("Read", {}, "B"), is_sidechain=True, uuid="s2", parent="s1"),
        result("B", is_sidechain=True, uuid="s3", parent="s2"),
    )
    after = edited(path, FIRST + CALL + aside + RESULT + LAST, "strip_tools")
    marked = FIRST.rstrip()[:-1] + b',"turnlogRemoved":{"afterUuid":null}}\n'
    assert after == marked + aside + LAST.replace(nth(3).encode(), nth(1).encode())


def test_a_second_result_of_a_spared_call_takes_nothing_with_it(path: Path) -> None:
    again = session(result("A", "again", uuid=nth(9), parent=nth(4)))
    choice = TransformOptions(keep_last=1)
    assert edited(path, TALK + again, "strip_tools", choice=choice) == TALK + again


def test_a_shortened_result_is_not_shortened_again(path: Path) -> None:
    long = TALK.replace(b'"out"', b'"' + b"x" * 5000 + b'"')
    once = edited(path, long, "stub_results", choice=TransformOptions(larger_than=10))
    assert len(once) < len(TALK) + 300
    assert edited(path, once, "stub_results", choice=TransformOptions(larger_than=10)) == once


def test_an_image_in_a_result_is_of_use_only_as_a_whole(path: Path) -> None:
    picture = image("A" * 5000)
    content = session(
        user("first"),
        assistant(call("Read", {}, "A"), message_id="m1"),
        user(
            [result_block("A", [text("x" * 5000), picture])],
            tool_use_result={"type": "image", "file": {"base64": "A" * 5000}},
        ),
    )
    (*_, shown) = fields_of(edited(path, content, "stub_results"))
    held = shown["message"]["content"][0]["content"]
    assert (len(held[0]["text"]) < 300, held[1]) == (True, picture)
    assert shown["toolUseResult"]["file"]["base64"] == "A" * 5000


def test_half_a_character_can_be_written_again(path: Path) -> None:
    content = session(
        user("first"),
        assistant(thinking("hm"), {"type": "text", "text": "HALF"}, message_id="m1"),
    ).replace(b"HALF", b"\\ud83d")
    after = edited(path, content, "strip_thinking")
    assert b'"thinking"' not in after
    assert b"\\ud83d" in after


def test_entries_of_unknown_types_are_relinked_too(path: Path) -> None:
    after = edited(path, TALK + line("sparkle", about=nth(3)), "strip_tools")
    assert fields_of(after)[-1]["about"] == nth(1)


def test_a_word_that_serves_as_an_id_is_one_only_where_a_field_says_so(path: Path) -> None:
    content = session(
        user("one", uuid="one"),
        assistant(call("Bash", {"command": "two"}, "two"), message_id="m1", uuid="two"),
        result("two", "two", uuid="three", source_tool_assistant_uuid="two"),
        assistant(text("two"), message_id="m2", uuid="four"),
        line("sparkle", uuids=["one", "two"], note="two"),
    )
    *_, last, sparkle = fields_of(edited(path, content, "strip_tools"))
    assert (last["parentUuid"], last["message"]["content"][0]["text"]) == ("one", "two")
    assert (sparkle["uuids"], sparkle["note"]) == (["one", "one"], "two")


def test_what_follows_on_an_entry_that_goes_without_naming_it_names_what_is_before(
    path: Path,
) -> None:
    gone = "deadbeef-0000-4000-8000-000000000000"
    content = session(
        user("first"),
        assistant(thinking("hm"), message_id="m1"),
        assistant(text("done"), message_id="m2", parent=gone),
    )
    after = fields_of(edited(path, content, "strip_thinking"))
    assert [each["parentUuid"] for each in after] == [None, nth(1)]
    straight = fields_of(edited(path, content, "strip_thinking", "straighten"))
    assert [each["parentUuid"] for each in straight] == [None, nth(1)]


def test_ids_that_are_no_uuids_are_swapped_where_a_field_says_so() -> None:
    swap = id_replacer({"[cut]": "new", nth(1): nth(2)})
    raw = f'{{"uuid":"[cut]","uuids":["[cut]","]","{nth(1)}"],"text":"[cut]","at":"{nth(1)}"}}'
    kept = f'{{"uuid":"new","uuids":["new","]","{nth(2)}"],"text":"[cut]","at":"{nth(2)}"}}'
    assert swap(raw.encode()).decode() == kept
