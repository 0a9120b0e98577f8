"""Find secrets in encoded and compressed data, which `redact` leaves alone.

A bundle leaves the machine, so unreadable data is not assumed to be harmless. Known values are
looked for in encoded form. For all others, base64 is decoded, and compressed data inside it is
unpacked, up to a limit.
"""

import base64
import binascii
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress

from turnlog.edit.redact.encoded_columns import columns
from turnlog.edit.redact.encoded_values import NUMBER, with_line_breaks
from turnlog.edit.redact.secret_finder import Finder
from turnlog.secrets import find_secrets

ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
BREAK = (
    r"""(?:\\*["'])?,?(?: *[+\\])?(?:\\+r|\r)?(?:\\+n|\n)[ \t]*(?:[>|] ?)?"""
    rf"""(?:{NUMBER})?[ \t]*(?:\\*["'])?|",\s*\""""
)
"""A line break in base64, possibly escaped in JSON, with what may be around it.

Examples: the number of a line, the quotes of a literal, the next string in a list of lines.
"""
ANY_BREAK = re.compile(BREAK.encode())
LAST_LINE = re.compile(rf"(?:{BREAK})([A-Za-z0-9+/_-]{{2,23}}={{0,2}})(?![\w+/-])".encode())
UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Most of what looks like base64 in a transcript; too few digits to encode a secret."""
HEX = re.compile(rb"(?:0[xX])?((?:[0-9a-fA-F]{2})+)")
ASCII = re.compile(rb"[\t\n\r -~]{16,}")
"""A run of text in binary data, such as an archive, a program or a document."""
NESTED = 2
"""Maximum number of nested encodings that are decoded."""
UNPACKED = 4 << 20
"""Maximum bytes of decompressed data that are searched."""
GZIP = b"\x1f\x8b"
ZIP = b"PK\x03\x04"
# Found by damaging zips at random: encrypted members and unknown methods (RuntimeError), bad bzip2
# data (OSError), offsets before the start and names that are not UTF-8 (ValueError).
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
)
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


def encoded_secrets(raw: bytes, finder: Finder, nested: int = NESTED) -> Iterator[str]:
    """Yield the texts to replace: encoded values, and base64 with a secret once it is decoded.

    If wrapped base64 contains a secret once its lines are joined, each of the lines is yielded.
    """
    yield from finder.known_encodings.find(raw)
    for lines in _wrapped_lines(raw):
        readings = [lines] if len(lines) > 1 else []
        if len(lines) > 1 and all(line[:1] in b"+-" for line in lines):
            readings.append([line[1:] for line in lines])  # in a diff
        hiding = (each for each in readings if _hides_secret(b"".join(each), finder, nested))
        single = (line for line in lines if _hides_secret(line, finder, nested))
        yield from (line.decode() for line in next(hiding, single))
    for column in columns(with_line_breaks(raw)):
        if _hides_secret(column.joined, finder, nested):
            yield from (piece.decode() for piece in column.replaced())


def _wrapped_lines(raw: bytes) -> Iterator[list[bytes]]:
    """Yield pieces of base64, grouped with those on consecutive lines."""
    lines: list[bytes] = []
    end = 0
    for found in ENCODED.finditer(raw):
        if UUID.fullmatch(found[0]):
            continue
        # The `n` of an escaped newline does not belong to the base64: `\\nQUtJ...`.
        is_escaped = raw[found.start() - 1 : found.start()] == b"\\" and found[0][0] in b"nrtbf"
        start = found.start() + is_escaped
        if lines and not ANY_BREAK.fullmatch(raw, end, start):
            yield _with_last_line(lines, raw, end)
            lines = []
        lines.append(raw[start : found.end()])
        end = found.end()
    if lines:
        yield _with_last_line(lines, raw, end)


def _with_last_line(lines: list[bytes], raw: bytes, end: int) -> list[bytes]:
    last = LAST_LINE.match(raw, end)
    # The length of base64 is a multiple of four; with an unrelated word added, it rarely is.
    is_last = last and (sum(map(len, lines)) + len(last[1])) % 4 == 0
    return [*lines, last[1]] if last and is_last else lines


def _hides_secret(piece: bytes, finder: Finder, nested: int) -> bool:
    return any(_has_secret(data, finder, nested) for data in _decoded(piece))


def image_secrets(raw: bytes, finder: Finder) -> bool:
    """Return whether the bytes of an image contain a secret, such as in a comment."""
    if any(finder.known_in_bytes.find(raw)):
        return True
    # Pixels are compressed: a run this long is text, for example EXIF data.
    return bool(find_secrets("\n".join(run.decode() for run in ASCII.findall(raw))))


def _has_secret(data: bytes, finder: Finder, nested: int) -> bool:
    if is_image(data):
        return image_secrets(data, finder)
    for whole in (data, *_unpacked(data)):
        # Without its NUL bytes, UTF-16 is ASCII; in a tar archive, they end a file.
        for each in (whole, whole.replace(b"\0", b"")) if b"\0" in whole else (whole,):
            if any(finder.known_in_bytes.find(each)):
                return True
            text = b"\n".join(ASCII.findall(each))
            if text and _is_secret_text(text, finder, nested):
                return True
    return False


def _is_secret_text(text: bytes, finder: Finder, nested: int) -> bool:
    is_found = bool(find_secrets(text.decode()))
    return is_found or (nested > 1 and any(encoded_secrets(text, finder, nested - 1)))


def _decoded(piece: bytes) -> Iterator[bytes]:
    """Yield the possible decodings of a piece: hexadecimal, or base64 at several offsets."""
    if digits := HEX.fullmatch(piece):
        yield bytes.fromhex(digits[1].decode())
    plain = piece.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    # What is before it looks like base64 as well: `artifacts/QUtJ...`, `+QUtJ...` in a diff.
    for start in range(4):
        part = plain[start:]
        part = part[:-1] if len(part) % 4 == 1 else part  # cut off within a group
        with suppress(binascii.Error, ValueError):
            yield base64.b64decode(part + b"=" * (-len(part) % 4))


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Yield the decompressed content of gzip, zip or zstd data, up to a limit."""
    if data.startswith(GZIP):
        with suppress(zlib.error):
            while data.startswith(GZIP):  # several files may be concatenated
                source = zlib.decompressobj(31)
                yield source.decompress(data, UNPACKED)
                data = source.unused_data
    elif data.startswith(ZSTD):
        from backports import zstd

        with suppress(zstd.ZstdError):
            yield zstd.ZstdDecompressor().decompress(data, UNPACKED)
    elif data.startswith(ZIP):
        with suppress(*UNREADABLE), zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist()[:100]:
                # Read each separately: an encrypted first member must not hide a secret in another.
                with suppress(*UNREADABLE), archive.open(name) as file:
                    yield file.read(UNPACKED)
