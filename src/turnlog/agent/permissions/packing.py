"""Detect files that a program packs although no argument names them directly."""

import re
from collections.abc import Sequence

OLD_STYLE = frozenset("bsdtar gtar star tar".split())
LIST_LETTER = re.compile(r"[a-zA-Z]*T[a-zA-Z]*")
"""Options without a dash that contain `T`, which reads names from a list: `tar cfT x.tar list`."""
PATTERNED = frozenset("7z 7za 7zr 7zz 7zzs rar zip".split())
"""Programs that expand patterns by themselves: `zip x.zip '.e?v'`."""
PATTERN = re.compile(r"[*?\[]")
CHOOSING = re.compile(r"-[ix].*|--(?:exc|inc).*", re.S)
"""Options whose patterns only exclude files, or select among those that are named."""
VALUE = re.compile(r"--(?!ex)[a-z-]+=(.+)", re.S)
"""A long option with a value, except those that exclude files."""


def packs_more(name: str, arguments: Sequence[str]) -> bool:
    """Return whether a program takes names from a list, or expands patterns by itself.

    >>> packs_more("zip", ["x.zip", ".e?v"]), packs_more("zip", ["x.zip", "src", "-x", "*.pyc"])
    (True, False)
    """
    if name in OLD_STYLE:
        return bool(arguments) and LIST_LETTER.fullmatch(arguments[0]) is not None
    is_choice = False
    for argument in arguments if name in PATTERNED else ():
        if argument.startswith("-") or argument == "@":
            is_choice = CHOOSING.fullmatch(argument) is not None
            # `7z a x.7z -ir!.e*` includes files that nothing else names.
            if argument.startswith("-i") and "!" in argument:
                return True
        elif not is_choice and PATTERN.search(argument):
            return True
    return False


def named_by_options(arguments: Sequence[str]) -> list[str]:
    """Return the values of long options, possibly paths: `..` in `tar cf x.tar --direc=.. shop`.

    >>> named_by_options(["cf", "x.tar", "--add-file=.", "--exclude=docs"])
    ['.']
    """
    found = map(VALUE.fullmatch, arguments)
    return [each[1] for each in found if each]
