"""Find the names of denied and protected files anywhere in a text.

An unknown program may extract a file name from any text: curl from `f=@.env;type=x`, sed from
`1r.env`, an interpreter from `open(".env")`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from unicodedata import normalize
from urllib.parse import unquote

from turnlog.agent.permissions.rules import Rule
from turnlog.agent.workspace.access import (
    AMBIGUOUS_NAMES,
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
)

# At most one letter may precede a name, because sed reads `1r.env` as the command `r`. With two,
# it is another name: `repo.git`, `process.env`.
START = r"(?<![^\W\d_][^\W\d_])"
ENDING = r"(?:\.(?:asc|br|bz2?|cpt|gpg|gz|lz|lz4|lzma|lzo|pgp|xz|zst?|z)|[-_]z|-gz)"
"""An ending that programs drop when they unpack or decrypt a file: `gunzip .envrc.gz`."""
END = rf"(?={ENDING}*(?:[^\w.-]|\.(?!\w)|\Z))"
FILES = PROTECTED_FILES - AMBIGUOUS_NAMES
PROTECTED = re.compile(
    START
    + rf"(?:{'|'.join(map(re.escape, sorted(PROTECTED_FOLDERS | FILES | PROTECTED_PATHS)))})"
    + END
    + r"(?<!\.claude(?=/worktrees))"
)
GLOB = re.compile(r"[*?\[\]!\\]+")
SHORTEST = 2


def mentions_rule(rule: Rule, texts: Iterable[str], *, anywhere: bool = False) -> bool:
    """Return whether a text names a file of a rule; with `anywhere`, even after letters."""
    pattern = _pattern_for(rule.about or "", anywhere=anywhere)
    return pattern is not None and any(pattern.search(each) for each in _forms(texts))


def mentions_protected(texts: Iterable[str], *, anywhere: bool = False) -> bool:
    """Return whether a text names a protected file."""
    if anywhere:
        return any(name in each for each in _forms(texts) for name in _PROTECTED_NAMES)
    return any(PROTECTED.search(each) for each in _forms(texts))


_PROTECTED_NAMES = FILES | {f"{name}/" for name in PROTECTED_FOLDERS | PROTECTED_PATHS}


def _forms(texts: Iterable[str]) -> Iterable[str]:
    """Yield each text with its case folded, and also percent-decoded, as in a URL."""
    for text in texts:
        folded = normalize("NFC", text).casefold()
        yield folded
        if "%" in folded:
            yield unquote(folded)


@lru_cache(maxsize=512)
def _pattern_for(about: str, *, anywhere: bool) -> re.Pattern[str] | None:
    """Return a regex for the last name in a rule's pattern; None if it has none.

    For `secret*` and `*.pem`, it matches a part of a name; for `.env`, `./.env` and `secrets/**`, a
    whole name.
    """
    parts = about.split("/")
    while parts and not _longest(parts[-1]):
        parts.pop()
    if not parts:
        return None
    last = normalize("NFC", parts[-1]).casefold()
    name = _longest(last)
    # `Read(//etc/**)` is about `/etc`, not about each text with these three letters.
    is_top = len(list(filter(None, parts))) == 1 and about.startswith("//")
    start = "" if anywhere or not last.startswith(name) else START
    end = END if last.endswith(name) else ""
    return re.compile(f"{'/' if is_top else start}{re.escape(name)}{end}")


def _longest(part: str) -> str:
    """Return the longest piece of a pattern that is the same in every name it matches."""
    if part in (".", "..", "~"):
        return ""
    longest = max(GLOB.split(part), key=len)
    return longest if len(longest) >= SHORTEST or longest == part else ""
