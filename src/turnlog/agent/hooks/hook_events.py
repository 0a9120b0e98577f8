"""Hook events and their properties, as the client documents them."""

from msgspec import Struct

LONGEST_WAIT = 600.0
"""Default timeout in seconds."""
NEAR = frozenset({"command", "mcp_tool", "callback"})
PLAIN = NEAR | {"http"}
ALL = PLAIN | {"prompt", "agent"}
"""Hook types; the last two ask a model and need a running conversation.

`callback` is a function of the host program; settings files cannot define one."""


class HookEvent(Struct, frozen=True):
    """Properties of a hook event."""

    kinds: frozenset[str] = PLAIN
    """Hook types allowed at this event."""
    can_block: bool = False
    """True if exit code 2 and `decision: block` count: they prevent the action, or, if it has
    already happened, send the reason to the model."""
    plain_text_is_context: bool = False
    """True if plain text on stdout is sent to the model."""
    has_mode: bool = False
    """True if the payload contains the permission mode."""
    has_effort: bool = False
    """True if the payload contains the effort of the model."""
    is_tool: bool = False
    """True if the event is about a tool call, so that an `if` rule can filter it."""
    is_mute: bool = False
    """True if `continue` and `systemMessage` are ignored."""
    leaves_variables: bool = False
    """True if a hook may set variables for later commands."""
    delivers_late: bool = False
    """True if output of background hooks is delivered to the model here."""
    timeout: float = LONGEST_WAIT
    late_hooks_block: bool = False
    """True if a hook that exceeds its timeout blocks."""
    is_guarded: bool = False
    """True if hooks can prevent an action that is about to happen. Output that seems to block but
    cannot be parsed then blocks it."""


EVENTS = {
    "Setup": HookEvent(NEAR, is_mute=True, leaves_variables=True),
    "SessionStart": HookEvent(NEAR, plain_text_is_context=True, leaves_variables=True),
    "InstructionsLoaded": HookEvent(is_mute=True),
    "UserPromptSubmit": HookEvent(
        ALL,
        can_block=True,
        plain_text_is_context=True,
        has_mode=True,
        delivers_late=True,
        timeout=30.0,
        is_guarded=True,
    ),
    "UserPromptExpansion": HookEvent(
        ALL, can_block=True, plain_text_is_context=True, has_mode=True, is_guarded=True
    ),
    "PreToolUse": HookEvent(
        ALL, can_block=True, has_mode=True, has_effort=True, is_tool=True, is_guarded=True
    ),
    "PermissionRequest": HookEvent(
        ALL, has_mode=True, has_effort=True, is_tool=True, is_guarded=True
    ),
    "PermissionDenied": HookEvent(ALL, has_mode=True, has_effort=True, is_tool=True),
    "CwdChanged": HookEvent(leaves_variables=True),
    "DirectoryAdded": HookEvent(),
    "FileChanged": HookEvent(leaves_variables=True),
    "ConfigChange": HookEvent(can_block=True, is_mute=True, is_guarded=True),
    "PostToolUse": HookEvent(ALL, can_block=True, has_mode=True, has_effort=True, is_tool=True),
    "PostToolUseFailure": HookEvent(
        ALL, can_block=True, has_mode=True, has_effort=True, is_tool=True
    ),
    "PostToolBatch": HookEvent(
        ALL, can_block=True, has_mode=True, has_effort=True, delivers_late=True
    ),
    "Elicitation": HookEvent(can_block=True, is_mute=True, is_guarded=True),
    "ElicitationResult": HookEvent(can_block=True, is_mute=True, is_guarded=True),
    "MessageDisplay": HookEvent(is_mute=True, timeout=10.0),
    "PreModelSwitch": HookEvent(
        can_block=True, timeout=30.0, late_hooks_block=True, is_guarded=True
    ),
    "PostModelSwitch": HookEvent(plain_text_is_context=True, timeout=30.0),
    "Notification": HookEvent(is_mute=True),
    "SubagentStart": HookEvent(),
    "SubagentStop": HookEvent(ALL, can_block=True, has_mode=True, has_effort=True),
    "TaskCreated": HookEvent(ALL, can_block=True, is_mute=True, is_guarded=True),
    "TaskCompleted": HookEvent(ALL, can_block=True, is_mute=True, is_guarded=True),
    "Stop": HookEvent(ALL, can_block=True, has_mode=True, has_effort=True),
    "StopFailure": HookEvent(is_mute=True),
    "PreCompact": HookEvent(can_block=True, is_mute=True),
    "PostCompact": HookEvent(is_mute=True),
    "SessionEnd": HookEvent(is_mute=True, timeout=1.5),
    "WorktreeCreate": HookEvent(NEAR, is_mute=True),
    "WorktreeRemove": HookEvent(is_mute=True),
}
