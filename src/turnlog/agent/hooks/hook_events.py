"""Hook events and what hooks may do at each, as the client documents them."""

from msgspec import Struct

LONGEST_WAIT = 600.0
"""Default timeout in seconds."""
NEAR = frozenset({"command", "mcp_tool", "callback"})
PLAIN = NEAR | {"http"}
ALL = PLAIN | {"prompt", "agent"}
"""Hook types; the last two ask a model and need a running conversation.

`callback` is a function of the program that drives turnlog; no settings file can define one."""


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
    is_tool: bool = False
    """True if the event is about a tool call, so that an `if` rule can filter it."""
    is_mute: bool = False
    """True if `continue` and `systemMessage` are ignored."""
    leaves_variables: bool = False
    """True if a hook may set variables for later commands."""
    delivers_late: bool = False
    """True if output of background hooks is delivered to the model here."""
    timeout: float = LONGEST_WAIT


EVENTS = {
    "SessionStart": HookEvent(NEAR, plain_text_is_context=True, leaves_variables=True),
    "InstructionsLoaded": HookEvent(is_mute=True),
    "UserPromptSubmit": HookEvent(
        ALL,
        can_block=True,
        plain_text_is_context=True,
        has_mode=True,
        delivers_late=True,
        timeout=30.0,
    ),
    "UserPromptExpansion": HookEvent(
        ALL, can_block=True, plain_text_is_context=True, has_mode=True
    ),
    "PreToolUse": HookEvent(ALL, can_block=True, has_mode=True, is_tool=True),
    "PermissionRequest": HookEvent(ALL, has_mode=True, is_tool=True),
    "CwdChanged": HookEvent(leaves_variables=True),
    "DirectoryAdded": HookEvent(),
    "FileChanged": HookEvent(leaves_variables=True),
    "ConfigChange": HookEvent(can_block=True, is_mute=True),
    "PostToolUse": HookEvent(ALL, can_block=True, has_mode=True, is_tool=True),
    "PostToolUseFailure": HookEvent(ALL, can_block=True, has_mode=True, is_tool=True),
    "PostToolBatch": HookEvent(ALL, can_block=True, has_mode=True, delivers_late=True),
    "Notification": HookEvent(is_mute=True),
    "SubagentStart": HookEvent(),
    "SubagentStop": HookEvent(ALL, can_block=True, has_mode=True),
    "Stop": HookEvent(ALL, can_block=True, has_mode=True),
    "StopFailure": HookEvent(is_mute=True),
    "PreCompact": HookEvent(can_block=True, is_mute=True),
    "PostCompact": HookEvent(is_mute=True),
    "SessionEnd": HookEvent(is_mute=True, timeout=1.5),
}
