"""Minimal images and PDF files."""

import io
from typing import Any

from PIL import Image

SEALED = "4 0 obj<</Filter/Standard/V 1/R 2/O<{owner}>/U<{user}>/P -4>>endobj\n"
NO_PASSWORD = "72e13a911bf817749dbfbba7bb325fbdc339c40ca6104660c98660b07f3e5db7"
"""Key of an encrypted PDF that opens without a password."""


def picture(width: int, height: int, form: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    """An image whose left half is black."""
    image = Image.new(mode, (width, height), "white")
    image.paste(Image.new(mode, (width // 2, height)), (0, 0))
    return saved(image, form, **options)


def noise(width: int, height: int, form: str = "PNG") -> bytes:
    """An image that hardly gets smaller by packing."""
    image = Image.merge("RGB", [Image.effect_noise((width, height), 90) for _ in range(3)])
    return saved(image, form)


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    kept = io.BytesIO()
    image.save(kept, form, **options)
    return kept.getvalue()


def pdf(pages: int, user: str = "", size: tuple[int, int] = (612, 792)) -> bytes:
    """A PDF of empty pages; encrypted, where it says what a user's password is checked by."""
    kids = " ".join(f"{10 + number} 0 R" for number in range(pages))
    box = f"/MediaBox[0 0 {size[0]} {size[1]}]"
    objects = [f"{10 + n} 0 obj<</Type/Page/Parent 2 0 R{box}>>endobj\n" for n in range(pages)]
    sealed = SEALED.format(owner="00" * 32, user=user) if user else ""
    names = f"/ID[<{'00' * 16}><{'00' * 16}>]/Encrypt 4 0 R" if user else ""
    return (
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        f"2 0 obj<</Type/Pages/Kids[{kids}]/Count {pages}>>endobj\n"
        f"{''.join(objects)}{sealed}trailer<</Root 1 0 R{names}>>\n%%EOF\n"
    ).encode()
