"""Find what to redact in a text: secrets, matches of the user's patterns, and known values.

Ids, field names and encoded data that a session depends on are never changed.
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

from turnlog.edit.redact.encoded_values import EncodedValues
from turnlog.edit.redact.json_strings import (
    StringPlace,
    decode_string,
    decoded_strings,
    hides_strings,
    unescaped_readings,
    written_strings,
)
from turnlog.edit.redact.known_values import KnownValues
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
"""The kind of a value that a user's pattern matched."""
BROAD = ("api-key", "authorization", "bearer-token", "secret", "password", "url-password", REDACTED)
"""Generic kinds, the vaguest last; any other kind takes precedence."""
DISTINCT = 8
"""Minimum length of a value that is replaced wherever it occurs."""
LONG = 20
"""Minimum length at which a value is distinct even if it looks like a word or a number."""
WORD = re.compile(r"[A-Za-z_./:@-]+|[\d.,:/-]+")
PLAIN = re.compile(r"[ !#-.0-\[\]-~]+")
"""Characters that JSON writers do not escape."""
HIDDEN = re.compile(rb"\\u00[2-7]")
"""A needless escape of a printable ASCII character, which hides a value from a byte search."""
KEY_LINE = re.compile(rf"[A-Za-z0-9+/=]{{{LONG},}}")
"""A line of a private key that is long enough to be looked for on its own."""
FIELD = re.compile(r"[A-Za-z_$][\w$-]*")
SMALL = 1 << 16
"""Length below which the result for a text is cached."""

ID_FIELDS = frozenset(
    """uuid parentUuid logicalParentUuid leafUuid messageUuid commandUuid sourceToolAssistantUUID
    headUuid anchorUuid tailUuid uuids allUuids parentLastUuid sessionId session_id parentSessionId
    continuedInSessionId bridgeSessionId agentId agent_id parentAgentId messageId snapshotMessageId
    interruptedMessageId refusedMessageId requestId requestRef promptId deliveryId tool_use_id
    toolUseId toolUseID parentToolUseID sourceToolUseID parent_tool_use_id backupFileName
    contentHash shapeHash requestDigest""".split()
)
CLIENT_FIELDS = frozenset("id type role timestamp cwd project hash base tail".split())
"""Fields that the client reads; in a tool's input or output, the same names are ordinary text."""
CLIENT_VALUES = frozenset(
    """subtype name model version slug gitBranch userType entrypoint media_type stop_reason
    operation level""".split()
)
"""Fields that the client writes but can do without; ordinary text in a tool's input or output."""
DATA_FIELDS = frozenset({"data", "base64", "signature", "encrypted_content"})
DATA = re.compile(r"[A-Za-z0-9+/]{100,}={0,2}")

_decode = msgspec.json.Decoder().decode


class StringRole(Enum):
    """The way in which a string is searched for secrets."""

    TEXT = auto()
    TELLING = auto()
    """A text whose field name may mark it as a secret, such as `password`."""
    FIELD = auto()
    """A field name, or a value chosen by a program: secrets are replaced, user patterns ignored."""
    FIXED = auto()
    """A value that the session depends on: never changed."""
    DATA = auto()
    """Encoded data: skipped if it looks like base64."""


class TextSpan(NamedTuple):
    """A part of a text to replace."""

    start: int
    end: int
    kind: str
    value: str
    """The secret itself, without the escapes it may be written with."""


@dataclass(frozen=True)
class Finder:
    """Finds secrets, matches of the user's patterns, and known values."""

    also: tuple[re.Pattern[str], ...] = ()
    """The user's patterns; the first group is replaced, or the whole match if there is none."""
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values found so far, with their kinds."""

    @cached_property
    def forms(self) -> dict[str, str]:
        """Each form in which a known value may be written, mapped to the value."""
        values = [value for value in self.kinds if is_distinct(value)]
        parts = [(part, value) for value in values for part in _parts(value)]
        return {form: value for part, value in parts for form in _forms(part)}

    @cached_property
    def known_in_text(self) -> KnownValues[str]:
        """The forms, to look for in text."""
        return KnownValues(self.forms)

    @cached_property
    def known_in_bytes(self) -> KnownValues[bytes]:
        """The forms of secrets, to look for in a text that is not decoded."""
        return KnownValues(self._encoded("utf-8"))

    @cached_property
    def known_in_binary(self) -> KnownValues[bytes]:
        """The forms of secrets, to look for in a binary file."""
        # It may contain UTF-16 text, such as a SQLite database or a Windows log.
        return KnownValues(self._encoded("utf-8", "utf-16-le", "utf-16-be"))

    @cached_property
    def known_encodings(self) -> EncodedValues:
        """The encodings of secrets, to look for in raw text."""
        forms = self.forms.items()
        return EncodedValues(form for form, value in forms if self.kinds[value] != REDACTED)

    @cached_property
    def _needles(self) -> KnownValues[bytes]:
        """Byte strings, at least one of which occurs in every text that contains a known value."""
        cores = {max(PLAIN.findall(form) or [""], key=len) for form in self.forms}
        return KnownValues({core.encode(): "" for core in cores})

    def _encoded(self, *codes: str) -> dict[bytes, str]:
        return {
            form.encode(code, "surrogatepass"): value
            for form, value in self.forms.items()
            if self.kinds[value] != REDACTED
            for code in codes
        }

    def values_in(self, raw: bytes) -> dict[str, int]:
        """Return the known secrets in raw bytes, whatever these encode, with their first offset."""
        known = self.known_in_bytes if b"\0" not in raw else self.known_in_binary
        found: dict[str, int] = {}
        for at, _, value in known.find(raw):
            found.setdefault(value, at)
        return found

    def without_patterns(self) -> "Finder":
        """Return a finder for secrets only."""
        if not self.also and REDACTED not in self.kinds.values():
            return self
        kinds = {value: kind for value, kind in self.kinds.items() if kind != REDACTED}
        return Finder((), kinds)

    def placeholder(self, span: TextSpan) -> str:
        """Return the placeholder of a span; a value has the same one wherever it is found."""
        return placeholder_for(self.kinds.get(span.value, span.kind), span.value)

    def spans(self, text: str, place: StringPlace | None = None) -> list[TextSpan]:
        """Return the parts of a text to replace; `place` is given for a string of a JSON text."""
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
        """Return whether raw bytes may contain a known value."""
        if not self.forms:
            return False
        # Pre-filter without decoding. Example: of `pa"ss\word-77`, JSON escapes the quote and the
        # backslash, but `word-77` occurs as it is in every form. A writer that escapes needlessly
        # (`\u0077ord-77`) would defeat the search, so such escapes always count as a hit.
        return any(self._needles.find(raw)) or bool(HIDDEN.search(raw))

    def suspects(self, raw: bytes) -> bool:
        """Return whether a JSON text may contain secrets or matches, apart from known values."""
        try:
            strings = _strings_of(raw, _is_read)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return True
        return any(self._suspects(text, place) for place, text in strings)

    def fixed_matches(self, raw: bytes) -> Iterator[str]:
        """Yield the names of fields that a user's pattern matches but that are never changed."""
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            for place, text in _strings_of(raw, _is_clients):
                if any(self._matches(text)):
                    yield place.name

    def fixed_secrets(self, raw: bytes) -> Iterator[TextSpan]:
        """Yield the secrets in strings that are never changed, such as a working directory."""
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
        """Yield the spans found in a text after unescaping it; their values are unescaped."""
        for reading in unescaped_readings(text):
            for span in (*_secrets_in(reading.text), *self._known(reading.text)):
                start, end = reading.where(span.start), reading.where(span.end)
                yield TextSpan(start, end, span.kind, span.value)

    def _known(self, text: str) -> Iterator[TextSpan]:
        for start, form, value in self.known_in_text.find(text):
            yield TextSpan(start, start + len(form), self.kinds[value], value)


@lru_cache(4096)
def role_of(place: StringPlace) -> StringRole:
    """Return the role of a string according to its place."""
    if place.is_name:
        return StringRole.FIELD if FIELD.fullmatch(place.name) else StringRole.TEXT
    if place.name in ID_FIELDS or (place.name in CLIENT_FIELDS and not place.is_in_tool):
        return StringRole.FIXED
    if place.name in CLIENT_VALUES and not place.is_in_tool:
        return StringRole.FIELD
    if place.name in DATA_FIELDS:
        return StringRole.DATA
    return StringRole.TELLING if is_secret_name(place.name) else StringRole.TEXT


def is_distinct(value: str) -> bool:
    """Return whether a value is distinctive enough to be replaced wherever it occurs.

    An ordinary word may be a password in one place and plain text everywhere else.

    >>> is_distinct("tr0ub4dor&3"), is_distinct("development"), is_distinct("20261115")
    (True, False, False)
    """
    return len(value) >= LONG or (len(value) >= DISTINCT and not WORD.fullmatch(value))


def settle_kinds(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return one kind for each value: the most specific one, in whatever order they were found.

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
    """Yield a whole text if its field name marks it as a secret: `"password": "…"`."""
    if kind := find_named(place.name, text):
        start = len(text) - len(text.lstrip())
        yield TextSpan(start, start + len(text.strip()), kind, text.strip())


def _disjoint(text: str, found: list[TextSpan]) -> list[TextSpan]:
    """Return spans in order: overlapping ones merged, and none that touches a placeholder."""
    if not found:
        return []
    masked = [match.span() for match in re.finditer(MASKED, text)]
    kept: list[TextSpan] = []
    # Example: a URL's password and an API key in the same place. The longest span comes first; of
    # equal ones, the more specific kind wins.
    for span in sorted(found, key=lambda span: (span.start, -span.end, _rank(span.kind))):
        # Redacting a redacted text must change nothing: `api_key=[api-key:3f9a1c]` contains no
        # secret.
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
    """Yield a value as it is, escaped once, and escaped twice: JSON strings may contain JSON."""
    for _ in range(3):
        yield value
        value = json.dumps(value, ensure_ascii=False)[1:-1]


@lru_cache(4096)
def _is_read(place: StringPlace) -> bool:
    """Return whether a string at a place has to be searched; ordinary field names need not be."""
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
    raw: bytes, is_selected: Callable[[StringPlace], bool]
) -> list[tuple[StringPlace, str]]:
    """Return the selected strings of a JSON text; raise if it is not valid JSON.

    Decoding is faster than scanning the text, but keeps only the last of several fields with the
    same name: `"content":"ghp_…","content":"hello"`.
    """
    value = _decode(raw)
    if not hides_strings(raw, value):
        return decoded_strings(value, is_selected)
    text = raw.decode("utf-8", "surrogateescape")
    return [
        (place, decode_string(text[start:end]).text)
        for place, start, end in written_strings(text)
        if is_selected(place)
    ]


def _is_clean(text: str) -> bool:
    return _is_clean_small(text) if len(text) < SMALL else _has_no_secret(text)


@lru_cache(1024)
def _is_clean_small(text: str) -> bool:
    """Cache the result: the client writes most tool output twice."""
    return _has_no_secret(text)


def _has_no_secret(text: str) -> bool:
    return not find_secrets(text) and not any(
        find_secrets(reading.text) for reading in unescaped_readings(text)
    )
