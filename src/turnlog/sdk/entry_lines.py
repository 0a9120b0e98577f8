"""Convert entries of the Agent SDK to lines of the client's format, and back.

Entries are opaque: unknown kinds and fields pass through. Python's `json` is used on purpose: it
preserves values that faster decoders change, such as integers beyond 64 bits.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from turnlog.errors import UsageError
from turnlog.format.json_values import is_object, parse_json
from turnlog.sdk.session_keys import TranscriptKey
from turnlog.store.archive.mirror import MirrorLine

METADATA = "agent_metadata"
"""Kind of the entry that stands for a sub-agent's `.meta.json` in the stream of a session."""
SURROGATE = re.compile("[\ud800-\udfff]")

Entry = dict[str, Any]


def to_lines(entries: Iterable[Mapping[str, Any]]) -> list[MirrorLine]:
    """Return entries as lines, each with the UUID by which duplicates are recognized."""
    return [MirrorLine(encode(entry) + b"\n", _uuid_of(entry)) for entry in entries]


def encode(entry: Mapping[str, Any]) -> bytes:
    r"""Return an entry as JSON, formatted like the client's.

    >>> encode({"type": "x", "text": "é"}).decode(), encode({"type": "\ud83d"}).decode()
    ('{"type":"x","text":"é"}', '{"type":"\\ud83d"}')
    """
    try:
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"an entry cannot be stored as JSON: {error}") from error
    # UTF-8 cannot encode a lone surrogate, as in a truncated text; the client escapes it.
    return SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def decode(raw: bytes) -> Entry | None:
    """Return the entry on a line; None if it is not a JSON object, such as a torn line."""
    try:
        value = parse_json(raw)
    except ValueError:
        return None
    return value if is_object(value) else None


def split_metadata(entries: Iterable[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], bytes]:
    """Split off a sub-agent's metadata; return the other entries and the `.meta.json` content."""
    lines: list[Mapping[str, Any]] = []
    saved = b""
    for entry in entries:
        if entry.get("type") == METADATA:
            saved = encode({name: value for name, value in entry.items() if name != "type"})
        else:
            lines.append(entry)
    return lines, saved


def metadata_entry(saved: bytes) -> list[Entry]:
    """Return the content of `.meta.json` as a list with one entry; empty if it is malformed."""
    value = decode(saved)
    return [] if value is None else [{**value, "type": METADATA}]


def summarize(
    key: TranscriptKey, last: dict[str, Any] | None, raws: Iterable[bytes]
) -> dict[str, Any]:
    """Return the SDK's summary of a session: the previous one, updated with the lines since."""
    from claude_agent_sdk import fold_session_summary

    name: Any = {"project_key": key.project, "session_id": key.session}
    previous: Any = last and {"session_id": key.session, "mtime": 0, "data": last}
    decoded = (decode(raw) for raw in raws)
    entries: Any = [entry for entry in decoded if entry is not None]
    return fold_session_summary(previous, name, entries)["data"]


def _uuid_of(entry: Mapping[str, Any]) -> str | None:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else None
