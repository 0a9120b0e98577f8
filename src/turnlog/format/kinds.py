"""The table of kinds: a kind is `type`, or `type/subtype` if a type comes in several shapes."""

from typing import Any

from turnlog.format import entries, state, system
from turnlog.format.entries import Entry, Unknown
from turnlog.format.fields import given
from turnlog.format.json_values import is_object


def kind_of(entry: Entry) -> str:
    """Return the name of an entry's kind, such as `user` or `system/turn_duration`."""
    name = given(entry.type) or type(entry).__name__.lower()
    return f"{name}/{entry.variant}" if entry.variant else name


def type_for(fields: dict[str, Any]) -> type[Entry]:
    """Return the type for a decoded line; without `type`, its message's role decides."""
    # Some exporters write bare messages: {"message": {"role": "user", ...}} without a type.
    name = fields.get("type")
    message = fields.get("message")
    if name is None and is_object(message) and message.get("role") in ("user", "assistant"):
        name = message["role"]
    return type_named(name, fields.get("subtype"))


def type_named(name: object, subtype: object = None) -> type[Entry]:
    """Return the type of a kind; `Unknown` if turnlog has none."""
    return KINDS.get(f"{name}/{subtype}") or KINDS.get(str(name)) or Unknown


KINDS: dict[str, type[Entry]] = {
    "user": entries.User,
    "assistant": entries.Assistant,
    "system": system.System,
    "system/compact_boundary": system.CompactBoundary,
    "system/microcompact_boundary": system.MicrocompactBoundary,
    "system/turn_duration": system.TurnDuration,
    "system/local_command": system.LocalCommand,
    "system/api_error": system.ApiError,
    "system/stop_hook_summary": system.StopHookSummary,
    "system/away_summary": system.System,
    "system/informational": system.System,
    "system/bridge_status": system.BridgeStatus,
    "system/scheduled_task_fire": system.ScheduledTaskFire,
    "system/agents_killed": system.System,
    "system/model_fallback": system.Refusal,
    "system/model_refusal_fallback": system.Refusal,
    "system/model_refusal_no_fallback": system.Refusal,
    "system/model_consent_fallback": system.Refusal,
    "system/api_refusal": system.Refusal,
    "attachment": entries.Attachment,
    "progress": entries.Progress,
    "summary": state.Summary,
    "file-history-snapshot": state.FileHistorySnapshot,
    "file-history-delta": state.FileHistoryDelta,
    "queue-operation": state.QueueOperation,
    "pr-link": state.PrLink,
    "last-prompt": state.LastPrompt,
    "custom-title": state.CustomTitle,
    "ai-title": state.AiTitle,
    "agent-name": state.AgentName,
    "agent-color": state.AgentColor,
    "agent-setting": state.AgentSetting,
    "tag": state.Tag,
    "mode": state.Mode,
    "permission-mode": state.PermissionMode,
    "cost-state": state.CostState,
    "tools-used": state.ToolsUsed,
    "atis-latch": state.AtisLatch,
    "bridge-session": state.BridgeSession,
    "worktree-state": state.WorktreeState,
    "relocated": state.Relocated,
    "continued-in": state.ContinuedIn,
    "frame-link": state.FrameLink,
    "fork-context-ref": state.ForkContextRef,
    "content-replacement": state.ContentReplacement,
    "api-request-shape": state.ApiRequestShape,
    "api-request-blob": state.ApiRequestBlob,
    "api-request": state.ApiRequest,
}

ATTACHMENTS = frozenset(
    """agent_listing_delta already_read_file async_hook_response auto_mode auto_mode_exit
    bash_output_audience_note batching_reminder_sent budget_usd command_permissions
    compact_file_reference companion_intro date date_change deferred_tools_delta
    deferred_tools_record diagnostics directory dynamic_skill edited_text_file environment file
    goal_status hook_additional_context hook_blocking_error hook_cancelled
    hook_non_blocking_error hook_success hook_system_message instructions invoked_skills
    mcp_instructions_delta mcp_resource model nested_memory opened_file_in_ide
    plan_file_reference plan_mode plan_mode_exit plan_mode_reentry prompt_snapshot
    queued_command read_truncation_notice remote_session_change selected_lines_in_ide
    session_context silent_turn_reminder skill_listing structured_output task_reminder
    task_status todo_reminder total_tokens_reminder ultra_effort_enter ultra_effort_exit
    unknown_command_fallback verify_plan_reminder workflow_keyword_request""".split()
)
"""The kinds of attachment observed or reported; their contents are kept as plain objects."""
