"""Changes of files as lines of a diff."""

import difflib
from collections.abc import Iterator
from itertools import islice
from typing import Any

from turnlog.conversation.calls import Detail
from turnlog.format.json_values import is_array, is_object


def diff_of(detail: Detail) -> list[str]:
    """The lines of the diff that a call made; empty where its lines do not tell."""
    structured = detail.structured if is_object(detail.structured) else {}
    patch = structured.get("structuredPatch")
    if is_array(patch) and patch:
        return list(_patch_lines(patch))
    given = detail.input if is_object(detail.input) else {}
    edits = given.get("edits") if is_array(given.get("edits")) else [given]
    return [line for edit in edits or [] if is_object(edit) for line in _edit_lines(edit)]


def _patch_lines(patch: list[Any]) -> Iterator[str]:
    for hunk in patch:
        if is_object(hunk):
            start = f"-{hunk.get('oldStart')},{hunk.get('oldLines')}"
            yield f"@@ {start} +{hunk.get('newStart')},{hunk.get('newLines')} @@"
            lines = hunk.get("lines")
            yield from map(str, lines if is_array(lines) else [])


def _edit_lines(edit: dict[str, Any]) -> Iterator[str]:
    old = str(edit.get("old_string") or "").splitlines()
    new = str(edit.get("new_string") or edit.get("content") or edit.get("new_source") or "")
    lines = difflib.unified_diff(old, new.splitlines(), lineterm="", n=3)
    yield from islice(lines, 2, None)  # without the names of the files
