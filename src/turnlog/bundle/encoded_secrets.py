"""Find secrets in encoded and compressed data, which `redact` leaves alone.

A bundle leaves the machine, so data that cannot be read is not trusted to be harmless: base64 is
decoded, and what is compressed within it is unpacked, up to a limit.
"""

import base64
import binascii
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress

from turnlog.edit.redact.secret_finder import REDACTED, Finder
from turnlog.secrets import find_secrets

ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
LONG = 100
"""Length from which text in base64 is searched for any secret; shorter ones for known values."""
UNPACKED = 4 << 20
"""Bytes of compressed data that are searched."""
GZIP = b"\x1f\x8b"
ZIP = b"PK\x03\x04"
UNREADABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)
ZSTD = b"\x28\xb5\x2f\xfd"
IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF")


def is_image(raw: bytes) -> bool:
    """Return whether data is a bitmap, judged by its first bytes."""
    is_riff = raw.startswith(b"RIFF")
    return raw.startswith(IMAGE_STARTS) and (not is_riff or raw[8:12] == b"WEBP")


def is_text(raw: bytes) -> bool:
    """Return whether data is UTF-8 text."""
    if b"\0" in raw:
        return False
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def encoded_secrets(raw: bytes, finder: Finder) -> Iterator[str]:
    """Yield each piece of base64 in a text that contains a secret when it is decoded."""
    for found in ENCODED.finditer(raw):
        piece = found[0]
        data = _decoded(piece)
        if data and _has_secret(data, finder, len(piece) >= LONG):
            yield piece.decode()


def image_secrets(raw: bytes, finder: Finder) -> bool:
    """Return whether the bytes of an image contain a known secret."""
    return any(value.encode() in raw for value in _known(finder))


def _has_secret(data: bytes, finder: Finder, is_long: bool) -> bool:
    if is_image(data):
        return image_secrets(data, finder)
    texts = [data, *_unpacked(data)]
    if any(value.encode() in text for text in texts for value in _known(finder)):
        return True
    if not is_long and len(texts) == 1:
        return False
    return any(find_secrets(text.decode()) for text in texts if is_text(text))


def _known(finder: Finder) -> Iterator[str]:
    for form, value in finder.forms.items():
        if finder.kinds[value] != REDACTED and form.isascii():
            yield form


def _decoded(piece: bytes) -> bytes:
    plain = piece.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    with suppress(binascii.Error, ValueError):
        return base64.b64decode(plain + b"=" * (-len(plain) % 4))
    return b""


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Yield the start of what gzip, zip or zstd data contains."""
    if data.startswith(GZIP):
        with suppress(zlib.error):
            yield zlib.decompressobj(31).decompress(data, UNPACKED)
    elif data.startswith(ZSTD):
        from backports import zstd

        with suppress(zstd.ZstdError):
            yield zstd.ZstdDecompressor().decompress(data, UNPACKED)
    elif data.startswith(ZIP):
        with suppress(*UNREADABLE), zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist()[:100]:
                with archive.open(name) as file:
                    yield file.read(UNPACKED)
