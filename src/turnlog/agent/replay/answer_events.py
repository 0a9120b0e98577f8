"""Build the streaming events of a recorded message."""

import json
from collections.abc import Iterator

from turnlog.format.json_values import Fields

PIECE = 40
"""Characters per event."""


def stream_events(body: Fields) -> Iterator[Fields]:
    """Yield the events that stream a message."""
    usage = body["usage"]
    # Output tokens are cumulative: the first event has one, the last has all of them.
    begun: Fields = {"content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": body | begun | {"usage": usage | _STARTED}}
    # The API sends pings, which clients have to ignore (documented).
    yield {"type": "ping"}
    for index, block in enumerate(body["content"]):
        hollow, deltas = _pieces_of(block)
        yield {"type": "content_block_start", "index": index, "content_block": hollow}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


def encode_event(event: Fields) -> bytes:
    """Encode an event for server-sent events."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


_STARTED = {"output_tokens": 1}


def _pieces_of(block: Fields) -> tuple[Fields, list[Fields]]:
    """Return the initial block and its deltas."""
    kind = block.get("type")
    if kind == "text":
        texts = [{"type": "text_delta", "text": each} for each in _cut(block.get("text"))]
        return block | {"text": ""}, texts
    if kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": each} for each in _cut(block.get("thinking"))
        ]
        signed = {"type": "signature_delta", "signature": block.get("signature") or ""}
        return block | {"thinking": "", "signature": ""}, [*deltas, signed]
    if kind in ("tool_use", "server_tool_use"):
        written = json.dumps(block.get("input") or {}, ensure_ascii=False)
        parts = [{"type": "input_json_delta", "partial_json": each} for each in _cut(written)]
        return block | {"input": {}}, parts
    return block, []


def _cut(text: object) -> list[str]:
    whole = text if isinstance(text, str) else ""
    return [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]
