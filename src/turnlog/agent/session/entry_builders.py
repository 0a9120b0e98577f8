"""Build session entries in the client's format, with one pure function per kind of entry.

A builder returns the fields specific to its entry. `chained` adds the fields common to all entries
of a conversation: parent, time, directory.
"""

import random
import secrets
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.nodes import SYNTHETIC
from turnlog.conversation.prompts import INTERRUPTION
from turnlog.format.json_values import Fields

VERSION = "2.1.325"
"""The client version whose format is written. Readers, including turnlog, rely on it. All clients
since 1.0.60 resume such files (observed)."""
STOPPED = f"{INTERRUPTION}]"
STOPPED_AT_CALL = f"{INTERRUPTION} for tool use]"
REJECTED_TEXT = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). STOP what you are doing and wait "
    "for the user to tell you how to proceed."
)
REASONS = {
    Basis.RULE: "rule",
    Basis.ANY_COMMAND: "rule",
    Basis.READ: "subcommandResults",
}
"""`reasonType` of calls that settings allow; all others are allowed by the mode."""
REJECTED_DATA = "User rejected tool use"
MANNERS = (
    "brisk calm candid careful cheerful clever crisp curious daring deft eager earnest fair gentle "
    "glad hardy honest keen kind lively lucid merry mild neat nimble patient placid plucky polite "
    "quick quiet ready robust sharp sincere smooth snug steady sunny swift tidy upbeat warm wise"
).split()
COLOURS = (
    "amber ashen azure beige bronze coral cobalt copper cream crimson ebony emerald golden green "
    "hazel indigo ivory jade khaki lemon lilac lime maroon mauve navy ochre olive opal pearl pink "
    "plum ruby russet sandy scarlet sepia silver tan teal topaz umber violet white yellow"
).split()
SURNAMES = (
    "abel allen babbage bell boole cantor cori curie darwin dijkstra euler fermi franklin galois "
    "gauss germain goodall hamilton haskell hilbert hopper hypatia kepler knuth kovalevskaya "
    "lamarr liskov lovelace mcclintock meitner mendel noether pascal perlman ramanujan ritchie "
    "shannon sutherland thompson torvalds turing wilkes wing wirth yonath"
).split()


class EntryDefaults(Struct, frozen=True):
    """Fields with the same value on all lines of a file."""

    session_id: str
    slug: str
    entrypoint: str
    """cli for interactive sessions, which the client's picker lists; sdk-cli for printed ones."""
    agent_id: str | None = None
    """The sub-agent's id, if the file belongs to one."""


class Moment(Struct, frozen=True):
    """Time and place of an entry."""

    time: str
    cwd: str
    git_branch: str


class PullRequest(Struct, frozen=True):
    """A pull request."""

    number: int
    url: str
    repository: str
    """With its owner: `octo/shop`."""


def chained(
    own: Fields, facts: EntryDefaults, moment: Moment, uuid: str, parent: str | None
) -> Fields:
    """Build an entry of the conversation."""
    agent = {"agentId": facts.agent_id} if facts.agent_id else {}
    return {
        "parentUuid": parent,
        "isSidechain": facts.agent_id is not None,
        **agent,
        **own,
        "uuid": uuid,
        "timestamp": moment.time,
        "userType": "external",
        "entrypoint": facts.entrypoint,
        "cwd": moment.cwd,
        "sessionId": facts.session_id,
        "version": VERSION,
        "gitBranch": moment.git_branch,
        "slug": facts.slug,
    }


def prompt(content: str | list[Fields], prompt_id: str, mode: str, source: str) -> Fields:
    """Build a user prompt; `source` is typed, queued or sdk."""
    origin = "sdk" if source == "sdk" else "human"
    return {
        "promptId": prompt_id,
        "type": "user",
        "message": {"role": "user", "content": content},
        "permissionMode": mode,
        "promptSource": source,
        "turnOrigin": origin,
    }


def notice(text: str, prompt_id: str, mode: str) -> Fields:
    """Build a background notification, as 2.1.325 writes it."""
    return prompt(text, prompt_id, mode, "system") | {
        "origin": {"kind": "task-notification", "producer": "session-task"},
        "turnOrigin": "task_notification",
        "queueSkipAttachments": True,
    }


def plain(content: str | list[Fields], prompt_id: str) -> Fields:
    """Build a user entry without a source: a sub-agent's task, or a shell command of the user."""
    return {
        "promptId": prompt_id,
        "type": "user",
        "message": {"role": "user", "content": content},
    }


def meta(content: str | list[Fields], prompt_id: str | None) -> Fields:
    """Build a meta entry: sent to the model, not typed by the user."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "promptId": prompt_id,
        "type": "user",
        "message": {"role": "user", "content": blocks},
        "isMeta": True,
    }


def mcp_resource(named: Fields, content: list[Fields], sent: list[Fields]) -> Fields:
    """Build the attachment of an MCP resource that a prompt mentions, as 2.1.325 writes it.

    `content` has the server's blocks, `sent` the blocks for the model. On resuming, all clients
    since 2.0.76 send the resource; 2.1.325 sends `rendered`, unless it has an image (observed).
    """
    contents = [{"uri": named["uri"], **_resource_content(block)} for block in content]
    return {
        "attachment": {"type": "mcp_resource", **named, "content": {"contents": contents}},
        "type": "attachment",
        "rendered": [{"content": sent}],
        "renderedRole": "user",
    }


def _resource_content(block: Fields) -> Fields:
    if block["type"] == "text":
        return {"mimeType": "text/plain", "text": block["text"]}
    return {"mimeType": block["source"]["media_type"], "blob": block["source"]["data"]}


def block(message: Fields, content: Fields, index: int, request_id: str | None) -> Fields:
    """Build the entry of one block; `message` is the message without its content."""
    request = {"requestId": request_id} if request_id else {}
    return {
        "message": message | {"content": [content]},
        "apiBlockIndex": index,
        **request,
        "type": "assistant",
    }


def made_by(requested: str, effort: str | None) -> Fields:
    """Return the fields of an answer that record the requested model and effort (2.1.325)."""
    level = {"effort": effort} if effort else {}
    return {"requestedModel": requested, **level, "madeBy": "model"}


def permission_decision(basis: Basis) -> Fields:
    """Return the fields of a result that record why its call was allowed.

    `mode`, `subcommandResults` and `user_temporary` are observed in 2.1.325; `rule` and the hook's
    approval are inferred from them.
    """
    if basis is Basis.USER:
        decided: Fields = {"source": "user_temporary", "grantScope": "once"}
        decided["reasonCode"] = "unknown"
    elif basis is Basis.HOOK:
        decided = {"source": "hook", "reasonType": "hook"}
    else:
        decided = {"source": "config", "reasonType": REASONS.get(basis, "mode")}
    return {"permissionDecision": {"decision": "accept", **decided}}


def permission_rejection(is_hooked: bool) -> Fields:
    """Return the fields of a result that record why its call was denied (2.1.325, observed)."""
    hook = {"reasonType": "hook", "reasonCode": "hook:PreToolUse"} if is_hooked else {}
    source = "hook" if is_hooked else "config"
    return {"permissionDecision": {"decision": "reject", "source": source, **hook}}


def result(call_id: str, outcome: ToolOutcome, prompt_id: str | None, source: str | None) -> Fields:
    """Build the result of a call; `source` is the uuid of the calling entry."""
    content: Fields = {"type": "tool_result", "tool_use_id": call_id, "content": outcome.content}
    if outcome.is_error:
        content["is_error"] = True
    data = {} if outcome.data is None else {"toolUseResult": outcome.data}
    return {
        "promptId": prompt_id,
        "type": "user",
        "message": {"role": "user", "content": [content]},
        **data,
        "sourceToolAssistantUUID": source,
    }


def interruption(text: str, prompt_id: str | None, message_id: str | None) -> Fields:
    """Build the entry of an interruption by the user."""
    message = {"interruptedMessageId": message_id} if message_id else {}
    return {
        "promptId": prompt_id,
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": text}]},
        **message,
    }


def synthetic(text: str, message_id: str) -> Fields:
    """Build an answer that the client writes itself."""
    counts = dict.fromkeys(
        (
            *("input_tokens", "output_tokens"),
            *("cache_creation_input_tokens", "cache_read_input_tokens"),
        ),
        0,
    )
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": SYNTHETIC,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "usage": counts,
    }
    return {"message": message, "type": "assistant", "isApiErrorMessage": False}


ERROR_KINDS = {
    401: "authentication_failed",
    402: "billing_error",
    403: "authentication_failed",
    404: "model_not_found",
    413: "invalid_request",
    429: "rate_limit",
}
"""Kinds of API errors by HTTP status (2.1.325, observed)."""
REFUSALS = {
    "credit balance is too low": "billing_error",
    "prompt is too long": "invalid_request",
    "image exceeds": "invalid_request",
}
"""Kinds of errors with status 400, by a part of the message; others are unknown."""


def error_kind(status: int | None, message: str) -> str:
    """Return the kind of an API error, in the client's words.

    >>> error_kind(404, "model: foo"), error_kind(400, "Your credit balance is too low to ask.")
    ('model_not_found', 'billing_error')
    """
    if status == 400:
        text = message.lower()
        return next((kind for part, kind in REFUSALS.items() if part in text), "unknown")
    server = "server_error" if status and status >= 500 else "unknown"
    return ERROR_KINDS.get(status or 0, server)


def failure(text: str, message_id: str, status: int | None, request_id: str | None) -> Fields:
    """Build the entry of an API error in place of an answer."""
    fields: Fields = {"error": error_kind(status, text), "isApiErrorMessage": True}
    fields |= {"apiErrorStatus": status} if status else {}
    fields |= {"requestId": request_id} if request_id else {}
    return synthetic(text, message_id) | fields


def api_error(error: Fields, wait: float, attempt: int, attempts: int) -> Fields:
    """Build the entry of a failed request that is retried."""
    return {
        "type": "system",
        "subtype": "api_error",
        "level": "error",
        "error": error,
        "retryInMs": round(wait * 1000),
        "retryAttempt": attempt,
        "maxRetries": attempts,
        "source": "request_retry",
    }


def turn_duration(seconds: float, messages: int) -> Fields:
    """Build the entry that records a turn's duration."""
    return {
        "type": "system",
        "subtype": "turn_duration",
        "durationMs": round(seconds * 1000),
        "messageCount": messages,
        "isMeta": False,
    }


def progress(data: Fields, tool_use_id: str, parent_tool_use_id: str) -> Fields:
    """Build a progress entry."""
    return {
        "type": "progress",
        "data": data,
        "toolUseID": tool_use_id,
        "parentToolUseID": parent_tool_use_id,
    }


def boundary(tip: str | None, trigger: str, about: Fields) -> Fields:
    """Build the boundary of a compaction; `about` is added to its metadata."""
    return {
        "logicalParentUuid": tip,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": {"trigger": trigger, **about},
    }


def preserved(entries: list[Fields], anchor: str) -> Fields:
    """Return the compaction metadata that lists the entries kept after the summary."""
    if not entries:
        return {}
    uuids = [entry["uuid"] for entry in entries]
    ends = {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]}
    return {
        "preservedSegment": ends,
        "preservedMessages": {"anchorUuid": anchor, "uuids": uuids, "allUuids": uuids},
    }


def compact_summary(text: str) -> Fields:
    """Build the summary that follows a compaction boundary."""
    return {
        "type": "user",
        "message": {"role": "user", "content": text},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
    }


def title(text: str, leaf: str) -> Fields:
    """Build a title for the conversation up to a leaf; it is not part of the chain."""
    return {"type": "summary", "summary": text, "leafUuid": leaf}


def last_prompt(text: str, leaf: str, session_id: str) -> Fields:
    """Return the entry that records the conversation's tip and the last prompt, if known."""
    shown = text if len(text) <= 200 else text[:200] + "…"
    asked = {"lastPrompt": shown} if shown else {}
    return {"type": "last-prompt", **asked, "leafUuid": leaf, "sessionId": session_id}


def pr_link(made: PullRequest, session_id: str, time: str) -> Fields:
    """Build the link to a pull request that the session created (clients from 2.1.29)."""
    return {
        "type": "pr-link",
        "sessionId": session_id,
        "prNumber": made.number,
        "prUrl": made.url,
        "prRepository": made.repository,
        "timestamp": time,
    }


def modes(mode: str, session_id: str) -> list[Fields]:
    """Build the entries about the mode, which clients since 2.1.91 write in terminals."""
    return [
        {"type": "mode", "mode": "normal", "sessionId": session_id},
        {"type": "permission-mode", "permissionMode": mode, "sessionId": session_id},
    ]


def local_command(name: str, arguments: str, printed: str) -> list[Fields]:
    """Build the entries of a slash command: what was typed, and what it printed.

    They are for display only: the model does not need them, and clients before 2.1.150 never send
    them.
    """
    typed = (
        f"<command-name>/{name}</command-name>\n"
        f"            <command-message>{name}</command-message>\n"
        f"            <command-args>{arguments}</command-args>"
    )
    shown: Fields = {"type": "system", "subtype": "local_command", "level": "info"}
    shown |= {"isMeta": False, "isDisplayOnly": True}
    output = f"<local-command-stdout>{printed}</local-command-stdout>"
    run = {"commandRun": {"command": name, "args": arguments}}
    return [shown | {"content": typed}, shown | {"content": output} | run]


def queue(operation: str, content: str | None, session_id: str, time: str) -> Fields:
    """Build the entry for a prompt that entered or left the queue."""
    extra = {} if content is None else {"content": content}
    # The only reason observed in 2.1.325: the prompt was sent within the running turn.
    extra |= {"reason": "absorbed_mid_turn"} if operation == "remove" else {}
    return {
        "type": "queue-operation",
        "operation": operation,
        "timestamp": time,
        "sessionId": session_id,
        **extra,
    }


def text_of(blocks: str | Sequence[Fields]) -> str:
    """Return the text of a prompt or answer, with each block on its own line."""
    if isinstance(blocks, str):
        return blocks
    texts: list[Any] = [block["text"] for block in blocks if block.get("type") == "text"]
    return "\n".join(map(str, texts))


def new_slug() -> str:
    """Return a slug for a session: two adjectives and a surname."""
    return "-".join(random.choice(words) for words in (MANNERS, COLOURS, SURNAMES))


def new_agent_id() -> str:
    """Return a sub-agent id in the form used since 2.1.101."""
    return "a" + secrets.token_hex(8)
