"""Convert between the bytes of a file and the text that clients record of it.

Clients record texts with LF line endings, and Read also drops a byte-order mark, so a recorded text
does not determine the bytes (observed: 2.0.76 to 2.1.325).
"""

from typing import NamedTuple

BOM = "\ufeff"
UNKNOWN_CHARACTER = "\ufffd"
"""Replaces bytes that are not valid UTF-8."""
MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"))


class TextStyle(NamedTuple):
    """The properties of a file that are needed to turn its recorded text into bytes."""

    encoding: str = "utf-8"
    mark: str = ""
    """The byte-order mark, if the file has one."""
    newline: str = "\n"


DEFAULT_STYLE = TextStyle()


class StyledText(NamedTuple):
    """The text of a file, with LF line endings and without a byte-order mark."""

    text: str
    style: TextStyle
    is_uniform: bool = True
    """False if the file has both LF and CRLF: encoding the text would not give its bytes."""


def decode_file(raw: bytes) -> StyledText | None:
    """Return the text of a file; None if it is not text that clients can read.

    >>> decode_file(b"a\\r\\nb\\r\\n").text
    'a\\nb\\n'
    """
    encoding, mark = "utf-8", ""
    for start, name in MARKS:
        if raw.startswith(start):
            raw, encoding, mark = raw[len(start) :], name, BOM
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return None
    crlf = text.count("\r\n")
    lf = text.count("\n") - crlf
    # The client writes the more frequent line ending everywhere (observed: 2.0.76 to 2.1.325).
    newline = "\r\n" if crlf > lf else "\n"
    style = TextStyle(encoding, mark, newline)
    return StyledText(text.replace("\r\n", "\n"), style, not (crlf and lf))


def encode_text(text: str, style: TextStyle = DEFAULT_STYLE) -> bytes | None:
    """Return the bytes of a recorded text; None if it has a lone surrogate.

    >>> encode_text("a\\n", TextStyle(newline="\\r\\n"))
    b'a\\r\\n'
    """
    ended = text.replace("\n", style.newline) if style.newline != "\n" else text
    try:
        return (style.mark + ended).encode(style.encoding)
    except UnicodeEncodeError:
        return None


def without_mark(text: str) -> str:
    """Return a recorded text without a byte-order mark."""
    return text.removeprefix(BOM)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as clients count them: a final newline adds an empty line.

    >>> lines_of("a\\nb\\n")
    ['a', 'b', '']
    """
    return text.split("\n")
