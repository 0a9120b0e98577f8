"""Calls of sed that do no more than show, delete or replace lines."""

import re

from msgspec import Struct

from turnlog.agent.permissions.words import Word

ADDRESS = r"(?:\d+|\$|/[^/\\\n]*/)"
LINES = re.compile(rf"(?:{ADDRESS}(?:,{ADDRESS})?)?[pdq=]")
REPLACES = re.compile(
    rf"(?:{ADDRESS}(?:,{ADDRESS})?)?s(?P<sign>[/|#,:@])(?:\\.|(?!(?P=sign))[^\\\n])*(?P=sign)"
    r"(?:\\[^\n]|(?!(?P=sign))[^\\\n])*(?P=sign)[gpiI\d]*"
)
"""Flags that write to a file or run a command are left out."""


class Sed(Struct, frozen=True):
    """A call of sed."""

    paths: tuple[Word, ...]
    in_place: bool


def read_sed(arguments: tuple[Word, ...]) -> Sed | None:
    """A call whose scripts are harmless; None for any other."""
    scripts: list[str] = []
    paths: list[Word] = []
    in_place, rank = False, 0
    while rank < len(arguments):
        word = arguments[rank]
        rank += 1
        if not word.is_known:
            return None
        if word.text in ("-e", "--expression") and rank < len(arguments):
            scripts.append(arguments[rank].text)
            rank += 1
        elif word.text in ("-i", "--in-place"):
            in_place = True
        elif re.fullmatch(r"-[nErsuz]+", word.text):
            continue
        elif word.is_option:
            return None
        else:
            paths.append(word)
    if not scripts and paths:
        scripts.append(paths.pop(0).text)
    harmless = scripts and all(map(_is_harmless, scripts))
    return Sed(tuple(paths), in_place) if harmless else None


def _is_harmless(script: str) -> bool:
    """
    >>> _is_harmless("s/a/b/g"), _is_harmless("1,5p"), _is_harmless("s/a/rm/e"), _is_harmless("w x")
    (True, True, False, False)
    """
    return bool(LINES.fullmatch(script) or REPLACES.fullmatch(script))
