"""The attributes of spans, as each convention wants them."""

import json
from datetime import datetime
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import assistant, call, result, text, thinking, user
from support.planted import BARE
from support.traces import spans
from turnlog.trace.attributes import ROWS, attributes_of
from turnlog.trace.content import ContentMode, ContentPolicy
from turnlog.trace.span import Span, ToolPlacement

SECRET = BARE[0].value
USAGE = {
    "input_tokens": 6,
    "output_tokens": 212,
    "cache_read_input_tokens": 15000,
    "cache_creation_input_tokens": 2400,
    "output_tokens_details": {"thinking_tokens": 30},
}
HOUR = {"cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 2000}}


def sent(opened: Opened, usage: dict[str, Any] = USAGE, **options: Any) -> list[dict[str, Any]]:
    """The attributes of a turn, a generation, a tool, and a generation."""
    message = {"model": "claude-opus-4-8", "stop_reason": "tool_use", "usage": usage}
    bash = call("Bash", {"command": "ls"}, "t1")
    whole = opened(
        user("list it", slug="red-blue-green", prompt_id="p-1"),
        assistant(thinking("hm"), message_id="m1", message=message),
        assistant(text("I will"), message_id="m1", message=message),
        assistant(bash, message_id="m1", message=message),
        result("t1", "a b", is_error=options.pop("fails", None)),
        assistant(text("done"), message_id="m2", message=message | {"stop_reason": "end_turn"}),
    )
    return [attributes_of(span) for span in spans(whole, **options)]


def test_each_kind_of_span_is_named_in_each_convention(opened: Opened) -> None:
    names = ("gen_ai.operation.name", "openinference.span.kind", "langfuse.observation.type")
    assert [tuple(each[name] for name in names) for each in sent(opened)] == [
        ("invoke_agent", "AGENT", "agent"),
        ("chat", "LLM", "generation"),
        ("execute_tool", "TOOL", "tool"),
        ("chat", "LLM", "generation"),
    ]


def test_every_span_names_its_session_user_and_turn(opened: Opened) -> None:
    for each in sent(opened, user="ada"):
        assert (
            each["session.id"]
            == each["gen_ai.conversation.id"]
            == each["langfuse.trace.metadata.session_id"]
        )
        assert each["user.id"] == "ada"
        assert each["langfuse.trace.name"] == "Turn 1"
        assert each["langfuse.trace.metadata.source"] == "claude-code"
        assert each["langfuse.trace.metadata.turn_number"] == 1
        assert each["langfuse.trace.metadata.version"] == "2.1.325"
        assert each["langfuse.trace.metadata.slug"] == "red-blue-green"
        assert each["langfuse.trace.metadata.cwd"] == "/home/ada/shop"
        assert each["langfuse.trace.metadata.git_branch"] == "main"
        assert each["prompt.id"] == "p-1"


def test_tokens_read_include_caches_for_those_who_want_the_sum(opened: Opened) -> None:
    generation = sent(opened)[1]
    assert generation["gen_ai.usage.input_tokens"] == 6 + 15000 + 2400
    assert generation["gen_ai.usage.output_tokens"] == 212
    assert generation["gen_ai.usage.cache_read.input_tokens"] == 15000
    assert generation["gen_ai.usage.cache_creation.input_tokens"] == 2400
    assert generation["gen_ai.usage.reasoning.output_tokens"] == 30
    assert generation["llm.token_count.prompt"] == 6 + 15000 + 2400
    assert generation["llm.token_count.completion"] == 212
    assert generation["llm.token_count.total"] == 6 + 15000 + 2400 + 212
    assert generation["llm.token_count.prompt_details.cache_read"] == 15000
    assert generation["llm.token_count.prompt_details.cache_write"] == 2400


def test_langfuse_gets_each_count_once(opened: Opened) -> None:
    details = json.loads(sent(opened)[1]["langfuse.observation.usage_details"])
    assert details == {
        "input": 6,
        "output": 212,
        "total": 218,
        "cache_read_input_tokens": 15000,
        "cache_creation_input_tokens": 2400,
    }


def test_langfuse_gets_cache_writes_for_an_hour_apart(opened: Opened) -> None:
    details = json.loads(sent(opened, USAGE | HOUR)[1]["langfuse.observation.usage_details"])
    assert details["input_cache_creation_5m"] == 400
    assert details["input_cache_creation_1h"] == 2000
    assert "cache_creation_input_tokens" not in details


def test_the_cost_is_that_of_turnlog(opened: Opened) -> None:
    generation = sent(opened)[1]
    cost = generation["llm.cost.total"]
    details = json.loads(generation["langfuse.observation.cost_details"])
    assert details == {
        "input": 0.00003,
        "output": 0.0053,
        "cache_read_input_tokens": 0.0075,
        "cache_creation_input_tokens": 0.015,
        "total": cost,
    }
    assert generation["llm.cost.prompt"] + generation["llm.cost.completion"] == pytest.approx(cost)
    assert cost == pytest.approx(0.02783)


def test_costs_have_the_keys_of_the_counts(opened: Opened) -> None:
    generation = sent(opened, USAGE | HOUR | {"speed": "fast"})[1]
    costs = json.loads(generation["langfuse.observation.cost_details"])
    assert costs.keys() == json.loads(generation["langfuse.observation.usage_details"]).keys()
    assert sum(costs.values()) - costs["total"] == pytest.approx(costs["total"])


def test_counts_that_are_absent_are_left_out(opened: Opened) -> None:
    generation = sent(opened, {"output_tokens": 5})[1]
    assert "gen_ai.usage.input_tokens" not in generation
    assert "llm.token_count.total" not in generation
    assert json.loads(generation["langfuse.observation.usage_details"]) == {"output": 5}


def test_messages_of_a_turn_and_of_a_generation(opened: Opened) -> None:
    turn, generation, _, last = sent(opened)
    asked = [{"role": "user", "parts": [{"type": "text", "content": "list it"}]}]
    assert json.loads(turn["gen_ai.input.messages"]) == asked
    assert json.loads(generation["gen_ai.input.messages"]) == asked
    assert "gen_ai.input.messages" not in last
    assert json.loads(turn["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "text", "content": "done"}
    ]
    (answer,) = json.loads(generation["gen_ai.output.messages"])
    assert answer["finish_reason"] == "tool_use"
    assert answer["parts"] == [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "content": "I will"},
        {"type": "tool_call", "id": "t1", "name": "Bash", "arguments": {"command": "ls"}},
    ]


def test_inputs_and_outputs_of_each_convention(opened: Opened) -> None:
    turn, _, tool, _ = sent(opened)
    assert (turn["input.value"], turn["input.mime_type"]) == ("list it", "text/plain")
    assert (turn["output.value"], turn["output.mime_type"]) == ("done", "text/plain")
    assert json.loads(turn["langfuse.observation.input"]) == {"role": "user", "content": "list it"}
    assert turn["langfuse.trace.input"] == turn["langfuse.observation.input"]
    assert turn["langfuse.trace.output"] == turn["langfuse.observation.output"]
    assert json.loads(tool["input.value"]) == {"command": "ls"}
    assert tool["input.mime_type"] == "application/json"
    assert (tool["output.value"], tool["output.mime_type"]) == ("a b", "text/plain")
    assert json.loads(tool["langfuse.observation.input"]) == {"command": "ls"}
    assert tool["langfuse.observation.output"] == "a b"
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"command": "ls"}
    assert tool["gen_ai.tool.call.result"] == "a b"
    assert "langfuse.trace.input" not in tool


def test_a_generation_names_its_model_message_and_request(opened: Opened) -> None:
    generation = sent(opened)[1]
    for name in ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name"):
        assert generation[name] == "claude-opus-4-8"
    assert generation["langfuse.observation.model.name"] == "claude-opus-4-8"
    assert generation["gen_ai.provider.name"] == "anthropic"
    assert generation["gen_ai.response.id"] == "m1"
    assert generation["request_id"] == "req_m1"
    assert generation["gen_ai.response.finish_reasons"] == ["tool_use"]
    assert generation["langfuse.observation.metadata.tool_count"] == 1


def test_a_tool_names_itself_and_its_call(opened: Opened) -> None:
    tool = sent(opened)[2]
    assert (tool["gen_ai.tool.name"], tool["tool.name"]) == ("Bash", "Bash")
    assert tool["gen_ai.tool.call.id"] == "t1"
    assert tool["langfuse.observation.metadata.tool_name"] == "Bash"
    assert tool["langfuse.observation.metadata.tool_id"] == "t1"
    assert json.loads(tool["metadata"])["tool_id"] == "t1"


def test_a_failure_has_a_level_and_a_message(opened: Opened) -> None:
    tool = sent(opened, fails=True)[2]
    assert tool["langfuse.observation.level"] == "ERROR"
    assert tool["langfuse.observation.status_message"] == "a b"
    assert "langfuse.observation.level" not in sent(opened)[2]


def test_in_the_nested_layout_the_outer_span_is_the_trace(opened: Opened) -> None:
    outer, turn, *_ = sent(opened, layout=ToolPlacement.NESTED)
    assert (outer["langfuse.observation.type"], turn["langfuse.observation.type"]) == (
        "span",
        "agent",
    )
    assert "langfuse.trace.input" in outer
    assert "langfuse.trace.input" not in turn


def test_no_attribute_is_in_the_table_twice() -> None:
    names = [
        name
        for row in ROWS
        for held in (row.gen_ai, row.openinference, row.langfuse)
        for name in held
    ]
    assert len(names) == len(set(names))


def secretive(opened: Opened, layout: ToolPlacement) -> list[Span]:
    """Spans of a file that has a key where it should name ids, models and tools."""
    message = {"model": SECRET, "stop_reason": SECRET, "usage": USAGE}
    given: dict[str, Any] = {
        "message_id": SECRET,
        "message": message,
        "request_id": SECRET,
        "version": SECRET,
    }
    whole = opened(
        user("list it", slug=SECRET, prompt_id=SECRET, version=SECRET),
        assistant(call(SECRET, {"command": "ls"}, f"id-{SECRET}"), **given),
        result(f"id-{SECRET}", "a b"),
        assistant(text("done"), **given),
    )
    return spans(whole, layout=layout, user=SECRET)


def revealing(span: Span) -> set[str]:
    """The attributes that the secret is in."""
    return {name for name, value in attributes_of(span).items() if SECRET in str(value)}


@pytest.mark.parametrize("layout", list(ToolPlacement))
@pytest.mark.parametrize("mode", [ContentMode.REDACTED, ContentMode.NONE])
def test_secrets_are_masked_in_ids_and_names(
    opened: Opened, layout: ToolPlacement, mode: ContentMode
) -> None:
    for span in secretive(opened, layout):
        sent = ContentPolicy(mode).of(span)
        assert revealing(sent) == set()
        assert SECRET not in sent.name


@pytest.mark.parametrize("layout", list(ToolPlacement))
def test_ids_and_names_are_masked_where_all_content_is_sent(
    opened: Opened, layout: ToolPlacement
) -> None:
    """Backends show ids in lists and links, to more people than a turn's content."""
    content = {"metadata", "gen_ai.output.messages", "output.value", "langfuse.observation.output"}
    for span in secretive(opened, layout):
        assert revealing(ContentPolicy(ContentMode.FULL).of(span)) <= content


def test_a_generation_s_output_has_its_thinking_and_its_calls(opened: Opened) -> None:
    found = sent(opened)
    arguments = json.dumps({"command": "ls"})
    called = {"id": "t1", "name": "Bash", "type": "function", "arguments": arguments}
    whole = {
        "role": "assistant",
        "content": "I will",
        "thinking": [{"type": "thinking", "content": "hm"}],
        "tool_calls": [called],
    }
    assert json.loads(found[1]["langfuse.observation.output"]) == whole
    assert json.loads(found[1]["output.value"]) == whole
    assert found[1]["output.mime_type"] == "application/json"
    text_only = {"role": "assistant", "content": "done"}
    assert json.loads(found[3]["langfuse.observation.output"]) == text_only
    assert (found[3]["output.value"], found[3]["output.mime_type"]) == ("done", "text/plain")


def test_calls_in_an_output_are_masked_and_left_out_as_the_level_says(opened: Opened) -> None:
    password = {"command": "login", "password": "correct-horse-battery"}
    whole = opened(
        user("log in"), assistant(call("Bash", password, "t1"), message_id="m1"), result("t1", "ok")
    )
    generation = spans(whole)[1]
    redacted = str(attributes_of(ContentPolicy(ContentMode.REDACTED).of(generation)))
    assert "login" in redacted
    assert "correct-horse" not in redacted
    assert "correct-horse" in str(attributes_of(ContentPolicy(ContentMode.FULL).of(generation)))
    nothing = attributes_of(ContentPolicy(ContentMode.NONE).of(generation))
    assert not {"langfuse.observation.output", "output.value"} & nothing.keys()


def test_langfuse_gets_the_labels_of_a_trace_on_every_span(opened: Opened) -> None:
    labels: dict[str, Any] = {
        "tags": ("a", "team:b"),
        "environment": "ci",
        "release": "r7",
        "version": "v2",
    }
    for each in sent(opened, **labels):
        assert each["langfuse.trace.tags"] == each["tag.tags"] == ["a", "team:b"]
        assert each["langfuse.environment"] == "ci"
        assert each["langfuse.release"] == "r7"
        assert each["langfuse.version"] == "v2"


def test_without_labels_the_version_is_the_client_s(opened: Opened) -> None:
    found = sent(opened)
    assert {each["langfuse.version"] for each in found} == {"2.1.325"}
    assert not any("langfuse.trace.tags" in each for each in found)


def test_langfuse_gets_model_parameters_and_when_the_first_block_was_there(opened: Opened) -> None:
    told = {"speed": "standard", "service_tier": "priority"}
    whole = opened(
        user("hi"),
        assistant(text("a"), message_id="m", message={"usage": USAGE | told}, effort="high"),
        assistant(text("b"), message_id="m", message={"usage": USAGE | told}, effort="high"),
    )
    generation = spans(whole)[1]
    sent_as = attributes_of(generation)
    known = {"effort": "high", **told}
    assert json.loads(str(sent_as["langfuse.observation.model.parameters"])) == known
    assert json.loads(str(sent_as["llm.invocation_parameters"])) == known
    moment = datetime.fromisoformat(str(sent_as["langfuse.observation.completion_start_time"]))
    assert generation.begins < moment.timestamp() * 1e9 < generation.ends


def test_a_call_that_the_api_itself_carries_out_is_in_the_output(opened: Opened) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    generation = spans(opened(user("find it"), assistant(search, message_id="m1")))[1]
    output = json.loads(str(attributes_of(generation)["langfuse.observation.output"]))
    assert [each["name"] for each in output["tool_calls"]] == ["web_search"]
