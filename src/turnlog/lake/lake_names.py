"""Decide which form of a string enters a lake: a known value, an id, a name, or a keyed hash.

Session files contain whatever a client, a model or a user wrote, in any field. A string is copied
to a lake only because of its own form, never because of the field it is in.
"""

import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

from turnlog.conversation.prompts import PromptKind
from turnlog.lake.lake_schema import COMMANDS, NO_DAY, PATHS, TEXTS
from turnlog.secrets import find_secrets, mask
from turnlog.store.paths import last_part

HASHED = "h-"
"""Prefix of a keyed hash."""
HASH_DIGITS = 24
MOST_CACHED = 1 << 16
"""Maximum hashes and names in the cache, which is cleared when it is full."""

# The API's ids have 24 characters; test doubles use short ones. Other lengths are hashed, because
# `msg_AKIAIOSFODNN7EXAMPLE` would carry a key into the lake.
_API_ID = r"(?:msg|toolu|srvtoolu|mcptoolu|req)_(?:(?:bdrk|vrtx)_)?(?:[^\W_]{24}|[^\W_]{1,12})"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
IDENTIFIER = re.compile(rf"(?:{_API_ID}|{_UUID}|a?[0-9a-f]{{4,17}})(?:/\d{{1,3}})?", re.ASCII)
NAME = re.compile(r"[\w@+][\w.@+-]{0,63}")
"""A project or user name: no spaces, which would admit prompts, and no path separators."""
MODEL = re.compile(r"<synthetic>|[A-Za-z0-9][\w.:@-]{0,63}(?:/[\w.:@-]{1,64})?", re.ASCII)
TOOL = re.compile(r"[A-Za-z][\w-]{0,127}", re.ASCII)
BRANCH = re.compile(r"[A-Za-z0-9][\w.#@+-]{0,63}(?:/[\w.#@+-]{1,64}){0,3}")
VERSION = re.compile(r"\d{1,4}(?:\.\d{1,6}){1,3}(?:-[a-z]{1,8}[.\d]{0,12})?", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{4,12}")

KINDS = frozenset(PromptKind)
TRIGGERS = frozenset({"manual", "auto"})
STOP_REASONS = frozenset(
    "end_turn tool_use max_tokens stop_sequence pause_turn refusal model_context_window_exceeded"
    " compaction".split()
)
PERMISSION_MODES = frozenset(
    "default plan acceptEdits bypassPermissions dontAsk auto delegate".split()
)


class LakeNames(NamedTuple):
    """The pushing user, their consents, and the key of all hashes."""

    key: bytes
    user: str | None
    host: str | None
    consents: frozenset[str] = frozenset()
    is_hashed: bool = False
    """Store users, hosts, projects and branches by keyed hash."""


class NameFilter:
    """Hashes or drops strings that may not enter a lake; caches the results."""

    def __init__(self, names: LakeNames) -> None:
        self.names = names
        self._known: dict[tuple[str, str], str] = {}

    @cached_property
    def fingerprint(self) -> str:
        """Short digest that tells whether two machines hash with the same key."""
        return self.hashed("turnlog lake key")[len(HASHED) :][:8]

    @property
    def user(self) -> str | None:
        return self.personal(self.names.user)

    @property
    def host(self) -> str | None:
        return self.personal(self.names.host)

    def hashed(self, text: str) -> str:
        """Return the keyed hash of a text: under one key, equal texts have equal hashes.

        Without a key, anyone could confirm a guess: a path, or a prompt such as "yes".
        """
        return self._once("hash", text, self._hash)

    def key_of(self, text: str | None) -> str | None:
        """Return the keyed hash of a text, or None."""
        return None if text is None else self.hashed(text)

    def identifier(self, text: str | None) -> str | None:
        """Return a text unchanged if it looks like an id, or else its hash."""
        if text is None or IDENTIFIER.fullmatch(text):
            return text
        return self.hashed(text)

    def opener(self, text: str) -> str:
        """Return the id that opens a file: it is the file's name, so consent to paths covers it."""
        return self.path(text) or str(self.identifier(text))

    def known(self, text: str | None, values: frozenset[str]) -> str | None:
        """Return a text unchanged if it is one of the known values, or else its hash."""
        return text if text is None or text in values else self.hashed(text)

    def model(self, text: str | None) -> str | None:
        return self._named(text, MODEL)

    def tool(self, text: str) -> str:
        return self._once("tool", text, lambda each: self._allowed(each, TOOL))

    def version(self, text: str | None) -> str | None:
        return self._named(text, VERSION)

    def commit(self, text: str) -> str:
        return self._once("commit", text, lambda each: self._allowed(each, COMMIT))

    def branch(self, text: str | None) -> str | None:
        # Common names say nothing about a project, and reports stay readable.
        if text and self.names.is_hashed and text not in {"main", "master", "HEAD"}:
            return self.hashed(text)
        return self._named(text, BRANCH)

    def personal(self, text: str | None) -> str | None:
        """Return the name of a user, a machine or a project, or its hash."""
        if text is None:
            return None
        return self.hashed(text) if self.names.is_hashed else self._named(text, NAME)

    def project(self, folder: str | None) -> str | None:
        """Return the name of a working directory, or its whole path with consent."""
        if folder is None or PATHS in self.names.consents:
            return self.path(folder)
        return self.personal(last_part(folder.rstrip("/\\"))) if folder.strip("/\\") else folder

    def path(self, text: str | None) -> str | None:
        return self._consented(PATHS, text)

    def command(self, text: str | None) -> str | None:
        return self._consented(COMMANDS, text)

    def text(self, text: str | None) -> str | None:
        return self._consented(TEXTS, text)

    def _consented(self, consent: str, text: str | None) -> str | None:
        # Consent covers contents, never the passwords in them: `curl -u ada:hunter2` is masked.
        return mask(text) if text is not None and consent in self.names.consents else None

    def _named(self, text: str | None, pattern: re.Pattern[str]) -> str | None:
        if text is None:
            return None
        return self._once(pattern.pattern, text, lambda each: self._allowed(each, pattern))

    def _allowed(self, text: str, pattern: re.Pattern[str]) -> str:
        return text if pattern.fullmatch(text) and not find_secrets(text) else self._hash(text)

    def _hash(self, text: str) -> str:
        content = text.encode(errors="surrogatepass")
        return HASHED + hmac.new(self.names.key, content, sha256).hexdigest()[:HASH_DIGITS]

    def _once(self, kind: str, text: str, compute: Callable[[str], str]) -> str:
        found = self._known.get((kind, text))
        if found is None:
            # Clearing is enough: names recur within a file, and the next files fill it again.
            if len(self._known) >= MOST_CACHED:
                self._known.clear()
            found = self._known[kind, text] = compute(text)
        return found


def day_of(at: float | None) -> str:
    """Return the UTC day of a time.

    >>> day_of(86399.9), day_of(None), day_of(1e300)
    ('1970-01-01', 'none', 'none')
    """
    if at is None:
        return NO_DAY
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return NO_DAY
