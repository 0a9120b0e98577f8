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
PACKED_TAR = re.compile(r"\.t(?:[abglx]z|b2|bz2|lz4|zst)\Z", re.I)
"""An ending that programs replace by `.tar`: `gunzip x.tgz`."""
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
PACKERS = frozenset(
    """
    brotli gunzip gzcat gzip lzcat lzma lzop pigz uncompress unlzma unpigz unxz xz xzcat zcat
    """.split()
)
PLACERS = frozenset("cp gcp ginstall gln gmv install ln mv".split())
"""Programs that put files in a directory, under the names that they have elsewhere."""
SUFFIX_OPTIONS = {
    **dict.fromkeys(PLACERS, BACKUP),
    **dict.fromkeys(PACKERS, PACKED),
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
PACKED_SUFFIX = re.compile(ENDING, re.I)
"""A suffix that `without_ending` drops; programs that unpack drop any other one, too.

`gunzip -S .bak .envrc.bak` creates `.envrc`.
"""
TARGET = re.compile(r"-[^-Sgmot]*t(.*)|--t[a-z-]*(?:=(.*))?", re.S)
"""The option of cp, ln and the like that names the target, which is the last operand otherwise."""
LINKERS = frozenset(("gln", "ln"))
PARENTS = re.compile(r"--pa[a-z]*")
"""The option with which cp creates the whole path of a source in the target."""


def without_ending(text: str) -> str:
    """Return the name of a file once it is unpacked.

    >>> [without_ending(each) for each in (".mcp.json.gz", "x.tar", "x.tgz")]
    ['.mcp.json', 'x.tar', 'x.tar']
    """
    return LAST_ENDING.sub("", PACKED_TAR.sub(".tar", text))


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
    if name in PLACERS or name in ("rsync", "scp"):
        return _placed(name, arguments)
    if name == "git" and list(arguments[:1]) == ["mv"]:
        return _placed("mv", arguments[1:])
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
        plain = PACKED_SUFFIX if name in PACKERS else PLAIN_SUFFIX
        if found and (is_folder or not plain.fullmatch(value)):
            return True
    return False


def sources_and_target(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the operands of a program that copies, moves or links files, the target last.

    >>> sources_and_target("cp", ["-rt", "x", "a"]), sources_and_target("ln", ["-s", "new/a"])
    (['a', 'x'], ['new/a', '.'])
    """
    operands: list[str] = []
    targets: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        found = TARGET.fullmatch(argument) if name in PLACERS else None
        if found:
            targets.append(found[1] or found[2] or next(waiting, ""))
        elif not argument.startswith("-"):
            operands.append(argument)
    # `ln x/y` creates `y` in the current directory.
    is_alone = name in LINKERS and len(operands) == 1 and not targets
    return [*operands, *targets[-1:], *["."] * is_alone]


def keeps_parents(name: str, arguments: Sequence[str]) -> bool:
    """Return whether a program creates the whole path of a source in the target."""
    return name in ("cp", "gcp") and any(map(PARENTS.fullmatch, arguments))


def _placed(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the paths that sources get in a target that may be a directory: `./a` for `x/a`."""
    *sources, target = sources_and_target(name, arguments) or [""]
    ends = [each.rstrip("/").rpartition("/")[2] for each in sources]
    ends += sources if keeps_parents(name, arguments) else []
    return [f"{target}/{each}" for each in ends if each.strip("./")] if target else []


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
