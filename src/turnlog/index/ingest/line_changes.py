"""Count the lines that a call added to and removed from a file."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from turnlog.format.fields import CamelView, decode_raw, given
from turnlog.format.json_values import is_array, is_object


class _Patched(CamelView):
    structured_patch: Any = UNSET


_decode_patch = msgspec.json.Decoder(_Patched).decode


def _patch_in(raw: Raw) -> Any:
    """Decode only the patch, skipping the file's former content, which is far larger."""
    try:
        return {"structuredPatch": given(_decode_patch(raw).structured_patch)}
    except msgspec.MsgspecError:
        return decode_raw(raw)


def patched_lines(raw: Raw | None) -> tuple[int, int] | None:
    """Return the lines added and removed according to a result; None if it has no patch."""
    decoded = _patch_in(raw) if raw else None
    patch = decoded.get("structuredPatch") if is_object(decoded) else None
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
