"""Bash commands: a strict parser, and the arguments that words expand to."""

from turnlog.agent.permissions.bash.budget import (
    CLOCK,
    COMPARISONS,
    NAMES,
    Budget,
    TooComplex,
    UnknownValue,
    fresh_budgets,
)
from turnlog.agent.permissions.bash.cross_check import find_disagreement
from turnlog.agent.permissions.bash.expansion import Expansion, expand, expand_glob, find_option
from turnlog.agent.permissions.bash.lookup import (
    LONGEST_PATH,
    NoPath,
    is_folder,
    is_link,
    is_there,
)
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
    "CLOCK",
    "COMPARISONS",
    "HOLE",
    "LONGEST_PATH",
    "NAMES",
    "UNKNOWN",
    "Assignment",
    "Budget",
    "Expansion",
    "NoPath",
    "Redirect",
    "Script",
    "SimpleCommand",
    "TooComplex",
    "UnknownValue",
    "Word",
    "expand",
    "expand_glob",
    "find_disagreement",
    "find_option",
    "fresh_budgets",
    "is_folder",
    "is_link",
    "is_there",
    "parse_script",
]
