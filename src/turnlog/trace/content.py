"""How much of a session's content leaves the machine: masked, whole, or none; and how long."""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnlog.format.json_values import is_array, is_object
from turnlog.secrets import mask_named
from turnlog.trace.span import Event, Span, Trace

UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
"""What protobuf or a backend's database refuses: NUL, and halves of surrogate pairs."""
MAX_CHARS = 20_000
SHORT = 100
"""Characters of a text that is never cut: a name, a role."""
LONG_TEXTS = 4 << 20
"""Characters of longer texts that are kept clean, for the next span that has one of them."""


class ContentMode(StrEnum):
    """What of the content is sent."""

    REDACTED = "redacted"
    """All, with a placeholder in place of each secret."""
    FULL = "full"
    """All, as it is."""
    NONE = "none"
    """Names, times, tokens and costs alone."""


IDENTIFIERS = (
    "model",
    "message_id",
    "request_id",
    "stop_reason",
    "call_id",
    "agent_id",
    "agent_type",
)
"""Fields of a span that hold no content, and yet come from the file: a key may stand there."""
TRACE_IDENTIFIERS = (
    "session_id",
    "user",
    "prompt_id",
    "prompt_kind",
    "version",
    "slug",
    "cwd",
    "git_branch",
    "environment",
    "release",
    "app_version",
    "permission_mode",
)


class ContentPolicy(Struct, frozen=True):
    """What of the content is sent, and how much of it."""

    mode: ContentMode = ContentMode.REDACTED
    max_chars: int = MAX_CHARS
    """Characters of each input and each output; 0 for all of them."""

    def of(self, span: Span) -> Span:
        """A span as it may be sent."""
        if self.mode is ContentMode.NONE:
            span = _without_content(span)
        is_masked = self.mode is not ContentMode.FULL
        values = {
            name: _Cutter(self.max_chars, is_masked).cut(held)
            for name in ("name", "input", "output", "parts", "error", "description", "tool")
            if (held := getattr(span, name)) is not None
        }
        values |= {
            name: _clean(held, is_masked) for name in IDENTIFIERS if (held := getattr(span, name))
        }
        trace = _clean_trace(span.trace, is_masked)
        events = tuple(self._event(event, is_masked) for event in span.events)
        return replace(span, trace=trace, events=events, **values)

    def _event(self, event: Event, is_masked: bool) -> Event:
        cutter = _Cutter(self.max_chars, is_masked)
        return Event(event.name, event.time, cutter.cut(event.facts), cutter.cut(event.texts))


class _Cutter:
    """Cleans the texts of a value, and cuts them once they are too long together."""

    def __init__(self, limit: int, is_masked: bool) -> None:
        self.left = limit or None
        self.is_masked = is_masked

    def cut(self, value: Any, name: str = "") -> Any:
        """A JSON value, clean; `name` is what its object calls it."""
        if isinstance(value, str):
            return self._shortened(_clean(value, self.is_masked, name))
        if is_object(value):
            return {_clean(key, self.is_masked): self.cut(held, key) for key, held in value.items()}
        if is_array(value):
            return [self.cut(held, name) for held in value]
        return value

    def _shortened(self, text: str) -> str:
        if self.left is None:
            return text
        room = self.left
        self.left = max(0, room - len(text))
        if len(text) <= max(room, SHORT):
            return text
        return f"{text[:room]}… [cut by turnlog: {room:,} of {len(text):,} characters]"


def _clean(text: str, is_masked: bool, name: str = "") -> str:
    """Return a text that can be sent; the name of its field may tell that it is a secret."""
    # Every span repeats its session, directory and branch, and the keys of its JSON.
    if len(text) <= SHORT:
        return _clean_short(text, is_masked, name)
    return _CLEAN_LONG.get(text, is_masked, name)


def _clean_uncached(text: str, is_masked: bool, name: str) -> str:
    if not text.isascii() or "\x00" in text:
        text = UNSENDABLE.sub("\ufffd", text)
    return mask_named(name, text) if is_masked else text


_clean_short = lru_cache(8192)(_clean_uncached)


class _CleanTexts:
    """A cache of long texts, limited by their size.

    Spans share them: a prompt is the input of its turn and of a generation, an answer the output of
    both and a part, and what a call was given is in its generation and in the tool's span.
    """

    def __init__(self) -> None:
        self.held: dict[tuple[str, bool, str], str] = {}
        self.room = LONG_TEXTS

    def get(self, text: str, is_masked: bool, name: str) -> str:
        key = text, is_masked, name
        found = self.held.get(key)
        if found is None:
            found = _clean_uncached(text, is_masked, name)
            self.room -= len(text)
            if self.room < 0:
                self.held.clear()
                self.room = LONG_TEXTS - len(text)
            self.held[key] = found
        return found


_CLEAN_LONG = _CleanTexts()


@lru_cache(4)  # the spans of a turn share one trace
def _clean_trace(trace: Trace, is_masked: bool) -> Trace:
    held = {name: getattr(trace, name) for name in TRACE_IDENTIFIERS}
    texts = {name: _clean(text, is_masked) if text else text for name, text in held.items()}
    return replace(trace, **texts, tags=tuple(_clean(tag, is_masked) for tag in trace.tags))


def _without_content(span: Span) -> Span:
    return replace(
        span,
        input=None,
        output=None,
        parts=None,
        error=None if span.error is None else "",
        description=None,
        events=tuple(Event(event.name, event.time, event.facts) for event in span.events),
    )
