"""Bash commands: a strict parser, and the arguments that words expand to."""

from turnlog.agent.permissions.bash.budget import COMPARISONS, NAMES, Budget, Unknown
from turnlog.agent.permissions.bash.expansion import expand
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
    "COMPARISONS",
    "HOLE",
    "NAMES",
    "UNKNOWN",
    "Assignment",
    "Budget",
    "Part",
    "Redirect",
    "Script",
    "Unknown",
    "Word",
    "expand",
    "parse_script",
]
