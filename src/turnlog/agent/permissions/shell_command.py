"""A parsed shell command: the programs it would run, and the directories they may run in."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.archive_targets import TAR
from turnlog.agent.permissions.bash import (
    CLOCK,
    HOLE,
    Script,
    SimpleCommand,
    Word,
    parse_script,
)
from turnlog.agent.permissions.interference import (
    is_still,
    may_write,
    waits,
)
from turnlog.agent.permissions.launchers import (
    Inner,
    commands_in,
    name_of,
    without_wrappers,
)
from turnlog.agent.permissions.policy import Policy
from turnlog.agent.permissions.removals import Places
from turnlog.agent.permissions.rules import COMMANDS
from turnlog.agent.permissions.working_directories import (
    MOVES,
    possible_directories,
)
from turnlog.agent.workspace.access import ApprovalMode, Runs

MOST_WORDS = 500
"""Maximum number of words and of parts; longer commands are not analyzed part by part."""
DIRECTORY_OPTIONS = {
    **dict.fromkeys(("env", "sudo"), re.compile(r"-[^-u]*[CD].*|--ch.*", re.S)),
    "find": re.compile(r"-execdir|-okdir"),
    **dict.fromkeys("git ninja".split(), re.compile(r"-C.*", re.S)),
    **dict.fromkeys(("gmake", "make"), re.compile(r"-[^-]*C.*|--di.*", re.S)),
    **dict.fromkeys(
        "bsdtar gpgtar gtar jar ptar star tar".split(), re.compile(r"-[^-]*C.*|--(?:cd|di).*", re.S)
    ),
    **dict.fromkeys(("bsdcpio", "cpio"), re.compile(r"-[^-]*D.*|--di.*", re.S)),
}
"""Options of programs, possibly clustered or abbreviated, that change the working directory."""
OLD_STYLE = re.compile(r"[A-Za-z]*C[A-Za-z]*")
"""Clustered options of tar without a dash; `C` takes a directory from a later argument."""


class ShellCommand(Struct, frozen=True):
    """A parsed command, with the context for analyzing its parts."""

    text: str
    script: Script
    inner: tuple[Inner, ...]
    """Every program that would run, including those that other programs start."""
    places: Places
    """Directories in which its parts may run."""
    policy: Policy
    runs: Runs
    """The command as the call gives it, with other commands that run at the same time."""

    @property
    def is_open(self) -> bool:
        """True if a rule allows all commands."""
        rules = self.policy.allow if self.policy.mode is not ApprovalMode.PLAN else ()
        return any(rule.tool == COMMANDS and rule.about is None for rule in rules)

    @property
    def all_text(self) -> str:
        """The command as written, followed by what quote removal makes of its words and inputs.

        A program that reads its input gets `open("notes")` from `echo 'open("no''tes")'`.
        """
        words = [word for inner in self.inner for word in inner.part.words]
        words += [each.value for inner in self.inner for each in inner.part.assignments]
        texts = [word.text.replace(HOLE, " ") for word in words if word.text != word.source]
        given = dict.fromkeys((*texts, *self.script.inputs))
        return "\n".join((self.text, *(each for each in given if each not in self.text)))

    @property
    def writes(self) -> bool:
        """True if a part of it may create or change files."""
        return any(may_write(inner.part) for inner in self.inner)

    def others(self, part: SimpleCommand) -> Iterator[Inner]:
        """Yield everything that would run except one part."""
        return (inner for inner in self.inner if inner.part is not part)

    @property
    def is_delayed(self) -> bool:
        """True if a part may run long after the verdict, when files may have changed."""
        is_waiting = any(waits(inner.part) for inner in self.inner)
        return self.runs.in_background or self.script.has_background or is_waiting

    @property
    def is_still(self) -> bool:
        """True if it runs immediately, with no other command, and changes nothing."""
        is_busy = self.is_delayed or self.runs.running or self.script.unclear
        return not is_busy and is_still((inner.part for inner in self.inner), self.places)


def parse_command(runs: Runs, policy: Policy) -> ShellCommand:
    script = parse_script(runs.command)
    # Every part is compared with every other one, which takes quadratic time.
    if sum(1 + len(part.words) for part in script.parts) > MOST_WORDS:
        script = Script(unclear=[f"it has more than {MOST_WORDS:,} words"], is_misread=True)
    try:
        inner = tuple(each for part in script.parts for each in _inner_commands(part))
    except RecursionError:
        script.unclear.append("it nests too many launchers such as env or xargs")
        script.is_misread = True
        inner = tuple(map(Inner, script.parts))
    places = _places(script, inner, policy.cwd)
    return ShellCommand(runs.command.strip(), script, inner, places, policy, runs)


def _inner_commands(part: SimpleCommand) -> Iterator[Inner]:
    for inner in commands_in(part):
        CLOCK.check()
        yield inner


def _places(script: Script, inner: tuple[Inner, ...], cwd: Path) -> Places:
    """Return the directories that parts may run in; `(None,)` if they cannot be determined."""
    parts = [without_wrappers(each.part.words) for each in inner if each.part.words]
    moves = any(words[0].text in MOVES for words in parts)
    # In a loop, each `cd ..` leads further up. With None, relative paths stay unresolved.
    if (script.has_loop and moves) or any(map(_changes_directory, parts)):
        return (None,)
    return possible_directories(parts, cwd) or (None,)


def _changes_directory(words: tuple[Word, ...]) -> bool:
    """Return whether a program changes to another directory by an option, as `env -C dir` does."""
    name, options = name_of(words[0]), [word.text for word in words[1:]]
    pattern = DIRECTORY_OPTIONS.get(name)
    if pattern is None:
        return False
    is_clustered = name in TAR and OLD_STYLE.fullmatch("".join(options[:1])) is not None
    return is_clustered or any(map(pattern.fullmatch, options))
