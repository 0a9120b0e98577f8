"""The arguments that a word expands to in a given directory, under bash's own rules.

Only `*`, `?` and a leading `~/` are expanded. A `[` opens a set whose syntax differs between
shells and locales (`[^x]`, `[[:alpha:]]`, `['!'e]`), so a word that has one is unknown.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash.budget import NAMES, Unknown
from turnlog.agent.permissions.bash.syntax import HOLE, Word

MOST_MATCHES = 1_000
"""Files that a pattern may match."""
PATTERN_TOKEN = re.compile(r"\\(.)|([*?\[])|(.)", re.S)


def expand(word: Word, place: Path) -> tuple[str, ...]:
    """Return the arguments that a word stands for; raise `Unknown` if they are not certain.

    A pattern without a match stands for itself, as in bash.
    """
    if HOLE in word.text:
        raise Unknown(word.source)
    prefix, text, glob = "", word.text, word.glob
    if word.has_tilde:
        prefix, text = _home(), text[1:]
        glob = glob[1:] if glob else None
    if glob is None:
        return (prefix + text,)
    found = _matches(glob, Path(prefix) if prefix else place, is_below=bool(prefix))
    # Bash hands a file named `-R` to the program, which takes it for an option.
    if any(name.startswith("-") for name in found):
        raise Unknown(word.source)
    return tuple(sorted(found)) or (prefix + text,)


def _home() -> str:
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise Unknown("~")
    return home.rstrip("/")


def _matches(glob: str, start: Path, *, is_below: bool) -> list[str]:
    """Match a pattern one path component at a time."""
    parts = re.split(r"(/+)", glob)
    found = [str(start) if is_below else ""]
    for rank in range(0, len(parts), 2):
        part, slash = parts[rank], "".join(parts[rank + 1 : rank + 2])
        found = [
            f"{each}{slash}"
            for before in found
            for each in _step(before, part, start)
            if not slash or (start / each).is_dir() or not each
        ]
        if len(found) > MOST_MATCHES:
            raise Unknown(glob)
    return [each for each in found if os.path.lexists(start / each)]


def _step(before: str, part: str, start: Path) -> Iterable[str]:
    """The paths that one component of a pattern matches below a path."""
    if not any(sign for _, sign, _ in PATTERN_TOKEN.findall(part)):
        return [before + re.sub(r"\\(.)", r"\1", part)]
    patterns = _compiled(part)
    names = list(_names(start / before))
    NAMES.spend(len(names))
    # Older versions of bash match `.` and `..` with `.*`.
    dots = [".", ".."] if part.startswith(".") else []
    return [before + name for name in (*dots, *names) if _fits(name, part, patterns)]


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name
    except OSError:
        return


def _compiled(part: str) -> tuple[re.Pattern[str], re.Pattern[bytes]]:
    whole = f"(?s:{PATTERN_TOKEN.sub(_translated, part)})"
    return re.compile(whole), re.compile(os.fsencode(whole))


def _translated(found: re.Match[str]) -> str:
    escaped, sign, plain = found.groups()
    if sign == "[":
        raise Unknown("[")
    return {"*": ".*", "?": "."}[sign] if sign else re.escape(escaped or plain)


def _fits(name: str, part: str, patterns: tuple[re.Pattern[str], re.Pattern[bytes]]) -> bool:
    """Compare characters and bytes: in the C locale `?` matches one byte of a letter."""
    if name.startswith(".") and not part.startswith((".", "\\.")):
        return False
    by_text, by_byte = patterns
    return bool(by_text.fullmatch(name) or by_byte.fullmatch(os.fsencode(name)))
