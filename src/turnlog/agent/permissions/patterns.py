"""Replace glob patterns in a command with the file names that the verdict covers.

If bash expanded them again, it would find files that were created in the meantime, and sort names
by the locale: in `sed *`, the first name is the script that sed runs.
"""

import shlex
from collections.abc import Iterable

from turnlog.agent.permissions.bash import SimpleCommand, UnknownValue, Word, expand_glob
from turnlog.agent.permissions.removals import Places

LONGEST = 100_000
"""Maximum bytes of a command; every system accepts an argument of this length."""


def patterns_in(part: SimpleCommand) -> list[Word]:
    """Return the words that bash would expand to file names; in `[[ … ]]` it expands none."""
    return [] if part.is_test else [word for word in part.words if word.has_glob]


def names_for(word: Word, places: Places) -> tuple[str, ...]:
    """Return the file names to replace a pattern with.

    Raises `UnknownValue` if they depend on where the part runs, or if the word cannot be replaced.
    """
    if word.start < 0 or None in places:
        raise UnknownValue(word.source)
    found = {expand_glob(word, place).arguments for place in places if place}
    if len(found) != 1:
        raise UnknownValue(word.source)
    return found.pop()


def with_names(text: str, parts: Iterable[SimpleCommand], places: Places) -> str:
    """Return a command with the patterns of some parts replaced by names.

    Raises `UnknownValue` if the command becomes too long.
    """
    words = [word for part in parts for word in patterns_in(part)]
    for word in sorted(words, key=lambda word: word.start, reverse=True):
        names = " ".join(map(_quoted, names_for(word, places)))
        text = f"{text[: word.start]}{names}{text[word.start + len(word.source) :]}"
    if words and len(text.encode(errors="surrogateescape")) > LONGEST:
        raise UnknownValue("its patterns match too many files")
    return text


def _quoted(name: str) -> str:
    """Quote a name, even one of digits: `cat ?>out.txt` would make it a file descriptor."""
    return f"'{name}'" if name.isdecimal() else shlex.quote(name)
