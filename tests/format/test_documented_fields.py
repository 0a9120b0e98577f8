"""Lines as public documents of the format describe them: every field has a type and its value."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.build import (
    assistant,
    call,
    encode,
    line,
    result,
    session,
    system,
    text,
    thinking,
    user,
)
from turnlog.format.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from turnlog.format.decode import decode_line, read_entries
from turnlog.format.entries import Assistant, Entry, User
from turnlog.format.jsonl import Line
from turnlog.format.survey import is_known_kind, survey_file
from turnlog.format.tools import result_of

Values = dict[str, Any]

ENVELOPE: Values = {
    "uuid": "u1",
    "parent_uuid": None,
    "session_id": "s1",
    "timestamp": "2026-11-15T06:00:00.000Z",
    "is_sidechain": False,
    "is_meta": False,
    "user_type": "external",
    "cwd": "z:\\shop\\云",
    "version": "2.1.29",
    "git_branch": "",
    "slug": "calm-teal-hopper",
}
USAGE: Values = {
    "input_tokens": 24374,
    "output_tokens": 7,
    "cache_creation_input_tokens": 857,
    "cache_read_input_tokens": 36761,
    "cache_creation": {"ephemeral_5m_input_tokens": 800, "ephemeral_1h_input_tokens": 57},
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
    "service_tier": "standard",
}
BACKUP: Values = {"backupFileName": None, "version": 1, "backupTime": "2026-11-15T06:00:00.000Z"}
SNAPSHOT: Values = {
    "messageId": "u9",
    "trackedFileBackups": {"new.py": BACKUP, "old.py": "the text itself"},
    "timestamp": "2026-11-15T06:00:01.000Z",
}
COMPACTED: Values = {"trigger": "auto", "preTokens": 167503}
USED = "<command-name>/usage</command-name>"


def progress(kind: str, **data: Any) -> bytes:
    return line("progress", data={"type": kind} | data, toolUseID="t1", parentToolUseID="t0")


LINES: dict[str, tuple[bytes, Values]] = {
    "prompt": (
        user("hi", permission_mode="acceptEdits", agent_id="a4c7249", **ENVELOPE),
        ENVELOPE | {"permission_mode": "acceptEdits", "agent_id": "a4c7249", "content": "hi"},
    ),
    "result": (
        result("t1", sourceToolAssistantUUID="a1", tool_use_result={"mode": "x"}),
        {"source_tool_assistant_uuid": "a1", "tool_use_result": {"mode": "x"}},
    ),
    "answer": (
        assistant(
            text("hi"),
            message_id="m1",
            message={
                "model": "claude-opus-4-5-20251101",
                "stop_reason": "stop_sequence",
                "stop_sequence": "END",
                "usage": USAGE,
                "context_management": {"applied_edits": []},
            },
            request_id="req_1",
            is_api_error_message=False,
        ),
        {
            "request_id": "req_1",
            "is_api_error_message": False,
            "message.id": "m1",
            "message.model": "claude-opus-4-5-20251101",
            "message.stop_reason": "stop_sequence",
            "message.context_management": {"applied_edits": []},
            "message.usage.cache_creation.ephemeral_1h_input_tokens": 57,
            "message.usage.server_tool_use.web_fetch_requests": 1,
            "message.usage.service_tier": "standard",
        },
    ),
    "enqueue": (
        line("queue-operation", operation="enqueue", content="next", timestamp="t", sessionId="s"),
        {"operation": "enqueue", "content": "next", "timestamp": "t", "session_id": "s"},
    ),
    "dequeue": (line("queue-operation", operation="dequeue"), {"operation": "dequeue"}),
    "remove": (
        line("queue-operation", operation="remove", content="next"),
        {"operation": "remove", "content": "next"},
    ),
    "snapshot": (
        line("file-history-snapshot", messageId="u1", snapshot=SNAPSHOT, isSnapshotUpdate=True),
        {
            "message_id": "u1",
            "is_snapshot_update": True,
            "snapshot.message_id": "u9",
            "snapshot.tracked_file_backups": SNAPSHOT["trackedFileBackups"],
            "when": SNAPSHOT["timestamp"],
        },
    ),
    "compaction": (
        system(
            "compact_boundary",
            logicalParentUuid="u0",
            content="Conversation compacted",
            level="info",
            compactMetadata=COMPACTED,
            **ENVELOPE,
        ),
        ENVELOPE
        | {
            "logical_parent_uuid": "u0",
            "content": "Conversation compacted",
            "level": "info",
            "compact_metadata.trigger": "auto",
            "compact_metadata.pre_tokens": 167503,
        },
    ),
    "duration": (system("turn_duration", durationMs=88947), {"duration_ms": 88947}),
    "local command": (
        system("local_command", content=USED, level="info"),
        {"content": USED, "level": "info"},
    ),
    "summary": (
        line("summary", summary="A shop", leafUuid="u1"),
        {"summary": "A shop", "leaf_uuid": "u1"},
    ),
    "pull request": (
        line("pr-link", prNumber=3, prUrl="https://example.org/3", prRepository="ada/shop"),
        {"pr_number": 3, "pr_url": "https://example.org/3", "pr_repository": "ada/shop"},
    ),
    "output": (
        progress("bash_progress", output="2", fullOutput="1\n2"),
        {"data.output": "2", "data.full_output": "1\n2", "tool_use_id": "t1"},
    ),
    "sub-agent": (
        progress("agent_progress", message={"type": "user"}),
        {"data.message": {"type": "user"}},
    ),
    "hook": (
        progress("hook_progress", hookEvent="Stop", hookName="Stop:end", command="lint"),
        {"data.hook_event": "Stop", "data.hook_name": "Stop:end", "data.command": "lint"},
    ),
    "search": (progress("query_update", query="hooks"), {"data.query": "hooks"}),
    "found": (
        progress("search_results_received", resultCount=10, query="hooks"),
        {"data.result_count": 10, "data.query": "hooks"},
    ),
    "task": (
        progress("waiting_for_task", taskDescription="Debug", taskType="local_bash"),
        {"data.task_description": "Debug", "data.task_type": "local_bash"},
    ),
}

RESULTS: dict[str, tuple[str, Values]] = {
    "Read": (
        "Read",
        {
            "type": "text",
            "file": {
                "filePath": "/a",
                "content": "x",
                "numLines": 1,
                "startLine": 1,
                "totalLines": 1,
            },
        },
    ),
    "Grep": ("Grep", {"mode": "content", "filenames": [], "numFiles": 20, "appliedLimit": 20}),
    "Glob": ("Glob", {"filenames": [], "durationMs": 9, "numFiles": 2, "truncated": False}),
    "Bash": ("Bash", {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}),
    "Write": (
        "Write",
        {
            "type": "create",
            "filePath": "/a",
            "content": "x",
            "structuredPatch": [],
            "originalFile": None,
        },
    ),
    "Edit": (
        "Edit",
        {
            "filePath": "/a",
            "oldString": "a",
            "newString": "b",
            "originalFile": "a",
            "structuredPatch": [],
            "userModified": True,
            "replaceAll": False,
        },
    ),
    "TodoWrite": ("TodoWrite", {"oldTodos": [], "newTodos": []}),
    "Task": (
        "Task",
        {
            "status": "completed",
            "prompt": "Look",
            "agentId": "ab97f57",
            "content": [],
            "totalDurationMs": 7,
            "totalTokens": 9,
            "totalToolUseCount": 1,
            "usage": {"input_tokens": 1},
        },
    ),
}


def typed(raw: bytes) -> Entry:
    """The entry of a line in which everything fits its type."""
    decoded = decode_line(Line(raw, 0, 1))
    assert (decoded.problems, decoded.misfits) == ((), ())
    (entry,) = decoded.entries
    return entry


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("name", LINES)
def test_a_documented_field_is_typed_and_has_its_value(name: str) -> None:
    raw, expected = LINES[name]
    entry = typed(raw)
    assert {path: at(entry, path) for path in expected} == expected


def test_no_documented_line_holds_anything_unknown(tmp_path: Path) -> None:
    path = tmp_path / "documented.jsonl"
    path.write_bytes(session(*(raw for raw, _ in LINES.values())))
    found = survey_file(path)
    assert [kind for kind in found.kinds if not is_known_kind(kind)] == []
    assert [field for field, is_known in found.count_fields() if not is_known] == []


@pytest.mark.parametrize("name", RESULTS)
def test_a_documented_result_of_a_tool_is_typed(name: str) -> None:
    tool, value = RESULTS[name]
    found = result_of(value, tool)
    known = {each.encode_name for each in msgspec.structs.fields(type(found))}
    assert value.keys() <= known
    filled = msgspec.to_builtins(found)
    assert {key for key in value if filled.get(key) != value[key]} <= {"file", "usage"}


def test_fields_that_a_line_leaves_out_are_absent(tmp_path: Path) -> None:
    path = tmp_path / "bare.jsonl"
    path.write_bytes(encode({"type": "user", "message": {"role": "user", "content": "hi"}}))
    ((_, entry),) = read_entries(path)
    assert isinstance(entry, User)
    assert (entry.content, entry.cwd, entry.when) == ("hi", msgspec.UNSET, None)


def test_the_content_of_the_message_counts_before_that_of_the_line() -> None:
    entry = typed(line("user", content="outer", message={"role": "user", "content": "inner"}))
    assert isinstance(entry, User)
    assert entry.content == "inner"


def test_several_blocks_may_stand_on_one_line() -> None:
    entry = typed(assistant(thinking("hm", ""), text("so"), call("Read", {}, "call_1")))
    assert isinstance(entry, Assistant)
    assert entry.content == [
        ThinkingBlock(thinking="hm", signature=""),
        TextBlock(text="so"),
        ToolUseBlock(id="call_1", name="Read", input={}),
    ]
