"""Print mode: the output for each event."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.build import image
from support.media import picture
from support.scripted_api import ScriptedApi, answered, called, refused, said
from turnlog.agent.chat.assembly import PRINTED, ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.headless.print_mode import Printer, Style
from turnlog.agent.headless.prompt_lines import read_prompts
from turnlog.agent.loop.conversation import TurnLimits
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.errors import UsageError
from turnlog.format.image_size import pixels_of
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store


class Printed:
    """Runs prompts and keeps the output."""

    def __init__(self, store: Store, project: Path) -> None:
        self.store = store
        self.options = ChatOptions(cwd=project, entrypoint=PRINTED, model="opus")
        self.is_error = False
        self.is_verbose = False

    def __call__(self, style: Style, *prompts: Prompt, pieces: bool = False) -> list[str]:
        written: list[str] = []

        async def run() -> None:
            chat = await open_chat(self.store, self.options)
            printer = Printer(chat, style, written.append, pieces, is_verbose=self.is_verbose)
            await printer.run(given(*prompts))
            await chat.close()
            self.is_error = printer.is_error

        asyncio.run(run())
        return written

    def messages(self, *prompts: Prompt, pieces: bool = False) -> list[Fields]:
        return [json.loads(line) for line in self(Style.STREAM, *prompts, pieces=pieces)]

    def result(self, *prompts: Prompt) -> Fields:
        return json.loads(self(Style.JSON, *prompts)[-1])


async def given(*items: Prompt) -> AsyncIterator[Prompt]:
    for item in items:
        yield item


@pytest.fixture
def printed(store: Store, project: Path, api: ScriptedApi) -> Printed:
    return Printed(store, project)


def kinds(messages: list[Fields]) -> list[str]:
    return ["/".join(filter(None, (each["type"], each.get("subtype")))) for each in messages]


def test_text_is_the_answer_alone(printed: Printed, api: ScriptedApi) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "ls"}), text="Let me look."), said("Done.")]
    assert printed(Style.TEXT, "go") == ["Done."]


@pytest.mark.parametrize(
    ("variable", "source"),
    [("ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"), ("ANTHROPIC_AUTH_TOKEN", "none")],
)
def test_programs_are_told_where_the_key_comes_from(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, variable: str, source: str
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "x")
    assert printed.messages("go")[0]["apiKeySource"] == source


def test_local_commands_are_answered_without_the_model(printed: Printed, api: ScriptedApi) -> None:
    (text,) = printed(Style.TEXT, "/cost")
    assert text.startswith("Total cost:            $0.0000")
    assert kinds(printed.messages("/context")) == ["system/init", "assistant", "result/success"]
    result = printed.result("/rewind")
    assert result["result"] == "/rewind isn't available in this environment."
    assert (result["is_error"], result["num_turns"], api.requests) == (False, 0, [])


def test_a_model_chosen_by_a_command_answers_from_then_on(
    printed: Printed, api: ScriptedApi
) -> None:
    told = printed.messages("/model claude-haiku-4-5", "/effort nonsense", "go")
    results = [each["result"] for each in told if each["type"] == "result"]
    assert results[0] == "Set model to claude-haiku-4-5 for this session only"
    assert results[1].startswith("Usage: /effort <low|")
    assert [each.body["model"] for each in api.requests] == ["claude-haiku-4-5"]


def test_a_command_of_the_user_is_not_a_local_one(
    printed: Printed, api: ScriptedApi, store: Store
) -> None:
    commands = store.root / "commands"
    commands.mkdir(parents=True)
    (commands / "cost.md").write_text("Estimate what $ARGUMENTS costs.")
    printed(Style.TEXT, "/cost it")
    assert "Estimate what it costs." in json.dumps(api.requests[0].body["messages"])


def test_verbose_json_has_all_messages(printed: Printed, api: ScriptedApi) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "ls"}), text="Let me look."), said("Done.")]
    printed.is_verbose = True
    (line,) = printed(Style.JSON, "go")
    told = ["system/init", "assistant", "assistant", "user", "assistant", "assistant"]
    assert kinds(json.loads(line)) == [*told, "result/success"]
    assert printed(Style.TEXT, "go") == ["Done."]


def test_json_is_the_result(printed: Printed, api: ScriptedApi) -> None:
    api.replies[:] = [
        answered({"type": "text", "text": "Hi."}, input_tokens=1000, output_tokens=200)
    ]
    result = printed.result("go")
    told = ("type", "subtype", "is_error", "num_turns", "result", "permission_denials")
    assert [result[name] for name in told] == ["result", "success", False, 1, "Hi.", []]
    assert result["usage"]["output_tokens"] == 200
    assert result["modelUsage"]["claude-opus-5-5"]["inputTokens"] == 1000
    assert result["total_cost_usd"] > 0
    assert result["duration_ms"] >= result["duration_api_ms"] >= 0


def test_a_call_that_is_denied_without_a_question_is_reported_before_its_result(
    printed: Printed, api: ScriptedApi
) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "rm a"})), said("Done.")]
    messages = printed.messages("go")
    place = kinds(messages).index("system/permission_denied")
    denied, result = messages[place], messages[place + 1]
    assert (denied["tool_name"], denied["tool_use_id"]) == ("Bash", "t1")
    assert denied["message"] == result["message"]["content"][0]["content"]
    assert {"uuid", "session_id"} <= set(denied)


def test_a_result_has_all_counts_that_the_types_of_the_sdks_require(
    printed: Printed, api: ScriptedApi
) -> None:
    counts: Fields = {
        "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 25},
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
        "service_tier": "priority",
    }
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    api.replies[:] = [answered(call, stop_reason="tool_use", **counts), said("Done.")]
    result = printed.result("go")
    usage = result["usage"]
    assert {name: usage[name] for name in counts} == counts
    assert (usage["speed"], usage["iterations"], usage["inference_geo"]) == ("standard", [], "")
    told = result["modelUsage"]["claude-opus-5-5"]
    names = ("contextWindow", "maxOutputTokens", "canonicalModel", "costBasis")
    assert [told[name] for name in names] == [1_000_000, 128_000, "claude-opus-5-5", "list"]


def test_a_stream_tells_each_block_and_result(printed: Printed, api: ScriptedApi) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "echo hi"}), text="Look."), said("Done.")]
    messages = printed.messages("go")
    assert kinds(messages) == [
        "system/init",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "assistant",
        "result/success",
    ]
    init, text, call, result, *_ = messages
    assert {"Bash", "Read", "Task"} <= set(init["tools"])
    assert (init["permissionMode"], init["model"]) == ("default", "claude-opus-5-5")
    assert text["message"]["content"] == [{"type": "text", "text": "Look."}]
    assert (call["request_id"], call["parent_tool_use_id"]) == ("req_1", None)
    assert result["tool_use_result"]["stdout"] == "hi"
    assert len({each["session_id"] for each in messages}) == 1
    assert len({each["uuid"] for each in messages}) == len(messages)


def test_pieces_are_told_where_they_are_asked_for(printed: Printed, api: ScriptedApi) -> None:
    messages = printed.messages("go", pieces=True)
    pieces = [each["event"]["type"] for each in messages if each["type"] == "stream_event"]
    assert pieces[0] == "message_start"
    assert pieces[-1] == "message_stop"
    assert "content_block_delta" in pieces


def test_what_a_sub_agent_does_names_its_call(printed: Printed, api: ScriptedApi) -> None:
    task = {"description": "Look", "prompt": "look", "subagent_type": "general-purpose"}
    api.replies[:] = [called(("t1", "Agent", task)), said("Seen."), said("Done.")]
    messages = printed.messages("go")
    inside = [each for each in messages if each.get("parent_tool_use_id") == "t1"]
    assert kinds(inside) == ["user", "assistant", "assistant"]


def test_a_retry_is_told(printed: Printed, api: ScriptedApi) -> None:
    api.replies[:] = [refused(529, "busy"), refused(500, "oh"), refused(429, "slow"), said("Done.")]
    retries = [each for each in printed.messages("go") if each.get("subtype") == "api_retry"]
    assert [(each["attempt"], each["error_status"], each["error"]) for each in retries] == [
        (1, 529, "overloaded"),
        (2, 500, "server_error"),
        (3, 429, "rate_limit"),
    ]
    assert {(each["max_retries"], each["retry_delay_ms"]) for each in retries} == {(10, 1)}


def test_a_compaction_is_told(printed: Printed, api: ScriptedApi) -> None:
    messages = printed.messages("go", "/compact")
    (boundary,) = [each for each in messages if each.get("subtype") == "compact_boundary"]
    assert boundary["compact_metadata"]["trigger"] == "manual"


def test_a_failure_of_the_api_is_an_error(printed: Printed, api: ScriptedApi) -> None:
    api.replies[:] = [refused(400, "bad")]
    result = printed.result("go")
    assert (result["subtype"], result["is_error"]) == ("success", True)
    assert result["result"].startswith("API Error: ")
    assert printed.is_error


@pytest.mark.parametrize(
    ("limits", "subtype", "told"),
    [
        (TurnLimits(max_turns=1), "error_max_turns", "Reached maximum number of turns (1)"),
        (TurnLimits(max_budget=0.0), "error_max_budget_usd", "Reached maximum budget ($0)"),
    ],
)
def test_limits_are_errors(
    printed: Printed, api: ScriptedApi, limits: TurnLimits, subtype: str, told: str
) -> None:
    printed.options = ChatOptions(cwd=printed.options.cwd, limits=limits, model="opus")
    api.replies[:] = [called(("t1", "Bash", {"command": "ls"}))]
    result = printed.result("go")
    assert (result["subtype"], result["is_error"], result["errors"]) == (subtype, True, [told])
    assert "result" not in result


def test_denied_calls_are_listed(printed: Printed, api: ScriptedApi) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "touch x"})), said("Done.")]
    (denial,) = printed.result("go")["permission_denials"]
    assert denial == {
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": "touch x"},
    }


def test_prompts_come_one_after_the_other(printed: Printed, api: ScriptedApi) -> None:
    messages = printed.messages("one", [{"type": "text", "text": "two"}])
    assert kinds(messages).count("system/init") == 2
    costs = [each["total_cost_usd"] for each in messages if each["type"] == "result"]
    assert costs[1] > costs[0]


@pytest.mark.parametrize("is_fork", [False, True])
def test_resumed_session_reports_its_whole_cost(
    printed: Printed, api: ScriptedApi, is_fork: bool
) -> None:
    api.replies[:] = [
        answered({"type": "text", "text": "Hi."}, input_tokens=1000, output_tokens=200)
    ]
    first = printed.result("one")
    (path,) = printed.store.projects.rglob("*.jsonl")
    resumed = replace(printed.options, resume=path, is_fork=is_fork, model="sonnet")
    printed.options = resumed
    second = printed.result("two")
    used = {name: each["inputTokens"] for name, each in second["modelUsage"].items()}
    assert list(used.values()) == [1000, 1000]
    assert second["total_cost_usd"] > first["total_cost_usd"]
    assert second["usage"]["input_tokens"] == 1000
    # Totals do not record the provider of earlier processes.
    assert ["provider" in each for each in second["modelUsage"].values()] == [False, True]


def test_budget_ignores_what_a_resumed_session_cost_before(
    printed: Printed, api: ScriptedApi
) -> None:
    api.replies[:] = [
        answered({"type": "text", "text": "Hi."}, input_tokens=1000, output_tokens=200)
    ]
    cost = printed.result("one")["total_cost_usd"]
    (path,) = printed.store.projects.rglob("*.jsonl")
    limits = TurnLimits(max_budget=cost * 1.5)
    printed.options = replace(printed.options, resume=path, limits=limits)
    assert printed.result("two")["subtype"] == "success"


def read(*lines: str) -> list[Prompt]:
    async def run() -> list[Prompt]:
        async def all_lines() -> AsyncIterator[str]:
            for line in lines:
                yield line

        return [prompt async for prompt in read_prompts(all_lines())]

    return asyncio.run(run())


def test_prompts_are_read_from_lines() -> None:
    text = [{"type": "text", "text": "two"}]
    lines = [
        json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"
        for content in ("one", text)
    ]
    assert read(lines[0], "\n", '{"type":"control_request"}\n', lines[1]) == ["one", text]


def test_images_of_programs_are_made_as_small_as_the_api_takes_them() -> None:
    blocks = [image(base64.b64encode(raw).decode()) for raw in (picture(4_000, 20), b"rubbish")]
    ([wide, broken],) = read(json.dumps({"type": "user", "message": {"content": blocks}}))
    assert isinstance(wide, dict)
    assert pixels_of(wide["source"]["data"]) == (2_000, 10)
    assert broken == {"type": "text", "text": "[an image that cannot be shown]"}


@pytest.mark.parametrize("line", ["{", '{"type":"user"}', '{"type":"user","message":{}}'])
def test_a_line_that_is_no_prompt_is_told(line: str) -> None:
    with pytest.raises(UsageError):
        read(line)
