"""What a memory file says to the model: its text without comments, and the files it imports."""

import re
from collections.abc import Iterator

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
COMMENT = re.compile(r" {0,3}<!--")
COMMENT_END = "-->"
CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
IMPORT = re.compile(r"(?<!\S)@((?:\\ |[^\s\\])+)")
PUNCTUATION = ".,;:!?)]}'\""


def without_comments(text: str) -> str:
    """A text without the comments that stand on lines of their own; code is left as it is.

    >>> without_comments("a\\n<!-- for us -->\\nb\\n")
    'a\\nb\\n'
    """
    return "".join(line for _, line in _lines(text))


def imports_of(text: str) -> list[str]:
    """The paths that a text imports, as they are written; none in code or in comments.

    >>> imports_of("See @README and `@not-this`, mail ada@example.com.")
    ['README']
    """
    prose = "".join(line for is_code, line in _lines(text) if not is_code)
    found = IMPORT.findall(CODE_SPAN.sub(" ", prose))
    return [path.replace("\\ ", " ") for path in found]


def _lines(text: str) -> Iterator[tuple[bool, str]]:
    """The lines that are not in comments, and whether each is code."""
    fence = ""
    in_comment = False
    for line in text.splitlines(keepends=True):
        if fence:
            yield True, line
            fence = "" if _closes(line, fence) else fence
        elif in_comment or COMMENT.match(line):
            _, end, rest = line.partition(COMMENT_END)
            in_comment = not end
            if rest.strip():
                yield False, rest
        elif opening := FENCE.match(line):
            fence = opening[1]
            yield True, line
        else:
            yield False, line


def _closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and not line.strip().strip(fence[0])
