"""The state of a running session: reported by its client, or inferred from its last lines.

A status that the client reports is believed, and so is a notification that the plugin's hook
recorded, until the next line is written. For other sessions, these rules apply in this order, to
the last line of the session:

- a call of `AskUserQuestion`: waiting for input
- a call of `ExitPlanMode`: waiting for permission
- a `Bash` call, and the client has a child process that started since: working
- a `Bash` call for 5 seconds without a child, in `default` mode: waiting for permission
- a `Bash` call in `bypassPermissions` mode, or a call of `Read` in any mode: working
- a result, or a prompt: working, as an answer is awaited
- an answer with `stop_reason` `end_turn`, an interruption, an error: waiting for input
- an answer without a `stop_reason`: working for 30 seconds, then waiting for input
- any of the last three, and nothing was written for 10 minutes: idle
"""

from enum import StrEnum
from typing import NamedTuple

from turnlog.conversation.live_figures import LiveFigures
from turnlog.conversation.nodes import AssistantNode, BoundaryNode, UserNode
from turnlog.conversation.prompts import ASKING, PromptKind
from turnlog.store.client_notifications import Notification
from turnlog.store.registry import Registration

PERMISSION_SECONDS = 5.0
"""Seconds after which an unanswered call is taken to wait for permission."""
STREAM_SECONDS = 30.0
"""Seconds after which an answer without a stop reason is taken to be complete."""
IDLE_SECONDS = 600.0
"""Seconds without a change after which a session is idle."""
NEVER_ASKING = frozenset({"auto", "bypassPermissions", "dontAsk"})
"""Permission modes that never or rarely ask the user."""
SHELLS = frozenset({"Bash", "PowerShell"})
EDITS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
AGENTS = frozenset({"Agent", "Task"})
"""Tools that start sub-agents, whose own files show more."""
FREE = AGENTS | frozenset(
    "Glob Grep LS Read TodoWrite TaskCreate TaskGet TaskList TaskUpdate TaskOutput TaskStop "
    "BashOutput KillShell ToolSearch EnterPlanMode StructuredOutput".split()
)
"""Tools that usually run without a question in every mode."""


class LiveState(StrEnum):
    """The activity of a session."""

    WORKING = "working"
    PERMISSION = "waiting for permission"
    INPUT = "waiting for input"
    IDLE = "idle"


class StateSource(StrEnum):
    """The source of a state."""

    REPORTED = "reported"
    INFERRED = "inferred"


class StateSince(NamedTuple):
    """A state with its source and its start."""

    state: LiveState
    source: StateSource
    since: float
    """Seconds since 1970."""
    detail: str | None = None
    """The event that the client waits for, or the tools whose calls are unanswered."""


def reported_state(status: Registration, changed: float | None, now: float) -> StateSince | None:
    """Return the state that a client reports; None if it reports none, or an unknown one."""
    since = status.status_since or status.started or now
    state = STATUSES.get(status.status or "")
    if state is None:
        return None
    if status.status == "waiting":
        state = WAITING_FOR.get(status.waiting_for or "", LiveState.INPUT)
    elif status.status == "idle" and now - max(since, changed or 0.0) >= IDLE_SECONDS:
        # The client reports `idle` as soon as it shows its prompt.
        state = LiveState.IDLE
    return StateSince(state, StateSource.REPORTED, since, status.waiting_for)


def notified_state(
    notification: Notification, figures: LiveFigures, has_child: bool | None
) -> StateSince | None:
    """Return the state that a notification announced; None once the session has continued."""
    state = NOTIFIED.get(notification.kind)
    # A permitted command writes nothing before it ends, but runs as a child.
    is_over = (figures.changed or 0.0) > notification.at or has_child
    if state is None or is_over:
        return None
    detail = notification.kind.replace("_", " ")
    return StateSince(state, StateSource.REPORTED, notification.at, detail)


def inferred_state(
    figures: LiveFigures, started: float | None, now: float, has_child: bool | None = None
) -> StateSince:
    """Infer the state from the last lines; `has_child` is true while a command is running."""
    since = figures.changed or started or now
    quiet = now - since
    if figures.unanswered:
        state, detail = _call_state(figures, quiet, has_child)
        return StateSince(state, StateSource.INFERRED, since, detail)
    state = LiveState.WORKING if _is_answering(figures, quiet) else LiveState.INPUT
    if quiet >= IDLE_SECONDS:
        state = LiveState.IDLE
    return StateSince(state, StateSource.INFERRED, since)


def is_finished(figures: LiveFigures, now: float) -> bool:
    """Return whether a sub-agent has given its answer."""
    quiet = now - (figures.changed or now)
    return not figures.unanswered and not _is_answering(figures, quiet)


def may_run_command(figures: LiveFigures) -> bool:
    """Return whether a shell call is unanswered: only a child process tells if it waits or runs."""
    return not SHELLS.isdisjoint(figures.unanswered.values())


def may_ask(figures: LiveFigures) -> bool:
    """Return whether an unanswered call may be the one that a client asks about."""
    return bool(_asking(set(figures.unanswered.values()), figures.mode))


def _call_state(
    figures: LiveFigures, quiet: float, has_child: bool | None
) -> tuple[LiveState, str]:
    names = set(figures.unanswered.values())
    detail = ", ".join(sorted(names))
    if "AskUserQuestion" in names:
        return LiveState.INPUT, detail
    if "ExitPlanMode" in names:
        return LiveState.PERMISSION, detail
    if names & SHELLS and has_child:
        return LiveState.WORKING, detail
    is_asked = bool(_asking(names, figures.mode)) and quiet >= PERMISSION_SECONDS
    return (LiveState.PERMISSION if is_asked else LiveState.WORKING), detail


def _asking(names: set[str], mode: str | None) -> set[str]:
    """Return the tools that may ask for permission in a mode."""
    if mode in NEVER_ASKING:
        return set()
    return names - FREE - (EDITS if mode == "acceptEdits" else frozenset())


def _is_answering(figures: LiveFigures, quiet: float) -> bool:
    """Return whether an answer is awaited or being written."""
    last = figures.last
    if isinstance(last, UserNode):
        return last.prompt in ASKING or last.prompt is PromptKind.TOOL_RESULT
    if isinstance(last, BoundaryNode):
        return last.trigger == "auto"
    if isinstance(last, AssistantNode) and not last.is_error:
        return last.stop_reason is None and quiet < STREAM_SECONDS
    return False


STATUSES = {
    "busy": LiveState.WORKING,
    "idle": LiveState.INPUT,
    "waiting": LiveState.INPUT,
}
"""States by the client's `status` (observed: 2.1.325)."""
NOTIFIED = {
    "permission_prompt": LiveState.PERMISSION,
    "idle_prompt": LiveState.INPUT,
    "elicitation_dialog": LiveState.INPUT,
    "elicitation_url_dialog": LiveState.INPUT,
    "agent_needs_input": LiveState.INPUT,
}
"""States by the kind of a notification (documented; `permission_prompt` observed: 2.1.150)."""
WAITING_FOR = {"permission prompt": LiveState.PERMISSION}
"""States by `waitingFor`; others, such as `input needed` and `dialog open`, need input."""
