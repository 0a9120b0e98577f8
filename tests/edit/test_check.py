"""Each fault, planted alone in a sound session, is found as what it is, and nothing else."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from build import (
    SESSION,
    Fields,
    assistant,
    attachment,
    call,
    compaction,
    encode,
    image,
    line,
    moment,
    nth,
    result,
    result_block,
    session,
    system,
    text,
    thinking,
    user,
)
from turnlog.cli.root import run
from turnlog.conversation.session import open_session
from turnlog.edit import check_rules
from turnlog.edit.check import check_session
from turnlog.edit.findings import Finding
from turnlog.edit.images import pixels_of
from turnlog.store.paths import Store

DOCS = Path(__file__).parents[2] / "docs/check.md"


def png(width: int, height: int = 1) -> str:
    """The head of an image; nothing reads further."""
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size).decode()


def sound() -> list[bytes]:
    return [
        user("one"),
        assistant(text("first")),
        user("two"),
        assistant(thinking("hm"), message_id="m"),
        assistant(text("calling"), message_id="m"),
        assistant(call("Bash"), message_id="m"),
        result("toolu_1"),
        assistant(text("second")),
        user("three"),
        assistant(text("third")),
    ]


def put(number: int, raw: bytes) -> bytes:
    """The sound session with another nth line."""
    lines = sound()
    lines[number - 1] = raw
    return session(*lines)


def changed(change: Callable[[list[Fields]], object]) -> bytes:
    """The sound session after a change of its decoded lines."""
    lines = [json.loads(raw) for raw in session(*sound()).splitlines()]
    change(lines)
    return b"".join(map(encode, lines))


def without(number: int, name: str) -> bytes:
    return changed(lambda lines: lines[number - 1].pop(name))


def replaced(number: int, change: Callable[[bytes], bytes]) -> bytes:
    """The sound session with the bytes of its nth line changed."""
    raws = session(*sound()).splitlines(keepends=True)
    raws[number - 1] = change(raws[number - 1])
    return b"".join(raws)


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., list[Finding]]:
    def check_one(
        content: bytes, name: str = SESSION, folder: str = "-home-ada-shop"
    ) -> list[Finding]:
        path = tmp_path / "projects" / folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return check_session(open_session(path))

    return check_one


def parallel() -> bytes:
    """As clients since 2.1.29 write it: each result on its own call."""
    return session(
        user("go"),
        assistant(call("Bash", call_id="a"), message_id="m"),
        assistant(call("Bash", call_id="b"), message_id="m"),
        result("a", parent=nth(2)),
        result("b", parent=nth(3)),
        assistant(text("done")),
    )


def preserving(*uuids: str) -> bytes:
    metadata = {"preservedMessages": {"anchorUuid": nth(12), "uuids": list(uuids)}}
    boundary, summary = compaction("what was", compact_metadata=metadata)
    return session(*sound(), boundary, summary, user("four"), assistant(text("fourth")))


SOUND: dict[str, bytes] = {
    "straight": session(*sound()),
    "compacted": session(*sound(), *compaction("what was"), user("four"), assistant(text("4th"))),
    "preserving": preserving(nth(9), nth(10)),
    "rewound": session(
        *sound(),
        user("again", parent=nth(8)),
        line("last-prompt", leafUuid="00000000-0000-0000-0000-000000000000", explicit=True),
    ),
    "branched": session(*sound(), user("again", parent=nth(8)), assistant(text("other"))),
    "started over": session(
        *sound(),
        line("last-prompt", leafUuid="00000000-0000-0000-0000-000000000000", explicit=True),
        user("over", parent=None),
        assistant(text("anew")),
    ),
    "sidechains": session(
        *sound()[:2],
        *(user("aside", isSidechain=True, parent=None), assistant(call("X"), isSidechain=True)),
        *(user("two", parent=nth(2)), assistant(text("second"))),
    ),
    "empty thinking": put(4, assistant(thinking(""), message_id="m")),
    "emoji": put(1, user("\U0001f600")),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_session_has_no_findings(check: Any, name: str) -> None:
    assert check(SOUND[name]) == []


def test_the_tree_of_tools_is_sound_but_for_old_clients(check: Any) -> None:
    assert [(f.kind, f.severity, f.fix) for f in check(parallel())] == [
        ("parallel-results", "old", "straighten")
    ]


TWENTY_ONE = [image(png(9)) for _ in range(20)] + [image(png(2001))]
HELD_IMAGE = {"content": {"type": "image", "file": {"base64": png(8001), "type": "image/png"}}}

PLANTED: dict[str, tuple[bytes, str, str, int | None]] = {
    "an empty file": (b"", "no-conversation", "fatal", None),
    "only metadata": (session(line("mode", mode="normal")), "no-conversation", "fatal", None),
    "only a sidechain": (session(*sound(), agent_id="a1"), "no-conversation", "fatal", None),
    "no time at the end": (without(10, "timestamp"), "no-timestamp", "fatal", 10),
    "a time that is none": (
        changed(lambda lines: lines[9].update(timestamp="soon")),
        "no-timestamp",
        "fatal",
        10,
    ),
    "no time in the middle": (without(3, "timestamp"), "no-timestamp", "old", 3),
    "one line without a uuid": (without(3, "uuid"), "no-uuid", "old", 3),
    "lines without a uuid": (
        changed(lambda lines: [each.pop("uuid") for each in lines[2:5]]),
        "no-uuid",
        "loss",
        3,
    ),
    "no parentUuid": (without(3, "parentUuid"), "no-parent", "loss", 3),
    "no message": (
        changed(lambda lines: lines[8].update(message=None)),
        "no-message",
        "old",
        9,
    ),
    "a call in the middle": (
        put(5, assistant(call("Read", call_id="toolu_9"), message_id="m")),
        "unanswered-call",
        "loss",
        5,
    ),
    "a call at the end": (put(10, assistant(call("Bash", call_id="z"))), "open-call", "note", 10),
    "a result without a call": (put(9, result("toolu_9")), "orphan-result", "old", 9),
    "a call's id twice": (
        session(*sound(), assistant(call("Bash")), result("toolu_1"), assistant(text("4"))),
        "duplicate-call",
        "loss",
        11,
    ),
    "a parent that is gone": (
        put(5, assistant(text("x"), message_id="m", parent="gone")),
        "dangling-parent",
        "old",
        5,
    ),
    "a circle": (put(1, user("one", parent=nth(3))), "circular-parents", "old", 1),
    "a uuid twice": (put(3, user("two", uuid=nth(1), parent=None)), "duplicate-uuid", "loss", 3),
    "a line twice": (
        changed(lambda lines: lines.insert(3, lines[2])),
        "duplicate-uuid",
        "note",
        4,
    ),
    "a second root": (put(9, user("three", parent=None)), "second-root", "loss", 9),
    "a stray attachment": (
        session(*sound(), attachment("date", parent=nth(2))),
        "stray-tip",
        "loss",
        11,
    ),
    "a stray note": (
        session(*sound(), system("turn_duration", parent=nth(2))),
        "stray-tip",
        "loss",
        11,
    ),
    "a stray prompt": (
        session(*sound(), line("last-prompt", leafUuid=nth(2)), user("lone", parent=nth(2))),
        "stray-tip",
        "loss",
        12,
    ),
    "a late time": (put(3, user("two", timestamp=moment(99))), "late-time", "old", 3),
    "a preserved line that is gone": (preserving(nth(9), "gone"), "gone-preserved", "loss", 11),
    "a torn last line": (session(*sound()) + b'{"type":"us', "torn-line", "old", 11),
    "no final newline": (session(*sound())[:-1], "no-newline", "old", 10),
    "two entries on a line": (replaced(8, lambda raw: raw[:-1]), "several-values", "loss", 8),
    "a note behind an entry": (
        replaced(8, lambda raw: raw[:-1] + b'{"type":"mode","mode":"normal"}\n'),
        "several-values",
        "note",
        8,
    ),
    "a line cut short": (replaced(5, lambda raw: raw[:40] + b"\n"), "unreadable-line", "loss", 5),
    "NUL before a line": (replaced(3, lambda raw: b"\0\0" + raw), "unreadable-line", "loss", 3),
    "a control character": (
        replaced(3, lambda raw: raw.replace(b"two", b"t\x01o")),
        "unreadable-line",
        "loss",
        3,
    ),
    "a line of NUL": (session(*sound()) + b"\0\0\0\n", "nul-line", "note", 11),
    "bytes that are not UTF-8": (
        replaced(3, lambda raw: raw.replace(b"two", b"t\xffo")),
        "invalid-utf-8",
        "note",
        3,
    ),
    "a byte order mark": (
        replaced(1, lambda raw: b"\xef\xbb\xbf" + raw),
        "byte-order-mark",
        "note",
        1,
    ),
    "an empty prompt": (put(3, user("")), "empty-text", "fatal", 3),
    "a blank prompt": (put(3, user(" \n")), "empty-text", "fatal", 3),
    "an empty text beside another": (
        put(3, user([text(""), text("two")])),
        "empty-text",
        "old",
        3,
    ),
    "an empty text in an answer": (
        put(5, assistant(text(""), message_id="m")),
        "empty-answer",
        "old",
        5,
    ),
    "thinking with an empty signature": (
        put(4, assistant(thinking("hm", ""), message_id="m")),
        "unsigned-thinking",
        "fatal",
        4,
    ),
    "thinking without a signature": (
        put(4, assistant({"type": "thinking", "thinking": "hm"}, message_id="m")),
        "unsigned-thinking",
        "fatal",
        4,
    ),
    "nothing but thinking": (put(8, assistant(thinking("hm", ""))), "thinking-only", "old", 8),
    "a heavy image": (
        put(3, user([image(png(9) + "A" * (5 << 20))])),
        "image-size",
        "fatal",
        3,
    ),
    "a long image": (put(7, result("toolu_1", [image(png(8001))])), "image-pixels", "fatal", 7),
    "a long image that is mentioned": (
        session(user("see"), attachment("file", HELD_IMAGE), assistant(text("seen"))),
        "image-pixels",
        "fatal",
        2,
    ),
    "a long image among many": (put(3, user(TWENTY_ONE)), "image-pixels", "fatal", 3),
    "too many images": (put(3, user([image(png(9))] * 101)), "image-count", "fatal", 3),
    "a large result": (put(7, result("toolu_1", "x" * 400_001)), "large-result", "note", 7),
    "half a character": (
        replaced(3, lambda raw: raw.replace(b"two", b"\\ud83d")),
        "lone-surrogate",
        "old",
        3,
    ),
    "another session's id": (
        put(3, user("two", sessionId="99999999-9999-4999-8999-999999999999")),
        "other-id",
        "note",
        3,
    ),
    "a program's session": (put(1, user("one", entrypoint="sdk-cli")), "hidden", "note", None),
    "a saved output that is gone": (
        put(7, result("toolu_1", "<persisted-output>\nFull output saved to: /x/b1.txt\n")),
        "lost-output",
        "note",
        7,
    ),
    "a sub-agent that is gone": (
        put(7, result("toolu_1", tool_use_result={"agentId": "a1"})),
        "lost-subagent",
        "note",
        7,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_the_only_finding(check: Any, name: str) -> None:
    content, kind, severity, number = PLANTED[name]
    found = [(each.kind, each.severity, each.line) for each in check(content)]
    assert found == [(kind, severity, number)]


def test_a_name_that_is_no_uuid(check: Any) -> None:
    content = session(*sound(), session_id="notes")
    assert [(f.kind, f.severity) for f in check(content, "notes")] == [("not-a-uuid", "fatal")]


def test_a_name_that_is_no_uuid_matters_less_outside_a_store(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(session(*sound(), session_id="notes"))
    found = check_session(open_session(path))
    assert [(each.kind, each.severity) for each in found] == [("not-a-uuid", "note")]


def test_a_session_in_another_project(check: Any) -> None:
    (found,) = check(session(*sound()), folder="-elsewhere")
    assert (found.kind, found.severity) == ("other-folder", "old")


def test_what_is_not_sent_cannot_be_refused(check: Any) -> None:
    lines = sound()
    lines[2] = user([image(png(9000))])
    content = session(*lines, *compaction("what was"), user("four"), assistant(text("4th")))
    assert check(content) == []


def test_faults_of_one_kind_are_one_finding_and_the_worst_comes_first(check: Any) -> None:
    lines = sound()
    lines[0] = user([text(""), text("one")])
    lines[2], lines[8] = user(""), user(" ")
    found = check(session(*lines))
    assert [(f.severity, f.line, f.count) for f in found] == [("fatal", 3, 2), ("old", 1, 1)]
    assert found[0].message.endswith("(2 times)")


def test_a_line_with_several_results_names_each_call(check: Any) -> None:
    content = put(7, user([result_block("toolu_1"), result_block("toolu_9")]))
    assert [(f.kind, f.line) for f in check(content)] == [("orphan-result", 7)]


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"GIF89a" + bytes([3, 0, 5, 0, 0, 0]), (3, 5)),
        (b"\xff\xd8\xff\xe0\0\x04JF\xff\xc0\0\x0b\x08\0\x05\0\x03\x01\x11\0", (3, 5)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + bytes([2, 0, 0, 4, 0, 0]), (3, 5)),
        (
            b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + (2 | 4 << 14).to_bytes(4, "little") + bytes(9),
            (3, 5),
        ),
        (b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + bytes([3, 0, 5, 0]), (3, 5)),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff\xe0\xff", None),
        (b"BM1234", None),
    ],
)
def test_images_tell_their_size(head: bytes, size: tuple[int, int] | None) -> None:
    assert pixels_of(base64.b64encode(head).decode()) == size


def test_the_command_prints_findings_and_fails_if_any_is_serious(
    store: Store, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    folder = store.project_of("/home/ada/shop")
    folder.mkdir()
    good, bad = folder / f"{SESSION}.jsonl", folder / f"{nth(7)}.jsonl"
    good.write_bytes(session(*sound())[:-1])
    assert run(["check", SESSION[:8]]) == 0
    bad.write_bytes(session(*sound()[:2], user(""), *sound()[3:], session_id=nth(7)))
    capfd.readouterr()
    assert run(["check", "--all"]) == 1
    printed = capfd.readouterr().out.splitlines()
    assert printed[-1] == "2 sessions: 1 fatal, 1 old"
    assert sorted(each for each in printed if each.startswith(" ")) == [
        "  fatal     line 3  an empty prompt is sent as it is: the API refuses every request",
        "  old      line 10  the last line has no newline: clients up to 2.1.45 write their next "
        "line onto it",
    ]
    assert run(["check", str(bad), "--json"]) == 1
    (told,) = json.loads(capfd.readouterr().out)
    assert (told["id"], told["findings"][0]["severity"]) == (nth(7), "fatal")


def test_the_command_wants_sessions_or_all(store: Store) -> None:
    assert (run(["check"]), run(["check", "last", "--all"]), run(["check", "--all"])) == (2, 2, 0)


def test_every_rule_is_tested_and_in_the_documents() -> None:
    documented = DOCS.read_text("utf-8")
    rules = check_rules.RULES.values()
    assert [rule.kind for rule in rules if f"`{rule.kind}`" not in documented] == []
    named = {kind for _, kind, _, _ in PLANTED.values()}
    apart = {"not-a-uuid", "other-folder", "parallel-results"}
    assert {rule.kind for rule in rules} == named | apart
