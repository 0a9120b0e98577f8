"""Read the width and height of a PNG, JPEG, GIF or WEBP image from its first bytes."""

import base64
import binascii
from collections.abc import Callable

HEAD = 1 << 20
"""Characters of base64 to decode: in a JPEG, metadata may precede the size."""
STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length field."""
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers followed by the size of a frame."""

Pixels = tuple[int, int]


def pixels_of(data: str) -> Pixels | None:
    """Return the width and height of an image in base64; None if its header does not contain them.

    >>> pixels_of("R0lGODlhAwAFAA==")
    (3, 5)
    """
    try:
        head = base64.b64decode(data[:HEAD], validate=False)
    except (binascii.Error, ValueError):
        return None
    for start, read in READERS.items():
        if head.startswith(start):
            return read(head)
    return None


def image_type(data: str) -> str | None:
    """Return the media type of a base64 image according to its first bytes, or None.

    >>> image_type("R0lGODlhAwAFAA=="), image_type("cGFzc3dvcmQ=")
    ('image/gif', None)
    """
    try:
        head = base64.b64decode("".join(data[:64].split())[:32])
    except (binascii.Error, ValueError):
        return None
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    found = (kind for start, kind in MEDIA_TYPES.items() if head.startswith(start))
    return "image/webp" if is_webp else next(found, None)


def _png(head: bytes) -> Pixels | None:
    return (_big(head[16:20]), _big(head[20:24])) if len(head) >= 24 else None


def _gif(head: bytes) -> Pixels | None:
    return (_little(head[6:8]), _little(head[8:10])) if len(head) >= 10 else None


def _jpeg(head: bytes) -> Pixels | None:
    offset = 2
    while offset + 9 <= len(head) and head[offset] == 0xFF:
        marker = head[offset + 1]
        if marker in FRAMES:
            return _big(head[offset + 7 : offset + 9]), _big(head[offset + 5 : offset + 7])
        if marker == 0xFF:  # a fill byte
            offset += 1
        elif marker in STANDALONE:
            offset += 2
        else:
            offset += 2 + _big(head[offset + 2 : offset + 4])
    return None


def _webp(head: bytes) -> Pixels | None:
    if head[8:12] != b"WEBP" or len(head) < 30:
        return None
    match head[12:16]:
        case b"VP8X":
            return _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case b"VP8L":
            bits = _little(head[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            # The two highest bits are a scaling factor, which does not change the stored size.
            return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
        case _:
            return None


def _big(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


READERS: dict[bytes, Callable[[bytes], Pixels | None]] = {
    b"\x89PNG\r\n\x1a\n": _png,
    b"\xff\xd8": _jpeg,
    b"GIF8": _gif,
    b"RIFF": _webp,
}
"""Functions that read the size, by the first bytes of an image."""
MEDIA_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
