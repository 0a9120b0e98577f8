"""Decide how much of a session's content leaves the machine: redacted, full or none.

Every text of a span passes through here before it is sent, identifiers included.
"""

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
"""Characters that protobuf or a backend's database rejects: NUL and unpaired surrogates."""
MAX_CHARS = 20_000
SHORT = 100
"""Length up to which a text is never cut, such as a name or a role."""
DEEPEST = 100
TOO_DEEP = "… [nested too deeply]"
"""Replaces objects and arrays nested deeper than that, which no backend could read."""
LONG_TEXTS = 4 << 20
"""Maximum number of characters in the cache of long texts."""


class ContentMode(StrEnum):
    """The content that is sent."""

    REDACTED = "redacted"
    """Everything, with secrets replaced by placeholders."""
    FULL = "full"
    """Everything, unchanged."""
    NONE = "none"
    """Only names, times, token counts and costs."""


CONTENT = ("name", "input", "output", "parts", "parameters", "error", "description", "tool")
"""Fields of a span that are texts or contain them."""
IDENTIFIERS = (
    "model",
    "message_id",
    "request_id",
    "stop_reason",
    "call_id",
    "agent_id",
    "agent_type",
)
"""Fields of a span that are not content, but come from the session file and may hold a secret."""
TRACE_IDENTIFIERS = (
    "session_id",
    "user",
    "prompt_id",
    "prompt_kind",
    "version",
    "slug",
    "forked_from",
    "cwd",
    "git_branch",
    "environment",
    "release",
    "app_version",
    "permission_mode",
)


class ContentPolicy(Struct, frozen=True):
    """The content mode, and the maximum length of texts."""

    mode: ContentMode = ContentMode.REDACTED
    max_chars: int = MAX_CHARS
    """Maximum length of each input and output; 0 for no limit."""

    def of(self, span: Span) -> Span:
        """Return a copy of a span with only the content that may be sent."""
        if self.mode is ContentMode.NONE:
            span = _without_content(span)
        is_masked = self.mode is not ContentMode.FULL
        values = {
            name: _Cutter(self.max_chars, is_masked).cut(item)
            for name in CONTENT
            if (item := getattr(span, name)) is not None
        }
        values |= {
            name: _clean(item, is_masked) for name in IDENTIFIERS if (item := getattr(span, name))
        }
        trace = _clean_trace(span.trace, is_masked)
        events = tuple(self._event(event, is_masked) for event in span.events)
        return replace(span, trace=trace, events=events, **values)

    def _event(self, event: Event, is_masked: bool) -> Event:
        cutter = _Cutter(self.max_chars, is_masked)
        return Event(event.name, event.time, cutter.cut(event.facts), cutter.cut(event.texts))


class _Cutter:
    """Cleans the texts of a value, and cuts them when their total length exceeds a limit."""

    def __init__(self, limit: int, is_masked: bool) -> None:
        self.remaining = limit or None
        self.is_masked = is_masked

    def cut(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """Return a cleaned JSON value; `name` is its field name in the enclosing object."""
        if isinstance(value, str):
            return self._shortened(_clean(value, self.is_masked, name))
        if depth > DEEPEST and (is_object(value) or is_array(value)):
            return TOO_DEEP
        inner = depth + 1
        if is_object(value):
            return {
                _clean(key, self.is_masked): self.cut(item, key, inner)
                for key, item in value.items()
            }
        if is_array(value):
            return [self.cut(item, name, inner) for item in value]
        return value

    def _shortened(self, text: str) -> str:
        if self.remaining is None:
            return text
        room = self.remaining
        self.remaining = max(0, room - len(text))
        # Short texts stay whole even when no room is left: a cut role or name would be unreadable.
        if len(text) <= max(room, SHORT):
            return text
        return f"{text[:room]}… [cut by turnlog: {room:,} of {len(text):,} characters]"


def _clean(text: str, is_masked: bool, name: str = "") -> str:
    """Return a text that can be sent; its field name may mark it as a secret."""
    # Short texts are cached: every span repeats its session, directory, branch and JSON keys.
    if len(text) <= SHORT:
        return _clean_short(text, is_masked, name)
    return _CLEAN_LONG.get(text, is_masked, name)


def _clean_uncached(text: str, is_masked: bool, name: str) -> str:
    if not text.isascii() or "\x00" in text:
        text = UNSENDABLE.sub("\ufffd", text)
    return mask_named(name, text) if is_masked else text


_clean_short = lru_cache(8192)(_clean_uncached)


class _CleanTexts:
    """A cache of long texts, limited by their total size.

    Spans share texts: a prompt is the input of its turn and of a generation, an answer is the
    output of both, and a call's input is in its generation and in the tool's span.
    """

    def __init__(self) -> None:
        self.texts: dict[tuple[str, bool, str], str] = {}
        self.room = LONG_TEXTS

    def get(self, text: str, is_masked: bool, name: str) -> str:
        key = text, is_masked, name
        found = self.texts.get(key)
        if found is None:
            found = _clean_uncached(text, is_masked, name)
            self.room -= len(text)
            # Clearing the whole cache costs little: spans that share a text are close together.
            if self.room < 0:
                self.texts.clear()
                self.room = LONG_TEXTS - len(text)
            self.texts[key] = found
        return found


_CLEAN_LONG = _CleanTexts()


@lru_cache(4)  # the spans of a turn share one trace
def _clean_trace(trace: Trace, is_masked: bool) -> Trace:
    item = {name: getattr(trace, name) for name in TRACE_IDENTIFIERS}
    texts = {name: _clean(text, is_masked) if text else text for name, text in item.items()}
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
