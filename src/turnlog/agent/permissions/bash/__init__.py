"""Split bash commands into simple commands."""

from turnlog.agent.permissions.bash.parser import parse_script
from turnlog.agent.permissions.bash.syntax import (
    HOLE,
    UNKNOWN,
    Assignment,
    Redirect,
    Script,
    SimpleCommand,
    Word,
)

__all__ = [
    "HOLE",
    "UNKNOWN",
    "Assignment",
    "Redirect",
    "Script",
    "SimpleCommand",
    "Word",
    "parse_script",
]
