"""What is to be redacted in a text: secrets, what a user's patterns match, values known already.

The names, ids and encoded data that hold a session together are no texts: they are left alone.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import NamedTuple

import msgspec

from turnlog.edit.redact.json_strings import (
    StringPlace,
    decode_string,
    decoded_strings,
    hides_strings,
    spelled_strings,
    unescaped_readings,
)
from turnlog.secrets import (
    KEY_START,
    MASKED,
    find_named,
    find_secrets,
    is_secret_name,
    placeholder_for,
    visible,
)

REDACTED = "redacted"
"""The kind of what a user's pattern matches."""
BROAD = ("api-key", "authorization", "bearer-token", "secret", "password", "url-password", REDACTED)
"""Kinds that say little, which any other kind comes before."""
DISTINCT = 8
"""Characters that a value must have to be looked for where nothing else tells it is a secret."""
LONG = 20
"""Characters of a value that is no word, even if it has only letters."""
WORD = re.compile(r"[A-Za-z_./:@-]+|[\d.,:/-]+")
PLAIN = re.compile(r"[ !#-.0-\[\]-~]+")
"""What JSON does not escape."""
HIDDEN = re.compile(rb"\\u00[2-7]")
"""An escape that can stand for such a character all the same."""
KEY_LINE = re.compile(rf"[A-Za-z0-9+/=]{{{LONG},}}")
"""A line of a private key that is long enough to be looked for on its own."""
FIELD = re.compile(r"[A-Za-z_$][\w$-]*")
SMALL = 1 << 16
"""Characters of a text that is worth remembering."""

IDS = frozenset(
    """uuid parentUuid logicalParentUuid leafUuid messageUuid commandUuid sourceToolAssistantUUID
    headUuid anchorUuid tailUuid uuids allUuids parentLastUuid sessionId session_id parentSessionId
    continuedInSessionId bridgeSessionId agentId agent_id parentAgentId messageId snapshotMessageId
    interruptedMessageId refusedMessageId requestId requestRef promptId deliveryId tool_use_id
    toolUseId toolUseID parentToolUseID sourceToolUseID parent_tool_use_id backupFileName
    contentHash shapeHash requestDigest""".split()
)
HELD = frozenset("id type role timestamp cwd project hash base tail".split())
"""What the client goes by; a tool's own fields of these names mean nothing to it."""
CHOSEN = frozenset(
    """subtype name model version slug gitBranch userType entrypoint media_type stop_reason
    operation level""".split()
)
"""What the client put there, likewise, but does not need to find its way."""
ENCODED = frozenset({"data", "base64", "signature", "encrypted_content"})
DATA = re.compile(r"[A-Za-z0-9+/]{100,}={0,2}")

_decode = msgspec.json.Decoder().decode


class StringRole(Enum):
    """What a string is to whoever looks for secrets."""

    TEXT = auto()
    TELLING = auto()
    """A text whose name can tell that it is a secret."""
    FIELD = auto()
    """What a program named or chose: no pattern of a user is meant for it."""
    FIXED = auto()
    """Part of what holds a session together: it is left alone."""
    DATA = auto()
    """Encoded data, if it looks so."""


class TextSpan(NamedTuple):
    """A part of a text that is to be replaced."""

    start: int
    end: int
    kind: str
    value: str
    """The secret itself, however it is written here."""


@dataclass(frozen=True)
class Finder:
    """What is looked for."""

    also: tuple[re.Pattern[str], ...] = ()
    """Patterns of the user; the first group, where there is one, else all that matches."""
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values known so far, with their kinds."""

    @cached_property
    def forms(self) -> dict[str, str]:
        """What to look for, as it may be written, with the value that it stands for."""
        values = [value for value in self.kinds if is_distinct(value)]
        parts = [(part, value) for value in values for part in _parts(value)]
        return {form: value for part, value in parts for form in _forms(part)}

    @cached_property
    def needles(self) -> list[bytes]:
        """A part of each known value that is written as it is, even in JSON."""
        cores = {max(PLAIN.findall(form) or [""], key=len) for form in self.forms}
        return [core.encode() for core in cores]

    def without_patterns(self) -> "Finder":
        """The same for secrets alone."""
        kinds = {value: kind for value, kind in self.kinds.items() if kind != REDACTED}
        return Finder((), kinds)

    def placeholder(self, span: TextSpan) -> str:
        """What stands for a value: of one kind wherever it is found."""
        return placeholder_for(self.kinds.get(span.value, span.kind), span.value)

    def spans(self, text: str, place: StringPlace | None = None) -> list[TextSpan]:
        """What is to be replaced in a text, or in a string of a JSON text."""
        role = role_of(place) if place else StringRole.TEXT
        if role is StringRole.FIXED or (role is StringRole.DATA and DATA.fullmatch(text)):
            return []
        found = [*self._escaped(text), *_secrets_in(text), *self._known(text)]
        if place and role is StringRole.TELLING:
            found += _named_secrets(text, place)
        if role is StringRole.FIELD:
            found = [span for span in found if span.kind != REDACTED]
        else:
            found += self._matches(text)
        return _disjoint(text, found)

    def knows(self, raw: bytes) -> bool:
        """Whether a known value may be in a line or a file."""
        if not self.forms:
            return False
        return any(needle in raw for needle in self.needles) or bool(HIDDEN.search(raw))

    def suspects(self, raw: bytes) -> bool:
        """Whether something may be found in a JSON text, but for known values."""
        try:
            strings = _strings_of(raw, _is_read)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return True
        return any(self._suspects(text, place) for place, text in strings)

    def fixed_matches(self, raw: bytes) -> Iterator[str]:
        """The names of fields that a pattern matches, but that are left alone."""
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            for place, text in _strings_of(raw, _is_clients):
                if any(self._matches(text)):
                    yield place.name

    def fixed_secrets(self, raw: bytes) -> Iterator[TextSpan]:
        """Yield the secrets in strings that are left alone, such as a working directory."""
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            for _, text in _strings_of(raw, _is_fixed):
                if not _is_clean(text):
                    yield from _secrets_in(text)

    def _suspects(self, text: str, place: StringPlace) -> bool:
        role = role_of(place)
        if role is StringRole.DATA and DATA.fullmatch(text):
            return False
        if not _is_clean(text) or (role is StringRole.TELLING and any(_named_secrets(text, place))):
            return True
        return role is not StringRole.FIELD and any(pattern.search(text) for pattern in self.also)

    def _matches(self, text: str) -> Iterator[TextSpan]:
        for pattern in self.also:
            group = 1 if pattern.groups else 0
            for match in pattern.finditer(text):
                start, end = match.span(group)
                if start < end:
                    yield TextSpan(start, end, REDACTED, text[start:end])

    def _escaped(self, text: str) -> Iterator[TextSpan]:
        """Yield what JSON within a text holds if its escapes are undone, with their true values."""
        for reading in unescaped_readings(text):
            for span in (*_secrets_in(reading.text), *self._known(reading.text)):
                start, end = reading.where(span.start), reading.where(span.end)
                yield TextSpan(start, end, span.kind, span.value)

    def _known(self, text: str) -> Iterator[TextSpan]:
        for form, value in self.forms.items():
            start = text.find(form)
            while start >= 0:
                end = start + len(form)
                yield TextSpan(start, end, self.kinds[value], value)
                start = text.find(form, end)


@lru_cache(4096)
def role_of(place: StringPlace) -> StringRole:
    """What a string is, as far as its place tells."""
    if place.is_name:
        return StringRole.FIELD if FIELD.fullmatch(place.name) else StringRole.TEXT
    if place.name in IDS or (place.name in HELD and not place.is_tools):
        return StringRole.FIXED
    if place.name in CHOSEN and not place.is_tools:
        return StringRole.FIELD
    if place.name in ENCODED:
        return StringRole.DATA
    return StringRole.TELLING if is_secret_name(place.name) else StringRole.TEXT


def is_distinct(value: str) -> bool:
    """Whether a value is a secret wherever it stands, and not a word that is a password somewhere.

    >>> is_distinct("tr0ub4dor&3"), is_distinct("development"), is_distinct("20261115")
    (True, False, False)
    """
    return len(value) >= LONG or (len(value) >= DISTINCT and not WORD.fullmatch(value))


def settle_kinds(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """One kind for each value, the one that says most, whatever order they were found in.

    >>> settle_kinds([("s3cret-77", "url-password"), ("s3cret-77", "password")])
    {'s3cret-77': 'password'}
    """
    kinds: dict[str, str] = {}
    for value, kind in found:
        kinds[value] = min(kind, kinds.get(value, kind), key=_rank)
    return kinds


def _rank(kind: str) -> tuple[int, str]:
    return BROAD.index(kind) if kind in BROAD else -1, kind


def _secrets_in(text: str) -> Iterator[TextSpan]:
    for secret in find_secrets(text):
        value = visible(text[secret.start : secret.end])
        yield TextSpan(secret.start, secret.end, secret.kind, value)


def _named_secrets(text: str, place: StringPlace) -> Iterator[TextSpan]:
    """Yield all of a text whose name tells that it is a secret: `"password": "…"`."""
    if kind := find_named(place.name, text):
        start = len(text) - len(text.lstrip())
        yield TextSpan(start, start + len(text.strip()), kind, text.strip())


def _disjoint(text: str, found: list[TextSpan]) -> list[TextSpan]:
    """Spans in order, those that overlap made one, and none that touches a placeholder."""
    if not found:
        return []
    masked = [match.span() for match in re.finditer(MASKED, text)]
    kept: list[TextSpan] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end, _rank(span.kind))):
        after = bisect_right(masked, span.start, key=itemgetter(1))
        if after < len(masked) and masked[after][0] < span.end:
            continue
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
        elif span.end > kept[-1].end:
            start = kept[-1].start
            kept[-1] = TextSpan(start, span.end, kept[-1].kind, text[start : span.end])
    return kept


def _parts(value: str) -> Iterator[str]:
    """Yield a value, and the lines of a private key: diffs are stored as lists of lines."""
    yield value
    if KEY_START in value:
        lines = (line.strip().lstrip("+-") for line in value.splitlines())
        yield from filter(KEY_LINE.fullmatch, lines)


def _forms(value: str) -> Iterator[str]:
    """A value as it is, and as it stands in JSON that is itself a text."""
    for _ in range(3):
        yield value
        value = json.dumps(value, ensure_ascii=False)[1:-1]


@lru_cache(4096)
def _is_read(place: StringPlace) -> bool:
    """Whether a secret can be there; of the name of a field that can be told at once."""
    role = role_of(place)
    is_plain = place.is_name and role is StringRole.FIELD and _is_clean(place.name)
    return role is not StringRole.FIXED and not is_plain


@lru_cache(4096)
def _is_clients(place: StringPlace) -> bool:
    return not place.is_name and role_of(place) in (StringRole.FIXED, StringRole.FIELD)


@lru_cache(4096)
def _is_fixed(place: StringPlace) -> bool:
    return not place.is_name and role_of(place) is StringRole.FIXED


def _strings_of(
    raw: bytes, is_wanted: Callable[[StringPlace], bool]
) -> list[tuple[StringPlace, str]]:
    """Return the strings of a JSON text that are wanted; raise if it is no JSON.

    Decoding is faster than going over the text, but drops all but the last of several fields with
    one name: `"content":"ghp_…","content":"hello"`.
    """
    value = _decode(raw)
    if not hides_strings(raw, value):
        return decoded_strings(value, is_wanted)
    text = raw.decode("utf-8", "surrogateescape")
    return [
        (place, decode_string(text[start:end]).text)
        for place, start, end in spelled_strings(text)
        if is_wanted(place)
    ]


def _is_clean(text: str) -> bool:
    return _is_clean_small(text) if len(text) < SMALL else _has_no_secret(text)


@lru_cache(1024)
def _is_clean_small(text: str) -> bool:
    """Remembered, as the client writes most of what a tool gave twice."""
    return _has_no_secret(text)


def _has_no_secret(text: str) -> bool:
    return not find_secrets(text) and not any(
        find_secrets(reading.text) for reading in unescaped_readings(text)
    )
