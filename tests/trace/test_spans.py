"""Sessions as spans: what becomes a span, what each holds, and where it belongs."""

from pathlib import Path
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import (
    assistant,
    attachment,
    call,
    compaction,
    encode,
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
from support.traces import flat, of_kind, spans, tree_of
from turnlog.conversation.session import open_session
from turnlog.trace.span import ToolPlacement, WorkKind
from turnlog.trace.span_times import nanoseconds
from turnlog.trace.spans import SpanOptions, first_trace, spans_of

MODEL = "claude-opus-5-5"
READ = call("Read", {"path": "/"}, "t1")
EXAMPLE: list[dict[str, Any]] = [
    {"sessionId": "sess1", "type": "user", "content": "read a file"},
    {"message": {"id": "m1", "role": "assistant", "model": MODEL, "content": [READ]}},
    {
        "type": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "file data"}],
    },
    {
        "message": {
            "id": "m2",
            "role": "assistant",
            "model": MODEL,
            "content": [{"type": "text", "text": "done"}],
        }
    },
]


def said(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def asked(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def test_a_turn_is_a_trace_of_generations_and_tools(tmp_path: Path) -> None:
    turn, first, tool, second = spans(flat(tmp_path, *EXAMPLE))
    assert tree_of([turn, first, tool, second]) == ["Turn 1", f"  {MODEL}", "  Read", f"  {MODEL}"]
    assert (turn.input, turn.output) == (asked("read a file"), said("done"))
    assert (first.input, first.output, first.call_count) == (asked("read a file"), said(""), 1)
    assert (tool.input, tool.output, tool.call_id) == ({"path": "/"}, "file data", "t1")
    assert (second.input, second.output, second.call_count) == (None, said("done"), 0)
    assert turn.trace.session_id == "sess1"


def test_the_nested_layout_has_tools_below_their_generation(tmp_path: Path) -> None:
    found = spans(flat(tmp_path, *EXAMPLE), layout=ToolPlacement.NESTED)
    assert tree_of(found) == [
        "Turn 1",
        "  Turn 1",
        f"    {MODEL}",
        "      Read",
        f"    {MODEL}",
    ]
    assert [span.kind for span in found[:2]] == [WorkKind.SPAN, WorkKind.AGENT]


def test_lines_of_one_message_are_one_generation(opened: Opened) -> None:
    usage = {"usage": {"input_tokens": 100, "output_tokens": 50}}
    _, generation, *tools = spans(
        opened(
            user("q"),
            assistant(thinking("hm"), message_id="m", message=usage),
            assistant(text("one"), message_id="m", message=usage),
            assistant(call("Bash", {}, "A"), message_id="m", message=usage),
            result("A"),
            assistant(call("Bash", {}, "B"), message_id="m", message=usage),
            result("B"),
            assistant(text("two"), message_id="m", message=usage),
        )
    )
    assert generation.output == said("one\ntwo")
    assert generation.usage
    assert generation.usage.output_tokens == 50
    assert [part["type"] for part in generation.parts or []] == [
        "reasoning",
        "text",
        "tool_call",
        "tool_call",
        "text",
    ]
    assert [tool.call_id for tool in tools] == ["A", "B"]


def test_lines_without_a_message_id_are_joined_to_such_lines_beside_them(tmp_path: Path) -> None:
    bare = {"message": {"role": "assistant", "content": [{"type": "text", "text": "a"}]}}
    found = spans(flat(tmp_path, EXAMPLE[0], bare, bare))
    assert [span.name for span in found] == ["Turn 1", "unknown"]
    assert found[1].output == said("a\na")


def test_meta_lines_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    injected = {"type": "user", "content": "skill scaffolding", "isMeta": True}
    answer = {
        "message": {"id": "m0", "role": "assistant", "content": "meta response"},
        "isMeta": True,
    }
    plain = spans(flat(tmp_path, *EXAMPLE))
    with_meta = spans(flat(tmp_path, EXAMPLE[0], injected, answer, *EXAMPLE[1:], answer))
    assert tree_of(with_meta) == tree_of(plain)
    assert [span.output for span in with_meta] == [span.output for span in plain]


def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    broken = flat(tmp_path, EXAMPLE[0], b"{not json\n", *EXAMPLE[1:], b"[1, 2]\n")
    assert tree_of(spans(broken)) == ["Turn 1", f"  {MODEL}", "  Read", f"  {MODEL}"]


def test_a_prompt_without_an_answer_makes_no_trace(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user("q2"))
    assert [span.trace.name for span in spans(whole)] == ["Turn 1", "Turn 1"]


def test_a_call_without_a_result_has_no_output_and_no_end(opened: Opened) -> None:
    tool = spans(opened(user("q"), assistant(call("Bash"))))[-1]
    assert (tool.output, tool.end) == (None, None)


def test_a_result_without_a_call_is_no_span(opened: Opened) -> None:
    found = spans(opened(user("q"), result("nobody"), assistant(text("a"))))
    assert of_kind(found, WorkKind.TOOL) == []


def test_a_failed_call_is_marked(opened: Opened) -> None:
    tool = spans(
        opened(user("q"), assistant(call("Bash")), result("toolu_1", "Exit code 3", is_error=True))
    )
    assert (tool[-1].error, tool[-1].output) == ("Exit code 3", "Exit code 3")


def test_a_turn_is_marked_with_where_and_how_it_ran(opened: Opened) -> None:
    prompt = user("q", prompt_id="p-1", slug="three-word-name")
    (trace, *_) = {
        span.trace.id: span.trace for span in spans(opened(prompt, assistant()))
    }.values()
    assert (trace.version, trace.cwd, trace.git_branch) == ("2.1.325", "/home/ada/shop", "main")
    assert (trace.slug, trace.prompt_id, trace.prompt_kind) == ("three-word-name", "p-1", "typed")


def test_a_command_is_told_as_it_was_typed(opened: Opened) -> None:
    typed = "<command-name>/fix</command-name><command-args>the bug</command-args>"
    assert spans(opened(user(typed), assistant(text("a"))))[0].input == asked("/fix the bug")


def test_turns_of_all_branches_are_numbered_in_the_order_of_their_prompts(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        user("rewound"),
        assistant(text("a2")),
        user("instead", parent=nth(2)),
        assistant(text("a3")),
    )
    turns = of_kind(spans(whole), WorkKind.AGENT)
    assert [(turn.name, turn.output) for turn in turns] == [
        ("Turn 1", said("a1")),
        ("Turn 2", said("a2")),
        ("Turn 3", said("a3")),
    ]


def test_a_prompt_that_is_written_again_keeps_its_number(opened: Opened) -> None:
    again = user("q1", uuid=nth(1), parent=None)
    whole = opened(user("q1"), assistant(text("a1")), user("q2"), assistant(text("a2")), again)
    turns = of_kind(spans(whole), WorkKind.AGENT)
    assert [(turn.name, turn.input) for turn in turns] == [
        ("Turn 1", asked("q1")),
        ("Turn 2", asked("q2")),
    ]


def test_lines_without_parents_belong_to_the_prompt_before_them(opened: Opened) -> None:
    whole = opened(
        user("q1", parent=None),
        assistant(text("a1"), parent=None),
        user("q2", parent=None),
        assistant(text("a2"), parent=None),
    )
    outputs = [span.output for span in of_kind(spans(whole), WorkKind.AGENT)]
    assert outputs == [said("a1"), said("a2")]


def test_an_answer_whose_prompt_is_gone_is_turn_0_once_the_session_has_ended(
    opened: Opened,
) -> None:
    whole = opened(assistant(text("a0"), parent="gone"), user("q1"), assistant(text("a1")))
    assert [span.name for span in of_kind(spans(whole), WorkKind.AGENT)] == ["Turn 0", "Turn 1"]
    assert [span.trace.name for span in spans_of(whole)] == ["Turn 1", "Turn 1"]


def test_an_error_of_the_api_marks_the_turn_and_is_no_generation(opened: Opened) -> None:
    failed = assistant(
        text("API Error: 529 Overloaded"),
        message={"model": "<synthetic>"},
        is_api_error_message=True,
        error="server_error",
        api_error_status=529,
    )
    (turn,) = spans(opened(user("q"), failed))
    assert (turn.error, turn.output) == ("API Error: 529 Overloaded", None)
    (event,) = turn.events
    assert (event.name, event.facts["exception.type"]) == ("exception", "server_error")
    assert event.facts["http.response.status_code"] == 529


def test_what_the_client_says_in_the_place_of_an_answer_is_no_answer(opened: Opened) -> None:
    filler = assistant(text("No response requested."), message={"model": "<synthetic>"})
    assert spans(opened(user("q"), filler)) == []


def test_an_interrupted_turn_is_marked(opened: Opened) -> None:
    stop = user([text("[Request interrupted by user]")])
    turn, generation = spans(
        opened(user("q"), assistant(text("wel"), is_aborted_mid_stream=True), stop)
    )
    assert turn.is_interrupted
    assert generation.is_interrupted
    assert [event.name for event in turn.events] == ["interrupted"]
    assert turn.error is None


def test_a_call_that_the_user_refused_is_marked(opened: Opened) -> None:
    refusal = result(
        "toolu_1", "The user doesn't want to proceed with this tool use.", is_error=True
    )
    tool = spans(opened(user("q"), assistant(call("Bash")), refusal))[-1]
    assert tool.is_interrupted
    assert tool.error


def test_hooks_retries_and_compactions_are_events_of_the_turn(opened: Opened) -> None:
    hook = {"hookEvent": "SessionStart", "exitCode": 0, "command": "greet", "stdout": "hi"}
    (turn, *_) = spans(
        opened(
            attachment("hook_success", hook),
            user("q"),
            system("api_error", error={"status": 529, "formatted": "Overloaded"}, retry_attempt=1),
            assistant(text("a")),
            system("stop_hook_summary", hook_count=1, hook_infos=[{"command": "lint"}]),
            *compaction("so far"),
        )
    )
    names = [event.name for event in turn.events]
    assert turn.events[1].time == nanoseconds(moment(3))
    assert names == ["hook.success", "retry", "hook.stop", "compaction"]
    assert turn.events[0].facts == {"hook.hookEvent": "SessionStart", "hook.exitCode": 0}
    assert turn.events[0].texts == {"hook.command": "greet", "hook.stdout": "hi"}
    assert turn.events[1].texts == {"exception.message": "Overloaded"}
    assert turn.events[2].texts == {"hook.command": ["lint"]}
    assert turn.events[3].facts == {"compaction.trigger": "manual", "compaction.pre_tokens": 1000}


def test_a_generation_has_its_tokens_and_its_cost(opened: Opened) -> None:
    message = {"model": "claude-opus-5", "usage": {"input_tokens": 1000, "output_tokens": 200}}
    generation = spans(opened(user("q"), assistant(text("a"), message=message)))[1]
    assert generation.cost_usd == 0.01
    assert generation.model == "claude-opus-5"


def test_a_message_without_usage_has_none(tmp_path: Path) -> None:
    generation = spans(flat(tmp_path, *EXAMPLE))[1]
    assert (generation.usage, generation.cost_usd) == (None, None)


CONVERSATION = (
    user("q1"),
    assistant(call("Bash"), message_id="m1"),
    result("toolu_1"),
    assistant(text("a1"), message_id="m2"),
)


def test_ids_are_the_same_each_time_and_in_a_copy_under_another_session(tmp_path: Path) -> None:
    mine, copy = tmp_path / "mine.jsonl", tmp_path / "copy.jsonl"
    mine.write_bytes(session(*CONVERSATION))
    copy.write_bytes(session(*CONVERSATION, user("q2"), session_id="another"))
    first, second = open_session(mine), open_session(copy)
    assert [span.id for span in spans(first)] == [span.id for span in spans(second)]
    assert [span.trace.id for span in spans(first)] == [span.trace.id for span in spans(second)]
    assert first_trace(first) == first_trace(second)
    assert [span.start for span in spans(first)] == [span.start for span in spans(second)]


def test_ids_do_not_depend_on_the_layout(opened: Opened) -> None:
    whole = opened(*CONVERSATION)
    siblings = {span.id: span.name for span in spans(whole)}
    nested = {span.id: span.name for span in spans(whole, layout=ToolPlacement.NESTED)}
    assert siblings.items() <= nested.items()


def test_ids_without_uuids_come_from_the_session_and_the_line(tmp_path: Path) -> None:
    mine = spans(flat(tmp_path, *EXAMPLE))
    other = spans(flat(tmp_path, EXAMPLE[0] | {"sessionId": "sess2"}, *EXAMPLE[1:]))
    assert {span.id for span in mine}.isdisjoint(span.id for span in other)
    assert [span.id for span in mine] == [span.id for span in spans(flat(tmp_path, *EXAMPLE))]


def test_calls_of_one_id_are_spans_of_their_own(opened: Opened) -> None:
    found = spans(opened(user("q"), assistant(call("Bash")), assistant(call("Bash"))))
    assert len({span.id for span in found}) == len(found) == 5


def test_the_last_turn_is_final_only_if_the_session_has_ended(opened: Opened) -> None:
    whole = opened(*CONVERSATION, user("q2"), assistant(call("Read", {}, "B")))
    finals = [(span.name, span.is_final) for span in spans_of(whole)]
    assert finals == [
        ("Turn 1", True),
        (MODEL, True),
        ("Bash", True),
        (MODEL, True),
        ("Turn 2", False),
        (MODEL, False),
        ("Read", False),
    ]
    assert all(span.is_final for span in spans(whole))


def test_of_a_turn_that_goes_on_only_what_is_through_is_final(opened: Opened) -> None:
    finals = [(span.name, span.is_final) for span in spans_of(opened(*CONVERSATION))]
    assert finals == [("Turn 1", False), (MODEL, True), ("Bash", True), (MODEL, False)]


def test_what_is_to_be_skipped_is_not_made(opened: Opened) -> None:
    whole = opened(*CONVERSATION)
    turn, *others = spans(whole)
    skip = {turn.id, others[0].id}
    assert list(spans_of(whole, SpanOptions(ended=True), skip)) == others[1:]


@pytest.mark.parametrize("prompt", ["", "[Image]"])
def test_unknown_lines_are_no_spans(opened: Opened, prompt: str) -> None:
    whole = opened(user(prompt), line("sparkle", uuid="s", parent=nth(1)), assistant(parent="s"))
    assert tree_of(spans(whole)) == ["Turn 1", f"  {MODEL}"]


def test_content_that_is_a_text_is_what_was_said(tmp_path: Path) -> None:
    answer = {"message": {"id": "m", "role": "assistant", "content": "plain"}}
    assert spans(flat(tmp_path, encode(EXAMPLE[0]), answer))[1].output == said("plain")


def test_all_turns_of_a_file_have_one_session_id_though_not_all_lines_do(tmp_path: Path) -> None:
    def turn(text: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        answer = {"id": f"m-{text}", "role": "assistant", "content": "hi"}
        return {"type": "user", "content": text, **more}, {"message": answer}

    found = spans(flat(tmp_path, *turn("q1"), *turn("q2", sessionId="s-1"), *turn("q3")))
    assert {span.trace.session_id for span in found} == {"s-1"}


def test_files_of_one_name_without_session_ids_are_not_one_session(tmp_path: Path) -> None:
    answer = {"message": {"id": "m", "role": "assistant", "content": "hi"}}
    ids: list[str] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        first = {"type": "user", "content": name}
        before = spans(flat(tmp_path / name, first, answer))
        grown = spans(
            flat(tmp_path / name, first, answer, {"type": "user", "content": "q"}, answer)
        )
        ids.append(before[0].trace.session_id)
        assert {span.trace.session_id for span in (*before, *grown)} == {ids[-1]}
    assert ids[0] != ids[1]
