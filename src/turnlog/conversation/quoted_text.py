"""Escape tags in texts of others that mark context, commands and results.

No text can end the block that it is quoted in and begin one that looks like somebody else's. A
model reads a tag as a person does, so spaces, invisible characters and lookalikes do not help.
"""

import re
from unicodedata import category, normalize

BRACKETS = "<\u2039\u27e8\u276c\u276e\u2329\u3008\ufe64\uff1c\u1438\u02c2"
"""Characters that look like the start of a tag."""
CLOSING = re.compile("[>\u203a\u27e9\u276d\u276f\u232a\u3009\ufe65\uff1e\u1433\u02c3]")
CHUNK = re.compile(f"([{BRACKETS}])([^{BRACKETS}]{{1,200}})")
LONGEST = 80
"""Characters behind a bracket in which the name of a tag is looked for."""
LOOKALIKES = str.maketrans("аеорсухѕіјԁһɡοιυν", "aeopcyxsijdhgoiuv")
"""Cyrillic and Greek letters, and the Latin ones that they look like."""
APART = re.compile(r"[-_]+")
TAG = re.compile(
    r"(?:system|system[-\s]*reminder|mcp[-\s]*resource|persisted[-\s]*output|new[-\s]*diagnostics"
    r"|function-?(?:calls|results)|tool-?(?:use|result)(?:-?error)?"
    r"|(?:bash|command|local-command|task|user)-[\w-]+)(?![\w.-])"
)
"""The name of a tag that the client or turnlog itself writes."""
START = " \t\r\n/\\|!*`'\""
"""Characters in front of a name that do not keep a model from reading it as one."""


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
    """Return the start of a tag as it looks: in small Latin letters, with one kind of hyphen."""
    seen = (char for char in normalize("NFKC", text) if category(char) not in ("Cf", "Mn", "Cc"))
    dashed = "".join("-" if category(char) == "Pd" else char for char in seen)
    return APART.sub("-", dashed.casefold().translate(LOOKALIKES).lstrip(START))
