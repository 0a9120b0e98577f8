"""Detect files that a program reads or packs although no argument names them directly."""

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
ANY_LIST = re.compile(
    r"--?(?:[\w-]+-)?files?(?:0|-?list|0?-from)[\w-]*(?:=.*)?|--pathspec-f.*|--names?-s.*|--stdin-[np].*",
    re.S,
)
"""An option that takes file names from a list, in any program: `--files0-from`, `--filelist`."""
MAGICK = re.compile(r"(?:.*:)?@.*", re.S)
MEDIA = re.compile(r".*(?:concat|\.m3u8?|\.mpd).*", re.S | re.I)
ISO = re.compile(r"-path-list.*")
LISTS = {
    **dict.fromkeys(("gtar", "star", "tar"), re.compile(r"--files.*", re.S)),
    "bsdtar": re.compile(r"-[^-]*I.*|--files.*", re.S),
    # Without names, `zip -f`, `-u` and `-FS` take those that are in the archive; with `-R`, a name
    # means all files that are called so.
    "zip": re.compile(r"-(?:ic|[^-ix])*(?:[fuR@]|FS).*|--(?:fil|fr|na|recurse-patt|up).*", re.S),
    # 7z and rar look for each name in all directories, too.
    **dict.fromkeys("7z 7za 7zr 7zz 7zzs rar".split(), re.compile(r"-r0?", re.I)),
    **dict.fromkeys("lzcat lzma unlzma unxz xz xzcat".split(), re.compile(r"--fil.*", re.S)),
    **dict.fromkeys(("gpg", "gpg2"), re.compile(r"--mul.*|--[a-z]+-files")),
    "gsutil": re.compile(r"-[a-zA-Z]*I.*"),
    "exiftool": re.compile(r"-@.*", re.S),
    **dict.fromkeys("genisoimage mkisofs xorrisofs".split(), ISO),
    **dict.fromkeys("compare composite convert identify magick mogrify montage".split(), MAGICK),
    **dict.fromkeys("ffmpeg ffplay ffprobe".split(), MEDIA),
}
"""Arguments of single programs that do the same, also abbreviated."""
ADDING = re.compile(r"[afmu]", re.I)
"""Commands of 7z and rar that pack everything in the current directory unless files are named."""
VALUE = re.compile(r"--(?!ex)[a-z-]+=(.+)", re.S)
"""A long option with a value, except those that exclude files."""
JOINED = re.compile(r"-[A-Za-z]*?[CD](.+)", re.S)
"""The option for another directory, with its value: `..` in `tar -czC.. -f x.tgz shop`."""


def packs_more(name: str, arguments: Sequence[str]) -> bool:
    """Return whether a program takes names from a list, or expands patterns by itself.

    >>> packs_more("zip", ["x.zip", ".e?v"]), packs_more("zip", ["x.zip", "src", "-x", "*.pyc"])
    (True, False)
    >>> packs_more("tar", ["cf", "x.tar", "--files=list"]), packs_more("7z", ["a", "x.7z"])
    (True, True)
    """
    lists = [ANY_LIST, *filter(None, [LISTS.get(name)])]
    if any(pattern.fullmatch(each) for pattern in lists for each in arguments):
        return True
    if name in OLD_STYLE:
        return bool(arguments) and LIST_LETTER.fullmatch(arguments[0]) is not None
    if name in PATTERNED and name != "zip" and _packs_everything(arguments):
        return True
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


def _packs_everything(arguments: Sequence[str]) -> bool:
    """Return whether 7z or rar would pack the current directory: `7z a x.7z`."""
    operands = [each for each in arguments if not each.startswith("-")]
    return bool(operands) and ADDING.fullmatch(operands[0]) is not None and len(operands) < 3


def named_by_options(arguments: Sequence[str]) -> list[str]:
    """Return the values of options, possibly paths: `..` in `tar cf x.tar --direc=.. shop`.

    >>> named_by_options(["cf", "x.tar", "--add-file=.", "--exclude=docs", "-vC.."])
    ['.', '..']
    """
    found = [VALUE.fullmatch(each) or JOINED.fullmatch(each) for each in arguments]
    return [each[1] for each in found if each]
