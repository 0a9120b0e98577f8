"""Known programs and their effects on files."""

from turnlog.agent.permissions.programs.analysis import (
    CONTENT_READERS,
    COPYING,
    NEVER_WRITING,
    PATHLESS,
    READERS,
    RECURSING,
    guess_paths,
    read_files,
    shows_files,
)
from turnlog.agent.permissions.programs.changers import REMOVERS, WRITERS, change_files
from turnlog.agent.permissions.programs.expressions import is_plain_condition
from turnlog.agent.permissions.programs.git import enters_submodules
from turnlog.agent.permissions.programs.sed import may_run_program
from turnlog.agent.permissions.programs.usage import ProgramEffect

__all__ = [
    "CONTENT_READERS",
    "COPYING",
    "NEVER_WRITING",
    "PATHLESS",
    "READERS",
    "RECURSING",
    "REMOVERS",
    "WRITERS",
    "ProgramEffect",
    "change_files",
    "enters_submodules",
    "guess_paths",
    "is_plain_condition",
    "may_run_program",
    "read_files",
    "shows_files",
]
