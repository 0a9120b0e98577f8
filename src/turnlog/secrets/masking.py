"""Mask secrets in a text, in the start of a long text, and in decoded JSON by field names.

Mask before truncating a text: half a token is not recognised, and would be shown.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from turnlog.secrets.detector import Secret, find_secrets, placeholder_for
from turnlog.secrets.invisible import visible
from turnlog.secrets.names import LABELS, VALUES, find_named, flag_name, is_secret_name

BEFORE, AFTER, AROUND = 1500, 200, 4096
"""Characters to examine before a cut, after it, and after it if a word continues that far. Private
keys may be longer, but are recognised by their start."""
ROUNDS = 16
"""Maximum number of glued tokens: each is recognised only once the previous one is masked."""
SHORT = 100
"""Maximum length of a text to cache."""
SHORTEST = 6
"""Minimum length of a secret."""
KEY_START = "PRIVATE KEY"
"""Part of the first line of every private key in PEM or PGP armour."""
MOST_CLEAN = 50_000
"""Maximum number of cached hashes of texts without secrets."""
REMEMBERED = 1_000_000
"""Maximum total length of cached texts with secrets."""
DEEPEST = 100
"""Maximum depth of a JSON value to show: files may nest deeper than Python can recurse."""
TOO_DEEP = "…"
"""Placeholder for deeper levels."""
PRIVATE = frozenset("d p q dp dq qi k".split())
"""Secret members of a JSON Web Key, which has a member `kty`."""

Placeholder = Callable[[str, str], str]
MaskText = Callable[[str, str], str]
"""Masks a text, given the name of its field."""


def mask(text: str, placeholder: Placeholder = placeholder_for) -> str:
    """Return `text` with a placeholder in place of each secret.

    >>> mask("password = 'tr0ub4dor&3'")
    "password = '[password:882a2a]'"
    """
    if placeholder is not placeholder_for:
        return _mask(text, placeholder)
    return mask_short(text) if len(text) <= SHORT else _recent.masked(text)


def _mask(text: str, placeholder: Placeholder = placeholder_for) -> str:
    # Repeat, because masking a secret can expose another one that was glued to it.
    for _ in range(ROUNDS):
        found = find_secrets(text)
        if not found:
            break
        text = _replace(text, found, placeholder)
    return text


class _Recent:
    """A cache of masked long texts, with bounded memory.

    Most texts occur several times: a session records an output both as a result and as a structured
    result, and several views show it.
    """

    def __init__(self) -> None:
        self._masked: dict[str, str] = {}
        self._length = 0
        self._clean: set[int] = set()
        """Hashes of texts without secrets, which are nearly all."""

    def masked(self, text: str) -> str:
        # A collision of 64 bits is less likely than a broken disk, and nobody can construct one:
        # Python keys the hash with a random number for each process.
        if (key := hash(text)) in self._clean:
            return text
        found = self._masked.get(text)
        if found is None:
            found = _mask(text)
            if found == text:
                self._note_clean(key)
            elif len(text) <= REMEMBERED // 4:
                self._remember(text, found)
        return found

    def _note_clean(self, key: int) -> None:
        if len(self._clean) >= MOST_CLEAN:
            self._clean.clear()
        self._clean.add(key)

    def _remember(self, text: str, masked: str) -> None:
        self._length += len(text)
        if self._length > REMEMBERED:
            self._masked.clear()
            self._length = len(text)
        self._masked[text] = masked


_recent = _Recent()


@lru_cache(8192)
def mask_short(text: str) -> str:
    """Mask a text that occurs often, such as a field name or an id; cached."""
    return _mask(text)


def mask_start(text: str, limit: int) -> str:
    """Return the first `limit` characters of the masked text, without masking all of it."""
    return mask(text[: _word_end(text, limit)])[:limit]


def cut_whole(text: str, limit: int) -> str:
    """Truncate a text to `limit` characters, or before a secret that crosses the limit."""
    if len(text) <= limit:
        return text
    start = max(0, limit - BEFORE)
    for secret in find_secrets(text[start : _word_end(text, limit)]):
        if start + secret.start < limit < start + secret.end:
            return text[: start + secret.start]
    return text[:limit]


def before_cut(text: str, limit: int) -> str:
    """Return the part of a text that `cut_whole` examines, to cut it later with the same result."""
    return text if len(text) <= limit else text[: _word_end(text, limit)]


def cut_texts(value: Any, limit: int, depth: int = DEEPEST) -> Any:
    """Truncate every text of a JSON value like `cut_whole`, so that masking it takes bounded time.

    Levels beyond `depth` are replaced by an ellipsis.

    >>> cut_texts({"content": ["ok", "x" * 9]}, 4)
    {'content': ['ok', 'xxxx']}
    """
    if isinstance(value, str):
        return cut_whole(value, limit)
    if isinstance(value, dict | list | tuple) and not depth:
        return TOO_DEEP
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {name: cut_texts(each, limit, depth - 1) for name, each in fields.items()}
    if isinstance(value, list | tuple):
        return [cut_texts(each, limit, depth - 1) for each in cast("Sequence[Any]", value)]
    return value


def _word_end(text: str, limit: int) -> int:
    """Return how far to examine after a cut: to the end of a word, which may be a long token."""
    space = re.search(r"\s", text[limit + AFTER : limit + AROUND])
    return limit + AFTER + space.end() if space else limit + AROUND


def mask_by_name(name: str, text: str) -> str:
    """Mask the value of a field only if its name marks it as secret."""
    kind = find_named(name, text) if name and is_secret_name(name) else None
    return placeholder_for(kind, text) if kind else text


def mask_named(name: str, text: str) -> str:
    """Mask a text that is the value of a field; the name may mark it as secret."""
    if (masked := mask_by_name(name, text)) is not text:
        return masked
    # UUIDs are the most frequent values, and only a name can mark them as secret.
    is_id = len(text) == 36 and text[8] == text[13] == text[18] == text[23] == "-"
    if is_id or len(text) < SHORTEST:
        return text
    return mask(text)


def mask_value(
    value: Any, name: str = "", depth: int = DEEPEST, mask_text: MaskText = mask_named
) -> Any:
    """Return a JSON value with its secrets masked, including those in field names.

    Levels beyond `depth` are replaced by an ellipsis. With `mask_by_name` as `mask_text`, only what
    a field's name marks as secret is masked.

    >>> mask_value({"api_key": "hunter2-hunter2", "args": ["--password", "hunter2"]})
    {'api_key': '[secret:84ca44]', 'args': ['--password', '[password:f52fbd]']}
    """
    if isinstance(value, str):
        return mask_text(name, value)
    # A tuple of types, because building a union takes longer than masking most values.
    if not isinstance(value, (dict, list, tuple)):
        return value
    if not depth:
        return TOO_DEEP
    if isinstance(value, dict):
        return _masked_fields(cast("dict[Any, Any]", value), depth, mask_text)
    return _masked_items(cast("Sequence[Any]", value), name, depth, mask_text)


def _masked_fields(fields: dict[Any, Any], depth: int, mask_text: MaskText) -> dict[Any, Any]:
    label = _label(fields)
    private = PRIVATE if "kty" in fields else frozenset[str]()
    masked: dict[Any, Any] = {}
    for key, value in fields.items():
        name = label if label and key in VALUES else str(key)
        name = "private_key" if key in private else name
        shown = mask_short(key) if isinstance(key, str) else key
        masked[shown] = mask_value(value, name, depth - 1, mask_text)
    return masked


def _masked_items(values: Sequence[Any], name: str, depth: int, mask_text: MaskText) -> list[Any]:
    # Treat the item after `--password` in an argument list as a field of that name.
    masked: list[Any] = []
    flag = name
    for value in _without_split_keys(values):
        masked.append(mask_value(value, flag, depth - 1, mask_text))
        flag = (flag_name(value) if isinstance(value, str) else "") or name
    return masked


def _without_split_keys(values: Sequence[Any]) -> Sequence[Any]:
    """Mask private keys that are split into lines, whose inner lines are not recognizable alone.

    The client records diffs that way: `"lines": ["+-----BEGIN PRIVATE KEY-----", "+MIIE…", …]`.
    """
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or not any(KEY_START in text for text in texts):
        return values
    if any("\n" in text for text in texts):  # not lines: each is masked as a whole
        return values
    whole = "\n".join(texts)
    masked = mask(whole)
    return values if masked == whole else masked.split("\n")


def _label(fields: dict[Any, Any]) -> str:
    if LABELS.isdisjoint(fields):
        return ""
    found = (fields.get(label) for label in LABELS)
    return next((text for text in found if isinstance(text, str) and is_secret_name(text)), "")


def _replace(text: str, found: list[Secret], placeholder: Placeholder) -> str:
    parts: list[str] = []
    end = 0
    for secret in found:
        value = visible(text[secret.start : secret.end])
        parts += text[end : secret.start], placeholder(secret.kind, value)
        end = secret.end
    return "".join([*parts, text[end:]])
