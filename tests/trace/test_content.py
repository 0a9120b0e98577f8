"""Content of a session that may leave the machine: masked, full or none; and how much."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from conversation.conftest import Opened
from support.build import assistant, attachment, call, result, session, text, user
from support.traces import flat, spans
from turnlog.trace.attributes import attributes_of
from turnlog.trace.content import DEEPEST, TOO_DEEP, ContentMode, ContentPolicy
from turnlog.trace.span import Span, Trace

KEY = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyzAB"[::-1][:36]
PASSWORD = "tr0ub4dor&3"


def secretive(opened: Opened) -> list[Span]:
    """A session with secrets wherever there is text."""
    hook = {"hookEvent": "Stop", "command": f"notify --token {KEY}"}
    return spans(
        opened(
            attachment("hook_success", hook),
            user(f"my key is {KEY}", git_branch=f"fix/{KEY}"),
            assistant(text(f"I see {KEY}"), message_id="m"),
            assistant(
                call("Bash", {"command": "env", "env": {"password": PASSWORD}}), message_id="m"
            ),
            result("toolu_1", f"KEY={KEY}", is_error=True),
        )
    )


def told(span: Span) -> str:
    """Return all content that a span sends."""
    return repr((span.name, span.error, attributes_of(span), span.events))


def test_secrets_are_masked_wherever_they_stand(opened: Opened) -> None:
    sent = [told(ContentPolicy().of(span)) for span in secretive(opened)]
    assert not any(KEY in each or PASSWORD in each for each in sent)
    assert all("[" in each for each in sent)


KEPT = {"id", "parent_id", "kind", "source"}
"""Fields that turnlog sets itself."""


@pytest.mark.parametrize("mode", [ContentMode.REDACTED, ContentMode.NONE])
def test_no_field_of_a_span_is_left_out(mode: ContentMode, opened: Opened) -> None:
    span = secretive(opened)[0]
    trace = replace(span.trace, **_texts(Trace), tags=(KEY,))
    values = _texts(Span) | {"parameters": {"effort": KEY}, "parts": [{"text": KEY}]}
    sent = ContentPolicy(mode).of(replace(span, trace=trace, **values))
    assert KEY not in told(sent)
    assert KEY not in repr(sent.trace)
    assert KEY not in repr([getattr(sent, name) for name in values])


def _texts(kind: type[Span] | type[Trace]) -> dict[str, Any]:
    """Return a secret for each field of a type that is a text."""
    found = [each.name for each in fields(kind) if each.type in (str, str | None)]
    return {name: KEY for name in found if name not in KEPT}


def test_masked_content_keeps_its_shape(opened: Opened) -> None:
    turn, _, tool = (ContentPolicy().of(span) for span in secretive(opened))
    assert turn.input["content"].startswith("my key is [")
    assert tool.input["command"] == "env"
    assert tool.input["env"]["password"].startswith("[password:")


def test_full_content_is_sent_as_it_is(opened: Opened) -> None:
    found = secretive(opened)
    assert [ContentPolicy(ContentMode.FULL).of(span) for span in found] == found


def test_without_content_only_names_times_and_counts_are_sent(opened: Opened) -> None:
    turn, generation, tool = (
        ContentPolicy(ContentMode.NONE).of(span) for span in secretive(opened)
    )
    sent = told(turn) + told(generation) + told(tool)
    assert not any(secret in sent for secret in (KEY, PASSWORD, "my key", "I see", "notify"))
    assert (turn.input, generation.output, generation.parts, tool.input) == (None, None, None, None)
    assert generation.usage is not None
    assert tool.error == ""
    assert turn.events[0].facts == {"hook.hookEvent": "Stop"}


def test_a_long_text_is_cut_and_says_so(opened: Opened) -> None:
    tool = spans(opened(user("q"), assistant(call("Bash")), result("toolu_1", "x" * 5000)))[-1]
    cut = ContentPolicy(max_chars=1000).of(tool).output
    assert cut == "x" * 1000 + "… [cut by turnlog: 1,000 of 5,000 characters]"
    assert ContentPolicy(max_chars=0).of(tool).output == "x" * 5000


def test_the_texts_of_one_value_share_the_room(opened: Opened) -> None:
    arguments = {"a": "x" * 900, "b": "y" * 900, "c": "short", "d": "z" * 900}
    tool = spans(opened(user("q"), assistant(call("Bash", arguments))))[-1]
    cut = ContentPolicy(max_chars=1000).of(tool).input
    assert cut["a"] == "x" * 900
    assert cut["b"].startswith("y" * 100 + "… [cut by turnlog: 100 of 900")
    assert cut["c"] == "short"
    assert cut["d"].startswith("… [cut by turnlog: 0 of 900")


@pytest.mark.parametrize("depth", [DEEPEST // 2, 900])
def test_a_value_that_is_nested_too_deeply_is_cut(opened: Opened, depth: int) -> None:
    nested: Any = "core"
    for _ in range(depth):
        nested = [nested]
    lines = user("q"), assistant(call("Bash", {"command": nested})), result("toolu_1", "done")
    found = [ContentPolicy().of(span) for span in spans(opened(*lines))]
    (tool,) = [span for span in found if span.call_id]
    assert (TOO_DEEP in str(tool.input)) == (depth > DEEPEST)
    assert all(map(attributes_of, found))


def test_a_secret_is_masked_before_the_cut(opened: Opened) -> None:
    split = "x" * 195 + f" {KEY} " + "y" * 200
    turn = spans(opened(user(split), assistant(text("a"))))[0]
    sent = ContentPolicy(max_chars=200).of(turn).input["content"]
    assert KEY[:4] not in sent


@pytest.mark.parametrize("escaped", [rb"\ud83d", rb"\u0000"])
@pytest.mark.parametrize("mode", [ContentMode.REDACTED, ContentMode.FULL])
def test_what_backends_refuse_is_replaced(
    tmp_path: Path, escaped: bytes, mode: ContentMode
) -> None:
    whole = session(user("q"), assistant(call("Bash", {"c": "a @ b"})))
    found = spans(flat(tmp_path, whole.replace(b"@", escaped)))
    assert ContentPolicy(mode).of(found[-1]).input == {"c": "a \ufffd b"}
