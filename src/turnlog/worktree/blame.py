"""Tell which line of a session wrote each line of a file."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from turnlog.worktree.text_style import decode_file
from turnlog.worktree.worktree import FileRevision

LARGEST = 20_000
"""Maximum number of changed lines that are compared line by line."""


class BlamedLine(NamedTuple):
    """A line of a file and the version that first has it."""

    text: str
    version: FileRevision | None
    """None for lines that were there before the first change."""


def blame_lines(versions: Sequence[FileRevision], base: FileRevision | None) -> list[BlamedLine]:
    """Return the lines of the last version, each with the version that wrote it.

    `base` is the content before the first version. After a gap, the history of a line is lost: the
    version that first shows the line again is blamed.
    """
    lines = [BlamedLine(text, None) for text in _lines(base)] if base else []
    for version in versions:
        new = _lines(version)
        if version.content is None and not version.is_absent:
            lines = []
        elif version.is_change or lines or base is None:
            lines = _merge(lines, new, version)
        else:
            lines = [BlamedLine(text, None) for text in new]
    return lines


def _merge(old: list[BlamedLine], new: list[str], version: FileRevision) -> list[BlamedLine]:
    before = [line.text for line in old]
    # Most edits change a few lines of a long file: compare only what lies between the equal ends.
    head = _common(before, new)
    tail = _common(before[head:][::-1], new[head:][::-1])
    middle_old, middle_new = before[head : len(before) - tail], new[head : len(new) - tail]
    merged = old[:head]
    if max(len(middle_old), len(middle_new)) > LARGEST:
        merged += [BlamedLine(text, version) for text in middle_new]
    else:
        matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        for kind, first, last, start, end in matcher.get_opcodes():
            if kind == "equal":
                merged += old[head + first : head + last]
            else:
                merged += [BlamedLine(text, version) for text in middle_new[start:end]]
    return merged + (old[len(old) - tail :] if tail else [])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _lines(version: FileRevision) -> list[str]:
    raw = version.content
    if not raw:
        return []
    styled = decode_file(raw)
    text = styled.text if styled else raw.decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n")
