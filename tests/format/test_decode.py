"""Lines to entries: sound ones are typed, others are recovered as far as possible."""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from data.nasty import CASES, PATH, Case, nasty
from support.build import (
    assistant,
    call,
    encode,
    image,
    line,
    result_block,
    session,
    text,
    thinking,
    user,
)
from support.strategies import entries, flat_entries, lines_of, misfitting_entries, sound_lines
from turnlog.format.blocks import (
    ImageBlock,
    MessageBody,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownPart,
    Usage,
)
from turnlog.format.decode import (
    Decoded,
    Problem,
    _decode_damaged,
    _decode_sound,
    decode_line,
    read_entries,
    values_of,
)
from turnlog.format.entries import (
    Assistant,
    Attachment,
    BashProgress,
    Entry,
    Progress,
    Unknown,
    User,
)
from turnlog.format.fields import decode_raw
from turnlog.format.fit import fit
from turnlog.format.jsonl import Line
from turnlog.format.kinds import KINDS, kind_of
from turnlog.format.system import CompactBoundary, System, TurnDuration
from turnlog.format.timestamps import parse_timestamp

T = TypeVar("T", bound=Entry)


def decode(raw: bytes) -> Decoded:
    return decode_line(Line(raw, 0, 1))


def only(raw: bytes, kind: type[T]) -> T:
    """The one entry of a sound line."""
    decoded = decode(raw)
    assert (decoded.problems, decoded.misfits) == ((), ())
    (entry,) = decoded.entries
    assert type(entry) is kind
    return entry


# Sound lines


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_has_its_type(name: str) -> None:
    kind, _, subtype = name.partition("/")
    fields = {"subtype": subtype} if subtype else {}
    assert kind_of(only(line(kind, **fields), KINDS[name])) == name


def test_a_message_has_typed_blocks_and_usage() -> None:
    raw = assistant(
        thinking("hm"),
        text("hello"),
        call("Bash", {"command": "ls"}, "t1"),
        message_id="m1",
        uuid="a1",
        parent="u1",
    )
    entry = only(raw, Assistant)
    assert (entry.uuid, entry.parent_uuid) == ("a1", "u1")
    assert entry.content == [
        ThinkingBlock(thinking="hm", signature="c2lnbmVk"),
        TextBlock(text="hello"),
        ToolUseBlock(id="t1", name="Bash", input={"command": "ls"}),
    ]
    assert entry.body is not None
    assert (entry.body.id, entry.body.stop_reason) == ("m1", None)
    assert entry.body.usage == Usage(input_tokens=10, output_tokens=20)


def test_a_structured_result_is_unset_if_there_is_none() -> None:
    assert only(user("hi", tool_use_result={"x": 1}), User).tool_use_result == {"x": 1}
    assert only(user("hi"), User).tool_use_result is UNSET


def test_results_hold_blocks_of_their_own() -> None:
    raw = user([result_block("t1", [text("a"), image()], is_error=True)], tool_use_result={"x": 1})
    entry = only(raw, User)
    (block,) = entry.content
    assert isinstance(block, ToolResultBlock)
    assert (block.tool_use_id, block.is_error) == ("t1", True)
    assert isinstance(block.content, list)
    assert [type(part) for part in block.content] == [TextBlock, ImageBlock]
    assert entry.tool_use_result == {"x": 1}


def test_system_entries_are_typed_by_subtype() -> None:
    entry = only(line("system", subtype="turn_duration", duration_ms=1.5), TurnDuration)
    assert entry.duration_ms == 1.5
    metadata = {"trigger": "auto", "preTokens": 9, "preservedSegment": {"headUuid": "h"}}
    boundary = only(
        line("system", subtype="compact_boundary", compact_metadata=metadata), CompactBoundary
    )
    assert isinstance(boundary.compact_metadata, msgspec.Struct)
    assert boundary.compact_metadata.pre_tokens == 9


def test_progress_is_typed_by_what_it_is_about() -> None:
    data = {"type": "bash_progress", "output": "x", "elapsedTimeSeconds": 3}
    entry = only(line("progress", data=data, toolUseID="t1"), Progress)
    assert isinstance(entry.data, BashProgress)
    assert (entry.data.elapsed_time_seconds, entry.tool_use_id) == (3, "t1")
    assert kind_of(entry) == "progress/bash_progress"


def test_an_attachment_is_named_by_its_type() -> None:
    entry = only(line("attachment", attachment={"type": "date", "date": "today"}), Attachment)
    assert kind_of(entry) == "attachment/date"


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, UNSET), ({"uuid": None}, None), ({"uuid": ""}, "")]
)
def test_absent_and_null_stay_distinct(fields: dict[str, Any], expected: object) -> None:
    assert only(line("user", **fields), User).uuid == expected
    assert only(line("sparkle", **fields), Unknown).uuid == expected


def test_absent_and_null_stay_distinct_in_lines_that_the_fast_path_refuses() -> None:
    raw = line("user", parent=None, message={"content": [{"type": "hologram"}], "id": None})
    entry = only(raw, User)
    assert (entry.parent_uuid, entry.uuid) == (None, UNSET)
    assert isinstance(entry.message, MessageBody)
    assert (entry.message.id, entry.message.model) == (None, UNSET)


# Shapes of exporters


def test_content_on_the_top_level_is_the_content() -> None:
    entry = only(line("user", content="hi", timestamp="2026-11-15T06:00:00Z"), User)
    assert (entry.content, entry.body) == ("hi", None)
    blocks = only(line("assistant", content=[text("hello")]), Assistant).content
    assert blocks == [TextBlock(text="hello")]


def test_a_message_that_is_its_content_is_the_content() -> None:
    assert only(line("user", message="hi"), User).content == "hi"
    assert only(line("user", message=[text("hi")]), User).content == [TextBlock(text="hi")]


@pytest.mark.parametrize(("role", "kind"), [("user", User), ("assistant", Assistant)])
def test_a_line_without_type_goes_by_the_role_of_its_message(role: str, kind: type[Entry]) -> None:
    entry = only(line(message={"role": role, "content": "hi"}), kind)
    assert isinstance(entry, User | Assistant)
    assert (entry.content, kind_of(entry)) == ("hi", role)


def test_a_line_without_type_or_role_is_unknown() -> None:
    assert kind_of(only(line(message={"role": "system"}), Unknown)) == "unknown"
    assert only(line(), Unknown).fields == {}


def test_a_timestamp_within_the_message_is_the_time_of_the_line() -> None:
    inner = {"role": "assistant", "timestamp": "2026-11-15T06:00:00Z"}
    assert only(line(message=inner), Assistant).when == "2026-11-15T06:00:00Z"
    outer = line("assistant", message=inner, timestamp="2026-11-15T07:00:00Z")
    assert only(outer, Assistant).when == "2026-11-15T07:00:00Z"


def test_a_line_without_content_has_an_empty_list() -> None:
    for raw in (line("user"), line("user", message=None), line("user", message={"content": None})):
        assert only(raw, User).content == []


# What turnlog does not know


def test_an_unknown_type_keeps_every_field() -> None:
    fields = {"type": "sparkle", "uuid": "x1", "parentUuid": None, "glitter": [1, {"a": None}]}
    entry = only(encode(fields), Unknown)
    assert entry.fields == fields
    assert (entry.uuid, entry.parent_uuid, entry.type) == ("x1", None, "sparkle")
    assert kind_of(entry) == "sparkle"


def test_an_unknown_field_does_not_disturb() -> None:
    assert only(user("hi", glitter=True), User).content == "hi"


def test_an_unknown_subtype_is_a_system_entry() -> None:
    entry = only(line("system", subtype="sparkle", content="x"), System)
    assert (entry.content, kind_of(entry)) == ("x", "system/sparkle")


@pytest.mark.parametrize("value", [{"type": "hologram", "z": 1}, {"z": 1}, {"type": 5}, 7, None])
def test_an_unknown_block_is_kept_among_known_ones(value: Any) -> None:
    entry = only(assistant(text("a"), value, text("b")), Assistant)
    assert entry.content == [TextBlock(text="a"), UnknownPart(value=value), TextBlock(text="b")]


def test_an_unknown_block_within_a_result_is_kept() -> None:
    entry = only(user([result_block("t1", [text("a"), {"type": "hologram"}])]), User)
    (block,) = entry.content
    assert isinstance(block, ToolResultBlock)
    assert block.content == [TextBlock(text="a"), UnknownPart(value={"type": "hologram"})]


def test_an_unknown_progress_is_kept() -> None:
    data = {"type": "warp_progress", "speed": 9}
    entry = only(line("progress", data=data, uuid="p1"), Progress)
    assert (entry.data, entry.uuid) == (UnknownPart(value=data), "p1")
    assert kind_of(entry) == "progress/warp_progress"


# Misfits


def test_a_misfit_is_named_and_the_rest_of_the_entry_is_typed() -> None:
    raw = line("user", uuid=7, parent="p", is_meta="yes", message={"role": [], "content": "hi"})
    decoded = decode(raw)
    (entry,) = decoded.entries
    assert isinstance(entry, User)
    assert sorted(decoded.misfits) == ["isMeta", "message.role", "uuid"]
    assert decoded.problems == ()
    assert (entry.uuid, entry.is_meta, entry.parent_uuid) == (UNSET, UNSET, "p")
    assert entry.content == "hi"


def test_a_misfit_within_blocks_leaves_the_other_blocks_typed() -> None:
    raw = assistant(
        {"type": "text", "text": 5}, text("b"), {"type": "tool_use", "id": "t", "name": 1}
    )
    decoded = decode(raw)
    (entry,) = decoded.entries
    assert isinstance(entry, Assistant)
    assert entry.content == [TextBlock(), TextBlock(text="b"), ToolUseBlock(id="t")]
    assert decoded.misfits == ("message.content.text", "message.content.name")


def test_a_misfit_within_usage_leaves_the_other_counts() -> None:
    usage = {"input_tokens": "3", "output_tokens": 4, "iterations": [{"type": 1, "model": "m"}]}
    decoded = decode(assistant(message={"usage": usage}))
    (entry,) = decoded.entries
    assert isinstance(entry, Assistant)
    assert entry.body is not None
    assert isinstance(entry.body.usage, Usage)
    assert (entry.body.usage.input_tokens, entry.body.usage.output_tokens) == (UNSET, 4)
    assert decoded.misfits == ("message.usage.input_tokens", "message.usage.iterations.type")


@pytest.mark.parametrize("name", [5, [], {}, True])
def test_a_type_that_is_no_string_is_unknown(name: Any) -> None:
    decoded = decode(encode({"type": name, "uuid": "x1"}))
    (entry,) = decoded.entries
    assert isinstance(entry, Unknown)
    assert (entry.fields["type"], entry.uuid, decoded.misfits) == (name, "x1", ("type",))


def test_a_misfit_of_an_unknown_entry_or_one_without_type_is_named_too() -> None:
    assert decode(line("sparkle", uuid=5)).misfits == ("uuid",)
    assert decode(line(message={"role": "user", "content": 5}, uuid=5)).misfits == (
        "uuid",
        "message.content",
    )


# Damage


@pytest.mark.parametrize("name", CASES)
def test_each_damage_has_its_reason_and_leaves_what_can_be_kept(name: str) -> None:
    case: Case = CASES[name]
    raw = case.raw if name == "torn" else case.raw + b"\n"
    decoded = decode(raw)
    assert (len(decoded.entries), decoded.problems) == (case.entries, case.problems)


def test_the_nasty_file_is_up_to_date() -> None:
    assert PATH.read_bytes() == nasty()


def test_every_problem_of_a_file_is_told_with_its_place() -> None:
    problems: list[Problem] = []
    found = list(read_entries(PATH, problems))
    assert len(found) == sum(case.entries for case in CASES.values())
    expected = [
        (number, reason)
        for number, case in enumerate(CASES.values(), 1)
        for reason in case.problems
    ]
    assert [(problem.line, problem.reason) for problem in problems] == expected
    content = PATH.read_bytes()
    raws = [case.raw for case in CASES.values()]
    for problem in problems:
        assert problem.path == PATH
        assert content[problem.offset :].startswith(raws[problem.line - 1])


def test_entries_of_a_file_are_read_without_a_list_of_problems() -> None:
    assert len(list(read_entries(PATH))) == sum(case.entries for case in CASES.values())


def test_the_objects_of_one_line_are_an_entry_each(tmp_path: Path) -> None:
    path = tmp_path / "glued.jsonl"
    path.write_bytes(user("a").rstrip() + line("sparkle").rstrip() + assistant(text("b")))
    found = list(read_entries(path))
    assert [type(entry) for _, entry in found] == [User, Unknown, Assistant]
    assert {held.offset for held, _ in found} == {0}


def test_text_with_a_lone_surrogate_keeps_it() -> None:
    assert only(CASES["lone surrogate"].raw, User).content == "half \ud83d of it"


def test_a_lone_surrogate_in_a_name_does_not_disturb() -> None:
    entry = only(rb'{"type":"user","\ud83d":1,"origin":{"\udc00":2},"content":"hi"}', User)
    assert (entry.content, entry.origin) == ("hi", {"\udc00": 2})
    block = rb'{"type":"user","content":[{"type":"text","text":"a","\ud83d":1},{"type":"\ud83d"}]}'
    assert only(block, User).content == [TextBlock(text="a"), UnknownPart(value={"type": "\ud83d"})]


def test_text_with_invalid_bytes_shows_where_they_were() -> None:
    (entry,) = decode(CASES["invalid UTF-8"].raw).entries
    assert isinstance(entry, User)
    assert entry.content == "caf�"


def test_text_with_nul_bytes_is_read_without_them() -> None:
    (entry,) = decode(CASES["NULs within"].raw).entries
    assert isinstance(entry, User)
    assert entry.content == "hi"


def test_a_last_line_without_newline_is_no_problem_when_it_is_complete() -> None:
    assert only(user("hi").rstrip(b"\n"), User).content == "hi"


def test_what_follows_a_good_object_does_not_cost_the_object() -> None:
    decoded = decode(user("kept").rstrip() + b'{"type":"assis')
    (entry,) = decoded.entries
    assert isinstance(entry, User)
    assert (entry.content, decoded.problems) == ("kept", ("the last line is torn",))


@pytest.mark.parametrize("depth", range(50, 1200, 50))
@pytest.mark.parametrize("inner", [b'"x"', b"5"])
def test_no_depth_of_nesting_raises(depth: int, inner: bytes) -> None:
    for opening, closing in ((b'[{"type":"tool_result","content":', b"}]"), (b'{"a":', b"}")):
        nested = opening * depth + inner + closing * depth
        decoded = decode(b'{"type":"user","uuid":5,"content":' + nested + b"}\n")
        assert len(decoded.entries) == 1 or decoded.problems == ("nested too deeply",)


@pytest.mark.parametrize("opening", [b"[", b'{"a]":', b'["\\"",'])
def test_a_torn_value_is_too_deep_for_every_caller_or_for_none(opening: bytes) -> None:
    def decode_below(frames: int, raw: bytes) -> Decoded:
        return decode_below(frames - 1, raw) if frames else decode(raw)

    for depth in range(50, 1200, 50):
        problems = {
            decode_below(frames, opening * depth + b"\n").problems for frames in (0, 150, 300)
        }
        assert len(problems) == 1, depth


def test_a_torn_value_with_many_siblings_is_not_deep() -> None:
    decoded = decode(b'{"type":"user","content":[' + b'{"a":[]},' * 600 + b"\n")
    assert decoded.problems
    assert "nested too deeply" not in decoded.problems


# Fast and slow


def slow(raw: bytes) -> Decoded:
    return _decode_damaged(Line(raw, 0, 1))


def told(decoded: Decoded) -> str:
    """Return everything that was decoded, including what stays JSON."""
    entries = [
        (type(entry), [_whole(getattr(entry, name)) for name in entry.__struct_fields__])
        for entry in decoded.entries
    ]
    return repr((entries, decoded.problems, decoded.misfits))


def _whole(value: object) -> object:
    return decode_raw(value) if isinstance(value, msgspec.Raw) else value


@given(sound_lines)
def test_sound_lines_have_neither_problems_nor_misfits(raw: bytes) -> None:
    decoded = decode(raw)
    assert (len(decoded.entries), decoded.problems, decoded.misfits) == (1, (), ())


@given(sound_lines)
def test_fast_and_slow_path_give_the_same_entry(raw: bytes) -> None:
    try:
        fast = _decode_sound(raw)
    except msgspec.MsgspecError:
        fast = decode(raw)
    assert told(slow(raw)) == told(fast)


@given(lines_of(misfitting_entries()))
def test_fast_and_slow_path_find_the_same_misfits(raw: bytes) -> None:
    try:
        fast = _decode_sound(raw)
    except msgspec.MsgspecError:
        return
    assert told(slow(raw)) == told(fast)


@given(st.lists(entries, min_size=2, max_size=3))
def test_glued_objects_give_the_entries_that_they_give_apart(values: list[Any]) -> None:
    apart = [decode(encode(value)).entries[0] for value in values]
    glued = decode(b"".join(encode(value).rstrip(b"\n") for value in values))
    # Undecoded JSON is shown by its address.
    shown = [re.sub(" at 0x[0-9a-f]+", "", repr(entry)) for entry in glued.entries]
    assert shown == [re.sub(" at 0x[0-9a-f]+", "", repr(entry)) for entry in apart]


@given(lines_of(flat_entries))
def test_values_are_what_the_line_says(raw: bytes) -> None:
    (value,) = values_of(Line(raw, 0, 1))
    assert value == msgspec.json.decode(raw)


def test_values_of_damaged_lines_are_all_that_can_be_read() -> None:
    def values(raw: bytes) -> list[Any]:
        return values_of(Line(raw, 0, 1))

    assert values(b'{"a":1}{"b":2}\n') == [{"a": 1}, {"b": 2}]
    assert values(b'\xef\xbb\xbf{"a":"\xff"}\0\n') == [{"a": "�"}]
    assert values(b'[1] {"torn') == [[1]]
    assert values(b"\n") == []


# Timestamps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-15T06:26:50.450Z", "2026-11-15T06:26:50.450000+00:00"),
        ("2026-11-15T06:26:50+02:00", "2026-11-15T04:26:50+00:00"),
        ("2026-11-15T06:26:50", "2026-11-15T06:26:50+00:00"),
        ("0002-01-01T00:00:00Z", "0002-01-01T00:00:00+00:00"),
        ("9998-12-31T00:00:00Z", "9998-12-31T00:00:00+00:00"),
    ],
)
def test_timestamps_are_moments_in_utc(text: str, expected: str) -> None:
    moment = parse_timestamp(text)
    assert moment is not None
    assert moment.isoformat() == expected


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "soon",
        "2026-99-99T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-01-01T00:00:00Z",
        "\ud800",
    ],
)
def test_what_names_no_moment_is_none(text: str | None) -> None:
    assert parse_timestamp(text) is None


def test_the_builders_chain_a_session(tmp_path: Path) -> None:
    path = tmp_path / "built.jsonl"
    path.write_bytes(
        session(user("hi"), assistant(text("a")), line("mode", mode="plan"), user("b"))
    )
    found = [entry for _, entry in read_entries(path)]
    chain = [entry for entry in found if isinstance(entry, User | Assistant)]
    assert [entry.parent_uuid for entry in chain] == [None, chain[0].uuid, chain[1].uuid]
    assert len({entry.session_id for entry in found}) == 1


def test_elements_that_do_not_fit_are_left_out_of_a_list() -> None:
    misfits: list[str] = []
    value = {"input_tokens": 3, "iterations": [7, {"type": "advisor_message"}, None]}
    usage = fit(Usage, value, misfits)
    assert [each.type for each in usage.iterations] == ["advisor_message"]
    assert (usage.input_tokens, misfits) == (3, ["iterations", "iterations"])
