"""Escape sequences and invisible characters, which may split a secret without protecting it.

`ghp_\\x1b[0mabc…` is complete once copied from a terminal. They also occur escaped: `\\u001b[0m` in
JSON, `\\033[0m` in a script.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

UNSEEN = (
    "\x00-\x08\x0e-\x1a\x7f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffc\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control characters, the category Cf, and what Unicode names Default_Ignorable or shows blank."""
CONTROLS = "\x80-\x84\x86-\x9f"
"""C1 control characters, some of which introduce sequences; U+0085 is a line break."""

# Sequences as in ECMA-48. A string ends before the next introducer, so that many unfinished ones
# take linear time.
CSI = "[0-?]*[ -/]*[@-~]"
STRING = "[^\x07\x1b\x90\x98\x9b-\x9f]*(?:\x07|\x1b\\\\|\x9c)"
SEQUENCE = rf"(?:\[{CSI}|[\]PX^_]{STRING}|[ -/]*[0-~])"
"""What follows an escape character."""
SPELLED = (
    r"\\*(?:(?:u001[bB]|x1[bB]|033|e)"
    "(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]{0,200}(?:\x07|\x1b\\\\)|\\([0-2AB])"
    r"|u(?:00[aA][dD]|034[fF]|200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF]{2}))"
)
SPELLED_START = r"\\(?:u(?:001|00[aA]|034|20[026]|[fF][eE])|x1|033|e[\[\](])"
"""The start of a spelled-out escape. It begins with a literal, which `re` finds quickly."""

# Both begin with a character class, so that `re` can skip quickly to the next candidate.
FIRST = f"\x1b{CONTROLS}{UNSEEN}"
REST = f"(?<=[{UNSEEN}])|(?<=\x1b){SEQUENCE}|(?<=\x9b){CSI}|(?<=[\x90\x98\x9d-\x9f]){STRING}"
LONE = f"(?<=[{CONTROLS}])"
INVISIBLE = f"[{FIRST}](?:{REST}|{LONE})"
INVISIBLE_OR_SPELLED = f"[\\\\{FIRST}](?:{REST}|{LONE}|(?<=\\\\){SPELLED})"
FIRST_LETTER = f"[{FIRST}]"
VISIBLE = bytes([*range(9, 14), *range(28, 127)])
"""ASCII characters that are visible or space."""
AROUND = 512
"""Characters to search for a split secret on each side of an invisible character."""


def visible(value: str) -> str:
    """Return a secret without the sequences and invisible characters inside it."""
    if value.isprintable() and value.isascii() and "\\" not in value:
        return value
    return re.sub(INVISIBLE_OR_SPELLED, "", value)


def pattern_for(text: str) -> str:
    """Return the regex for what is invisible in a text, or "" if nothing is."""
    if "\\" in text and re.search(SPELLED_START, text):
        return INVISIBLE_OR_SPELLED
    # Most texts have nothing invisible. Deleting what is visible in ASCII leaves few characters, so
    # that this takes a tenth of the time of searching the text itself.
    rest = text.encode("utf-8", "surrogatepass").translate(None, VISIBLE)
    found = rest and re.search(FIRST_LETTER, rest.decode("utf-8", "surrogatepass"))
    return INVISIBLE if found else ""


def windows(text: str, pattern: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a text near the matches of a pattern; secrets elsewhere are not split."""
    start = end = 0
    for match in re.finditer(pattern, text):
        if match.start() - AROUND > end:
            if end:
                yield start, end
            start = match.start() - AROUND
        end = match.end() + AROUND
    if end:
        yield start, end


def without(text: str, pattern: str) -> tuple[str, Callable[[int], int]]:
    """Return a text without the matches of a pattern, and a function that maps positions back."""
    pieces: list[str] = []
    starts: list[int] = []
    origins: list[int] = []
    length = end = 0
    for match in [*re.finditer(pattern, text), None]:
        begin = match.start() if match else len(text)
        starts.append(length)
        origins.append(end)
        pieces.append(text[end:begin])
        length += begin - end
        end = match.end() if match else end

    def original(position: int) -> int:
        at = bisect_right(starts, position) - 1
        return origins[at] + position - starts[at]

    return "".join(pieces), original
