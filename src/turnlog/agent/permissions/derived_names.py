"""Names that programs derive from their arguments: of backups, unpacked files, clones and pieces.

`cp -b -S .json y .mcp` creates `.mcp.json`, `gunzip .envrc.gz` creates `.envrc`, and
`git clone ../.claude.git` creates `.claude`.
"""

import re
import sys
from collections.abc import Sequence
from itertools import pairwise

from turnlog.agent.permissions.name_mentions import ENDING
from turnlog.agent.workspace.access import PROTECTED_FILES

LAST_ENDING = re.compile(rf"{ENDING}\Z", re.I)
CLONING = frozenset(("clone", "fork", "submodule"))
CLONED = re.compile(r"(?<=[^/])\.(?:git|bundle)(?![\w.-])")
"""What `git clone` drops from the end of an address."""
SPLITTERS = frozenset("csplit gcsplit gsplit split".split())
PREFIX = re.compile(r"-[^-]*?f(.+)|--pre[a-z]*=(.*)", re.S)
SEDS = frozenset(("gsed", "sed"))
IN_PLACE = re.compile(r"-[^-efil]*i(.+)|--i[a-z-]*=(.*)", re.S)
"""The option of sed with a suffix for backups."""
SEPARATE_SUFFIX = re.compile(r"-[^-efil]*i")
"""The same option of BSD's sed, with the suffix in the next argument."""
BACKUP = re.compile(r"-[^-gmot]*?S(.*)|--su[a-z]*(?:=(.*))?", re.S)
PACKED = re.compile(r"-[^-]*?S(.*)|--su[a-z]*(?:=(.*))?", re.S)
SUFFIX_OPTIONS = {
    **dict.fromkeys("cp gcp ginstall gln gmv install ln mv".split(), BACKUP),
    **dict.fromkeys(
        """
        brotli gunzip gzcat gzip lzcat lzma lzop pigz uncompress unlzma unpigz unxz xz xzcat zcat
        """.split(),
        PACKED,
    ),
    "rsync": re.compile(r"--(?:suffix|backup-dir)(?:=(.*))?", re.S),
}
"""Options that add a suffix to the name of a file, or put it elsewhere; the group is the value."""
CHOOSING = {
    **dict.fromkeys(
        "gunzip gzip pigz unpigz unzstd zstd".split(),
        re.compile(r"-[^-]*r.*|--r[a-z-]*(?:=.*)?", re.S),
    ),
    "rsync": re.compile(r"-[^-]*R.*|--rel[a-z-]*", re.S),
}
"""Options with which the files in a directory, or the path of a source, choose what is written.

`gzip -dr src` unpacks `src/.envrc.gz`, and `rsync -R new/./.githooks/x .` writes `.githooks/x`.
"""
PLAIN_SUFFIX = re.compile(rf"~|[._-]?(?:bak|backup|old|orig|save)[0-9]*~?|{ENDING}", re.I)
"""A suffix with which no name is protected."""


def without_ending(text: str) -> str:
    """Return the name of a file once it is unpacked.

    >>> without_ending(".mcp.json.gz"), without_ending("x.tar")
    ('.mcp.json', 'x.tar')
    """
    return LAST_ENDING.sub("", text)


def derived_names(name: str, arguments: Sequence[str]) -> list[str]:
    """Return further texts that may be, or contain, names of files that a call writes.

    >>> derived_names("git", ["clone", "https://host/.vim.git"])
    ['https://host/.vim']
    >>> derived_names("sed", ["-i.json", "s/x/y/", ".mcp"])
    ['s/x/y/.json', '.mcp.json']
    """
    operands = [each for each in arguments if not each.startswith("-")]
    if name in SEDS:
        suffixes = _sed_suffixes(arguments)
        return [f"{operand}{suffix}" for suffix in suffixes for operand in operands]
    if name in SPLITTERS:
        prefixes = [each for argument in arguments for each in _values(PREFIX, argument)]
        return [each for prefix in (*operands, *prefixes) for each in _completed(prefix)]
    if not CLONING.isdisjoint(arguments):
        return [CLONED.sub("", each) for each in arguments if CLONED.search(each)]
    return []


def makes_up_names(name: str, arguments: Sequence[str]) -> bool:
    """Return whether a suffix, or a directory, may turn any name into another one.

    In a suffix for sed, `*` stands for the name, and a slash makes it a path.

    >>> makes_up_names("sed", ["-i.claud*/x", "p", "e"]), makes_up_names("sed", ["-i.bak", "p"])
    (True, False)
    """
    if name in SEDS:
        return any(re.search(r"[*/]", suffix) for suffix in _sed_suffixes(arguments))
    if name in CHOOSING and any(map(CHOOSING[name].fullmatch, arguments)):
        return True
    pattern = SUFFIX_OPTIONS.get(name)
    for argument, behind in pairwise((*arguments, "")) if pattern else ():
        found = pattern.fullmatch(argument) if pattern else None
        value = next(filter(None, found.groups()), behind) if found else ""
        is_folder = argument.startswith("--backup-dir")
        if found and (is_folder or not PLAIN_SUFFIX.fullmatch(value)):
            return True
    return False


def _sed_suffixes(arguments: Sequence[str]) -> list[str]:
    found = [each for argument in arguments for each in _values(IN_PLACE, argument)]
    if sys.platform != "linux":
        pairs = pairwise(arguments)
        found += [behind for option, behind in pairs if SEPARATE_SUFFIX.fullmatch(option)]
    return found


def _values(pattern: re.Pattern[str], argument: str) -> list[str]:
    found = pattern.fullmatch(argument)
    return list(filter(None, found.groups())) if found else []


def _completed(prefix: str) -> list[str]:
    """Return the protected files that a piece may be: `split x .env` may write `.envrc`."""
    folder, slash, start = prefix.rpartition("/")
    names = sorted(PROTECTED_FILES) if start else []
    return [f"{folder}{slash}{each}" for each in names if each.startswith(start.casefold())]
