"""Entries outside the conversation: titles, modes, file history, request logs.

Most kinds are written repeatedly as a session continues; the last entry of a kind counts.
"""

from typing import Any

from msgspec import UNSET, UnsetType, field

from turnlog.format.entries import Entry
from turnlog.format.fields import CamelView, Count, Flag, Items, Number, Object, Text, given


class Summary(Entry):
    """A title for the conversation that ends at `leaf_uuid` (1.0.17 to 2.1.29)."""

    summary: Text = UNSET
    # May name an entry of another file: 1.0.60 copies a session when it resumes it, and puts the
    # title of the old conversation into the first line of the copy (observed).
    leaf_uuid: Text = UNSET


class Snapshot(CamelView):
    message_id: Text = UNSET
    tracked_file_backups: Object = UNSET
    timestamp: Text = UNSET


class FileHistorySnapshot(Entry):
    """The backups of tracked files at a message (2.0.5 on)."""

    message_id: Text = UNSET
    snapshot: Snapshot | None | UnsetType = UNSET
    is_snapshot_update: Flag = UNSET

    @property
    def when(self) -> str | None:
        inner = given(self.snapshot)
        return given(self.timestamp) or (given(inner.timestamp) if inner else None)


class FileHistoryDelta(Entry):
    """One more file backed up since a snapshot (2.1.209 on)."""

    message_id: Text = UNSET
    snapshot_message_id: Text = UNSET
    tracking_path: Text = UNSET
    backup: Object = UNSET


class QueueOperation(Entry):
    """A prompt entered or left the queue (2.0.42 on)."""

    operation: Text = UNSET
    content: Any = UNSET
    reason: Text = UNSET
    command_uuid: Text = UNSET
    delivery_id: Text = UNSET


class PrLink(Entry):
    pr_number: Count = UNSET
    pr_url: Text = UNSET
    pr_repository: Text = UNSET


class LastPrompt(Entry):
    """A pointer to the tip of the conversation; written repeatedly, the last one counts."""

    last_prompt: Text = UNSET
    # May name an entry further down, as a fifth of them do in 2.1.325 (observed): resolve it after
    # the whole file was read.
    leaf_uuid: Text = UNSET
    # With it, the pointer may cut the history above the leaf; without it, such a pointer is ignored
    # (2.1.325, observed).
    explicit: Flag = UNSET


class CustomTitle(Entry):
    # An empty title removes an earlier one (2.1.325, observed), so it is not the same as no entry.
    custom_title: Text = UNSET


class AiTitle(Entry):
    ai_title: Text = UNSET


class AgentName(Entry):
    agent_name: Text = UNSET


class AgentColor(Entry):
    agent_color: Text = UNSET


class AgentSetting(Entry):
    agent_setting: Text = UNSET


class Tag(Entry):
    tag: Text = UNSET


class Mode(Entry):
    mode: Text = UNSET


class PermissionMode(Entry):
    permission_mode: Text = UNSET


class CostState(Entry):
    """The client's own totals, per process (2.1.2xx on)."""

    # Named explicitly: `rename="camel"` would expect `totalCostUsd` and `totalApiDuration`.
    total_cost_usd: Number = field(default=UNSET, name="totalCostUSD")
    total_api_duration: Number = field(default=UNSET, name="totalAPIDuration")
    total_api_duration_without_retries: Number = field(
        default=UNSET, name="totalAPIDurationWithoutRetries"
    )
    total_tool_duration: Number = UNSET
    total_lines_added: Count = UNSET
    total_lines_removed: Count = UNSET
    total_duration: Number = UNSET
    start_time: Number = UNSET
    model_usage: Object = UNSET
    has_unknown_model_cost: Flag = UNSET


class ToolsUsed(Entry):
    tools: Items = UNSET


class AtisLatch(Entry):
    atis: Any = UNSET


class BridgeSession(Entry):
    bridge_session_id: Text = UNSET
    last_sequence_num: Count = UNSET
    owner_account_uuid: Text = UNSET
    owner_organization_uuid: Text = UNSET


class WorktreeState(Entry):
    worktree_session: Object = UNSET
    state: Text = UNSET


class Relocated(Entry):
    relocated_cwd: Text = UNSET


class ContinuedIn(Entry):
    continued_in_session_id: Text = UNSET


class FrameLink(Entry):
    path: Text = UNSET
    frame_url: Text = UNSET
    title: Text = UNSET
    artifact_count: Count = UNSET


class ForkContextRef(Entry):
    agent_id: Text = UNSET
    parent_session_id: Text = UNSET
    parent_last_uuid: Text = UNSET


class ContentReplacement(Entry):
    replacements: Items = UNSET


class ApiRequestShape(Entry):
    """System prompt and tools of a request, stored once per hash (2.1.325)."""

    shape_hash: Text = UNSET
    shape: Object = UNSET
    version: Text = UNSET
    agent_id: Text = UNSET


class ApiRequestBlob(Entry):
    """A message of a request that is not in the chain's lines (2.1.325)."""

    hash: Text = UNSET
    message: Object = UNSET
    agent_id: Text = UNSET


class ApiRequest(Entry):
    """One API request: the first `keep` messages of request `base`, then those of `tail`."""

    id: Text = UNSET
    version: Text = UNSET
    query_source: Text = UNSET
    shape_hash: Text = UNSET
    params: Object = UNSET
    base: Text = UNSET
    keep: Count = UNSET
    tail: Items = UNSET
    cache_control: Items = UNSET
    request_digest: Text = UNSET
    agent_id: Text = UNSET
