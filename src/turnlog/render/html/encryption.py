"""Encrypt an exported page with a password: AES-256-GCM with a key from PBKDF2-SHA-256.

The page decrypts itself with the browser's WebCrypto, which supports both. Every chunk is bound to
its place in the file: chunks cannot be swapped, dropped or mixed with another file's.
"""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from turnlog.errors import Unavailable

ITERATIONS = 600_000
"""OWASP's recommendation for PBKDF2-SHA-256 (2023)."""
NONCE = 12


@dataclass(frozen=True)
class PageKey:
    """A key derived from a password; one key may encrypt several pages."""

    salt: bytes
    key: bytes
    iterations: int = ITERATIONS

    @property
    def check(self) -> str:
        """A fingerprint of the key, which reveals no more about the password than a page does."""
        return hashlib.sha256(b"turnlog check" + self.key).hexdigest()[:16]


def derive_key(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> PageKey:
    """Derive a key for pages from a password, by default with a new random salt."""
    salt = os.urandom(16) if salt is None else salt
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    return PageKey(salt, key, iterations)


class PageCipher:
    """Encrypts the parts of one page."""

    def __init__(self, key: PageKey, page: bytes) -> None:
        """`page` is a random id of the page, which binds all its parts to it."""
        self._aead = _aead(key.key)
        self._page = page

    def encrypt(self, data: bytes, part: str) -> bytes:
        """Return a random nonce and the ciphertext of a part, bound to the part's name."""
        # Random nonces may repeat after about 2**32 messages with one key, far more chunks than
        # `--all` writes for 100,000 sessions.
        nonce = os.urandom(NONCE)
        return nonce + self._aead.encrypt(nonce, data, self._page + part.encode())

    def decrypt(self, data: bytes, part: str) -> bytes:
        """Return the data of a part; raise Unavailable if key, part or data are wrong."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(data[:NONCE], data[NONCE:], self._page + part.encode())
        except InvalidTag as error:
            raise Unavailable("the password is wrong, or the file was changed") from error


def _aead(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        hint = "pip install 'turnlog[encryption]'"
        raise Unavailable("encryption is not installed", hint) from error
    return AESGCM(key)
