"""Everything at DEST encrypted with age: to a random key, which a password protects.

Deriving a key from a password takes a second by design, so only `keys/` is encrypted with it. Two
machines that start at once create two keys; both are read, and the first by name is used.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from turnlog.errors import Damaged, Unavailable, UsageError
from turnlog.exchange.transports import Transport

OVERHEAD = 1 << 16
"""Bytes that encryption adds at most: a header, and 16 bytes for every 64 KiB."""
LARGEST_KEY = 1 << 12
MOST_KEYS = 16


class SealedTransport:
    """A transport whose files are encrypted; names and sizes are not."""

    def __init__(self, inner: Transport, password: str, is_dry_run: bool) -> None:
        self._inner = inner
        listed = inner.list()
        names = sorted(name for name in listed if name.startswith("keys/"))
        if not names and listed:
            raise UsageError("DEST is not encrypted", "turnlog sync-with DEST")
        self._identities = [_opened(inner, name, password) for name in names[:MOST_KEYS]]
        if not names:
            self._identities = [_new_key(inner, password, is_dry_run)]

    def list(self) -> dict[str, int]:
        return self._inner.list()

    def read(self, name: str, limit: int) -> bytes:
        pyrage = _pyrage()
        sealed = self._inner.read(name, limit + OVERHEAD + limit // 4096)
        try:
            return pyrage.decrypt(sealed, self._identities)
        except pyrage.DecryptError as error:
            raise Damaged(f"{name} cannot be decrypted") from error

    def write(self, name: str, content: bytes) -> None:
        pyrage = _pyrage()
        self._inner.write(name, pyrage.encrypt(content, [self._identities[0].to_public()]))

    def remove(self, names: Iterable[str]) -> None:
        self._inner.remove(names)

    def finish(self) -> None:
        self._inner.finish()


def require_plain(transport: Transport) -> None:
    """Raise `UsageError` if DEST is encrypted."""
    if any(name.startswith("keys/") for name in transport.list()):
        raise UsageError("DEST is encrypted", "turnlog sync-with DEST --password")


def _opened(inner: Transport, name: str, password: str) -> Any:
    pyrage = _pyrage()
    sealed = inner.read(name, LARGEST_KEY)
    try:
        secret = pyrage.passphrase.decrypt(sealed, password)
        return pyrage.x25519.Identity.from_str(secret.decode())
    except (pyrage.DecryptError, pyrage.IdentityError, ValueError) as error:
        raise Unavailable(f"the password does not open {name}") from error


def _new_key(inner: Transport, password: str, is_dry_run: bool) -> Any:
    pyrage = _pyrage()
    identity = pyrage.x25519.Identity.generate()
    if not is_dry_run:
        sealed = pyrage.passphrase.encrypt(str(identity).encode(), password)
        inner.write(f"keys/{hashlib.sha256(sealed).hexdigest()}", sealed)
    return identity


def _pyrage() -> Any:
    try:
        import pyrage  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        hint = "pip install 'turnlog[encryption]'"
        raise Unavailable("encryption is not installed", hint) from error
    return pyrage
