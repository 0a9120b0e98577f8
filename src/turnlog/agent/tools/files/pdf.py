"""Convert PDF files to content blocks: the whole file, or some pages as images."""

import base64
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader, BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO
from uuid import uuid4

from turnlog.agent.workspace.image_blocks import Picture, encode, room_for
from turnlog.agent.workspace.spilled_results import results_folder, size_text
from turnlog.agent.workspace.tool import ToolError, ToolOutcome
from turnlog.format.json_values import Fields
from turnlog.format.private_files import write_private
from turnlog.format.regular_files import open_regular

WHOLE_BYTES = 20 << 20
WHOLE_PAGES = 100
PAGES_LIMIT = 20
DOTS = 100
"""Resolution of rendered pages in pixels per inch; PDF units are 1/72 inch."""
RANGE = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?")

_one_at_a_time = Lock()  # pdfium is not thread-safe


def read_pdf(path: Path, file: BufferedReader, pages: str | None, folder: Path) -> ToolOutcome:
    """Return a PDF as a block, or some pages as images, which are saved in `folder`."""
    wanted = _range_of(pages) if pages else None
    size = os.fstat(file.fileno()).st_size
    with _opened(path, file) as document:
        if wanted is None:
            return _read_whole(path, file, document, size)
        outcome, described = _read_pages(path, document, wanted, folder)
    return ToolOutcome(outcome, {"type": "parts", "file": described | {"originalSize": size}})


def count_pages(path: Path) -> int:
    """Return the number of pages of a PDF."""
    with open_regular(path) as file, _opened(path, file) as document:
        return len(document)


@contextmanager
def _opened(path: Path, file: BinaryIO) -> Generator[Any]:
    # Other bytes may come before the header: readers look for it in the first 1024 bytes.
    if b"%PDF-" not in file.read(1024):
        raise ToolError(f"{path} is not a PDF file")
    pdfium: Any = import_module("pypdfium2")
    with _one_at_a_time:
        try:
            document = pdfium.PdfDocument(file)
        except pdfium.PdfiumError as error:
            has_password = error.err_code == pdfium.raw.FPDF_ERR_PASSWORD
            why = "needs a password" if has_password else f"cannot be read as a PDF: {error}"
            raise ToolError(f"{path} {why}") from error
        try:
            yield document
        except pdfium.PdfiumError as error:
            raise ToolError(f"{path} is damaged: {error}") from error
        finally:
            document.close()


def _read_whole(path: Path, opened: BufferedReader, document: Any, size: int) -> ToolOutcome:
    count = len(document)
    if size > WHOLE_BYTES or count > WHOLE_PAGES:
        raise ToolError(
            f"{path} is too large to be read whole ({size_text(size)}, {count:,} pages; at most "
            f"{size_text(WHOLE_BYTES)} and {WHOLE_PAGES} pages): name up to {PAGES_LIMIT} pages"
        )
    data = base64.b64encode(_plain(opened, document)).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    file: Fields = {"filePath": str(path), "base64": data, "originalSize": size}
    return ToolOutcome([{"type": "document", "source": source}], {"type": "pdf", "file": file})


def _plain(opened: BufferedReader, document: Any) -> bytes:
    """Return the bytes of a PDF, decrypted: the API accepts no encrypted ones."""
    library: Any = import_module("pypdfium2.raw")
    if library.FPDF_GetSecurityHandlerRevision(document) < 0:
        opened.seek(0)
        return opened.read()
    copy = BytesIO()
    document.save(copy, flags=library.FPDF_REMOVE_SECURITY)
    return copy.getvalue()


def _read_pages(
    path: Path, document: Any, wanted: tuple[int, int], folder: Path
) -> tuple[list[Fields], Fields]:
    """Render pages; return their blocks and the data that the session records."""
    first, last = wanted[0], min(wanted[1], len(document))
    if first > last:
        raise ToolError(f"{path} has {len(document):,} pages, no page {first:,}")
    saved = results_folder(folder) / f"pdf-{uuid4()}"
    saved.mkdir(mode=0o700)
    blocks: list[Fields] = [_text(f"Pages {first} to {last} of {path}, which has {len(document)}:")]
    for number in range(first, last + 1):
        picture = _drawn(document[number - 1])
        write_private(saved / f"page-{number:03}.jpg", picture.raw)
        blocks.append(picture.block)
    count = last + 1 - first
    return blocks, {"filePath": str(path), "count": count, "outputDir": str(saved)}


def _drawn(page: Any) -> Picture:
    width, height = page.get_size()
    size = room_for((width * DOTS / 72, height * DOTS / 72))
    image = page.render(scale=size[0] / width).to_pil().convert("RGB")
    return Picture(*encode(image, "image/jpeg"), image.size, image.size)


def _range_of(pages: str) -> tuple[int, int]:
    """Parse a page range into its first and last page.

    >>> _range_of("3-5"), _range_of("7")
    ((3, 5), (7, 7))
    """
    found = RANGE.fullmatch(pages)
    if not found:
        raise ToolError(f'pages is "{pages}", but must be one page or one range: "3" or "1-5"')
    start, end = int(found[1]), int(found[2] or found[1])
    if not 1 <= start <= end < start + PAGES_LIMIT:
        raise ToolError(f"At most {PAGES_LIMIT} pages can be read at once, counted from 1")
    return start, end


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}
