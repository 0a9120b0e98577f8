"""Small real programs that use the Agent SDK; each returns its outcome."""

from support.sdk_programs import (
    basics,
    control,
    details,
    hook_callbacks,
    mixed,
    permissions,
    servers,
    sessions,
)

__all__ = [
    "basics",
    "control",
    "details",
    "hook_callbacks",
    "mixed",
    "permissions",
    "servers",
    "sessions",
]
