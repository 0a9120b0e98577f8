"""Find the names of denied and protected files anywhere in a text.

An unknown program may extract a file name from any text: curl from `f=@.env;type=x`, sed from
`1r.env`, an interpreter from `open(".env")`.
"""

import re
import sys
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
END = rf"(?={ENDING}*(?:[^\w.-]|[._-](?!\w)|\Z))"
FILES = PROTECTED_FILES - AMBIGUOUS_NAMES
PROTECTED = re.compile(
    START
    + rf"(?:{'|'.join(map(re.escape, sorted(PROTECTED_FOLDERS | FILES | PROTECTED_PATHS)))})"
    + END
    + r"(?<!\.claude(?=/worktrees))"
)
GLOB = re.compile(r"[*?\[\]!\\]+")
ESCAPE = re.compile(
    r"\\(?:0?(?P<octal>[0-7]{1,3})|x(?P<byte>[0-9A-Fa-f]{1,2})|[ux]\{(?P<code>[0-9A-Fa-f]{1,8})\}"
    r"|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})|(?P<sign>.))",
    re.S,
)
"""An escaped character: `\\056` and `\\x2e` for a dot in most languages, `a\\ b` in vim."""
DELIMITER = re.compile(r"(?:\bq[qrwx]?(?:\s+(?=\w)|(?=[.-]))|%[qw]?(?=[._-]))([\w.-])")
"""A sign that perl or ruby takes for a quotation mark: `q x.envx` and `%_.env_` are `'.env'`."""
SHORTEST = 2


def mentions_rule(rule: Rule, texts: Iterable[str], *, anywhere: bool = False) -> bool:
    """Return whether a text names a file of a rule; with `anywhere`, even after letters."""
    pattern = _pattern_for(rule.about or "", anywhere=anywhere)
    return pattern is not None and any(pattern.search(each) for each in forms_of(texts))


def mentions_protected(texts: Iterable[str], *, anywhere: bool = False) -> bool:
    """Return whether a text names a protected file."""
    if anywhere:
        return any(name in each for each in forms_of(texts) for name in _PROTECTED_NAMES)
    return any(PROTECTED.search(each) for each in forms_of(texts))


_PROTECTED_NAMES = FILES | {f"{name}/" for name in PROTECTED_FOLDERS | PROTECTED_PATHS}


def forms_of(texts: Iterable[str]) -> Iterable[str]:
    """Yield each text as it is, and as a program may decode it, with its case folded.

    >>> list(forms_of([r"open('\\x2eENV')"]))[1], list(forms_of(["open F, q x.envx"]))[1]
    ("open('.env')", "open f, q '.env'")
    """
    for text in texts:
        plain = folded(text)
        yield plain
        if "%" in plain:
            yield unquote(plain)
        if "\\" in text:
            yield folded(ESCAPE.sub(_unescaped, text))
        for letter in dict.fromkeys(DELIMITER.findall(plain)):
            yield plain.replace(letter, "'")


def _unescaped(found: re.Match[str]) -> str:
    kind = found.lastgroup or ""
    if kind == "sign":
        return found[kind]
    number = int(found[kind], 8 if kind == "octal" else 16)
    return chr(number) if number <= sys.maxunicode else ""


def folded(text: str) -> str:
    """Return a text in the form in which names are compared."""
    return normalize("NFC", text).casefold()


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
    last = folded(parts[-1])
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
