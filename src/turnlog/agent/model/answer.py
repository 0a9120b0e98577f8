"""Assemble a streamed message: events in, finished blocks out."""

from time import monotonic
from typing import Any
from uuid import uuid4

from turnlog.format.json_values import Fields, as_object, parse_json

ADDED = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
"""The block field that each delta type extends."""


class StreamedMessage:
    """A message that is being streamed."""

    def __init__(self, request_id: str | None = None) -> None:
        self.request_id = request_id
        self._asked = monotonic()
        self.seconds = 0.0
        """Seconds from request to end."""
        self.message: Fields = {}
        """The API's message object without its content."""
        self.blocks: list[Fields] = []
        """Finished blocks."""
        self._open: Fields | None = None
        self._written = ""
        """Partial JSON of the open call's input."""

    @property
    def id(self) -> str | None:
        return self.message.get("id")

    @property
    def model(self) -> str:
        return str(self.message.get("model") or "")

    @property
    def usage(self) -> Fields:
        return self.message.get("usage") or {}

    @property
    def stop_reason(self) -> str | None:
        return self.message.get("stop_reason")

    @property
    def calls(self) -> list[Fields]:
        """The tool calls to run."""
        return [block for block in self.blocks if block.get("type") == "tool_use"]

    @property
    def _call_ids(self) -> list[str]:
        return [call["id"] for call in self.calls]

    @property
    def text(self) -> str:
        """The text of the answer."""
        texts = [block["text"] for block in self.blocks if block.get("type") == "text"]
        return "\n".join(texts).strip()

    @property
    def unfinished_text(self) -> str:
        """The text of the unfinished block."""
        is_text = self._open is not None and self._open.get("type") == "text"
        return str((self._open or {}).get("text") or "") if is_text else ""

    def take(self, event: Fields) -> Fields | None:
        """Process an event; return the block that it finishes, if any."""
        match event.get("type"):
            case "message_start":
                message: Fields = event["message"]
                self.message = {key: message[key] for key in message if key != "content"}
            case "content_block_start":
                self._open = dict(event["content_block"])
                self._written = ""
            case "content_block_delta" if self._open is not None:
                self._grow(self._open, event["delta"])
            case "content_block_stop" if self._open is not None:
                return self._finish(self._open)
            case "message_delta":
                self._end(event)
            # The API may add event types at any time; clients are to ignore unknown ones
            # (documented).
            case _:
                pass
        return None

    def _grow(self, block: Fields, delta: Fields) -> None:
        kind = str(delta.get("type"))
        if kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
        elif kind == "input_json_delta":
            self._written += delta.get("partial_json") or ""
        elif name := ADDED.get(kind):
            block[name] = (block.get(name) or "") + (delta.get(name) or "")

    def _finish(self, block: Fields) -> Fields:
        if self._written:
            block["input"] = _read_input(self._written)
        # Gateways to other models may repeat ids or omit them. Of two calls with the same id, the
        # second would get the result of the first.
        if block.get("type") == "tool_use" and block.get("id") in ("", None, *self._call_ids):
            block["id"] = f"toolu_{uuid4().hex[:24]}"
        self._open = None
        self.blocks.append(block)
        return block

    def _end(self, event: Fields) -> None:
        given = {key: value for key, value in event["delta"].items() if value is not None}
        # A null in `message_delta` must not overwrite a count of `message_start`.
        counted: dict[str, Any] = event.get("usage") or {}
        counts = {key: value for key, value in counted.items() if value is not None}
        # The client writes `stop_details` even if it is null.
        self.message |= {"stop_details": None} | given | {"usage": self.usage | counts}
        self.seconds = monotonic() - self._asked


def _read_input(text: str) -> Any:
    """Parse the input of a call; a truncated answer may end in the middle of it."""
    try:
        value = parse_json(text)
    except ValueError:
        return {}
    return as_object(value)
