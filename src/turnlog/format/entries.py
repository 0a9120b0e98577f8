"""Entries that make up a conversation: common fields, messages, attachments, progress.

An entry is a view: fields that its type does not name are only in the line's raw bytes. Versions in
docstrings are the first and last ones observed, in files of real clients or in public files.
"""

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, field

from turnlog.format.blocks import Block, Content, MessageBody, UnknownPart
from turnlog.format.fields import (
    CamelView,
    Count,
    Flag,
    Items,
    Number,
    Object,
    Text,
    Texts,
    decode_raw,
    given,
)
from turnlog.format.json_values import is_object


class Entry(CamelView):
    """The fields common to all entries."""

    type: Text = UNSET
    session_id: Text = UNSET
    timestamp: Text = UNSET

    @property
    def variant(self) -> str | None:
        """The subtype, if the entry's type comes in several shapes."""
        return None

    @property
    def when(self) -> str | None:
        """The time of the entry, from wherever its shape stores it."""
        return given(self.timestamp)


class ForkedFrom(CamelView):
    """The line that a fork copied."""

    session_id: Text = UNSET
    message_uuid: Text = UNSET


REMOVED = "turnlogRemoved"
"""The field of `ChainEntry.turnlog_removed`."""


class RemovalMark(CamelView):
    """Written by turnlog: an edit removed lines that may tell what happened to files."""

    after_uuid: Text = UNSET
    """The entry behind which lines are missing; null if they are missing from the start."""


class ChainEntry(Entry):
    """An entry that is a node of the conversation: it has a uuid and a parent."""

    uuid: Text = UNSET
    parent_uuid: Text = UNSET
    logical_parent_uuid: Text = UNSET
    is_sidechain: Flag = UNSET
    is_meta: Flag = UNSET
    user_type: Text = UNSET
    entrypoint: Text = UNSET
    cwd: Text = UNSET
    version: Text = UNSET
    git_branch: Text = UNSET
    slug: Text = UNSET
    """The session's nickname of three words (2.0.64 on)."""
    agent_id: Text = UNSET
    """Set in the files of sub-agents."""
    agent_name: Text = UNSET
    team_name: Text = UNSET
    session_kind: Text = UNSET
    forked_from: ForkedFrom | None | UnsetType = UNSET
    turnlog_removed: RemovalMark | None | UnsetType = UNSET
    session_id_twin: Text = field(default=UNSET, name="session_id")
    """A second copy of sessionId that interactive sessions write (2.1.199 on)."""


class MessageEntry(ChainEntry):
    """An entry with a message, in the current shape or in the flat one of some exporters."""

    # The client writes an object. Exporters put the text or the blocks here, or into `content`.
    message: MessageBody | str | list[Block] | None | UnsetType = UNSET
    flat_content: Content = field(default=UNSET, name="content")

    @property
    def content(self) -> str | list[Block]:
        """The message's text or blocks; an empty list if there are none."""
        nested = self.message.content if isinstance(self.message, MessageBody) else self.message
        return given(nested) or given(self.flat_content) or []

    @property
    def body(self) -> MessageBody | None:
        """The message in the shape of the Messages API, if the line has one."""
        return self.message if isinstance(self.message, MessageBody) else None

    @property
    def when(self) -> str | None:
        return given(self.timestamp) or (given(self.body.timestamp) if self.body else None)


class TurnPosition(CamelView):
    prompt_index: Count = UNSET
    turn_index: Count = UNSET


class User(MessageEntry):
    """A prompt, a tool result, or text that the client injected."""

    prompt_id: Text = UNSET
    prompt_source: Text = UNSET
    turn_origin: Text = UNSET
    turn_position: TurnPosition | None | UnsetType = UNSET
    origin: Object = UNSET
    permission_mode: Text = UNSET
    recorded_at: Text = UNSET
    """Written by turnlog: the time of a prompt before an edit moved it. Copies are found by it."""
    raw_tool_use_result: Raw | UnsetType = field(default=UNSET, name="toolUseResult")
    """Decoded on demand: it repeats the result, and is a third of many files."""
    # Named explicitly: `rename="camel"` would expect `sourceToolAssistantUuid`.
    source_tool_assistant_uuid: Text = field(default=UNSET, name="sourceToolAssistantUUID")
    source_tool_use_id: Text = field(default=UNSET, name="sourceToolUseID")
    permission_decision: Object = UNSET
    sandboxed: Flag = UNSET
    tool_denial_kind: Text = UNSET
    tool_ends_turn: Flag = UNSET
    mcp_call_not_read_only: Any = UNSET
    mcp_meta: Object = UNSET
    is_compact_summary: Flag = UNSET
    repeats_compact_summary: Flag = UNSET
    is_visible_in_transcript_only: Flag = UNSET
    summarized_turn_prompt_uuids: Texts = UNSET
    """In a summary: the prompts of the running turn that it covers (observed: 2.1.325)."""
    turn_companion: Flag = UNSET
    image_paste_ids: Items = UNSET
    interrupted_message_id: Text = UNSET
    refused_message_id: Text = UNSET
    interrupted_by_shutdown: Flag = UNSET
    queue_skip_attachments: Flag = UNSET
    classifier_meta_lines: Items = UNSET
    plan_content: Text = UNSET
    user_feedback: Any = UNSET
    thinking_metadata: Object = UNSET
    todos: Items = UNSET

    @property
    def tool_use_result(self) -> Any:
        """The tool's structured result, UNSET if there is none; `tools` types it."""
        raw = self.raw_tool_use_result
        return UNSET if isinstance(raw, UnsetType) else decode_raw(raw)


class Assistant(MessageEntry):
    """A block of the model's message, or an error in place of one."""

    request_id: Text = UNSET
    request_ref: Text = UNSET
    requested_model: Text = UNSET
    prompt_cache_requested: Text = UNSET
    api_block_index: Count = UNSET
    effort: Text = UNSET
    per_turn_effort: Text = UNSET
    made_by: Text = UNSET
    thinking_duration_ms: Number = UNSET
    thinking_display: Text = UNSET
    tool_input_stream_ms: Number = UNSET
    wire_tool_inputs: Any = UNSET
    attribution_agent: Text = UNSET
    attribution_skill: Text = UNSET
    attribution_plugin: Text = UNSET
    attribution_mcp_server: Text = UNSET
    attribution_mcp_tool: Text = UNSET
    advisor_model: Text = UNSET
    server_classifier_request: Any = UNSET
    is_aborted_mid_stream: Flag = UNSET
    is_api_error_message: Flag = UNSET
    error: Any = UNSET
    error_details: Any = UNSET
    api_error: Any = UNSET
    api_error_status: Count = UNSET
    api_error_type: Text = UNSET
    api_error_is_transient: Flag = UNSET
    failed_response_had_no_tool_call: Flag = UNSET
    quota_limits: Object = UNSET
    refused_message_id: Text = UNSET
    refusing_model: Text = UNSET
    supersedes_uuids: Texts = UNSET
    context_window_size: Count = UNSET


class Attachment(ChainEntry):
    """Context that the client injected; part of the chain (2.1.91 on)."""

    attachment: Object = UNSET
    rendered: Items = UNSET
    """The exact text that the model saw."""
    rendered_role: Text = UNSET
    rendered_beside_tool_result: Flag = UNSET
    rendered_in_human_turn: Any = UNSET

    @property
    def variant(self) -> str | None:
        fields = given(self.attachment) or {}
        return fields.get("type")


# Tagged structs: the decoder chooses one by `data.type`. An unknown type does not decode, and the
# slow path keeps all of it as an `UnknownPart`.
class HookProgress(Struct, tag="hook_progress", rename="camel", kw_only=True):
    hook_event: Text = UNSET
    hook_name: Text = UNSET
    command: Text = UNSET
    prompt_text: Text = UNSET
    status_message: Text = UNSET


class BashProgress(Struct, tag="bash_progress", rename="camel", kw_only=True):
    output: Text = UNSET
    full_output: Text = UNSET
    elapsed_time_seconds: Number = UNSET
    total_lines: Count = UNSET
    total_bytes: Count = UNSET
    timeout_ms: Number = UNSET
    task_id: Text = UNSET


class AgentProgress(Struct, tag="agent_progress", rename="camel", kw_only=True):
    agent_id: Text = UNSET
    prompt: Text = UNSET
    message: Object = UNSET
    normalized_messages: Items = UNSET
    resume: Text = UNSET


class McpProgress(Struct, tag="mcp_progress", rename="camel", kw_only=True):
    status: Text = UNSET
    server_name: Text = UNSET
    tool_name: Text = UNSET
    elapsed_time_ms: Number = UNSET


class WaitingForTask(Struct, tag="waiting_for_task", rename="camel", kw_only=True):
    task_description: Text = UNSET
    task_type: Text = UNSET


class QueryUpdate(Struct, tag="query_update", rename="camel", kw_only=True):
    query: Text = UNSET


class SearchResultsReceived(Struct, tag="search_results_received", rename="camel", kw_only=True):
    query: Text = UNSET
    result_count: Count = UNSET


ProgressData = (
    HookProgress
    | BashProgress
    | AgentProgress
    | McpProgress
    | WaitingForTask
    | QueryUpdate
    | SearchResultsReceived
    | UnknownPart
)


class Progress(ChainEntry):
    """Progress of a running tool or hook; part of the chain (2.1.12 to 2.1.81)."""

    # The root of 330 of 943 public files is a progress entry. Dropping it before entries are linked
    # would cut off everything below it.
    data: ProgressData | None | UnsetType = UNSET
    tool_use_id: Text = field(default=UNSET, name="toolUseID")
    parent_tool_use_id: Text = field(default=UNSET, name="parentToolUseID")

    @property
    def variant(self) -> str | None:
        part = given(self.data)
        if isinstance(part, UnknownPart):
            return part.value.get("type") if is_object(part.value) else None
        return str(part.__struct_config__.tag) if part else None


class Unknown(ChainEntry):
    """An entry of a type that turnlog does not know; `fields` is all of it."""

    # A chain entry: a newer client may add a kind that is a parent of others, as 2.1.91 did with
    # `attachment`.
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
