"""Requirements for writing sessions that other clients can resume, in one session.

The headings are those of the description of the files that the project started from.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from support.scripted_api import Reply, Request, answered, called, said, scripted_api
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.permissions import ApprovalMode
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

HOOK = {"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}
CHAINED = ("user", "assistant", "system", "attachment")
ASIDE = "Look around"
RESULTS = {
    "t1": "type file",
    "t2": "filenames durationMs numFiles truncated",
    "t3": "filePath oldString newString originalFile structuredPatch userModified replaceAll",
    "t4": "stdout stderr interrupted isImage",
    "t5": "status prompt agentId content totalDurationMs totalTokens totalToolUseCount usage",
}
"""Fields that public documents of the format name, by call."""
INPUTS = {
    "Read": "file_path offset limit",
    "Write": "file_path content",
    "Edit": "file_path old_string new_string replace_all",
    "Bash": "command description timeout",
    "Glob": "pattern path",
    "Grep": "pattern path glob output_mode",
    "Agent": "description subagent_type prompt model",
    "TodoWrite": "todos",
    "WebSearch": "query",
    "WebFetch": "url prompt",
}
"""Inputs that they name, by tool."""


class Run(NamedTuple):
    """A session that was worked on, compacted, closed and gone on with."""

    path: Path
    cwd: Path
    lines: list[Fields]
    requests: list[Request]

    @property
    def chain(self) -> list[Fields]:
        return [line for line in self.lines if line["type"] in CHAINED]

    @property
    def agent_lines(self) -> list[Fields]:
        (path,) = (self.path.with_suffix("") / "subagents").glob("agent-*.jsonl")
        return read(path)

    def of_type(self, kind: str, subtype: str | None = None) -> list[Fields]:
        return [e for e in self.lines if e["type"] == kind and e.get("subtype") == subtype]

    def answer_to(self, call_id: str) -> Fields:
        (line,) = (e for e in self.of_type("user") if call_id in json.dumps(e["message"]))
        return line


def read(path: Path) -> list[Fields]:
    return [json.loads(raw) for raw in path.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("checklist")
    store, cwd = Store(folder / "claude"), folder / "shop.d"
    cwd.mkdir()
    (cwd / "a.txt").write_text("one\n")
    store.root.mkdir()
    store.settings.write_text(json.dumps({"hooks": HOOK}))
    with pytest.MonkeyPatch.context() as patch, scripted_api(*replies(cwd)) as api:
        patch.setenv("HOME", str(folder))
        patch.setattr("turnlog.agent.loop.tool_calls.FIRST_NEWS", 0.1)
        patch.setenv("ANTHROPIC_API_KEY", "not-a-key")
        # Offered to older models, and only on request.
        patch.setenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1")
        patch.setenv("CLAUDE_CODE_ENABLE_TASKS", "0")
        patch.setenv("ANTHROPIC_BASE_URL", api.url)
        api.choose = answer_of_agent
        path = asyncio.run(work(store, cwd))
        return Run(path, cwd, read(path), list(api.requests))


def replies(cwd: Path) -> list[Reply]:
    """Return the model's answers in the main conversation."""
    file = str(cwd / "a.txt")
    slow = "for i in 1 2 3; do echo $i; sleep 0.15; done"
    agent = {"description": "Look", "prompt": ASIDE, "subagent_type": "general-purpose"}
    return [
        called(("t1", "Read", {"file_path": file}), ("t2", "Glob", {"pattern": "*"}), text="Look."),
        called(("t3", "Edit", {"file_path": file, "old_string": "one", "new_string": "two"})),
        called(("t4", "Bash", {"command": slow}), ("t5", "Agent", agent)),
        said("All done."),
        answered({"type": "text", "text": "The file says two now."}),
        said("Going on."),
        said("Back again."),
    ]


def answer_of_agent(body: Fields) -> Reply | None:
    first = json.dumps(body["messages"][0])
    if ASIDE not in first or "Fix the file" in first:
        return None
    has_looked = "tool_result" in json.dumps(body["messages"])
    return said("Nothing there.") if has_looked else called(("s1", "Glob", {"pattern": "*.md"}))


async def work(store: Store, cwd: Path) -> Path:
    """Three prompts, a compaction before the second, a new process before the third."""
    options = ChatOptions(cwd=cwd, mode=ApprovalMode.BYPASS)
    chat = await open_chat(store, options)
    path = chat.parts.recorder.path
    _ = [event async for event in chat.send("Fix the file")]
    _ = [event async for event in chat.loop.compact()]
    _ = [event async for event in chat.send("Go on")]
    await chat.close()
    again = await open_chat(store, ChatOptions(cwd=cwd, mode=ApprovalMode.BYPASS, resume=path))
    _ = [event async for event in again.send("And again")]
    await again.close()
    return path


# Session management


def test_the_session_has_a_uuid_of_version_4(run: Run) -> None:
    assert UUID(run.path.stem).version == 4
    assert {line["sessionId"] for line in run.chain} == {run.path.stem}


def test_its_file_is_in_the_folder_of_its_directory(run: Run) -> None:
    assert run.path.parent.name == re.sub(r"[^a-zA-Z0-9]", "-", str(run.cwd))


def test_it_has_a_name_of_three_words(run: Run) -> None:
    (slug,) = {line.get("slug") for line in run.chain}
    assert re.fullmatch("[a-z]+-[a-z]+-[a-z]+", slug or "")


def test_each_line_tells_where_and_by_what_it_was_written(run: Run) -> None:
    assert {line["cwd"] for line in run.chain} == {str(run.cwd)}
    assert all({"gitBranch", "version"} <= line.keys() for line in run.chain)


def test_each_line_of_the_chain_has_the_whole_envelope(run: Run) -> None:
    envelope = set(
        """type uuid parentUuid sessionId timestamp isSidechain userType cwd version gitBranch
        slug""".split()
    )
    assert [line for line in run.chain if not line.keys() >= envelope] == []
    assert {line["userType"] for line in run.chain} == {"external"}


def test_each_prompt_tells_the_permission_mode(run: Run) -> None:
    prompts = [e for e in run.of_type("user") if e.get("promptSource")]
    assert [e["permissionMode"] for e in prompts] == ["bypassPermissions"] * 3


# Message writing


def test_each_entry_is_a_line(run: Run) -> None:
    assert run.path.read_bytes().endswith(b"}\n")
    assert all(isinstance(line, dict) for line in run.lines)


def test_each_message_has_a_uuid_of_its_own(run: Run) -> None:
    uuids = [line["uuid"] for line in run.chain]
    assert len(set(uuids)) == len(uuids)


def test_each_follows_on_the_one_before_and_the_first_on_none(run: Run) -> None:
    before: str | None = None
    for line in run.chain:
        is_start = line.get("subtype") == "compact_boundary"
        assert line["parentUuid"] == (None if is_start else before)
        before = line["uuid"]


def test_files_are_noted_before_and_after_they_change(run: Run) -> None:
    noted = run.of_type("file-history-snapshot")
    prompts = [e["uuid"] for e in run.of_type("user") if isinstance(e["message"]["content"], str)]
    assert noted[0]["messageId"] == prompts[0]
    assert not noted[0]["isSnapshotUpdate"]
    changed = [e for e in noted if e["snapshot"]["trackedFileBackups"]]
    assert changed[0]["isSnapshotUpdate"]
    (name,) = {b["backupFileName"] for b in changed[0]["snapshot"]["trackedFileBackups"].values()}
    kept = run.path.parents[2] / "file-history" / run.path.stem / name
    assert kept.read_text() == "one\n"
    assert (run.cwd / "a.txt").read_text() == "two\n"


def test_a_snapshot_stands_before_the_prompt_that_it_names(run: Run) -> None:
    modes = ("mode", "permission-mode")
    first, second = [line for line in run.lines if line["type"] not in modes][:2]
    assert (first["type"], second["type"]) == ("file-history-snapshot", "user")
    assert first["messageId"] == second["uuid"]


def test_each_has_a_time_that_others_can_read(run: Run) -> None:
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert all(re.fullmatch(stamp, line["timestamp"]) for line in run.chain)


# The API


def test_messages_of_user_and_assistant_are_sent(run: Run) -> None:
    roles = [message["role"] for message in run.requests[1].body["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_the_tools_are_sent_along(run: Run) -> None:
    names = {tool["name"] for tool in run.requests[0].body["tools"]}
    assert {"Read", "Write", "Edit", "Bash", "Glob", "Grep", "Agent", "TodoWrite"} <= names


def test_each_block_of_a_streamed_answer_is_a_line(run: Run) -> None:
    first = run.of_type("assistant")[0]["message"]["id"]
    lines = [e for e in run.of_type("assistant") if e["message"]["id"] == first]
    assert [[b["type"] for b in e["message"]["content"]] for e in lines] == [
        ["text"],
        ["tool_use"],
        ["tool_use"],
    ]


def test_thinking_is_kept_with_its_signature(run: Run) -> None:
    blocks = [block for e in run.of_type("assistant") for block in e["message"]["content"]]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    assert thoughts
    assert all(block["thinking"] and block["signature"] for block in thoughts)


def test_the_lines_of_an_answer_have_the_id_of_its_request(run: Run) -> None:
    pairs = {(line["message"]["id"], line["requestId"]) for line in run.of_type("assistant")}
    assert len({message for message, _ in pairs}) == len({request for _, request in pairs})
    assert len(pairs) == len({request for _, request in pairs})


def test_the_stop_reason_says_whether_tools_are_to_be_run(run: Run) -> None:
    reasons = [e["message"]["stop_reason"] for e in run.of_type("assistant")]
    assert {"tool_use", "end_turn"} <= set(reasons)


# Tools


def test_calls_are_read_from_the_answer_and_run_here(run: Run) -> None:
    told = run.answer_to("t1")["message"]["content"][0]
    assert "one" in told["content"]


def test_what_came_of_a_call_is_a_result_of_the_user(run: Run) -> None:
    (block,) = run.answer_to("t3")["message"]["content"]
    assert (block["type"], block["tool_use_id"]) == ("tool_result", "t3")


def test_a_result_has_what_screens_show_of_it(run: Run) -> None:
    held = run.answer_to("t3")["toolUseResult"]
    assert (held["oldString"], held["newString"]) == ("one", "two")
    assert run.answer_to("t1")["toolUseResult"]["file"]["content"] == "one"


def test_what_screens_show_of_a_result_is_never_sent(run: Run) -> None:
    sent = json.dumps([request.body["messages"] for request in run.requests])
    assert "toolUseResult" not in sent
    assert "structuredPatch" not in sent


@pytest.mark.parametrize(("call_id", "names"), RESULTS.items())
def test_a_result_has_the_fields_of_its_tool(run: Run, call_id: str, names: str) -> None:
    assert set(names.split()) <= run.answer_to(call_id)["toolUseResult"].keys()


@pytest.mark.parametrize(("tool", "names"), INPUTS.items())
def test_a_tool_takes_the_inputs_of_the_client_s(run: Run, tool: str, names: str) -> None:
    tools = {each["name"]: each for each in run.requests[0].body["tools"]}
    assert set(names.split()) <= tools[tool]["input_schema"]["properties"].keys()


def test_each_result_is_a_line_behind_the_last_block(run: Run) -> None:
    first = run.of_type("assistant")[0]["message"]["id"]
    *_, last = [e["uuid"] for e in run.of_type("assistant") if e["message"]["id"] == first]
    one, two = run.answer_to("t1"), run.answer_to("t2")
    assert (one["parentUuid"], two["parentUuid"]) == (last, one["uuid"])
    assert [len(e["message"]["content"]) for e in (one, two)] == [1, 1]


def test_calls_of_one_answer_each_have_a_result(run: Run) -> None:
    results = run.requests[1].body["messages"][-1]["content"]
    assert [block["tool_use_id"] for block in results] == ["t1", "t2"]


# Sub-agents


def test_a_sub_agent_has_a_file_of_its_own(run: Run) -> None:
    agent_id = run.answer_to("t5")["toolUseResult"]["agentId"]
    folder = run.path.with_suffix("") / "subagents"
    assert (folder / f"agent-{agent_id}.jsonl").exists()
    assert json.loads((folder / f"agent-{agent_id}.meta.json").read_text())["toolUseId"] == "t5"


def test_a_sub_agent_has_a_loop_of_its_own(run: Run) -> None:
    kinds = [line["type"] for line in run.agent_lines if line["type"] in ("user", "assistant")]
    assert kinds[0] == "user"
    assert kinds.count("assistant") >= 2
    assert any("s1" in json.dumps(line) for line in run.agent_lines)


def test_its_lines_say_that_they_are_a_sub_agents(run: Run) -> None:
    agent_id = run.answer_to("t5")["toolUseResult"]["agentId"]
    chained = [line for line in run.agent_lines if line["type"] in CHAINED]
    assert {(line["isSidechain"], line["agentId"]) for line in chained} == {(True, agent_id)}


def test_its_first_line_has_no_parent_and_the_session_s_id(run: Run) -> None:
    first = next(line for line in run.agent_lines if line["type"] in CHAINED)
    assert (first["type"], first["parentUuid"], first["sessionId"]) == ("user", None, run.path.stem)


def test_only_lines_of_sub_agents_name_one(run: Run) -> None:
    assert [line for line in run.chain if "agentId" in line or line["isSidechain"]] == []


def test_its_report_is_the_result_of_the_call(run: Run) -> None:
    assert "Nothing there." in json.dumps(run.answer_to("t5")["message"])


def test_what_it_took_is_in_the_result(run: Run) -> None:
    held = run.answer_to("t5")["toolUseResult"]
    assert held["totalToolUseCount"] == 1
    assert held["totalTokens"] > 0
    assert held["totalDurationMs"] >= 0


# Context


def test_usage_is_kept_as_the_api_told_it(run: Run) -> None:
    assert all(e["message"]["usage"]["output_tokens"] for e in run.of_type("assistant"))


def test_a_summary_takes_the_place_of_what_was_said(run: Run) -> None:
    (summary,) = (line for line in run.of_type("user") if line.get("isCompactSummary"))
    assert "The file says two now." in json.dumps(summary["message"])


def test_a_compaction_is_told_by_a_summary_and_a_boundary(run: Run) -> None:
    (boundary,) = run.of_type("system", "compact_boundary")
    assert boundary["compactMetadata"]["trigger"] == "manual"
    (line,) = run.of_type("summary")
    assert line["leafUuid"] == boundary["logicalParentUuid"]


def test_after_a_compaction_the_chain_starts_anew(run: Run) -> None:
    (boundary,) = run.of_type("system", "compact_boundary")
    (summary,) = (line for line in run.of_type("user") if line.get("isCompactSummary"))
    assert (boundary["parentUuid"], summary["parentUuid"]) == (None, boundary["uuid"])


# Progress


def test_what_a_command_prints_is_noted_while_it_runs(run: Run) -> None:
    assert "bash_progress" in kinds_of_progress(run)


def test_what_a_sub_agent_does_is_noted(run: Run) -> None:
    assert "agent_progress" in kinds_of_progress(run)


def test_hooks_that_run_are_noted(run: Run) -> None:
    assert "hook_progress" in kinds_of_progress(run)


def test_no_line_of_the_chain_follows_on_progress(run: Run) -> None:
    noted = {line["uuid"] for line in run.of_type("progress")}
    assert noted
    assert not noted & {line["parentUuid"] for line in run.chain}


def kinds_of_progress(run: Run) -> set[str]:
    return {line["data"]["type"] for line in run.of_type("progress")}


def test_how_long_a_turn_took_is_told(run: Run) -> None:
    took = run.of_type("system", "turn_duration")
    assert len(took) == 3
    assert took[0]["durationMs"] >= 450


# Resuming


def test_a_session_is_gone_on_with_from_its_file(run: Run) -> None:
    prompts = [e["message"]["content"] for e in run.of_type("user")]
    assert [each for each in prompts if each in ("Fix the file", "Go on", "And again")] == [
        "Fix the file",
        "Go on",
        "And again",
    ]


def test_it_goes_on_at_its_last_message(run: Run) -> None:
    told = json.dumps(run.requests[-1].body["messages"])
    assert told.index("Going on.") < told.index("And again")


def test_lines_of_one_answer_are_sent_as_one(run: Run) -> None:
    sent = run.requests[1].body["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["text", "tool_use", "tool_use"]


def test_a_compacted_session_starts_with_its_summary(run: Run) -> None:
    first = json.dumps(run.requests[-1].body["messages"][0])
    assert "The file says two now." in first
    assert "Fix the file" not in json.dumps(run.requests[-1].body["messages"])
