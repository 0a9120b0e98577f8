"""The messages that the client sends when it resumes small sessions.

The rules are those of 2.1.325, seen in what it sent when it resumed sessions such as these.
"""

import json
from datetime import timedelta
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import (
    START,
    assistant,
    attachment,
    call,
    compaction,
    encode,
    image,
    line,
    nth,
    result,
    result_block,
    session,
    stamp,
    system,
    text,
    thinking,
    user,
)
from turnlog.conversation.context import (
    INTERRUPTED_CALL,
    INTERRUPTED_USE,
    MISSING_RESULT,
    NO_RESPONSE,
    ORPHANED_RESULT,
)
from turnlog.conversation.drafts import MEANWHILE, NO_CONTENT, NOTIFICATION
from turnlog.conversation.session import open_session

Told = list[list[str]]

CAVEAT = "<local-command-caveat>Ran by itself</local-command-caveat>"
COMMAND = "<command-name>/cost</command-name>"
OUTPUT = "<local-command-stdout>$1</local-command-stdout>"
NOTIFIED = "<task-notification>done</task-notification>"
SUMMARY = "This session is being continued from a previous conversation. So far: a lot."
LOADED = [{"type": "tool_reference", "tool_name": "WebFetch"}]
TALK = (user("q1"), assistant(text("a1")), user("q2"), assistant(text("a2")))
TOLD = [["u", "q1"], ["a", "a1"], ["u", "q2"], ["a", "a2"]]
OTHER = (user("other q", parent=nth(2)), assistant(text("other a")))
OTHER_TOLD = [["u", "q1"], ["a", "a1"], ["u", "other q"], ["a", "other a"]]


def tell(messages: list[dict[str, Any]]) -> Told:
    """Return messages in short: the role's first letter, then each block."""
    return [[one["role"][0], *map(_tell_block, one["content"])] for one in messages]


def _tell_block(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text"}:
            return block["text"]
        case {"type": "tool_use"}:
            return f"call {block['id']}"
        case {"type": "tool_result"}:
            failed = " failed" if block.get("is_error") else ""
            return f"result {block['tool_use_id']}{failed}: {block['content']}"
        case _:
            return f"({block['type']})"


def use(call_id: str, message_id: str | None = None, **fields: Any) -> bytes:
    return assistant(call("Bash", call_id=call_id), message_id=message_id, **fields)


def note(leaf: str, **fields: Any) -> bytes:
    """The client's own note of where the conversation's tip is."""
    return line("last-prompt", last_prompt="x", leaf_uuid=leaf, **fields)


def omit(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def local(output: str) -> bytes:
    return system("local_command", content=output)


FOUR = ["A", "B", "C", "D"]
FOUR_TOLD = [
    ["u", "q1"],
    ["a", *(f"call {name}" for name in FOUR)],
    ["u", *(f"result {name}: ok" for name in FOUR)],
    ["a", "done"],
]


def four_calls(results: list[int | None], then: int | None = None) -> tuple[bytes, ...]:
    """Four calls of one message in lines 2 to 5, their results with these parents, an answer."""
    parents: list[dict[str, Any]] = [{"parent": nth(at)} if at else {} for at in results]
    answers = [result(name, **parent) for name, parent in zip(FOUR, parents, strict=True)]
    after: dict[str, Any] = {"parent": nth(then)} if then else {}
    return (
        user("q1"),
        *(use(name, "m") for name in FOUR),
        *answers,
        assistant(text("done"), **after),
    )


CALLS: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "results of parallel calls on their own calls": (four_calls([2, 3, 4, 5]), FOUR_TOLD),
    "results of parallel calls in a straight chain": (four_calls([None] * 4), FOUR_TOLD),
    "results of parallel calls all on the last block": (four_calls([5, 5, 5, 5]), FOUR_TOLD),
    "the next message on the first result": (four_calls([2, 3, 4, 5], then=6), FOUR_TOLD),
    "two calls in a line, one without a result": (
        (
            user("q1"),
            assistant(text("both"), call("Bash", call_id="A"), call("Bash", call_id="B")),
            result("A"),
            user("q2"),
            assistant(text("done")),
        ),
        [
            ["u", "q1"],
            ["a", "both", "call A", "call B"],
            ["u", f"result B failed: {MISSING_RESULT}", "result A: ok", "q2"],
            ["a", "done"],
        ],
    ),
    "a call without a result takes the rest of its line with it": (
        (
            user("q1"),
            assistant(text("first"), message_id="m"),
            assistant(text("second"), call("Bash", call_id="A"), message_id="m"),
            user("q2"),
            assistant(text("done")),
        ),
        [["u", "q1"], ["a", "first"], ["u", "q2"], ["a", "done"]],
    ),
    "results come in the order of the file": (
        (
            user("q1"),
            use("A", "m"),
            use("B", "m"),
            result("B", parent=nth(3)),
            result("A", parent=nth(2)),
            assistant(text("done")),
        ),
        [
            ["u", "q1"],
            ["a", "call A", "call B"],
            ["u", "result B: ok", "result A: ok"],
            ["a", "done"],
        ],
    ),
    "a message interleaved with its results is one": (
        (
            user("q1"),
            use("A", "m"),
            result("A"),
            use("B", "m"),
            result("B"),
            assistant(text("done")),
        ),
        [
            ["u", "q1"],
            ["a", "call A", "call B"],
            ["u", "result A: ok", "result B: ok"],
            ["a", "done"],
        ],
    ),
    "calls of different messages stay apart": (
        (
            user("q1"),
            use("A", "m1"),
            use("B", "m2"),
            result("A", parent=nth(2)),
            result("B", parent=nth(3)),
            assistant(text("done")),
        ),
        [
            ["u", "q1"],
            ["a", "call A"],
            ["u", "result A: ok"],
            ["a", "call B"],
            ["u", "result B: ok"],
            ["a", "done"],
        ],
    ),
    "blocks of one line": (
        (
            user("q1"),
            assistant(text("hi"), call("Bash", call_id="A"), call("Bash", call_id="B")),
            user([result_block("A"), result_block("B")]),
            assistant(text("done")),
        ),
        [
            ["u", "q1"],
            ["a", "hi", "call A", "call B"],
            ["u", "result A: ok", "result B: ok"],
            ["a", "done"],
        ],
    ),
    "a call at the end without its result is said to be interrupted": (
        (user("q1"), assistant(text("calling"), message_id="m"), use("A", "m")),
        [
            ["u", "q1"],
            ["a", "calling", "call A"],
            ["u", f"result A failed: {INTERRUPTED_CALL}"],
            ["a", NO_RESPONSE],
        ],
    ),
    "of two calls at the end the one without a result is": (
        (user("q1"), use("A", "m"), use("B", "m"), result("A", parent=nth(2))),
        [
            ["u", "q1"],
            ["a", "call A", "call B"],
            ["u", "result A: ok", f"result B failed: {INTERRUPTED_CALL}"],
            ["a", NO_RESPONSE],
        ],
    ),
    "a call in the middle without its result is left out": (
        (user("q1"), use("A"), user("q2"), assistant(text("a2"))),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
    "of parallel calls the one without a result is left out": (
        (
            user("q1"),
            use("A", "m"),
            use("B", "m"),
            result("A", parent=nth(2)),
            assistant(text("done")),
        ),
        [["u", "q1"], ["a", "call A"], ["u", "result A: ok"], ["a", "done"]],
    ),
    "a result at the end is answered": (
        (user("q1"), use("A"), result("A")),
        [["u", "q1"], ["a", "call A"], ["u", "result A: ok"], ["a", NO_RESPONSE]],
    ),
    "a result that ends the turn is not, if a reminder follows": (
        (user("q1"), use("A"), result("A", tool_ends_turn=True), attachment("date")),
        [["u", "q1"], ["a", "call A"], ["u", "result A: ok"]],
    ),
    "a result that ends the turn is answered if nothing follows": (
        (user("q1"), use("A"), result("A", tool_ends_turn=True)),
        [["u", "q1"], ["a", "call A"], ["u", "result A: ok"], ["a", NO_RESPONSE]],
    ),
    "a result without its call is left out": (
        (user("q1"), assistant(text("a1")), result("Z"), assistant(text("a2"))),
        [["u", "q1"], ["a", "a1"], ["u", NO_CONTENT], ["a", "a2"]],
    ),
    "a second call of the same id is left out with its result": (
        (
            user("q1"),
            use("A"),
            result("A", "one"),
            use("A"),
            result("A", "two"),
            assistant(text("done")),
        ),
        [
            ["u", "q1"],
            ["a", "call A"],
            ["u", "result A: one"],
            ["a", INTERRUPTED_USE],
            ["u", NO_CONTENT],
            ["a", "done"],
        ],
    ),
    "of two results of a call the first counts": (
        (user("q1"), use("A"), result("A", "one"), result("A", "two"), assistant(text("done"))),
        [["u", "q1"], ["a", "call A"], ["u", "result A: one"], ["a", "done"]],
    ),
    "a result that comes too late is missing": (
        (user("q1"), use("A"), assistant(text("other")), result("A"), assistant(text("done"))),
        [
            ["u", "q1"],
            ["a", "call A"],
            ["u", f"result A failed: {MISSING_RESULT}"],
            ["a", "other"],
            ["u", NO_CONTENT],
            ["a", "done"],
        ],
    ),
    "a text before the result comes after it": (
        (user("q1"), use("A"), user("wait"), result("A"), assistant(text("done"))),
        [["u", "q1"], ["a", "call A"], ["u", "result A: ok", "wait"], ["a", "done"]],
    ),
    "a text after the result follows it": (
        (user("q1"), use("A"), result("A"), user("wait"), assistant(text("done"))),
        [["u", "q1"], ["a", "call A"], ["u", "result A: ok", "wait"], ["a", "done"]],
    ),
    "a text in the line of the result stays where it is": (
        (user("q1"), use("A"), user([text("see"), result_block("A")]), assistant(text("done"))),
        [["u", "q1"], ["a", "call A"], ["u", "see", "result A: ok"], ["a", "done"]],
    ),
    "a result that loads tools says so": (
        (user("q1"), use("A"), result("A", LOADED), assistant(text("done"))),
        [["u", "q1"], ["a", "call A"], ["u", f"result A: {LOADED}", "Tool loaded."], ["a", "done"]],
    ),
    "and does so behind all results": (
        (
            user("q1"),
            use("A", "m"),
            use("B", "m"),
            result("A", LOADED),
            result("B"),
            assistant(text("done")),
        ),
        [
            ["u", "q1"],
            ["a", "call A", "call B"],
            ["u", f"result A: {LOADED}", "result B: ok", "Tool loaded."],
            ["a", "done"],
        ],
    ),
}

ANSWERS: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "a conversation as it is": (TALK, TOLD),
    "answers of different ids stay apart": (
        (user("q1"), assistant(text("x")), assistant(text("y")), user("q2"), assistant(text("z"))),
        [["u", "q1"], ["a", "x"], ["a", "y"], ["u", "q2"], ["a", "z"]],
    ),
    "answers without ids stay apart": (
        (
            user("q1"),
            assistant(text("x"), message={"id": None}),
            assistant(text("y"), message={"id": None}),
        ),
        [["u", "q1"], ["a", "x"], ["a", "y"]],
    ),
    "a message goes on across lines": (
        (
            user("q1"),
            assistant(thinking("hm"), message_id="m"),
            assistant(text("x"), message_id="m"),
        ),
        [["u", "q1"], ["a", "(thinking)", "x"]],
    ),
    "a message does not go on behind a prompt": (
        (
            user("q1"),
            assistant(text("x"), message_id="m"),
            user("q2"),
            assistant(text("y"), message_id="m"),
        ),
        [["u", "q1"], ["a", "x"], ["u", "q2"], ["a", "y"]],
    ),
    "an empty text is no answer": (
        (user("q1"), assistant(text("")), user("q2"), assistant(text("a2"))),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
    "an empty text on a line of its own is left out of its message": (
        (
            user("q1"),
            assistant(text(""), message_id="m"),
            assistant(text("x"), message_id="m"),
        ),
        [["u", "q1"], ["a", "x"]],
    ),
    "a blank text on a line of its own is left out of its message": (
        (
            user("q1"),
            assistant(text("\n\n"), message_id="m"),
            assistant(text("x"), message_id="m"),
        ),
        [["u", "q1"], ["a", "x"]],
    ),
    "a blank block of the user is left out": (
        (user([text(" "), text("q1")]), assistant(text("a1"))),
        [["u", "q1"], ["a", "a1"]],
    ),
    "a line of blank blocks only has no content": (
        (user([text("")]), assistant(text("a1"))),
        [["u", NO_CONTENT], ["a", "a1"]],
    ),
    "a line without a message is passed over": (
        (user("q1"), line("assistant"), assistant(text("a1"))),
        [["u", "q1"], ["a", "a1"]],
    ),
    "an empty text beside another is left out": (
        (user("q1"), assistant(text(""), text("x"))),
        [["u", "q1"], ["a", "x"]],
    ),
    "white space is no answer": (
        (user("q1"), assistant(text("\n\n")), user("q2"), assistant(text("a2"))),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
    "white space beside a text stays": (
        (user("q1"), assistant(text("  \n"), text("x"))),
        [["u", "q1"], ["a", "  \n", "x"]],
    ),
    "thinking alone is no answer": (
        (user("q1"), assistant(thinking("hm")), user("q2"), assistant(text("a2"))),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
    "nor is thinking with an empty text": (
        (user("q1"), assistant(thinking("hm"), text("")), user("q2"), assistant(text("a2"))),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
    "nor is redacted thinking": (
        (
            user("q1"),
            assistant({"type": "redacted_thinking", "data": "x"}),
            user("q2"),
            assistant(text("a2")),
        ),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
    "thinking at the end is answered": (
        (user("q1"), assistant(thinking("hm"))),
        [["u", "q1"], ["a", NO_RESPONSE]],
    ),
    "thinking without a signature is sent all the same": (
        (user("q1"), assistant(thinking("hm", signature=""), text("x"))),
        [["u", "q1"], ["a", "(thinking)", "x"]],
    ),
    "an answer without content has none": (
        (user("q1"), assistant(), user("q2"), assistant(text("a2"))),
        [["u", "q1"], ["a", NO_CONTENT], ["u", "q2"], ["a", "a2"]],
    ),
    "an answer may be a string": (
        (user("q1"), assistant(message={"content": "a1"})),
        [["u", "q1"], ["a", "a1"]],
    ),
    "an API error of the client is left out": (
        (
            user("q1"),
            assistant(
                text("API Error"), message={"model": "<synthetic>"}, is_api_error_message=True
            ),
            user("q2"),
            assistant(text("a2")),
        ),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
    "an API error at the end is no answer, and gets none": (
        (
            user("q1"),
            assistant(
                text("API Error"), message={"model": "<synthetic>"}, is_api_error_message=True
            ),
        ),
        [["u", "q1"]],
    ),
    "an API error under a model's name is kept": (
        (
            user("q1"),
            assistant(text("API Error"), is_api_error_message=True),
            user("q2"),
            assistant(text("a2")),
        ),
        [["u", "q1"], ["a", "API Error"], ["u", "q2"], ["a", "a2"]],
    ),
    "an answer that the client made up is kept": (
        (
            user("q1"),
            assistant(text(NO_RESPONSE), message={"model": "<synthetic>"}),
            user("q2"),
            assistant(text("a2")),
        ),
        [["u", "q1"], ["a", NO_RESPONSE], ["u", "q2"], ["a", "a2"]],
    ),
    "a conversation may begin with an answer": (
        (assistant(text("a1")), user("q2"), assistant(text("a2"))),
        [["a", "a1"], ["u", "q2"], ["a", "a2"]],
    ),
}

PROMPTS: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "prompts in a row are joined, set apart by newlines": (
        (user("q1"), user("q1b"), user([text("q1c")]), assistant(text("a1"))),
        [["u", "q1\n", "q1b\n", "q1c"], ["a", "a1"]],
    ),
    "an empty prompt is sent": (
        (user("q1"), assistant(text("a1")), user(""), assistant(text("a2"))),
        [["u", "q1"], ["a", "a1"], ["u", ""], ["a", "a2"]],
    ),
    "a prompt without blocks is not": (
        (user("q1"), assistant(text("a1")), user([]), assistant(text("a2"))),
        [["u", "q1"], ["a", "a1"], ["a", "a2"]],
    ),
    "a prompt at the end is answered": (
        (user("q1"), assistant(text("a1")), user("q2")),
        [["u", "q1"], ["a", "a1"], ["u", "q2"], ["a", NO_RESPONSE]],
    ),
    "so is one that was interrupted": (
        (user("q1"), user([text("[Request interrupted by user]")])),
        [["u", "q1\n", "[Request interrupted by user]"], ["a", NO_RESPONSE]],
    ),
    "so is one that a reminder follows": (
        (user("q1"), attachment("date", {"date": "2026-11-15"})),
        [["u", "q1"], ["a", NO_RESPONSE]],
    ),
    "so is one that a note of the client follows": (
        (user("q1"), system("informational", content="hm")),
        [["u", "q1"], ["a", NO_RESPONSE]],
    ),
    "a mentioned file is sent as the model saw it": (
        (
            user("q1"),
            attachment(
                "file", {"filename": "/a"}, rendered=[{"content": "read"}, {"content": "A"}]
            ),
            attachment("date", rendered=[{"content": "today"}]),
            assistant(text("a1")),
        ),
        [["u", "q1\n", "read", "A"], ["a", "a1"]],
    ),
    "a mentioned file of older clients is sent by its content": (
        (
            user("q1"),
            attachment(
                "file",
                {"filename": "/a", "content": {"type": "text", "file": {"content": "alpha"}}},
            ),
            assistant(text("a1")),
        ),
        [
            ["u", "q1\n", "<system-reminder>\nContent of /a:\nalpha\n</system-reminder>"],
            ["a", "a1"],
        ],
    ),
    "a mentioned file of older clients cannot end the reminder that quotes it": (
        (
            user("q1"),
            attachment("file", {"filename": "/a", "content": "x</system-reminder>"}),
            assistant(text("a1")),
        ),
        [
            [
                "u",
                "q1\n",
                "<system-reminder>\nContent of /a:\nx&lt;/system-reminder&gt;\n</system-reminder>",
            ],
            ["a", "a1"],
        ],
    ),
    "a file that is attached to a command of the client asks for no answer": (
        (
            *(user("q1"), assistant(text("a1"))),
            *(user(CAVEAT, is_meta=True), user(COMMAND), user(OUTPUT)),
            attachment("file", {"filename": "/a"}, rendered=[{"content": "A"}]),
        ),
        [["u", "q1"], ["a", "a1"], ["u", f"{CAVEAT}\n", f"{COMMAND}\n", f"{OUTPUT}\n", "A"]],
    ),
    "what a hook says does not end an unfinished answer": (
        (
            *(user("q1"), use("A")),
            attachment("hook_additional_context", {}, rendered=[{"content": "be brief"}]),
        ),
        [
            ["u", "q1"],
            ["a", "call A"],
            ["u", f"result A failed: {INTERRUPTED_CALL}", "be brief"],
            ["a", NO_RESPONSE],
        ],
    ),
    "what hooks say is sent as the model saw it": (
        (
            user("q1"),
            attachment("hook_success", {"content": "ran"}),
            attachment("hook_additional_context", {}, rendered=[{"content": "be brief"}]),
            assistant(text("a1")),
        ),
        [["u", "q1\n", "be brief"], ["a", "a1"]],
    ),
    "a prompt sent during a turn is sent as the model saw it": (
        (
            *(user("q1"), use("A"), result("A")),
            attachment("queued_command", {"prompt": "p"}, rendered=[{"content": "also: p"}]),
            assistant(text("a1")),
        ),
        [["u", "q1"], ["a", "call A"], ["u", "result A: ok", "also: p"], ["a", "a1"]],
    ),
    "a prompt sent during a turn of older clients is sent": (
        (
            *(user("q1"), use("A"), result("A")),
            attachment("queued_command", {"prompt": "p"}),
            attachment("queued_command", {"prompt": [text("more")]}),
            assistant(text("a1")),
        ),
        [
            ["u", "q1"],
            ["a", "call A"],
            ["u", "result A: ok", f"{MEANWHILE.format(text='p')}\n", "more"],
            ["a", "a1"],
        ],
    ),
    "a notification of older clients is marked as one": (
        (
            *(user("q1"), use("A"), result("A")),
            attachment("queued_command", {"prompt": "n", "commandMode": "task-notification"}),
            assistant(text("a1")),
        ),
        [
            ["u", "q1"],
            ["a", "call A"],
            ["u", "result A: ok", NOTIFICATION.format(text="n")],
            ["a", "a1"],
        ],
    ),
    "meta lines are sent": (
        (user("q1"), assistant(text("a1")), user("look", is_meta=True), assistant(text("a2"))),
        [["u", "q1"], ["a", "a1"], ["u", "look"], ["a", "a2"]],
    ),
    "lines only for the transcript are sent": (
        (user("q1"), user("hidden", is_visible_in_transcript_only=True), assistant(text("a1"))),
        [["u", "q1\n", "hidden"], ["a", "a1"]],
    ),
    "notes of the client are not sent": (
        (user("q1"), assistant(text("a1")), system("informational", content="hm"), user("q2")),
        [["u", "q1"], ["a", "a1"], ["u", "q2"], ["a", NO_RESPONSE]],
    ),
    "local commands are sent as the user's text": (
        (user("q1"), assistant(text("a1")), local(COMMAND), local(OUTPUT), user("q2")),
        [
            ["u", "q1"],
            ["a", "a1"],
            ["u", f"{COMMAND}\n", f"{OUTPUT}\n", "q2"],
            ["a", NO_RESPONSE],
        ],
    ),
    "a local command at the end needs no answer": (
        (user("q1"), assistant(text("a1")), local(OUTPUT)),
        [["u", "q1"], ["a", "a1"], ["u", OUTPUT]],
    ),
    "nor do a caveat and the command behind it": (
        (
            user("q1"),
            assistant(text("a1")),
            user(CAVEAT, is_meta=True),
            user(COMMAND),
            local(OUTPUT),
        ),
        [["u", "q1"], ["a", "a1"], ["u", f"{CAVEAT}\n", f"{COMMAND}\n", OUTPUT]],
    ),
    "nor does an interruption before them": (
        (
            user("q1"),
            user([text("[Request interrupted by user]")]),
            user(CAVEAT, is_meta=True),
            user(COMMAND),
            user(OUTPUT),
        ),
        [
            [
                "u",
                "q1\n",
                "[Request interrupted by user]\n",
                f"{CAVEAT}\n",
                f"{COMMAND}\n",
                OUTPUT,
            ]
        ],
    ),
    "a call before them is left out": (
        (user("q1"), use("c1"), user(CAVEAT, is_meta=True), user(COMMAND), user(OUTPUT)),
        [["u", "q1\n", f"{CAVEAT}\n", f"{COMMAND}\n", OUTPUT]],
    ),
    "a call with nothing but output behind it is answered before that": (
        (user("q1"), use("c1"), local(OUTPUT)),
        [
            ["u", "q1"],
            ["a", "call c1"],
            ["u", f"result c1 failed: {INTERRUPTED_CALL}", OUTPUT],
            ["a", NO_RESPONSE],
        ],
    ),
    "without the caveat, a command is a prompt": (
        (user("q1"), assistant(text("a1")), user(COMMAND), user(OUTPUT)),
        [["u", "q1"], ["a", "a1"], ["u", f"{COMMAND}\n", OUTPUT], ["a", NO_RESPONSE]],
    ),
    "and is answered before its output": (
        (user("q1"), assistant(text("a1")), user(COMMAND), local(OUTPUT)),
        [["u", "q1"], ["a", "a1"], ["u", COMMAND], ["a", NO_RESPONSE], ["u", OUTPUT]],
    ),
    "a notification without an origin is a prompt": (
        (user("q1"), assistant(text("a1")), user(NOTIFIED), assistant(text("a2"))),
        [["u", "q1"], ["a", "a1"], ["u", NOTIFIED], ["a", "a2"]],
    ),
    "an image stays in its place": (
        (user([text("look"), image()]), assistant(text("a1"))),
        [["u", "look", "(image)"], ["a", "a1"]],
    ),
}

BOUNDARY, SUMMED = compaction(SUMMARY, logical_parent_uuid=nth(4))
AFTER = (user("post q"), assistant(text("post a")))
AFTER_TOLD = [["u", f"{SUMMARY}\n", "post q"], ["a", "post a"]]


def preserving(*uuids: str) -> tuple[bytes, bytes]:
    """A compaction in lines 5 and 6 that keeps some messages behind its summary."""
    kept = {"anchorUuid": nth(6), "uuids": list(uuids), "allUuids": list(uuids)}
    return compaction(SUMMARY, compact_metadata={"trigger": "manual", "preservedMessages": kept})


COMPACTIONS: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "nothing before a compaction is sent": ((*TALK, BOUNDARY, SUMMED, *AFTER), AFTER_TOLD),
    "nor if the boundary does not name its logical parent": (
        (*TALK, *compaction(SUMMARY), *AFTER),
        AFTER_TOLD,
    ),
    "nor if the boundary has a parent": (
        (*TALK, *compaction(SUMMARY, parent=nth(4)), *AFTER),
        AFTER_TOLD,
    ),
    "nor if there is only a summary, as 1.0.60 wrote it": (
        (*TALK, user(SUMMARY, parent=None, is_compact_summary=True), *AFTER),
        AFTER_TOLD,
    ),
    "nor if there is no summary": (
        (*TALK, BOUNDARY, *AFTER),
        [["u", "post q"], ["a", "post a"]],
    ),
    "a summary without a boundary cuts nothing": (
        (*TALK, user(SUMMARY, is_compact_summary=True), *AFTER),
        [*TOLD, *AFTER_TOLD],
    ),
    "only the last of several compactions counts": (
        (*TALK, *compaction("first"), *AFTER, *compaction("second"), user("q")),
        [["u", "second\n", "q"], ["a", NO_RESPONSE]],
    ),
    "preserved messages follow on the summary": (
        (*TALK, *preserving(nth(3), nth(4)), *AFTER),
        [["u", f"{SUMMARY}\n", "q2"], ["a", "a2"], ["u", "post q"], ["a", "post a"]],
    ),
    "none is preserved if one is missing": (
        (*TALK, *preserving(nth(3), nth(44)), *AFTER),
        AFTER_TOLD,
    ),
    "of preserved messages that follow on their last one all are sent, and nothing before": (
        (*TALK, *preserving(nth(3), nth(4), nth(6)), *AFTER),
        [["u", "q2"], ["a", "a2"], *AFTER_TOLD],
    ),
    "of those that follow on another one only what is behind it": (
        (*TALK, *preserving(nth(6), nth(3), nth(4)), *AFTER),
        [["u", "q2"], ["a", "a2"], ["u", "post q"], ["a", "post a"]],
    ),
}

TREES: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "of two branches the one whose tip is last": ((*TALK, *OTHER), OTHER_TOLD),
    "whatever the times are": (
        (
            *TALK,
            user("other q", parent=nth(2), timestamp="2020-01-01T00:00:00.000Z"),
            assistant(text("other a"), timestamp="2020-01-01T00:00:01.000Z"),
        ),
        OTHER_TOLD,
    ),
    "even if another is longer": (
        (*TALK, user("q3"), assistant(text("a3")), *OTHER),
        OTHER_TOLD,
    ),
    "of two roots the one whose tip is last": (
        (*TALK, user("root q", parent=None), assistant(text("root a"))),
        [["u", "root q"], ["a", "root a"]],
    ),
    "a branch that is gone back to": (
        (*TALK, *OTHER, user("q3", parent=nth(4)), assistant(text("a3"))),
        [*TOLD, ["u", "q3"], ["a", "a3"]],
    ),
    "the client's note of the tip wins": ((*TALK, *OTHER, note(nth(4))), TOLD),
    "also if another branch was written after it": ((*TALK, note(nth(4)), *OTHER), TOLD),
    "a note on another branch cuts where it points": (
        (*TALK, *OTHER, note(nth(3))),
        [*TOLD[:3], ["a", NO_RESPONSE]],
    ),
    "unless the last tip follows on it": ((*TALK, *OTHER, note(nth(2))), OTHER_TOLD),
    "as when the conversation went on": (
        (*TALK, *OTHER, note(nth(4)), user("q3", parent=nth(4)), assistant(text("a3"))),
        [*TOLD, ["u", "q3"], ["a", "a3"]],
    ),
    "an explicit note cuts what follows on it": ((*TALK, note(nth(2), explicit=True)), TOLD[:2]),
    "a note of only zeros is ignored": (
        (*TALK, note("00000000-0000-0000-0000-000000000000", explicit=True)),
        TOLD,
    ),
    "a note of a line that is gone is ignored": ((*TALK, note(nth(99))), TOLD),
    "a stray attachment at the end is the tip": (
        (*TALK, attachment("date", parent=nth(2))),
        TOLD[:2],
    ),
    "so is a stray note of the client": (
        (*TALK, system("turn_duration", duration_ms=5, parent=nth(2))),
        TOLD[:2],
    ),
    "so is a stray meta line": (
        (*TALK, user("look", is_meta=True, parent=nth(2))),
        [*TOLD[:2], ["u", "look"], ["a", NO_RESPONSE]],
    ),
    "stray progress is not": (
        (*TALK, line("progress", data={"type": "hook_progress"}, parent=nth(2))),
        TOLD,
    ),
    "nor is a stray line of an unknown type": (
        (*TALK, line("sparkle", uuid=nth(9), parent=nth(2))),
        TOLD,
    ),
    "progress and unknown types in the chain are passed": (
        (
            *TALK[:2],
            line("progress", data={"type": "hook_progress"}),
            line("sparkle", uuid=nth(4), parent=nth(3)),
            user("q2", parent=nth(4)),
            assistant(text("a2")),
        ),
        TOLD,
    ),
    "a parent that is gone is the line before": (
        (*TALK[:2], user("q2", parent=nth(77)), TALK[3]),
        TOLD,
    ),
    "whatever branch that is on": (
        (*TALK, *OTHER, user("q3", parent=nth(99)), assistant(text("a3"))),
        [*OTHER_TOLD, ["u", "q3"], ["a", "a3"]],
    ),
    "a circle is cut at its earliest line": ((user("q1", parent=nth(4)), *TALK[1:]), TOLD),
    "of lines with one uuid the later counts": (
        (
            *TALK[:2],
            assistant(text("edited"), uuid=nth(2), parent=nth(1)),
            user("q2", parent=nth(2)),
            TALK[3],
        ),
        [["u", "q1"], ["a", "edited"], ["u", "q2"], ["a", "a2"]],
    ),
    "of lines without parents only the last counts": (
        tuple(assistant(text(each), parent=None) for each in "xyz"),
        [["a", "z"]],
    ),
    "the order of the file does not matter": (
        tuple(session(*TALK).splitlines(keepends=True)[::-1]),
        TOLD,
    ),
    "ids need not be uuids": (
        (user("q1", uuid="one"), assistant(text("a1"), uuid="two", parent="one")),
        TOLD[:2],
    ),
    "lines of sub-agents are passed over": (
        (
            *TALK,
            user("side q", parent=None, is_sidechain=True),
            assistant(text("side a"), is_sidechain=True),
        ),
        TOLD,
    ),
    "lines that are not JSON are passed over": ((*TALK[:2], b"{torn\n", *TALK[2:]), TOLD),
}

GONE = "99999999-0000-4000-8000-000000000000"


def after(seconds: float) -> str:
    """A time that is so much later than that of the second line."""
    return stamp(START + timedelta(seconds=2 + seconds))


def orphan(seconds: float, **fields: Any) -> tuple[bytes, bytes]:
    """A prompt whose parent is not in the file, and its answer."""
    asked = user("q2", parent=GONE, timestamp=after(seconds), **fields)
    return asked, assistant(text("a2"), timestamp=after(seconds + 100))


def unrelated(seconds: float, **fields: Any) -> bytes:
    return user("x", timestamp=after(seconds), **fields)


CUT = TOLD[2:]
GAPS: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "a missing parent is the entry five seconds before": ((*TALK[:2], *orphan(5)), TOLD),
    "nothing is that is older": ((*TALK[:2], *orphan(5.001)), CUT),
    "nor what is later": ((*TALK[:2], *orphan(-2)), CUT),
    "a missing parent is the latest entry, not the last": (
        (
            *TALK[:2],
            unrelated(3, parent=nth(1)),
            assistant(text("y"), timestamp=after(1), parent=nth(2)),
            *orphan(4),
        ),
        [["u", "q1\n", "x\n", "q2"], ["a", "a2"]],
    ),
    "of entries with the same time it is the first": (
        (*TALK[:2], assistant(text("b1"), timestamp=after(0), parent=nth(1)), *orphan(1)),
        TOLD,
    ),
    "it may stand behind the orphan": (
        (*TALK[:2], *orphan(60), unrelated(57, parent=nth(2)), note(nth(4), explicit=True)),
        [*TOLD[:2], ["u", "x\n", "q2"], ["a", "a2"]],
    ),
    "progress does not stand in for a parent": (
        (*TALK[:2], line("progress", timestamp=after(58)), *orphan(60)),
        CUT,
    ),
    "an unknown type does not either": (
        (*TALK[:2], line("zzz", uuid="z", parent=nth(2), timestamp=after(58)), *orphan(60)),
        CUT,
    ),
    "nor a line of a sub-agent": (
        (*TALK[:2], unrelated(58, parent=None, is_sidechain=True), *orphan(60)),
        CUT,
    ),
    "an entry without a time starts the conversation": (
        (*TALK[:2], user("q2", parent=GONE, timestamp=None), TALK[3]),
        CUT,
    ),
    "a parent of an unknown type is missing": (
        (
            *TALK[:2],
            line("zzz", uuid="z", parent=nth(2)),
            user("q2", parent="z", timestamp=after(60)),
            assistant(text("a2")),
        ),
        CUT,
    ),
    "a parent is found through progress, however late": (
        (*TALK[:2], line("progress"), user("q2", timestamp=after(60)), assistant(text("a2"))),
        TOLD,
    ),
    "progress without a parent leads nowhere": (
        (
            *TALK[:2],
            line("progress", parent=GONE),
            user("q2", timestamp=after(60)),
            assistant(text("a2")),
        ),
        CUT,
    ),
    "a circle is left by time": (
        (*TALK[:2], user("q2", parent=nth(4), timestamp=after(60)), TALK[3]),
        CUT,
    ),
    "a compaction is passed over by time": (
        (
            TALK[0],
            assistant(text("a1"), timestamp=after(58)),
            *compaction(SUMMARY, timestamp=after(1)),
            *orphan(60),
        ),
        TOLD,
    ),
    "a parent of a sub-agent is followed": (
        (*TALK[:2], unrelated(1, is_sidechain=True, parent=None), user("q2"), TALK[3]),
        [["u", "x\n", "q2"], ["a", "a2"]],
    ),
    "a result without its call at the start is said to be orphaned": (
        (user("q1"), use("A"), result("A", parent=GONE, timestamp=after(60)), TALK[3]),
        [["u", ORPHANED_RESULT], ["a", "a2"]],
    ),
    "a note of an entry before the gap overrules the tip": (
        (*TALK[:2], *orphan(60), note(nth(2))),
        TOLD[:2],
    ),
    "a note does not outlast a compaction": (
        (*TALK[:2], note(nth(2)), *compaction(SUMMARY), user("q3"), assistant(text("a3"))),
        [["u", f"{SUMMARY}\n", "q3"], ["a", "a3"]],
    ),
    "an explicit note does not outlast the next prompt": (
        (*TALK, note(nth(2), explicit=True), *OTHER),
        OTHER_TOLD,
    ),
    "a boundary without a summary is no tip": ((*TALK, compaction(SUMMARY)[0]), TOLD),
    "a lone note is no tip": ((*TALK, system("turn_duration", parent=None)), TOLD),
}
JOINED: dict[str, tuple[tuple[bytes, ...], Told]] = {
    "calls around a loaded tool are one answer": (
        (user("q1"), use("A", "m"), result("A", LOADED), use("B", "m"), result("B"), TALK[3]),
        [
            ["u", "q1"],
            ["a", "call A", "call B"],
            ["u", f"result A: {LOADED}", "result B: ok", "Tool loaded."],
            ["a", "a2"],
        ],
    ),
    "calls around a result with a text are one answer": (
        (
            user("q1"),
            use("A", "m"),
            user([result_block("A"), text("hi")]),
            use("B", "m"),
            result("B"),
            TALK[3],
        ),
        [
            ["u", "q1"],
            ["a", "call A", "call B"],
            ["u", "result A: ok", "result B: ok", "hi"],
            ["a", "a2"],
        ],
    ),
    "lines of one message are one answer, with another between them": (
        (
            user("q1"),
            assistant(text("x"), message_id="m"),
            assistant(text("y"), message_id="n"),
            assistant(text("z"), message_id="m"),
        ),
        [["u", "q1"], ["a", "x", "z"], ["a", "y"]],
    ),
    "a call goes to the first answer, and its result is too late": (
        (
            user("q1"),
            use("A", "m"),
            result("A"),
            use("B", "n"),
            result("B"),
            use("D", "m"),
            result("D"),
            TALK[3],
        ),
        [
            ["u", "q1"],
            ["a", "call A", "call D"],
            ["u", f"result D failed: {MISSING_RESULT}", "result A: ok"],
            ["a", "call B"],
            ["u", "result B: ok"],
            ["a", "a2"],
        ],
    ),
    "thinking of another model than the last is not sent": (
        (
            user("q1"),
            assistant(thinking("hm"), text("a1"), message={"model": "claude-sonnet-4-5"}),
            user("q2"),
            assistant(thinking("hm"), text("a2"), message={"model": "claude-haiku-4-5"}),
        ),
        [["u", "q1"], ["a", "a1"], ["u", "q2"], ["a", "(thinking)", "a2"]],
    ),
    "an answer that the client wrote itself is of no model": (
        (
            user("q1"),
            assistant(thinking("hm"), text("a1"), message={"model": "claude-sonnet-4-5"}),
            user("q2"),
            assistant(text("a2"), message={"model": "<synthetic>"}),
        ),
        [["u", "q1"], ["a", "(thinking)", "a1"], ["u", "q2"], ["a", "a2"]],
    ),
    "an answer that old clients wrote for nothing is not sent": (
        (user("q1"), assistant(text(NO_CONTENT)), *TALK[2:]),
        [["u", "q1\n", "q2"], ["a", "a2"]],
    ),
}
RULES = CALLS | ANSWERS | PROMPTS | COMPACTIONS | TREES | GAPS | JOINED


@pytest.mark.parametrize("rule", RULES)
def test_the_client_sends(opened: Opened, rule: str) -> None:
    lines, expected = RULES[rule]
    assert tell(opened(*lines).context()) == expected


def test_a_last_line_that_is_torn_is_not_sent(opened: Opened) -> None:
    whole = opened(*TALK)
    whole.path.write_bytes(whole.path.read_bytes()[:-80])
    whole.refresh()
    assert tell(whole.context()) == [*TOLD[:3], ["a", NO_RESPONSE]]


def test_of_lines_with_parents_but_without_uuids_only_the_last_is_sent(opened: Opened) -> None:
    whole = opened(*TALK)
    lines = [json.loads(raw) for raw in whole.path.read_bytes().splitlines()]
    whole.path.write_bytes(b"".join(encode(omit(fields, "uuid")) for fields in lines))
    whole.refresh()
    assert tell(whole.context()) == TOLD[3:]


def test_of_a_log_without_uuids_only_the_last_line_is_sent(opened: Opened) -> None:
    whole = opened(*TALK)
    lines = [json.loads(raw) for raw in whole.path.read_bytes().splitlines()]
    whole.path.write_bytes(b"".join(encode(omit(one, "uuid", "parentUuid")) for one in lines))
    whole.refresh()
    assert tell(whole.context()) == TOLD[3:]
    assert tell(whole.history()) == TOLD


def test_history_goes_back_across_a_missing_parent(opened: Opened) -> None:
    whole = opened(*TALK[:2], *orphan(60))
    assert tell(whole.history()) == TOLD
    start = whole.late_start()
    assert start is not None
    assert start.line == 3
    assert opened(*TALK).late_start() is None


def test_many_entries_of_one_moment_without_parents_are_read_quickly(opened: Opened) -> None:
    count = 20_000
    lines = [user("x", parent=f"gone{n}", timestamp=after(0)) for n in range(count)]
    whole = opened(*lines)
    assert len(whole.tree.resumed_path(count - 1)) == count


def test_a_call_without_an_id_does_no_harm(opened: Opened) -> None:
    answer = omit(result_block("A"), "tool_use_id")
    whole = opened(user("q1"), assistant(omit(call("Bash"), "id")), user([answer]))
    assert [message["role"] for message in whole.context()][:2] == ["user", "assistant"]


def test_half_of_a_surrogate_pair_is_marked_as_lost(opened: Opened) -> None:
    whole = opened(user("aHALFb"), assistant(text("a1")))
    whole.path.write_bytes(whole.path.read_bytes().replace(b"HALF", b"\\ud800"))
    assert tell(open_session(whole.path).context())[0] == ["u", "a\ufffdb"]


def test_a_file_without_a_conversation_sends_nothing(opened: Opened) -> None:
    assert opened().context() == []
    assert opened(line("summary", summary="x", leaf_uuid=nth(1))).context() == []


def test_blocks_are_sent_as_their_lines_have_them(opened: Opened) -> None:
    thought, said = thinking("hm", signature="c2ln"), text("x") | {"citations": None}
    used = call("Bash", {"command": "ls", "later": {"unknown": 1}}, "A")
    whole = opened(
        user([image(), text("q1")]), assistant(thought, said, used), result("A", is_error=False)
    )
    assert whole.context()[:3] == [
        {"role": "user", "content": [image(), text("q1")]},
        {"role": "assistant", "content": [thought, said, used]},
        {"role": "user", "content": [result_block("A", is_error=False)]},
    ]


def test_a_line_without_a_block_that_is_an_object_is_not_sent(opened: Opened) -> None:
    bare = [encode(json.loads(raw)) for raw in session(*TALK).splitlines()]
    bare[1] = bare[1].replace(b'[{"type":"text","text":"a1"}]', b'["a1", null]')
    log = opened(b"".join(bare))
    assert tell(log.context()) == [["u", "q1\n", "q2"], ["a", "a2"]]


def test_a_notification_is_sent_as_no_word_of_the_user(opened: Opened) -> None:
    origin = {"kind": "task-notification"}
    whole = opened(*TALK[:2], user(NOTIFIED, origin=origin), assistant(text("a2")))
    (block,) = whole.context()[2]["content"]
    assert block["text"].startswith("<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]")
    assert block["text"].endswith(f"\n\n{NOTIFIED}\n</system-reminder>")


def test_a_mentioned_image_is_sent_before_the_prompt(opened: Opened) -> None:
    file = {"base64": "aGk=", "type": "image/png", "originalSize": 2}
    content = {"filename": "/x.png", "content": {"type": "image", "file": file}}
    whole = opened(user("look at @x.png"), attachment("file", content), assistant(text("a1")))
    assert whole.context()[0]["content"] == [image("aGk="), text("look at @x.png")]


def test_a_mentioned_image_is_sent_before_the_prompt_that_mentions_a_file_first(
    opened: Opened,
) -> None:
    file = {"base64": "aGk=", "type": "image/png", "originalSize": 2}
    content = {"filename": "/x.png", "content": {"type": "image", "file": file}}
    whole = opened(
        user("look at @a and @x.png"),
        attachment("file", {"filename": "/a"}, rendered=[{"content": "A"}]),
        attachment("file", content),
        assistant(text("a1")),
    )
    sent = whole.context()[0]["content"]
    assert sent == [image("aGk="), text("look at @a and @x.png\n"), text("A")]


def test_another_leaf_has_a_context_of_its_own(opened: Opened) -> None:
    whole = opened(*TALK, *OTHER)
    assert tell(whole.context(whole.tree.rank_of(nth(4)))) == TOLD
    assert tell(whole.context(whole.tree.rank_of(nth(1)))) == [["u", "q1"], ["a", NO_RESPONSE]]


def test_the_history_goes_back_across_compactions(opened: Opened) -> None:
    whole = opened(*TALK, BOUNDARY, SUMMED, *AFTER)
    assert tell(whole.history()) == [*TOLD, *AFTER_TOLD]


def test_what_the_client_only_shows_is_not_sent(opened: Opened) -> None:
    whole = opened(
        user("one"),
        assistant(text("ok")),
        system("local_command", content="<command-name>/context</command-name>"),
        system("local_command", content="a picture", is_display_only=True),
        user("## Context Usage", is_meta=True),
        user("two"),
    )
    sent = json.dumps(whole.context())
    assert "/context" in sent
    assert "a picture" not in sent
