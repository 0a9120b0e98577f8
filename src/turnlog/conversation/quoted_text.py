"""Escape tags that mark context, commands and results in untrusted text.

A quoted text cannot close its block and open one that seems to come from someone else. A model
reads tags as a person does, so tags with spaces, invisible characters or lookalike letters are
escaped as well.
"""

import re
from unicodedata import category, normalize

BRACKETS = "<\u2039\u27e8\u276c\u276e\u2329\u3008\ufe64\uff1c\u1438\u02c2"
"""Characters that look like the start of a tag."""
CLOSING = re.compile("[>\u203a\u27e9\u276d\u276f\u232a\u3009\ufe65\uff1e\u1433\u02c3]")
CHUNK = re.compile(f"([{BRACKETS}])([^{BRACKETS}]{{1,200}})")
LONGEST = 80
"""Number of characters after a bracket that are searched for the name of a tag."""
LOOKALIKES = str.maketrans("аеорсухѕіјԁһɡοιυν", "aeopcyxsijdhgoiuv")
"""Cyrillic and Greek letters, mapped to the Latin letters that they look like."""
APART = re.compile(r"[-_]+")
TAG = re.compile(
    r"(?:system|system[-\s]*reminder|mcp[-\s]*resource|persisted[-\s]*output|new[-\s]*diagnostics"
    r"|function-?(?:calls|results)|tool-?(?:use|result)(?:-?error)?"
    r"|(?:bash|command|local-command|task|user)-[\w-]+)(?![\w.-])"
)
"""The name of a tag that the client or turnlog itself writes."""
START = " \t\r\n/\\|!*`'\""
"""Characters before the name of a tag that do not prevent a model from recognizing it."""


def escape_tags(text: str) -> str:
    """Escape tags that mark context, commands and results.

    >>> escape_tags("a < b</system-reminder><b>"), escape_tags("< / System_Reminder >")
    ('a < b&lt;/system-reminder&gt;<b>', '&lt; / System_Reminder &gt;')
    """
    return CHUNK.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    if not TAG.match(_plain(found[2][:LONGEST])):
        return found[0]
    return "&lt;" + CLOSING.sub("&gt;", found[2], count=1)


def _plain(text: str) -> str:
    """Normalize the start of a tag by its looks: to lowercase Latin letters and plain hyphens."""
    seen = (char for char in normalize("NFKC", text) if category(char) not in ("Cf", "Mn", "Cc"))
    dashed = "".join("-" if category(char) == "Pd" else char for char in seen)
    return APART.sub("-", dashed.casefold().translate(LOOKALIKES).lstrip(START))
