"""Read: images and PDF files."""

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from support.media import NO_PASSWORD, noise, pdf, picture, saved
from support.tool_calls import Calls


def shown(block: dict[str, Any]) -> Image.Image:
    """The image of a block, which is what the block says."""
    image = Image.open(io.BytesIO(base64.b64decode(block["source"]["data"])))
    image.load()
    assert Image.MIME[str(image.format)] == block["source"]["media_type"]
    return image


def test_an_image_becomes_a_block_by_its_content_not_its_name(calls: Calls) -> None:
    raw = picture(4, 3)
    calls.file("dot.jpg", raw)
    outcome = calls.run("Read", file_path="dot.jpg")
    data = base64.b64encode(raw).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert outcome.content == [{"type": "image", "source": source}]
    size = {"originalWidth": 4, "originalHeight": 3, "displayWidth": 4, "displayHeight": 3}
    assert outcome.data["file"]["dimensions"] == size
    assert outcome.data["file"]["base64"] == data


@pytest.mark.parametrize(
    ("form", "kept"), [("PNG", "PNG"), ("JPEG", "JPEG"), ("WEBP", "WEBP"), ("GIF", "PNG")]
)
def test_an_image_of_too_many_pixels_is_shown_smaller(calls: Calls, form: str, kept: str) -> None:
    raw = picture(3_000, 2_000, form)
    calls.file("wide.png", raw)
    outcome = calls.run("Read", file_path="wide.png")
    assert isinstance(outcome.content, list)
    image = shown(outcome.content[0])
    assert (image.size, image.format) == ((2_000, 1_333), kept)
    assert "3000 x 2000 pixels and is shown at 2000 x 1333" in outcome.content[1]["text"]
    assert "by 1.50" in outcome.content[1]["text"]
    assert outcome.data["file"]["dimensions"] == {
        "originalWidth": 3_000,
        "originalHeight": 2_000,
        "displayWidth": 2_000,
        "displayHeight": 1_333,
    }
    assert outcome.data["file"]["originalSize"] == len(raw)


def test_an_image_of_too_many_bytes_loses_detail_not_size(calls: Calls) -> None:
    calls.file("noise.png", noise(900, 700))
    (block,) = calls.blocks("Read", file_path="noise.png")
    image = shown(block)
    assert (image.size, image.format) == ((900, 700), "JPEG")
    assert len(block["source"]["data"]) * 3 // 4 <= 500 << 10


def test_what_shines_through_becomes_white_where_an_image_becomes_a_jpeg(calls: Calls) -> None:
    image = Image.open(io.BytesIO(noise(900, 700))).convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 100, 100))
    calls.file("a.png", saved(image, "PNG"))
    (block,) = calls.blocks("Read", file_path="a.png")
    found = shown(block)
    assert found.format == "JPEG"
    assert all(value > 240 for value in found.convert("RGB").crop((20, 20, 60, 60)).tobytes())


def test_a_photo_that_lies_on_its_side_is_set_upright_when_it_is_made_smaller(calls: Calls) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    calls.file("photo.jpg", picture(3_000, 1_000, "JPEG", exif=exif))
    block, note = calls.blocks("Read", file_path="photo.jpg")
    found = shown(block)
    assert found.size == (667, 2_000)
    assert found.convert("L").getpixel((300, 100)) == 0
    assert found.convert("L").getpixel((300, 1_900)) == 255
    assert "1000 x 3000 pixels" in note["text"]


def test_sixteen_bits_of_grey_stay_grey(calls: Calls) -> None:
    calls.file("grey.png", saved(Image.new("I;16", (2_400, 10), 32_768), "PNG"))
    image = shown(calls.blocks("Read", file_path="grey.png")[0]).convert("RGB")
    assert set(image.tobytes()) == {128}


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA"])
def test_images_of_few_or_clear_colours_keep_them_when_they_are_made_smaller(
    calls: Calls, mode: str
) -> None:
    image = Image.open(io.BytesIO(picture(2_400, 30))).convert(mode)
    calls.file("wide.png", saved(image, "PNG"))
    found = shown(calls.blocks("Read", file_path="wide.png")[0]).convert("L")
    assert (found.getpixel((500, 10)), found.getpixel((1_500, 10))) == (0, 255)


def test_what_does_not_decode_is_refused(calls: Calls) -> None:
    raw = noise(60, 60)
    calls.file("torn.png", raw[: len(raw) // 2])
    calls.file("rubbish.png", b"\x89PNG\r\n\x1a\n" + b"rubbish" * 20)
    calls.file("sound.webp", b"RIFF\0\0\0\0WAVEfmt ")
    calls.file("text.png", "not an image")
    calls.file("empty.png", "")
    huge = bytearray(picture(1, 1))
    huge[16:24] = (60_000).to_bytes(4, "big") * 2
    calls.file("huge.png", bytes(huge))
    for name in ("torn.png", "rubbish.png", "sound.webp", "huge.png"):
        assert f"{name} cannot be shown" in calls.refusal("Read", file_path=name)
    assert "is not a PNG" in calls.refusal("Read", file_path="text.png")
    assert "is empty" in calls.refusal("Read", file_path="empty.png")


@pytest.mark.parametrize("name", ["a.png", "a.ipynb"])
def test_a_file_that_would_fill_the_memory_is_refused(calls: Calls, name: str) -> None:
    with calls.file(name, picture(4, 3)).open("r+b") as file:
        file.truncate(1 << 40)
    assert "is larger than" in calls.refusal("Read", file_path=name)


def test_a_pdf_becomes_a_document(calls: Calls) -> None:
    raw = pdf(2)
    calls.file("a.pdf", raw)
    outcome = calls.run("Read", file_path="a.pdf")
    data = base64.b64encode(raw).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    assert outcome.content == [{"type": "document", "source": source}]
    assert outcome.data["type"] == "pdf"
    assert outcome.data["file"]["originalSize"] == len(raw)


def test_a_pdf_that_is_too_large_is_read_by_pages(calls: Calls) -> None:
    calls.file("long.pdf", pdf(101))
    calls.file("heavy.pdf", pdf(1) + b"\n%" + b"x" * (20 << 20))
    assert "101 pages" in calls.refusal("Read", file_path="long.pdf")
    assert "20MB, 1 pages" in calls.refusal("Read", file_path="heavy.pdf")
    assert len(calls.blocks("Read", file_path="heavy.pdf", pages="1")) == 2


def test_pages_of_a_pdf_are_drawn_and_kept(calls: Calls) -> None:
    path = calls.file("a.pdf", pdf(11))
    outcome = calls.run("Read", file_path="a.pdf", pages="9-14")
    assert isinstance(outcome.content, list)
    text, *pages = outcome.content
    assert text["text"] == f"Pages 9 to 11 of {path}, which has 11:"
    assert [shown(page).size for page in pages] == [(850, 1_100)] * 3
    assert outcome.data["type"] == "parts"
    assert outcome.data["file"]["count"] == 3
    kept = sorted(Path(outcome.data["file"]["outputDir"]).iterdir())
    assert [page.name for page in kept] == ["page-009.jpg", "page-010.jpg", "page-011.jpg"]
    assert kept[0].read_bytes() == base64.b64decode(pages[0]["source"]["data"])


def test_a_page_as_large_as_a_poster_is_drawn_no_larger_than_is_taken(calls: Calls) -> None:
    calls.file("poster.pdf", pdf(1, size=(14_400, 7_200)))
    assert shown(calls.blocks("Read", file_path="poster.pdf", pages="1")[1]).size == (2_000, 1_000)


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ("first", '"1-5"'),
        ("2-", '"1-5"'),
        ("1,3", '"1-5"'),
        ("0", "At most 20"),
        ("3-1", "At most 20"),
        ("1-21", "At most 20"),
        ("12", "has 11 pages"),
    ],
)
def test_pages_that_there_are_not_are_refused(calls: Calls, pages: str, told: str) -> None:
    calls.file("a.pdf", pdf(11))
    assert told in calls.refusal("Read", file_path="a.pdf", pages=pages)


def test_a_pdf_that_is_broken_or_has_a_password_is_refused(calls: Calls) -> None:
    calls.file("text.pdf", "text")
    calls.file("broken.pdf", b"%PDF-1.4\nrubbish\n%%EOF\n")
    calls.file("secret.pdf", pdf(2, user="00" * 32))
    for pages in (None, "1"):
        assert "not a PDF" in calls.refusal("Read", file_path="text.pdf", pages=pages)
        assert "cannot be read" in calls.refusal("Read", file_path="broken.pdf", pages=pages)
        assert "a password" in calls.refusal("Read", file_path="secret.pdf", pages=pages)


def test_a_pdf_that_is_encrypted_without_a_password_is_sent_plain(calls: Calls) -> None:
    calls.file("sealed.pdf", pdf(2, user=NO_PASSWORD))
    (block,) = calls.blocks("Read", file_path="sealed.pdf")
    raw = base64.b64decode(block["source"]["data"])
    assert raw.startswith(b"%PDF-")
    assert b"/Encrypt" not in raw
