"""Encrypt all files at DEST with age, using a random key that is protected by a password.

Deriving a key from a password takes a second by design, so only the files in `keys/` are encrypted
with the password. Two machines that initialize DEST at once create two keys: files are decrypted
with either, and encrypted with the first by name.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from turnlog.errors import Damaged, Unavailable, UsageError
from turnlog.exchange.options import NotExchanged
from turnlog.exchange.transports import Transport
from turnlog.format.age_files import (
    decrypt_with_password,
    encrypt_with_password,
    key_work,
    load_pyrage,
)

OVERHEAD = 1 << 16
"""Upper bound of age's header, in bytes. In addition, age adds 16 bytes for every 64 KiB."""
LARGEST_KEY = 1 << 12
MOST_WORK = 1 << 23
"""Limit on scrypt rounds for all keys together; a key that turnlog creates needs up to 2²⁰.

There is more than one key if several machines initialized DEST at once.
"""


class SealedTransport:
    """A transport whose files are encrypted; names and sizes are not."""

    def __init__(self, inner: Transport, password: str, is_dry_run: bool, dest: str) -> None:
        """Open the keys of DEST, or create one; `dest` is its name for messages."""
        self._inner = inner
        listed = inner.list()
        names = sorted(name for name in listed if name.startswith("keys/"))
        if not names and listed:
            raise UsageError(f"{dest} is not encrypted", f"turnlog sync-with {dest}")
        self.problems: list[NotExchanged] = []
        """Keys that could not be opened."""
        self._identities = _open_keys(inner, names, password, self.problems)
        if names and not self._identities:
            first = self.problems[0]
            hint = f"turnlog sync-with {dest} --password-file FILE"
            raise Unavailable(f"the password does not open {first.name}: {first.reason}", hint)
        if not names:
            self._identities = [_new_key(inner, password, is_dry_run)]

    def list(self) -> dict[str, int]:
        return self._inner.list()

    def read(self, name: str, limit: int) -> bytes:
        pyrage = load_pyrage()
        sealed = self._inner.read(name, limit + OVERHEAD + limit // 4096)
        try:
            return pyrage.decrypt(sealed, self._identities)
        except pyrage.DecryptError as error:
            raise Damaged(f"{name} cannot be decrypted") from error

    def write(self, name: str, content: bytes) -> None:
        pyrage = load_pyrage()
        self._inner.write(name, pyrage.encrypt(content, [self._identities[0].to_public()]))

    def remove(self, names: Iterable[str]) -> None:
        self._inner.remove(names)

    def finish(self) -> None:
        self._inner.finish()


def require_plain(transport: Transport, dest: str) -> None:
    """Raise `UsageError` if DEST is encrypted."""
    if any(name.startswith("keys/") for name in transport.list()):
        raise UsageError(f"{dest} is encrypted", f"turnlog sync-with {dest} --password")


def _open_keys(
    inner: Transport, names: Iterable[str], password: str, problems: list[NotExchanged]
) -> list[Any]:
    """Return the keys that the password opens; add the others to `problems`."""
    found: list[Any] = []
    work = 0
    for name in names:
        try:
            sealed = inner.read(name, LARGEST_KEY)
            work += key_work(sealed)
            # Trying a key takes a second or more, and a hostile DEST could have thousands.
            if work > MOST_WORK:
                raise Damaged("not tried: opening this many keys would take too long")
            found.append(_identity(decrypt_with_password(sealed, password)))
        except Damaged as error:
            problems.append(NotExchanged(name, str(error)))
    return found


def _identity(secret: bytes) -> Any:
    pyrage = load_pyrage()
    try:
        return pyrage.x25519.Identity.from_str(secret.decode())
    except (pyrage.IdentityError, ValueError) as error:
        raise Damaged("it contains no key") from error


def _new_key(inner: Transport, password: str, is_dry_run: bool) -> Any:
    identity = load_pyrage().x25519.Identity.generate()
    if not is_dry_run:
        sealed = encrypt_with_password(str(identity).encode(), password)
        inner.write(f"keys/{hashlib.sha256(sealed).hexdigest()}", sealed)
    return identity
