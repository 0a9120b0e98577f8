"""Compute the hunks between two texts, in the form that sessions record for edits."""

import difflib
from collections.abc import Sequence
from typing import Any

CONTEXT = 3
COMPARED = 4_000
"""A larger change, in old and new lines together, becomes one hunk without a comparison."""
NO_END = "\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


def patch_of(old: str, new: str) -> list[dict[str, Any]]:
    """Return the hunks that turn one text into another.

    >>> patch_of("a\\nb\\n", "a\\nc\\n")[0]["lines"]
    [' a', '-b', '+c']
    """
    before, after = _lines(old), _lines(new)
    return [_hunk(before, after, group) for group in _groups(_opcodes(before, after))]


def _lines(text: str) -> list[str]:
    """Split into lines, keeping line endings; only a line feed ends a line."""
    *whole, rest = text.split("\n")
    return [line + "\n" for line in whole] + ([rest] if rest else [])


def _opcodes(before: Sequence[str], after: Sequence[str]) -> list[Opcode]:
    """Return the changes between two lists of lines, skipping their common start and end."""
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old and not new:
        return []
    # difflib takes quadratic time: 50,000 changed lines would take minutes.
    if len(old) + len(new) > COMPARED:
        return [("replace", start, start + len(old), start, start + len(new))]
    # `autojunk` would ignore lines that occur often in a long text, such as `}`.
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in codes]


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix of two lists."""
    return next(
        (count for count, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _groups(codes: list[Opcode]) -> list[list[Opcode]]:
    """Group changes whose context lines overlap."""
    groups: list[list[Opcode]] = []
    for code in codes:
        if code[0] == "equal":
            continue
        if groups and code[1] - groups[-1][-1][2] <= 2 * CONTEXT:
            groups[-1].append(code)
        else:
            groups.append([code])
    return groups


def _hunk(before: Sequence[str], after: Sequence[str], group: list[Opcode]) -> dict[str, Any]:
    old_start, new_start = max(0, group[0][1] - CONTEXT), group[0][3]
    new_start -= group[0][1] - old_start
    old_end = min(len(before), group[-1][2] + CONTEXT)
    new_end = group[-1][4] + old_end - group[-1][2]
    lines: list[str] = []
    place = old_start
    for _, old_from, old_to, new_from, new_to in group:
        lines += _marked(" ", before[place:old_from])
        lines += _marked("-", before[old_from:old_to]) + _marked("+", after[new_from:new_to])
        place = old_to
    lines += _marked(" ", before[place:old_end])
    return {
        "oldStart": old_start + 1 if old_end > old_start else old_start,
        "oldLines": old_end - old_start,
        "newStart": new_start + 1 if new_end > new_start else new_start,
        "newLines": new_end - new_start,
        "lines": lines,
    }


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    marked: list[str] = []
    for line in lines:
        marked.append(mark + line.removesuffix("\n"))
        if not line.endswith("\n"):
            marked.append(NO_END)
    return marked
