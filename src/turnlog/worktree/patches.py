"""Apply recorded edits and patches to texts, exactly or not at all."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from turnlog.format.fields import given
from turnlog.format.file_views import Hunk, hunk_lines

NO_NEWLINE = "\\"
SIGNS = (" ", "-", "+")
CONTEXT = 3
"""Unchanged lines around a change; fewer only at the start or the end of the text."""
LEADING_TABS = re.compile(r"^\t+", re.MULTILINE)


class Replacement(NamedTuple):
    """One replacement of an Edit or MultiEdit."""

    old: str
    new: str
    is_everywhere: bool = False


class Edited(NamedTuple):
    """A text after an edit."""

    text: str
    is_proven: bool
    """True if the recorded patch confirms it."""


def edited_text(
    text: str, replacements: Sequence[Replacement], patch: Sequence[Hunk]
) -> Edited | None:
    """Return a text after an edit; None if the edit does not fit the text.

    The recorded patch decides: a client may replace more than `old_string`, such as the newline
    after a deleted line, or keep the curly quotes of the text (observed: 2.1.325).
    """
    # Old clients recorded no patch: the replacement is plausible, but nothing confirms it.
    if not patch:
        literal = _replace_all(text, replacements, eats_newline=False)
        return Edited(literal, is_proven=False) if literal is not None else None
    for eats_newline in (False, True):
        candidate = _replace_all(text, replacements, eats_newline)
        if candidate is not None and confirms(patch, text, candidate):
            return Edited(candidate, is_proven=True)
    patched = apply_hunks(text, patch)
    if patched is None:
        return None
    # An added line that starts with spaces may start with tabs in the file: the patch of
    # "\tx" reads "+  x". If no added line starts with spaces, the patch gives the exact text.
    return Edited(patched, is_proven=not any(_hides_tabs(line) for line in added_lines(patch)))


def confirms(patch: Sequence[Hunk], before: str, after: str) -> bool:
    """Return whether a patch turns one text into the other, with leading tabs taken as spaces."""
    patched = apply_hunks(_without_tabs(before), patch)
    return patched is not None and patched == _without_tabs(after)


def apply_hunks(text: str, patch: Sequence[Hunk]) -> str | None:
    """Return the patched text; None if any context line or removed line does not match."""
    lines, is_ended = _split(text)
    result: list[str] = []
    done = 0
    for hunk in patch:
        start = (given(hunk.old_start) or 1) - 1
        if not done <= start <= len(lines):
            return None
        result += lines[done:start]
        done = start
        is_new = False
        for line in hunk_lines(hunk):
            sign, rest = line[:1], line[1:]
            if sign == NO_NEWLINE:
                is_ended = is_ended if not is_new else False
                continue
            if sign not in SIGNS:
                return None
            if sign != "+":
                if done >= len(lines) or lines[done] != rest:
                    return None
                done += 1
            is_new = sign != "-"
            if is_new:
                result.append(rest)
        # The last line gained its newline: the marker for "no newline" follows only the old line.
        if done >= len(lines) and _ends_whole(hunk):
            is_ended = True
    result += lines[done:]
    return "\n".join(result) + ("\n" if is_ended and result else "")


def reaches_ends(text: str, patch: Sequence[Hunk]) -> bool:
    """Return whether all hunks with less than three lines of context are at an end of the text.

    Elsewhere, the missing context means that the patch was made for another text: it might apply by
    chance, and add something twice.
    """
    count = len(_split(text)[0])
    for hunk in patch:
        signs = [line[:1] for line in hunk_lines(hunk) if line[:1] != NO_NEWLINE]
        start, size = (given(hunk.old_start) or 1) - 1, given(hunk.old_lines) or 0
        if _leading_context(signs) < CONTEXT and start > 0:
            return False
        if _leading_context(signs[::-1]) < CONTEXT and start + size != count:
            return False
    return True


def _leading_context(signs: Sequence[str]) -> int:
    return next((number for number, sign in enumerate(signs) if sign != " "), len(signs))


def added_lines(patch: Sequence[Hunk]) -> list[str]:
    """Return the lines that a patch adds."""
    lines = (line for hunk in patch for line in hunk_lines(hunk))
    return [line[1:] for line in lines if line.startswith("+")]


def known_lines(patch: Sequence[Hunk]) -> dict[int, str]:
    """Return the lines of the new text that a patch states, by line number.

    Lines whose leading spaces may be tabs are left out.
    """
    known: dict[int, str] = {}
    for hunk in patch:
        number = given(hunk.new_start) or 1
        for line in hunk_lines(hunk):
            if line[:1] in (" ", "+"):
                if not _hides_tabs(line[1:]):
                    known[number] = line[1:]
                number += 1
    return known


def change_lines(replacements: Sequence[Replacement], patch: Sequence[Hunk]) -> list[str]:
    """Return a recorded edit as lines of a diff: its patch, or else the old and new strings.

    >>> change_lines([Replacement("a = 1", "a = 2")], [])
    ['@@ somewhere @@', '-a = 1', '+a = 2']
    """
    lines: list[str] = []
    for hunk in patch:
        old, new = given(hunk.old_start) or 1, given(hunk.new_start) or 1
        sizes = given(hunk.old_lines) or 0, given(hunk.new_lines) or 0
        lines += [f"@@ -{old},{sizes[0]} +{new},{sizes[1]} @@", *hunk_lines(hunk)]
    for each in () if patch else replacements:
        lines.append("@@ everywhere @@" if each.is_everywhere else "@@ somewhere @@")
        lines += [f"-{line}" for line in each.old.splitlines()]
        lines += [f"+{line}" for line in each.new.splitlines()]
    return lines


def created_text(patch: Sequence[Hunk]) -> str | None:
    """Return the text of a file that a patch creates; None if part of it is missing."""
    if len(patch) > 1 or any(given(hunk.old_lines) for hunk in patch):
        return None
    lines = added_lines(patch)
    count = sum(given(hunk.new_lines) or 0 for hunk in patch)
    if len(lines) != count:
        return None
    is_ended = all(_ends_whole(hunk) for hunk in patch)
    return "\n".join(lines) + ("\n" if lines and is_ended else "")


def _replace_all(text: str, replacements: Sequence[Replacement], eats_newline: bool) -> str | None:
    for each in replacements:
        found = _replace(text, each, eats_newline)
        if found is None:
            return None
        text = found
    return text


def _replace(text: str, edit: Replacement, eats_newline: bool) -> str | None:
    old = edit.old
    if not old:
        return edit.new if not text else None
    if eats_newline and not edit.new and not old.endswith("\n") and f"{old}\n" in text:
        old = f"{old}\n"
    count = text.count(old)
    # The client refuses an ambiguous edit, so this is not the text that it changed.
    if not count or (count > 1 and not edit.is_everywhere):
        return None
    return text.replace(old, edit.new)


def _split(text: str) -> tuple[list[str], bool]:
    """Return the lines of a text as a patch counts them, and whether the last one has a newline."""
    if not text:
        return [], True
    is_ended = text.endswith("\n")
    return (text[:-1] if is_ended else text).split("\n"), is_ended


def _ends_whole(hunk: Hunk) -> bool:
    """Return whether the last new line of a hunk has a newline."""
    lines = hunk_lines(hunk)
    news = [index for index, line in enumerate(lines) if line[:1] in (" ", "+")]
    last = news[-1] + 1 if news else 0
    return not (last and last < len(lines) and lines[last].startswith(NO_NEWLINE))


def _without_tabs(text: str) -> str:
    return LEADING_TABS.sub(lambda found: "  " * len(found[0]), text)


def _hides_tabs(line: str) -> bool:
    return line.startswith("  ")
