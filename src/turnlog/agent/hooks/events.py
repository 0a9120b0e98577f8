"""The moments at which hooks run, and what the client lets a hook do at each (as documented)."""

from msgspec import Struct

LONGEST_WAIT = 600.0
"""Seconds that a hook may take where neither it nor its event says otherwise."""


class HookEvent(Struct, frozen=True):
    """What holds for all hooks of one event."""

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
    timeout: float = LONGEST_WAIT


EVENTS = {
    "PreToolUse": HookEvent(can_block=True, has_mode=True, is_tool=True),
    "PermissionRequest": HookEvent(has_mode=True, is_tool=True),
    "PostToolUse": HookEvent(can_block=True, has_mode=True, is_tool=True),
    "PostToolUseFailure": HookEvent(can_block=True, has_mode=True, is_tool=True),
    "UserPromptSubmit": HookEvent(
        can_block=True, plain_text_is_context=True, has_mode=True, timeout=30.0
    ),
    "SessionStart": HookEvent(plain_text_is_context=True),
    "SessionEnd": HookEvent(is_mute=True, timeout=1.5),
    "Stop": HookEvent(can_block=True, has_mode=True),
    "SubagentStart": HookEvent(),
    "SubagentStop": HookEvent(can_block=True, has_mode=True),
    "PreCompact": HookEvent(can_block=True, is_mute=True),
    "PostCompact": HookEvent(is_mute=True),
    "Notification": HookEvent(is_mute=True),
}
