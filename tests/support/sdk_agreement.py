"""Compare turnlog's view of a session with that of the Agent SDK's readers.

Each difference has a name; `docs/session-format.md` explains each name that is known.
"""

import json
import os
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from claude_agent_sdk import get_session_info, get_session_messages, get_subagent_messages

from turnlog.conversation.session import open_session
from turnlog.format.json_values import is_object
from turnlog.store.catalog import describe, locate_session

ID = "5d5d5d5d-0000-4000-8000-000000000000"
AGENT = "a5d5d5d"
"""The sub-agent that a sub-agent's file becomes."""
LONGEST = 150
"""Characters of a title that are compared: both sides cut a prompt, at different places."""


class Disagreement(NamedTuple):
    """A field in which both differ, and what each of them has."""

    field: str
    sdk: Any
    turnlog: Any


@contextmanager
def placed(content: bytes, home: Path) -> Generator[Path]:
    """Put a session, or a sub-agent of one, where the SDK finds it."""
    path = home / "projects" / "-home-ada" / f"{ID}.jsonl"
    if is_subagent(list(_entries(content))):
        # The SDK lists no sub-agents of a session that is not there.
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path = path.with_suffix("") / "subagents" / f"agent-{AGENT}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    before = os.environ.get("CLAUDE_CONFIG_DIR")
    os.environ["CLAUDE_CONFIG_DIR"] = str(home)
    try:
        yield path
    finally:
        os.environ.pop("CLAUDE_CONFIG_DIR")
        if before is not None:
            os.environ["CLAUDE_CONFIG_DIR"] = before
        path.unlink()


def disagreements(path: Path) -> Iterator[Disagreement]:
    """Yield what the SDK and turnlog see differently in a placed session."""
    if path.stem == f"agent-{AGENT}":
        found = [message.message for message in get_subagent_messages(ID, AGENT)]
    else:
        found = [message.message for message in get_session_messages(ID)]
        yield from _listed_otherwise(path)
    sent = open_session(path).context()
    for kind in ("tool_use", "tool_result"):
        sdk, own = _ids(found, kind), _ids(sent, kind)
        if sdk != own:
            yield Disagreement(kind, sorted(sdk - own), sorted(own - sdk))
    sdk, own = _answers(found), _answers(sent)
    if sdk != own:
        yield Disagreement("answers", sorted(sdk - own), sorted(own - sdk))


def _listed_otherwise(path: Path) -> Iterator[Disagreement]:
    """Yield what both list differently: titles, directories, branches and tags."""
    about, info = describe(locate_session(path)), get_session_info(ID)
    if info is not None:
        pairs = {
            "title": (_start(info.summary), _start(about.title)),
            "cwd": (info.cwd, about.cwd),
            "branch": (info.git_branch, about.branch),
            "tag": (info.tag, about.tag),
        }
        for field, (sdk, own) in pairs.items():
            if sdk != own:
                yield Disagreement(field, sdk, own)
    elif about.title:
        yield Disagreement("listed", None, about.title)


def _start(text: str | None) -> str:
    return " ".join((text or "").split())[:LONGEST].rstrip("… ")


def _blocks(messages: list[Any]) -> Iterator[Any]:
    for message in messages:
        content: Any = message.get("content") if is_object(message) else None
        if isinstance(content, list):
            yield from (
                (message, block) for block in cast("list[Any]", content) if is_object(block)
            )
        elif isinstance(content, str):
            yield message, {"type": "text", "text": content}


def _ids(messages: list[Any], kind: str) -> set[str]:
    name = "id" if kind == "tool_use" else "tool_use_id"
    found = (block.get(name) for _, block in _blocks(messages) if block.get("type") == kind)
    return {each for each in found if isinstance(each, str)}


def _answers(messages: list[Any]) -> set[str]:
    """Return the texts of the model."""
    return {
        block["text"].strip()
        for message, block in _blocks(messages)
        if message.get("role") == "assistant"
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
        and block["text"].strip()
    }


def reason_for(found: Disagreement, content: bytes) -> str | None:
    """Return the name of the documented reason for a difference; None if there is none."""
    entries = list(_entries(content))
    return next((name for name, holds in REASONS.items() if holds(found, entries, content)), None)


def _entries(content: bytes) -> Iterator[dict[str, Any]]:
    for raw in content.split(b"\n"):
        try:
            value = json.loads(raw)
        except ValueError:
            continue
        if is_object(value):
            yield value


def _message_of(entry: dict[str, Any]) -> dict[str, Any]:
    message = entry.get("message")
    return message if is_object(message) else {}


def _with(found: Disagreement, entries: list[dict[str, Any]], named: set[Any]) -> list[Any]:
    """Return the entries that have an id or a text which only one side has."""
    kind = {"answers": "text"}.get(found.field, found.field)
    name = {"text": "text", "tool_use": "id", "tool_result": "tool_use_id"}.get(kind, "")
    return [
        entry
        for entry in entries
        for _, block in _blocks([_message_of(entry)])
        if block.get("type") == kind
        and (block.get(name).strip() if isinstance(block.get(name), str) else None) in named
    ]


def is_subagent(entries: list[Any]) -> bool:
    """Return whether all messages of a file are those of a sub-agent."""
    chain = [entry for entry in entries if entry.get("type") in ("user", "assistant")]
    return bool(chain) and all(entry.get("isSidechain") for entry in chain)


def _is_subagent_file(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether the SDK takes a session for a sub-agent's: it judges by the first line."""
    return found.field == "listed" and bool(entries and entries[0].get("isSidechain"))


def _is_client_message(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether only the SDK has texts, and the client wrote them instead of the model."""
    if found.field != "answers" or set(found.turnlog) - {NO_RESPONSE}:
        return False
    own = _with(found, entries, set(found.sdk) - {NO_CONTENT})
    return bool(found.sdk) and all(
        entry.get("isApiErrorMessage") or _message_of(entry).get("model") == "<synthetic>"
        for entry in own
    )


def _is_completed_end(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether turnlog only added what the client adds when it resumes."""
    if found.sdk:
        return False
    if found.field == "answers":
        return set(found.turnlog) == {NO_RESPONSE}
    return found.field == "tool_result" and not _with(found, entries, set(found.turnlog))


def _is_unanswered(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    if found.field != "tool_use" or found.turnlog:
        return False
    results = Disagreement("tool_result", [], [])
    return not _with(results, entries, set(found.sdk))


def _has_no_uuid(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    if found.field in MESSAGES:
        said = (entry for entry in entries if entry.get("type") in ("user", "assistant"))
        return any(not isinstance(entry.get("uuid"), str) for entry in said)
    return False


def _is_parent_missing(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether only turnlog has messages, and a parent of some entry is not in the file."""
    known = {entry.get("uuid") for entry in entries}
    parents = {entry.get("parentUuid") for entry in entries} - {None}
    return found.field in MESSAGES and not found.sdk and not parents <= known


def _is_parallel(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether only turnlog has calls or results, all of them of parallel calls."""
    if found.field not in ("tool_use", "tool_result") or found.sdk:
        return False
    calls = _with(Disagreement("tool_use", [], []), entries, set(found.turnlog))
    answers = Counter(
        _message_of(entry).get("id")
        for entry in entries
        for _, block in _blocks([_message_of(entry)])
        if block.get("type") == "tool_use"
    )
    return bool(calls) and all(answers[_message_of(entry).get("id")] > 1 for entry in calls)


def _is_compacted(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    return found.field in MESSAGES and any(e.get("subtype") == "compact_boundary" for e in entries)


def _is_sidechain_prompt(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether the SDK takes the task of a sub-agent for the first prompt."""
    tasks = (_message_of(entry) for entry in entries if entry.get("isSidechain"))
    texts = {_start(block.get("text")) for _, block in _blocks(list(tasks))}
    return found.field == "title" and found.sdk in texts


def _is_command(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    return found.field == "title" and str(found.turnlog).startswith(f"{found.sdk} ")


def _is_late_prompt(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether the first prompt is further from the start than the SDK reads."""
    start = str(found.turnlog)[:40].encode()
    return found.field in ("title", "listed") and start not in content[:HEAD] and start in content


def _is_malformed(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    raws = [raw for raw in content.split(b"\n") if raw.strip()]
    return len(entries) < len(raws)


def _is_foreign(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether no client wrote the file: conversations without a `version`."""
    return not any(isinstance(entry.get("version"), str) for entry in entries)


def _is_other_title(found: Disagreement, entries: list[Any], content: bytes) -> bool:
    """Return whether the SDK takes a field of that name for a title, on a line of any kind."""
    names = (b'"customTitle"', b'"aiTitle"', b'"lastPrompt"', b'"summary"')
    titled = {"custom-title", "ai-title", "last-prompt", "summary"}
    own = [entry for entry in entries if entry.get("type") in titled]
    return found.field == "title" and not own and any(name in content for name in names)


MESSAGES = ("answers", "tool_use", "tool_result")
"""Fields that compare messages."""
NO_RESPONSE = "No response requested."
NO_CONTENT = "(no content)"
HEAD = 1 << 16

REASONS = {
    "subagent-file": _is_subagent_file,
    "client-message": _is_client_message,
    "completed-end": _is_completed_end,
    "unanswered-call": _is_unanswered,
    "no-uuid": _has_no_uuid,
    "compaction": _is_compacted,
    "missing-parent": _is_parent_missing,
    "parallel-calls": _is_parallel,
    "sidechain-prompt": _is_sidechain_prompt,
    "command-arguments": _is_command,
    "late-prompt": _is_late_prompt,
    "other-title": _is_other_title,
    "malformed-line": _is_malformed,
    "foreign-file": _is_foreign,
}
"""Tests whether a reason explains a difference, by the name that the documentation explains."""
