"""System entries: records of the client itself. Subtypes with fields of their own have a type."""

from typing import Any

from msgspec import UNSET, UnsetType, field

from turnlog.format.entries import ChainEntry
from turnlog.format.fields import CamelView, Count, Flag, Items, Number, Object, Text, Texts, given


class System(ChainEntry):
    """A record of the client itself; also used for subtypes without a type of their own."""

    subtype: Text = UNSET
    content: Any = UNSET
    level: Text = UNSET
    tool_use_id: Text = field(default=UNSET, name="toolUseID")

    @property
    def variant(self) -> str | None:
        return given(self.subtype)


class PreservedSegment(CamelView):
    head_uuid: Text = UNSET
    anchor_uuid: Text = UNSET
    tail_uuid: Text = UNSET


class PreservedMessages(CamelView):
    """Lines from before the boundary that the client inserts after the summary (2.1.2xx on)."""

    anchor_uuid: Text = UNSET
    # If one of them is not in the file, the client sends none (2.1.325, observed).
    uuids: Texts = UNSET
    all_uuids: Texts = UNSET


class CompactMetadata(CamelView):
    trigger: Text = UNSET
    pre_tokens: Count = UNSET
    post_tokens: Count = UNSET
    duration_ms: Number = UNSET
    cumulative_dropped_tokens: Count = UNSET
    messages_summarized: Count = UNSET
    user_context: Text = UNSET
    pre_compact_discovered_tools: Items = UNSET
    preserved_segment: PreservedSegment | None | UnsetType = UNSET
    preserved_messages: PreservedMessages | None | UnsetType = UNSET
    running_turn_prompt: Object = UNSET
    """Present if the compaction happened in mid-turn; an empty object (observed: 2.1.325)."""


class CompactBoundary(System):
    """Older turns were replaced by a summary, which follows (2.0.13 on)."""

    # Its parent is null; the logical parent is the leaf before the compaction, which is missing in
    # 16 of 74 public compactions.
    compact_metadata: CompactMetadata | None | UnsetType = UNSET


class MicrocompactBoundary(System):
    """Old tool results were cleared in place (2.1.17 to 2.1.56)."""

    microcompact_metadata: Object = UNSET


class TurnDuration(System):
    """Ends a turn of an interactive session (2.1.1 on)."""

    duration_ms: Number = UNSET
    message_count: Count = UNSET
    pending_background_agent_count: Count = UNSET
    pending_workflow_count: Count = UNSET


class LocalCommand(System):
    """A slash command that ran without the model, or its output."""

    command_run: Object = UNSET
    context_usage: Object = UNSET
    is_display_only: Flag = UNSET
    """Shown, but not sent to the model: the output of `/context` (observed: 2.1.325)."""


class ApiError(System):
    """A failed request that was retried."""

    error: Any = UNSET
    cause: Any = UNSET
    source: Text = UNSET
    retry_in_ms: Number = UNSET
    retry_attempt: Count = UNSET
    max_retries: Count = UNSET


class StopHookSummary(System):
    """The Stop hooks ran (2.0.64 on)."""

    hook_count: Count = UNSET
    hook_infos: Items = UNSET
    hook_errors: Items = UNSET
    hook_additional_context: Items = UNSET
    prevented_continuation: Flag = UNSET
    stop_reason: Text = UNSET
    has_output: Flag = UNSET


class BridgeStatus(System):
    url: Text = UNSET


class ScheduledTaskFire(System):
    task_id: Text = UNSET
    cron: Text = UNSET
    prompt: Text = UNSET
    task_kind: Text = UNSET


class Refusal(System):
    """A refusal by a model, whether or not a fallback model answered instead."""

    direction: Text = UNSET
    scope: Text = UNSET
    trigger: Text = UNSET
    source: Text = UNSET
    original_model: Text = UNSET
    fallback_model: Text = UNSET
    request_id: Text = UNSET
    api_refusal_category: Text = UNSET
    api_refusal_explanation: Text = UNSET
    refused_user_message_uuid: Text = UNSET
    retracted_message_uuids: Texts = UNSET
