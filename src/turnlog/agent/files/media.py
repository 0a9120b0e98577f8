"""Images and PDF files as blocks that the Messages API takes."""

import base64
import shutil
import subprocess
import tempfile
from pathlib import Path

from turnlog.agent.shell.output import told_size
from turnlog.agent.tool import Fields, Outcome, ToolError
from turnlog.edit.images import pixels_of

IMAGE_LIMIT = 5 << 20
"""Bytes of base64 that the API takes for one image."""
SIDE_LIMIT = 8_000
PDF_LIMIT = 24 << 20
"""Bytes of a PDF that, with base64 around them, fit a request."""
PAGES_LIMIT = 20
KINDS = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


def read_image(path: Path) -> Outcome:
    """An image as a block."""
    raw = path.read_bytes()
    kind = _kind_of(path, raw)
    data = base64.b64encode(raw).decode()
    size = pixels_of(data)
    if len(data) > IMAGE_LIMIT or (size and max(size) > SIDE_LIMIT):
        pixels = f", {size[0]} x {size[1]} pixels" if size else ""
        raise ToolError(
            f"{path} is too large to be shown ({told_size(len(raw))}{pixels}): at most "
            f"{told_size(IMAGE_LIMIT * 3 // 4)} and {SIDE_LIMIT:,} pixels a side. "
            "Make a smaller copy."
        )
    file: Fields = {"base64": data, "type": kind, "originalSize": len(raw)}
    if size:
        names = ("originalWidth", "originalHeight", "displayWidth", "displayHeight")
        file["dimensions"] = dict(zip(names, size * 2, strict=True))
    return Outcome([image_block(data, kind)], {"type": "image", "file": file})


def image_block(data: str, kind: str) -> Fields:
    """An image in base64, as a block."""
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def read_pdf(path: Path, pages: str | None) -> Outcome:
    """A PDF as a block, or some of its pages as images."""
    size = path.stat().st_size
    with path.open("rb") as opened:
        if b"%PDF-" not in opened.read(1024):
            raise ToolError(f"{path} is not a PDF file")
    if pages:
        return _read_pages(path, pages, size)
    if size > PDF_LIMIT:
        raise ToolError(
            f"{path} is too large to be read whole ({told_size(size)}, at most "
            f"{told_size(PDF_LIMIT)}); name some pages"
        )
    data = base64.b64encode(path.read_bytes()).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    file: Fields = {"filePath": str(path), "base64": data, "originalSize": size}
    return Outcome([{"type": "document", "source": source}], {"type": "pdf", "file": file})


def _read_pages(path: Path, pages: str, size: int) -> Outcome:
    first, last = _range_of(pages)
    renderer = shutil.which("pdftoppm")
    if not renderer:
        raise ToolError("Single pages need pdftoppm (poppler-utils), which is not installed here")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [renderer, "-jpeg", "-r", "100", "-f", str(first), "-l", str(last), path, "page"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        drawn = [base64.b64encode(p.read_bytes()).decode() for p in sorted(Path(folder).iterdir())]
    if not drawn:
        raise ToolError(f"{path} has no pages {pages}: {done.stderr.strip()[:500]}")
    file: Fields = {"filePath": str(path), "originalSize": size, "count": len(drawn)}
    blocks = [image_block(data, "image/jpeg") for data in drawn]
    return Outcome(blocks, {"type": "pdf", "file": file})


def _range_of(pages: str) -> tuple[int, int]:
    """The first and last page that are asked for.

    >>> _range_of("3-5")
    (3, 5)
    """
    first, _, last = pages.replace(" ", "").partition("-")
    if not first.isdecimal() or not (last or "1").isdecimal():
        raise ToolError(f'pages is "{pages}", but must be as "3" or "1-5"')
    start, end = int(first), int(last or first)
    if not 1 <= start <= end < start + PAGES_LIMIT:
        raise ToolError(f"At most {PAGES_LIMIT} pages can be read at once, the first of them is 1")
    return start, end


def _kind_of(path: Path, raw: bytes) -> str:
    """What sort of image it is, by its content: names may be wrong."""
    for start, kind in KINDS.items():
        if raw.startswith(start):
            return kind
    raise ToolError(f"{path} is no PNG, JPEG, GIF or WebP image")
