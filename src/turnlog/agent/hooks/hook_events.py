"""The moments at which hooks run, and what the client lets a hook do at each (as documented)."""

from msgspec import Struct

LONGEST_WAIT = 600.0
"""Seconds that a hook may take where neither it nor its event says otherwise."""
NEAR = frozenset({"command", "mcp_tool"})
PLAIN = NEAR | {"http"}
ALL = PLAIN | {"prompt", "agent"}
"""The kinds of hooks; the last two ask a model, so there must be a conversation."""


class HookEvent(Struct, frozen=True):
    """What holds for all hooks of one event."""

    kinds: frozenset[str] = PLAIN
    """What a hook may be."""
    can_block: bool = False
    """Whether exit code 2 and `decision: block` count: what was about to happen does not, or, where
    it has happened, the model is told why it should not have."""
    plain_text_is_context: bool = False
    """Whether the model is told what a hook prints, even if it is not JSON."""
    has_mode: bool = False
    """Whether a hook is told the permission mode."""
    is_tool: bool = False
    """Whether it concerns a call, so that a hook may be limited to calls by a rule."""
    is_mute: bool = False
    """Whether `continue` and `systemMessage` are left alone."""
    leaves_variables: bool = False
    """Whether a hook may leave variables for the commands to come."""
    tells_late: bool = False
    """Whether the model is told here what hooks in the background had to say."""
    timeout: float = LONGEST_WAIT


EVENTS = {
    "SessionStart": HookEvent(NEAR, plain_text_is_context=True, leaves_variables=True),
    "InstructionsLoaded": HookEvent(is_mute=True),
    "UserPromptSubmit": HookEvent(
        ALL,
        can_block=True,
        plain_text_is_context=True,
        has_mode=True,
        tells_late=True,
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
    "PostToolBatch": HookEvent(ALL, can_block=True, has_mode=True, tells_late=True),
    "Notification": HookEvent(is_mute=True),
    "SubagentStart": HookEvent(),
    "SubagentStop": HookEvent(ALL, can_block=True, has_mode=True),
    "Stop": HookEvent(ALL, can_block=True, has_mode=True),
    "StopFailure": HookEvent(is_mute=True),
    "PreCompact": HookEvent(can_block=True, is_mute=True),
    "PostCompact": HookEvent(is_mute=True),
    "SessionEnd": HookEvent(is_mute=True, timeout=1.5),
}
