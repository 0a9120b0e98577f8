"""Encrypt with a password in the age format, and limit the work of decrypting.

The header of a file sets the work of deriving its key, so it is checked before decrypting.
"""

import re
import time
from typing import Any

from turnlog.errors import Damaged, Unavailable

AGE = b"age-encryption.org/v1\n"
HARDEST = 21
"""Maximum scrypt work factor (log2): takes 2 GiB of memory. age uses 17 to 20, about a second."""
HEADER_LIMIT = 4096
TOO_MUCH_WORK = "xcessive work"
PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts to decrypt on a busy machine."""
STANZA = re.compile(rb"-> scrypt [A-Za-z0-9+/]{22} ([1-9][0-9]?)\n[A-Za-z0-9+/]{43}\n--- ")


def is_age_file(start: bytes) -> bool:
    """Return whether a file starts with the header of the age format."""
    return start.startswith(AGE)


def encrypt_with_password(raw: bytes, password: str) -> bytes:
    """Encrypt bytes in the age format."""
    return load_pyrage().passphrase.encrypt(raw, password)


def decrypt_with_password(raw: bytes, password: str) -> bytes:
    """Decrypt bytes; raise `Damaged` if the password or the file is wrong."""
    key_work(raw)
    for pause in PAUSES:
        try:
            return load_pyrage().passphrase.decrypt(raw, password)
        except Exception as error:  # pyrage's own class, which depends on the fault
            if TOO_MUCH_WORK not in str(error):
                raise Damaged("the password is wrong, or the file was changed") from error
            # pyrage refuses work that would take this machine too long, judged by a brief
            # measurement: on a busy machine, it refuses even files that the same machine wrote.
            time.sleep(pause)
    raise Unavailable("the machine is too busy to derive a key from the password")


def key_work(raw: bytes) -> int:
    """Return the rounds of scrypt that a file asks for; raise `Damaged` if they are too many."""
    header = STANZA.match(raw[len(AGE) : HEADER_LIMIT])
    # A file can ask for 2**63 rounds to derive its key: the reader would never finish.
    if not is_age_file(raw) or not header or int(header[1]) > HARDEST:
        raise Damaged("the file is not encrypted with a password, or too hard to decrypt")
    return 1 << int(header[1])


def load_pyrage() -> Any:
    """Import pyrage; raise `Unavailable` if it is not installed."""
    try:
        import pyrage  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        hint = "pip install 'turnlog[encryption]'"
        raise Unavailable("encryption is not installed", hint) from error
    return pyrage
