"""Classify what substitutions and pipes print: numbers, names of files and commits, or any text.

A number or the current directory names no program wherever it ends up. A name of a file may be
that of a program (`find /usr/bin -name 'cu?l'`), so it only counts as harmless where a file is
expected. Programs that print the content of a file may print any option or script.
"""

import re
from enum import Enum
from itertools import takewhile
from pathlib import Path

from turnlog.agent.permissions.bash import HOLE, SimpleCommand, Word
from turnlog.agent.permissions.launchers import ACTIONS, name_of
from turnlog.agent.permissions.path_access import is_inside
from turnlog.agent.permissions.shell_command import ShellCommand

VALUE = r"""
    nproc(?:\ --all)?|getconf\ _NPROCESSORS_ONLN|sysctl\ -n\ hw\.n(?:cpu|\w+cpu)|pwd(?:\ -[LP])?
    |mktemp(?:\ -d)?(?:\ -t\ [\w.]+)?|id\ -[gGnu]+|whoami|hostname(?:\ -[fs])?|uname(?:\ -[mnrs])?
    |date(?:\ (?:-u|(?:-d|--date)[ =](?:[\w:+-]+|"[\w\ :+-]*"|'[\w\ :+-]*')))*
      \ ["']?\+(?:%[-_0]?[YymdHMSsNjFTDuVG]|[-_:./\ T])+["']?
    |git\ rev-parse(?:\ --(?:short(?:=[0-9]+)?|verify))*\ (?:HEAD|@)(?:[~^][0-9]*)*
    |git\ (?:rev-parse\ --show-toplevel|rev-list\ --count\ [\w./-]+|merge-base\ [\w./-]+\ [\w./-]+)
    |git\ (?:rev-list\ (?:-n\ ?1|-1|--max-count=1)|log\ (?:-n\ ?1|-1)\ --format=%[Hh])\ ?[-\w./\ ]*
    |wc\ -[clmw]\ <\ ?[\w./-]+|pgrep(?:\ -[fnox]+)?\ [\w.-]+|pidof\ [\w.-]+|seq\ [0-9\ ]+
    |(?:docker|podman)\ ps\ -[alq]*q[alq]*|(?:command\ -v|which|type\ -P)\ [\w.+-]+
"""
"""Commands that print a number, a hash, a date in digits, or a path of the system.

`which` only finds the program that it names.
"""
WORDS = (
    r"(?:[ ](?:-(?!-?(?:exec|ok|format|header|oneline|pretty|printf|fprint|fls))[\w=.,/:+@^~-]*"
    r"|[\"']?[^-\\{()`;&|%<>$\s\"'][^()`;&|%<>$\s]*))*"
)
"""Arguments without expansions, and without options that print other text."""
NAME = rf"""
    git\ (?:branch\ --show-current|config\ --get\ (?:branch|init|remote|user)\.[\w.-]+
      |diff(?:\ [\w./^~-]+)*\ --name-only{WORDS}|remote\ get-url\ \w+|tag(?!.*\ -[a-z]*n){WORDS}
      |(?:describe|ls-files|merge-base|rev-list|rev-parse|symbolic-ref){WORDS})
    |(?:docker|podman)\ (?:container\ ls|image\ ls|images|ps|volume\ ls){WORDS}
    |(?:basename|dirname|realpath)(?:\ (?:[\w./-]+|"?\$\{{?\w+\}}?"?))*|date(?:\ -[uR]|\ -I[a-z]*)*
    |fd(?!.*\ -[a-zA-Z]*[xX]){WORDS}|(?:find|ls){WORDS}|rg\ (?:-l|--files){WORDS}
    |grep\ -[a-zA-Z]*l[a-zA-Z]*{WORDS}
"""
"""Commands that print names of files, commits or containers.

`find -exec` and `-printf` print any text.
"""
VALUES = re.compile(rf"\$\((?:{VALUE})\)", re.X)
NAMES = re.compile(rf"\$\((?:{NAME})\)", re.X)
LISTING = re.compile(rf"(?:{NAME})", re.X)
FILTER = re.compile(
    r"(?:sort|uniq|head|tail)(?: -(?:n ?)?[0-9]+| -[a-zA-Z]+)*"
    r"|grep(?: -[vEFPiwx]+)? (?!-)(?:'[^']*'|\"[^\"$`\\]*\"|[\w.\\/$^-]+)"
)
"""Commands that print some of the lines of a pipe: they name no file that they read instead."""
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
FOREIGN = re.compile(r"\$|~|-files0|\.\.(?![\w.])|(?<![\w*?\]-])\.[?*\[{]")
"""Text in the arguments of a listing that may lead out of the working directories."""
ROOTED = re.compile(r"(?<![\w.*?\]/-])/[^\s\"')]*")
"""An absolute path."""


class Filling(Enum):
    """The kinds of text that bash may put into a word at run time."""

    NOTHING = 0
    """The word is known."""
    VALUE = 1
    """A number, a date, the current directory."""
    NAME = 2
    """The name of a file, a commit or a container."""
    ANYTHING = 3


def split_source(word: Word) -> tuple[Filling, list[str]]:
    """Return what the substitutions of a word print, and the variables in it."""
    rest, values = VALUES.subn("", word.source)
    rest, names = NAMES.subn("", rest)
    found = [each[1] or each[2] for each in VARIABLE.finditer(rest)]
    # Quoted signs could be taken for the substitution that fills the hole: `'$(pwd)'$(cat x)`.
    is_unclear = any(sign in rest for sign in ("'", "\\", "`", "$("))
    if is_unclear or values + names + len(found) != word.text.count(HOLE):
        return Filling.ANYTHING, []
    if names:
        return Filling.NAME, found
    return (Filling.VALUE if values else Filling.NOTHING), found


def is_listed(part: SimpleCommand, command: ShellCommand) -> bool:
    """Return whether all that `xargs` adds to a part are names that a pipe lists."""
    others = [each.part for each in command.inner if each.part.words and each.part.source]
    readers = [each for each in others if name_of(each.words[0]) == "xargs"]
    # `xargs head` prints content, and `xargs -a x` takes it from a file.
    if len(readers) != 1 or readers[0].redirects or command.script.inputs:
        return False
    if any(word.text.startswith(("-a", "--ar")) for word in readers[0].words):
        return False
    feeding = [each for each in others if each is not readers[0] and each is not part]
    listing = [each for each in feeding if LISTING.fullmatch(each.source)]
    filters = [each for each in feeding if each.is_fed and FILTER.fullmatch(each.source)]
    return bool(listing) and len(listing) + len(filters) == len(feeding)


def lists_own_files(command: ShellCommand) -> bool:
    """Return whether all files that a command lists are in the working directories."""
    own = command.policy.directories
    if not all(place and is_inside(place, own) for place in command.places):
        return False
    sources = [_arguments_in(each.part) for each in command.inner if each.part.words]
    # `basename` prints no directory.
    listing = [
        each
        for each in sources
        if each.startswith("fd") or (LISTING.match(each) and not each.startswith("basename"))
    ]
    paths = [path for source in listing for path in ROOTED.findall(source)]
    is_near = not any(map(FOREIGN.search, listing))
    return is_near and all(is_inside(Path(path), own) for path in paths)


def _arguments_in(part: SimpleCommand) -> str:
    """Return a part as written, without a directory of its program, and without `find -exec`."""
    words = [name_of(part.words[0]), *(each.source or each.text for each in part.words[1:])]
    return " ".join(takewhile(lambda word: word not in ACTIONS, words))
