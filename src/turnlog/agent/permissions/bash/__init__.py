"""Bash commands: a strict parser, and the arguments that words expand to."""

from turnlog.agent.permissions.bash.expansion import Unknown, expand
from turnlog.agent.permissions.bash.parser import parse_script
from turnlog.agent.permissions.bash.syntax import (
    HOLE,
    UNKNOWN,
    Assignment,
    Part,
    Redirect,
    Script,
    Word,
)

__all__ = [
    "HOLE",
    "UNKNOWN",
    "Assignment",
    "Part",
    "Redirect",
    "Script",
    "Unknown",
    "Word",
    "expand",
    "parse_script",
]
