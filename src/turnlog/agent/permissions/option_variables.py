"""Ask about variables that programs take options from: no argument shows what such a call does.

`XZ_OPT=--files=list xz` reads the names in a list, and `SIMPLE_BACKUP_SUFFIX=.json cp -b x .mcp`
creates `.mcp.json`. No list of such variables is complete, so any variable counts for a program
that opens files, but not for one that runs code of the project: `STAGE=test npm test`.
"""

import os
import re
from collections.abc import Iterable, Iterator

from turnlog.agent.permissions.bash import HOLE, UNKNOWN, Assignment, SimpleCommand, Word
from turnlog.agent.permissions.file_verdicts import unknown_files
from turnlog.agent.permissions.launchers import name_of, runs_given_text, without_wrappers
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.program_calls import CREATING
from turnlog.agent.permissions.programs import (
    CONTENT_READERS,
    COPYING,
    NEVER_WRITING,
    RECURSING,
    WRITERS,
)
from turnlog.agent.permissions.restrictions import is_safe_assignment
from turnlog.agent.permissions.shell_command import ShellCommand

OPTIONS = re.compile(
    r"""BZIP2?|CURL_HOME|GZIP|LZOP|PATCH_GET|PIGZ|POSIXLY_CORRECT|QUILT_PATCH_OPTS
    |RSYNC_(?!PASSWORD)\w+|SIMPLE_BACKUP_SUFFIX|(?:SYSTEM_)?WGETRC|TAPE|TAR_OPTIONS|TZ|TZDIR|UNZIP
    |UNZIPOPT|VERSION_CONTROL|XZ_DEFAULTS|XZ_OPT|ZIP|ZIPINFO|ZIPINFOOPT|ZIPOPT""",
    re.X,
)
"""Variables from which a program takes options, or the file with its options."""
HOMES = re.compile(r"HOME|XDG_\w+")
"""Variables that decide which configuration programs read."""
UNRELATED = re.compile(
    r"""PATH|GIT_\w+|AWS_(?:DEFAULT_REGION|PROFILE|REGION)|\w+_(?:PASSWORD|TOKEN)|\w+_PROXY
    |(?:https?|no)_proxy""",
    re.X,
)
"""Variables that name no file to open, or are checked elsewhere."""
GIT_FILES = re.compile(r"GIT_(?:CONFIG|TRACE)\w*|GIT_\w*(?:DIRECTOR|FILE)\w*")
"""Variables from which git takes the names of files that it reads or writes."""
PLAIN_VALUE = re.compile(r"[0-9.]*|true|false|yes|no|on|off|auto|always|never")
LEVEL = re.compile(r"(?:-[0-9]+e?|-T ?[0-9]+|-[knqv]|[ ])*")
"""Options for the level, the number of threads and the like: `XZ_OPT='-9e -T0'`."""
OPENING = CONTENT_READERS | WRITERS | COPYING | RECURSING | CREATING
EXPORTING = frozenset("declare export readonly typeset".split())
EXPORT_ALL = re.compile(r"-[a-z]*[ak][a-z]*|allexport|keyword")
"""Options of `set` that export all variables, or make any word `x=y` an assignment."""
ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\+?=(.*))?", re.S)


def judge_variables(command: ShellCommand) -> Iterator[AccessDecision]:
    """Ask about each program that may take options from a variable that the command sets."""
    parts = [inner.part for inner in command.inner]
    exported = list(exported_variables(parts))
    for part in parts:
        words = without_wrappers(part.words)
        if words and not part.is_test:
            given = (*part.assignments, *exported)
            yield from _judge(name_of(words[0]), given, command.policy)


def _judge(name: str, given: Iterable[Assignment], policy: Policy) -> Iterator[AccessDecision]:
    opens_files = name in OPENING and not runs_given_text(name)
    for each in given:
        if is_safe_assignment(each) or _is_harmless(each):
            continue
        reason = f"{each.name} may decide which files {name} uses"
        # A known value is checked as a path.
        is_git = HOLE in each.value.text and GIT_FILES.fullmatch(each.name)
        is_home = opens_files and HOMES.fullmatch(each.name)
        if name not in NEVER_WRITING and (is_home or OPTIONS.fullmatch(each.name)):
            yield unknown_files(reason, policy)
        elif policy.has_file_rules and (opens_files or OPTIONS.fullmatch(each.name) or is_git):
            yield AccessDecision(VerdictKind.ASK, reason, is_firm=True)


def _is_harmless(assignment: Assignment) -> bool:
    if OPTIONS.fullmatch(assignment.name):
        return assignment.name != "POSIXLY_CORRECT" and bool(LEVEL.fullmatch(assignment.value.text))
    if HOLE in assignment.value.text and GIT_FILES.fullmatch(assignment.name):
        return False
    is_plain = PLAIN_VALUE.fullmatch(assignment.value.text)
    return bool(UNRELATED.fullmatch(assignment.name) or is_plain)


def exported_variables(parts: list[SimpleCommand]) -> Iterator[Assignment]:
    """Yield the variables that programs get from assignments in other parts of a command."""
    exporting = [part for part in parts if exports(part)]
    for part in parts:
        for each in part.assignments if not part.words else ():
            # A variable of the environment stays exported.
            is_known = OPTIONS.fullmatch(each.name) or HOMES.fullmatch(each.name)
            if exporting or is_known or each.name in os.environ:
                yield each
    for part in exporting:
        words = part.words[1:] if name_of(part.words[0]) in EXPORTING else ()
        found = (ASSIGNED.fullmatch(word.text) for word in words)
        for name, value in (each.groups() for each in found if each):
            yield Assignment(name, UNKNOWN if value is None else Word(value))


def exports(part: SimpleCommand) -> bool:
    words = without_wrappers(part.words)
    name = name_of(words[0]) if words else ""
    is_all = name == "set" and any(EXPORT_ALL.fullmatch(word.text) for word in words[1:])
    return is_all or name in EXPORTING
