"""Every fault that a check looks for, planted alone in a sound session."""

import base64
import json
from collections.abc import Callable
from typing import NamedTuple

from support.build import (
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
    session,
    system,
    text,
    thinking,
    user,
)
from turnlog.conversation.context import INTERRUPTED_CALL


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


def less(number: int) -> bytes:
    """The sound session without its nth line."""
    lines = sound()
    del lines[number - 1]
    return session(*lines)


def later(lines: list[Fields]) -> None:
    """Let decoded lines be of a minute later."""
    for number, each in enumerate(lines, 60):
        each["timestamp"] = moment(number)


def following(parent: str, number: int = 10) -> list[bytes]:
    """The last two lines of the sound session, with another parent and other times."""
    asked = user("three", parent=parent, timestamp=moment(number))
    return [asked, assistant(text("third"), timestamp=moment(number + 1))]


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


def called() -> bytes:
    return session(user("go"), assistant(call("Bash")), result("toolu_1"), assistant(text("done")))


def asked_behind_result() -> bytes:
    lines = [user("go"), assistant(call("Bash")), result("toolu_1"), user("and?")]
    return session(*lines, assistant(text("done")))


def unnamed(content: bytes) -> bytes:
    """A session whose answers have no message ids, as some exporters write them."""
    lines = [json.loads(raw) for raw in content.splitlines()]
    for each in lines:
        each["message"].pop("id", None)
    return b"".join(map(encode, lines))


def preserving(*uuids: str, anchor: str = nth(12)) -> bytes:
    metadata = {"preservedMessages": {"anchorUuid": anchor, "uuids": list(uuids)}}
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


TWENTY = [image(png(9)) for _ in range(20)]
HUNDRED = [image(png(9)) for _ in range(100)]
GONE = text("[image removed]")
HELD_IMAGE = {"content": {"type": "image", "file": {"base64": png(8001), "type": "image/png"}}}


class Fault(NamedTuple):
    """A session with one fault, the expected finding, and the session without the fault."""

    content: bytes
    kind: str
    severity: str
    line: int | None
    whole: bytes = SOUND["straight"]
    """The session as it should be after the repair."""


PLANTED: dict[str, Fault] = {
    "an empty file": Fault(b"", "no-conversation", "fatal", None),
    "only metadata": Fault(session(line("mode", mode="normal")), "no-conversation", "fatal", None),
    "only a sidechain": Fault(session(*sound(), agent_id="a1"), "no-conversation", "fatal", None),
    "no time at the end": Fault(without(10, "timestamp"), "no-timestamp", "fatal", 10),
    "a time that is none": Fault(
        changed(lambda lines: lines[9].update(timestamp="soon")), "no-timestamp", "fatal", 10
    ),
    "no time in the middle": Fault(without(3, "timestamp"), "no-timestamp", "old", 3),
    "no time at the start": Fault(without(1, "timestamp"), "no-timestamp", "old", 1),
    "one line without a uuid": Fault(without(3, "uuid"), "no-uuid", "old", 3),
    "lines without a uuid": Fault(
        changed(lambda lines: [each.pop("uuid") for each in lines[2:5]]), "no-uuid", "loss", 3
    ),
    "no line with a uuid": Fault(
        changed(lambda lines: [(each.pop("uuid"), each.pop("parentUuid")) for each in lines]),
        "no-uuid",
        "loss",
        1,
    ),
    "no parentUuid": Fault(without(3, "parentUuid"), "no-parent", "loss", 3),
    "no line with a parentUuid": Fault(
        changed(lambda lines: [each.pop("parentUuid") for each in lines]), "no-parent", "loss", 2
    ),
    "no type": Fault(without(3, "type"), "no-type", "loss", 3),
    "no message": Fault(
        changed(lambda lines: lines[8].update(message=None)), "no-message", "old", 9, less(9)
    ),
    "a message that is a text": Fault(
        changed(lambda lines: lines[8].update(message="three")), "no-message", "loss", 9
    ),
    "a call in the middle": Fault(
        put(5, assistant(call("Read", call_id="toolu_9"), message_id="m")),
        "unanswered-call",
        "loss",
        5,
        session(
            *sound()[:4],
            assistant(call("Read", call_id="toolu_9"), message_id="m"),
            sound()[5],
            result("toolu_9", INTERRUPTED_CALL, is_error=True),
            *sound()[6:],
        ),
    ),
    "a call at the end": Fault(
        put(10, assistant(call("Bash", call_id="z"))),
        "open-call",
        "note",
        10,
        session(
            *sound()[:9],
            assistant(call("Bash", call_id="z")),
            result("z", INTERRUPTED_CALL, is_error=True),
        ),
    ),
    "a result without a call": Fault(put(9, result("toolu_9")), "orphan-result", "old", 9, less(9)),
    "a call's id twice": Fault(
        session(*sound(), assistant(call("Bash")), result("toolu_1"), assistant(text("4"))),
        "duplicate-call",
        "loss",
        11,
        session(
            *sound(),
            assistant(call("Bash", call_id="toolu_2")),
            result("toolu_2"),
            assistant(text("4")),
        ),
    ),
    "a parent that is gone": Fault(
        put(5, assistant(text("calling"), message_id="m", parent="gone")),
        "dangling-parent",
        "old",
        5,
    ),
    "a parent that is gone for long": Fault(
        changed(lambda lines: (lines[8].update(parentUuid="gone"), later(lines[8:]))),
        "dangling-parent",
        "loss",
        9,
    ),
    "progress in the chain": Fault(
        session(*sound()[:8], line("progress", uuid="p", parent=nth(8)), *following("p", 60)),
        "progress-parent",
        "old",
        10,
    ),
    "a circle with nothing near before it": Fault(
        session(*sound()[:8], *following(nth(10), 60)),
        "circular-parents",
        "loss",
        9,
    ),
    "progress near to what came before, and what follows on it late": Fault(
        session(*sound()[:8], line("progress", uuid="p", parent="gone"), *following("p", 60)),
        "dangling-parent",
        "loss",
        10,
    ),
    "one line without a uuid for long": Fault(
        changed(lambda lines: (lines[7].pop("uuid"), later(lines[8:]))),
        "no-uuid",
        "loss",
        8,
    ),
    "a parent of an unknown type": Fault(
        session(*sound()[:8], line("sparkle", uuid="s", parent=nth(8)), *following("s")),
        "unknown-parent",
        "old",
        10,
    ),
    "a parent of an unknown type for long": Fault(
        session(*sound()[:8], line("sparkle", uuid="s", parent=nth(8)), *following("s", 99)),
        "unknown-parent",
        "loss",
        10,
    ),
    "a circle": Fault(put(1, user("one", parent=nth(3))), "circular-parents", "old", 1),
    "a uuid twice": Fault(
        put(3, user("two", uuid=nth(1), parent=None)), "duplicate-uuid", "loss", 3
    ),
    "a line twice": Fault(
        changed(lambda lines: lines.insert(3, lines[2])), "duplicate-uuid", "note", 4
    ),
    "a second root": Fault(put(9, user("three", parent=None)), "second-root", "loss", 9),
    "a third root": Fault(
        session(*sound()[:2], user("two", parent=None), *sound()[3:8], user("3", parent=None)),
        "second-root",
        "loss",
        3,
        session(*sound()[:8], user("3")),
    ),
    "a stray attachment": Fault(
        session(*sound(), attachment("date", parent=nth(2))),
        "stray-tip",
        "loss",
        11,
        session(*sound(), attachment("date")),
    ),
    "a stray note": Fault(
        session(*sound(), system("turn_duration", parent=nth(2))), "stray-tip", "loss", 11
    ),
    "a stray prompt": Fault(
        session(*sound(), line("last-prompt", leafUuid=nth(2)), user("lone", parent=nth(2))),
        "stray-tip",
        "loss",
        12,
        session(*sound(), user("lone")),
    ),
    "results on their own calls": Fault(
        parallel(),
        "parallel-results",
        "old",
        4,
        session(
            user("go"),
            assistant(call("Bash", call_id="a"), message_id="m"),
            assistant(call("Bash", call_id="b"), message_id="m"),
            *(result("a"), result("b"), assistant(text("done"))),
        ),
    ),
    "a late time": Fault(put(3, user("two", timestamp=moment(99))), "late-time", "old", 3),
    "a preserved line that is gone": Fault(
        preserving(nth(9), "gone"), "gone-preserved", "loss", 11, preserving(nth(9))
    ),
    "no preserved line that is there": Fault(
        preserving("gone"), "gone-preserved", "loss", 11, preserving()
    ),
    "preserved lines that follow on nothing": Fault(
        preserving(nth(9), nth(10), anchor="gone"),
        "gone-preserved",
        "loss",
        11,
        SOUND["preserving"],
    ),
    "a torn last line": Fault(session(*sound()) + b'{"type":"us', "torn-line", "old", 11),
    "no final newline": Fault(session(*sound())[:-1], "no-newline", "old", 10),
    "two entries on a line": Fault(replaced(8, lambda raw: raw[:-1]), "several-values", "loss", 8),
    "a note behind an entry": Fault(
        replaced(8, lambda raw: raw[:-1] + b'{"type":"mode","mode":"normal"}\n'),
        "several-values",
        "old",
        8,
    ),
    "two notes on a line": Fault(
        session(*sound()) + b'{"type":"mode","mode":"normal"}{"type":"tag","tag":"x"}\n',
        "several-values",
        "note",
        11,
    ),
    "a line cut short": Fault(
        replaced(5, lambda raw: raw[:40] + b"\n"), "unreadable-line", "loss", 5, less(5)
    ),
    "a line written onto a torn one": Fault(
        replaced(5, lambda raw: raw[:40] + raw), "unreadable-line", "loss", 5
    ),
    "NUL before a line": Fault(
        replaced(3, lambda raw: b"\0\0" + raw), "unreadable-line", "loss", 3
    ),
    "a control character": Fault(
        replaced(3, lambda raw: raw.replace(b"two", b"t\x01o")),
        "unreadable-line",
        "loss",
        3,
        put(3, user("t\x01o")),
    ),
    "a number that is none": Fault(
        replaced(
            3, lambda raw: raw.replace(b'"isSidechain":false', b'"isSidechain":false,"x":NaN')
        ),
        "unreadable-line",
        "loss",
        3,
    ),
    "a line of NUL": Fault(session(*sound()) + b"\0\0\0\n", "nul-line", "note", 11),
    "bytes that are not UTF-8": Fault(
        replaced(3, lambda raw: raw.replace(b"two", b"t\xffo")),
        "invalid-utf-8",
        "note",
        3,
        put(3, user("t\ufffdo")),
    ),
    "a byte order mark": Fault(
        replaced(1, lambda raw: b"\xef\xbb\xbf" + raw), "byte-order-mark", "note", 1
    ),
    "an empty prompt": Fault(
        put(3, user("")), "empty-text", "fatal", 3, put(3, user("(no content)"))
    ),
    "a blank prompt": Fault(
        put(3, user(" \n")), "empty-text", "fatal", 3, put(3, user("(no content)"))
    ),
    "an empty text beside another": Fault(
        put(3, user([text(""), text("two")])), "empty-text", "old", 3
    ),
    "an empty text alone": Fault(
        put(3, user([text("")])), "empty-text", "old", 3, put(3, user("(no content)"))
    ),
    "an empty text in an answer": Fault(
        put(5, assistant(text(""), message_id="m")), "empty-answer", "old", 5, less(5)
    ),
    "an answer of white space": Fault(
        put(5, assistant(text("\n"), message_id="m")), "empty-answer", "old", 5, less(5)
    ),
    "an answer without a block": Fault(
        changed(lambda lines: lines[7]["message"].update(content="second")), "text-answer", "old", 8
    ),
    "an error without a block": Fault(
        changed(
            lambda lines: (
                lines[7].update(isApiErrorMessage=True),
                lines[7]["message"].update(content="second", model="<synthetic>"),
            )
        ),
        "text-answer",
        "old",
        8,
        less(8),
    ),
    "answers without a message id": Fault(unnamed(called()), "no-message-id", "note", 4, called()),
    "answers without a message id, and a prompt behind a result": Fault(
        unnamed(asked_behind_result()), "no-message-id", "note", 5, asked_behind_result()
    ),
    "a text among blocks": Fault(
        put(3, user(["two", text("and more")])),
        "bare-block",
        "loss",
        3,
        put(3, user([text("two"), text("and more")])),
    ),
    "an answer of a bare text": Fault(
        changed(lambda lines: lines[7]["message"].update(content=["second"])),
        "bare-block",
        "loss",
        8,
    ),
    "content that is null": Fault(
        changed(lambda lines: lines[8]["message"].update(content=None)),
        "no-message",
        "old",
        9,
        less(9),
    ),
    "thinking with an empty signature": Fault(
        put(4, assistant(thinking("hm", ""), message_id="m")),
        "unsigned-thinking",
        "fatal",
        4,
        less(4),
    ),
    "thinking without a signature": Fault(
        put(4, assistant({"type": "thinking", "thinking": "hm"}, message_id="m")),
        "unsigned-thinking",
        "fatal",
        4,
        less(4),
    ),
    "nothing but thinking": Fault(
        put(8, assistant(thinking("hm", ""))), "thinking-only", "old", 8, less(8)
    ),
    "a heavy image": Fault(
        put(3, user([image(png(9) + "A" * (5 << 20)), text("two")])),
        "image-size",
        "fatal",
        3,
        put(3, user([GONE, text("two")])),
    ),
    "a long image": Fault(
        put(7, result("toolu_1", [image(png(8001)), image(png(9))])),
        "image-pixels",
        "fatal",
        7,
        put(7, result("toolu_1", [GONE, image(png(9))])),
    ),
    "a long image that is mentioned": Fault(
        session(user("see"), attachment("file", HELD_IMAGE), assistant(text("seen"))),
        "image-pixels",
        "fatal",
        2,
        session(user("see"), assistant(text("seen"))),
    ),
    "a long image among many": Fault(
        put(3, user([*TWENTY, image(png(2001))])),
        "image-pixels",
        "fatal",
        3,
        put(3, user([*TWENTY, GONE])),
    ),
    "too many images": Fault(
        put(3, user([*HUNDRED, image(png(8))])),
        "image-count",
        "fatal",
        3,
        put(3, user([GONE, *HUNDRED[1:], image(png(8))])),
    ),
    "a large result": Fault(
        put(7, result("toolu_1", "x" * 400_001)),
        "large-result",
        "note",
        7,
        put(7, result("toolu_1", "x" * 200 + "\n[399,801 characters removed]")),
    ),
    "half a character": Fault(
        replaced(3, lambda raw: raw.replace(b"two", b"\\ud83d")),
        "lone-surrogate",
        "old",
        3,
        put(3, user("\ufffd")),
    ),
    "another session's id": Fault(
        put(3, user("two", sessionId="99999999-9999-4999-8999-999999999999")),
        "other-id",
        "note",
        3,
    ),
    "a program's session": Fault(put(1, user("one", entrypoint="sdk-cli")), "hidden", "note", None),
    "a saved output that is gone": Fault(
        put(7, result("toolu_1", "<persisted-output>\nFull output saved to: /x/b1.txt\n")),
        "lost-output",
        "note",
        7,
    ),
    "a sub-agent that is gone": Fault(
        put(7, result("toolu_1", tool_use_result={"agentId": "a1"})),
        "lost-subagent",
        "note",
        7,
    ),
}
