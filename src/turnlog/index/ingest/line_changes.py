"""Count the lines that a call added to and removed from a file."""

from typing import Any

from turnlog.format.json_values import is_array, is_object


def patched_lines(patch: Any) -> tuple[int, int] | None:
    """Return the lines added and removed by a `structuredPatch`; None if there is none."""
    if not is_array(patch) or not patch:
        return None
    hunks = [hunk.get("lines") for hunk in patch if is_object(hunk)]
    marks = [str(line)[:1] for lines in hunks if is_array(lines) for line in lines]
    return marks.count("+"), marks.count("-")


def requested_lines(fields: dict[str, Any]) -> tuple[int, int]:
    """Return the lines that a call asks to add and remove, for results without a patch."""
    edits = fields.get("edits") if is_array(fields.get("edits")) else [fields]
    pairs = [
        (_lines(e, "old_string"), _lines(e, "new_string", "content", "new_source"))
        for e in edits or []
        if is_object(e)
    ]
    return sum(len(new) for _, new in pairs), sum(len(old) for old, _ in pairs)


def _lines(edit: dict[str, Any], *names: str) -> list[str]:
    text = next((edit[name] for name in names if isinstance(edit.get(name), str)), "")
    return text.splitlines()
