"""Make Markdown inert, so that nothing loads, runs or hides: escape HTML, turn images into links.

An export that is opened on a site or in an editor that renders HTML must not run what a tool
printed, or load an image that tells its host who reads the session. Code is left unchanged.
"""

import re
from collections.abc import Iterator

TAG = re.compile(r"(\\*)<(?=[A-Za-z/!?])")
LINK = re.compile(r"(?:https?://|mailto:)[^\s<>]*>", re.IGNORECASE)
"""The rest of an autolink such as `<https://example.org>`, which is not a tag."""
IMAGE = re.compile(r"(\\*)(!*)!\[")
FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})")
NESTED_FENCE = re.compile(r"^[ \t>*+\-0-9.)]+(?:`{3}|~{3})", re.MULTILINE)
"""A fence inside a list item or a quote."""
PIPED_FENCE = re.compile(r"^(?:`{3}|~{3}).*\|", re.MULTILINE)
"""A fence that some renderers mistake for the head of a table."""
SPAN = re.compile(r"\\.|(?P<run>`+)(?!`)(?:(?P<code>.*?[^`])(?P=run)(?!`))?")


def inert(text: str) -> str:
    """Return Markdown with its HTML escaped and its images turned into links.

    >>> inert("a <b>, `<b>`, ![c](https://example.org/c.png), <https://example.org>")
    'a \\\\<b>, `<b>`, [image: c](https://example.org/c.png), <https://example.org>'
    """
    if "<" not in text and "![" not in text:
        return text
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    # If a fence is inside a list item, its end may look like a start, and code like text. Then
    # nothing counts as code: an extra backslash in code is harmless, but a tag in text may not be.
    is_code_known = not (NESTED_FENCE.search(text) or PIPED_FENCE.search(text))
    fence, is_open = "", False
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence:
            yield line
            is_end = mark and mark[1].startswith(fence) and not line.strip(fence[0] + " \t")
            fence = "" if is_end else fence
        elif mark and is_code_known:
            fence, is_open = mark[1], False
            yield line
        else:
            # A code span opened on an earlier line may end here, which would swap code and text.
            is_open = is_open and line.strip() != ""
            yield _line(line, is_code_known and not is_open)
            is_open |= _is_unbalanced(line)


def _line(line: str, has_spans: bool) -> str:
    """Escape a line except its code spans; in a table, whose cells end spans, escape everything."""
    if not has_spans or "|" in line:
        return _escaped(line)
    parts: list[str] = []
    end = 0
    for span in SPAN.finditer(line):
        if span["code"]:
            parts += _escaped(line[end : span.start()]), span[0]
            end = span.end()
    return "".join([*parts, _escaped(line[end:])])


def _is_unbalanced(line: str) -> bool:
    return any(span["run"] and not span["code"] for span in SPAN.finditer(line))


def _escaped(text: str) -> str:
    def escape(tag: re.Match[str]) -> str:
        # An odd number of backslashes already escapes what follows; one more would undo that.
        is_escaped = len(tag[1]) % 2 == 1
        return tag[0] if is_escaped or LINK.match(text, tag.end()) else f"{tag[1]}\\<"

    def link(image: re.Match[str]) -> str:
        slashes, marks = image.groups()
        if len(slashes) % 2 and not marks:
            return image[0]
        # `!![a](b)` must not become `![image: a](b)`.
        return f"{slashes}{marks}{' ' if marks else ''}[image: "

    return IMAGE.sub(link, TAG.sub(escape, text))
