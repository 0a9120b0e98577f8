"""Convert images to blocks for the Messages API, resizing those that are too large.

The limits are those of 2.1.325 (observed).
"""

import base64
import binascii
import os
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnlog.agent.workspace.tool import ToolError, ToolOutcome
from turnlog.format.json_values import Fields

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 2_000
"""Maximum pixels per side if a request has many images."""
PATCH, PATCHES = 28, 4_784
"""Models see an image as squares of PATCH pixels per side, at most PATCHES of them."""
BYTES = 500 << 10
LARGEST = 128 << 20
"""Maximum bytes of a file to decode."""
MOST_PIXELS = 180_000_000
"""Maximum pixels of an image to decode: larger ones take too much memory."""
LANCZOS = 1
"""Pillow's number of the resampling filter."""
SMOOTH = ("L", "LA", "RGB", "RGBA", "CMYK")
"""Image modes that can be resampled."""
QUALITIES = (80, 65, 50, 35, 20)
KINDS = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
SAVED = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "PNG", "image/webp": "WEBP"}
"""Format of a resized image, by media type of the original."""

Pixels = tuple[int, int]


class Picture(Struct, frozen=True):
    """An image as sent to a model."""

    raw: bytes
    kind: str
    original: Pixels
    shown: Pixels

    @property
    def data(self) -> str:
        """Its bytes in base64."""
        return base64.b64encode(self.raw).decode()

    @property
    def block(self) -> Fields:
        source = {"type": "base64", "media_type": self.kind, "data": self.data}
        return {"type": "image", "source": source}


def read_image(path: Path, file: BufferedReader) -> ToolOutcome:
    """Return the image in an open file as a block, with a note if it was scaled down."""
    # Gigabytes of zeros take little room in a repository, and would fill the memory here.
    if os.fstat(file.fileno()).st_size > LARGEST:
        raise ToolError(f"{path} is larger than {LARGEST >> 20} MiB")
    raw = file.read()
    picture = fit(raw, str(path))
    names = ("originalWidth", "originalHeight", "displayWidth", "displayHeight")
    sizes = dict(zip(names, picture.original + picture.shown, strict=True))
    described = {
        "base64": picture.data,
        "type": picture.kind,
        "originalSize": len(raw),
        "dimensions": sizes,
    }
    return ToolOutcome([picture.block, *_note(picture)], {"type": "image", "file": described})


def fit(raw: bytes, name: str) -> Picture:
    """Return an image that can be sent; raise `ToolError` if it cannot be decoded."""
    kind = next((kind for start, kind in KINDS.items() if raw.startswith(start)), None)
    if kind is None:
        why = "is not a PNG, JPEG, GIF or WebP image" if raw else "is empty"
        raise ToolError(f"{name} {why}")
    try:
        return _fitted(raw, kind)
    except Exception as error:  # decoders raise all kinds of errors
        raise ToolError(f"{name} cannot be shown: it does not decode ({error})") from error


def block_of(data: str, instead: str) -> Fields:
    """Return a base64 image as a block, or the text `instead` if it cannot be shown."""
    try:
        return fit(base64.b64decode(data), "").block
    except (ToolError, binascii.Error):
        return {"type": "text", "text": instead}


def room_for(size: tuple[float, float]) -> Pixels:
    """Return the size to send: the image's own, or the largest allowed one of its aspect ratio.

    >>> room_for((640, 480)), room_for((6_000, 4_000)), room_for((1_990, 1_990))
    ((640, 480), (2000, 1333), (1932, 1932))
    """
    longest = int(min(max(size), SIDE))
    while True:
        scale = longest / max(size)
        width, height = (max(1, round(side * scale)) for side in size)
        if -(-width // PATCH) * -(-height // PATCH) <= PATCHES:
            return width, height
        longest -= 1


def encode(image: "Image", kind: str) -> tuple[bytes, str]:
    """Return an image's bytes and media type, as a JPEG of lower quality if it is too large."""
    raw, saved = _saved(image, SAVED[kind], QUALITIES[0]), SAVED[kind]
    for quality in QUALITIES:
        if len(raw) <= BYTES:
            break
        raw, saved = _saved(image, "JPEG", quality), "JPEG"
    return raw, f"image/{saved.lower()}"


def _fitted(raw: bytes, kind: str) -> Picture:
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None  # avoids Pillow's warning; the limit is checked below
    with Image.open(BytesIO(raw), formats=["PNG", "JPEG", "GIF", "WEBP"]) as opened:
        size = opened.size
        if size[0] * size[1] > MOST_PIXELS:
            raise ValueError(f"{size[0]} x {size[1]} pixels are too many")
        shown = room_for(size)
        if shown == size and len(raw) <= BYTES:
            opened.load()
            return Picture(raw, kind, size, size)
        opened.draft("RGB", shown)  # lets Pillow decode a JPEG at a smaller size
        resized = _resized(opened, shown)
    upright = ImageOps.exif_transpose(resized)
    original = size if upright.size == shown else (size[1], size[0])
    return Picture(*encode(upright, kind), original, upright.size)


def _resized(image: Any, size: Pixels) -> "Image":
    """Resize an image in RGB, with as few copies as possible: it may be huge."""
    if image.mode.startswith("I"):
        image = image.point(_upper_byte).convert("L")  # otherwise nearly all pixels get white
    elif image.mode not in SMOOTH:
        image = _coloured(image)
    return _coloured(image.resize(size, LANCZOS, reducing_gap=3.0))


def _coloured(image: Any) -> "Image":
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _upper_byte(value: Any) -> Any:
    return value / 256


def _saved(image: "Image", form: str, quality: int) -> bytes:
    from PIL import Image

    if form == "JPEG" and image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    buffer = BytesIO()
    image.save(buffer, form, quality=quality)
    return buffer.getvalue()


def _note(picture: Picture) -> list[Fields]:
    if picture.shown == picture.original:
        return []
    (width, height), shown = picture.original, picture.shown
    text = (
        f"[The image has {width} x {height} pixels and is shown at {shown[0]} x {shown[1]}: "
        f"multiply coordinates by {width / shown[0]:.2f}.]"
    )
    return [{"type": "text", "text": text}]
