"""Known values in base64 and hexadecimal: in any layout of lines, and without decoding a text."""

import base64
import binascii
import json
import random
import re
import time
from collections.abc import Callable

import pytest

from turnlog.edit.redact.encoded_values import EncodedValues

VALUE = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"
AROUND = (
    f"lorem ipsum dolor sit amet, consectetur adipiscing: {VALUE} and so on and so forth, really"
)
LEFT = 12
"""Characters of a value, or of what encodes it, that must not be left."""


def plain_lines(raw: bytes, width: int) -> list[str]:
    whole = base64.b64encode(raw).decode()
    return [whole[at : at + width] for at in range(0, len(whole), width)]


def dump(raw: bytes) -> list[str]:
    """The rows of `xxd`."""
    rows = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    return [
        f"{16 * n:08x}: {binascii.hexlify(row, ' ', -2).decode():<39}  {row.decode()}"
        for n, row in enumerate(rows)
    ]


def canonical(raw: bytes) -> list[str]:
    """The rows of `hexdump -C`."""
    rows = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    halves = [(row[:8].hex(" "), row[8:].hex(" "), row.decode()) for row in rows]
    return [f"{16 * n:08x}  {a:<23}  {b:<23}  |{text}|" for n, (a, b, text) in enumerate(halves)]


LINES: dict[str, list[str]] = {
    "base64": plain_lines(AROUND.encode(), 1000),
    "base64 of the value": plain_lines(VALUE.encode(), 1000),
    "base64 below a path": ["secrets/" + plain_lines(VALUE.encode(), 1000)[0]],
    "URL-safe base64": [base64.urlsafe_b64encode(b"\xff\xfe" + VALUE.encode()).decode()],
    "base64 of UTF-16": plain_lines(VALUE.encode("utf-16-le"), 1000),
    "base64 in lines": plain_lines(AROUND.encode(), 76),
    "base64 in short lines": plain_lines(AROUND.encode(), 20),
    "hexadecimal": [VALUE.encode().hex()],
    "hexadecimal in lines": re.findall(".{1,60}", AROUND.encode().hex()),
    "mixed case": [VALUE.encode().hex().replace("a", "A")],
    "0x": ["0x" + VALUE.encode().hex()],
    "bytes": [", ".join(f"0x{code:02x}" for code in VALUE.encode())],
    "escapes": ["".join(f"\\x{code:02x}" for code in VALUE.encode())],
    "percent signs": ["".join(f"%{code:02X}" for code in VALUE.encode())],
    "colons": [VALUE.encode().hex(":")],
    "spaces": [VALUE.encode().hex(" ")],
    "xxd": dump(AROUND.encode()),
    "hexdump -C": canonical(AROUND.encode()),
}
LAYOUTS: dict[str, Callable[[int, str], str]] = {
    "bare": lambda n, line: line,
    "CRLF": lambda n, line: f"{line}\r",
    "added": lambda n, line: f"+{line}",
    "removed": lambda n, line: f"-{line}",
    "added in colour": lambda n, line: f"\x1b[32m+\x1b[m\x1b[32m{line}\x1b[m",
    "quoted": lambda n, line: f"> {line}",
    "indented": lambda n, line: f"    {line}",
    "cat -n": lambda n, line: f"{n:6}\t{line}",
    "Read": lambda n, line: f"{n:6}→{line}",
    "grep -n": lambda n, line: f"{n}:{line}",
    "grep -rn": lambda n, line: f"src/data.txt:{n}:{line}",
    "numbered diff": lambda n, line: f"{n:6}\t+{line}",
    "literals": lambda n, line: f'    "{line}"',
    "continued": lambda n, line: f'    "{line}" +',
    "with line ends": lambda n, line: f"  '{line}\\n'",
    "list": lambda n, line: f'  "{line}",',
}
WRITERS: dict[str, Callable[[str], str]] = {
    "text": str,
    "JSON": lambda text: json.dumps({"uuid": "5e551011-0000", "content": text}),
    "JSON in JSON": lambda text: json.dumps({"content": json.dumps({"data": text})}),
    "list of lines": lambda text: json.dumps({"lines": text.split("\n")}),
}


CORES = [
    encoded
    for code in ("utf-8", "utf-16-le")
    for encoded in (
        *(base64.b64encode(bytes(n) + VALUE.encode(code)).decode()[4:-4] for n in range(3)),
        VALUE.encode(code).hex(),
    )
]
"""What the value looks like when it is encoded."""


def without(raw: str, pieces: set[str]) -> str:
    """A text without some pieces, as they are or in JSON."""
    for piece in sorted(pieces, key=len, reverse=True):
        for form in (piece, json.dumps(piece, ensure_ascii=False)[1:-1]):
            raw = raw.replace(form, "·").replace(json.dumps(form, ensure_ascii=False)[1:-1], "·")
    return raw


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("encoding", LINES)
def test_an_encoded_value_is_found_in_every_layout(encoding: str, layout: str, writer: str) -> None:
    lines = [LAYOUTS[layout](n, line) for n, line in enumerate(LINES[encoding], 1)]
    text = "\n".join(["before", *lines, "after"])
    pieces = set(EncodedValues([VALUE]).find(WRITERS[writer](text).encode()))
    left = without(WRITERS[writer](text), pieces)
    assert left != WRITERS[writer](text)
    assert left.count("before") == left.count("after") == 1
    for known in (VALUE, *CORES):
        parts = {known[at : at + LEFT] for at in range(len(known) - LEFT)}
        assert not [part for part in parts if part in left or part in left.lower()]


def test_no_other_text_is_found() -> None:
    others = [base64.b64encode(f"{VALUE[:20]}{n:020}".encode()).decode() for n in range(100)]
    text = "\n".join([*others, "0123456789abcdef" * 20, VALUE])
    assert list(EncodedValues([VALUE, "short-77"]).find(text.encode())) == []
    assert list(EncodedValues([]).find(text.encode())) == []


@pytest.mark.parametrize(
    "text",
    ["\\", " ", '"', "\n", "\na", '"' + " " * 1000, "0", "67 ", "a-", "\x1b[", "\n\x1b[0m", "\n1"],
)
def test_no_text_takes_long(text: str) -> None:
    """Each takes below a second; none a multiple of its length."""
    raw = (text * (1_000_000 // len(text))).encode()
    started = time.process_time()
    assert list(EncodedValues([VALUE]).find(raw)) == []
    assert time.process_time() - started < 10


def test_a_line_with_a_value_a_thousand_times_is_found_once() -> None:
    raw = base64.b64encode(f"{VALUE} ".encode() * 20_000)
    assert list(EncodedValues([VALUE]).find(raw)) == [raw.decode().rstrip("=")]


PREFIXES: dict[str, Callable[[int], str]] = {
    "grep -r": lambda n: "k8s/tls.b64:",
    "grep -A": lambda n: "k8s/tls.b64-" if n > 1 else "k8s/tls.b64:",
    "grep -nA": lambda n: f"k8s/tls.b64-{n + 8}-",
    "file without an extension": lambda n: "k8s/tls/",
    "comment": lambda n: "// ",
    "block comment": lambda n: " * ",
    "time": lambda n: f"2026-11-01T10:00:{n:02}Z ",
    "journalctl": lambda n: "Nov 01 10:00:00 host app[123]: ",
    "git blame": lambda n: f"^1a2b3c4 (Ada 2026-11-01 10:00:00 +0000 {n:3}) ",
}
"""What programs write before each line."""


def left_of(lines: list[str], writer: str) -> list[str]:
    """The parts of encodings of the value that are left of some lines."""
    raw = WRITERS[writer]("\n".join(["before", *lines, "after"]))
    left = without(raw, set(EncodedValues([VALUE]).find(raw.encode())))
    assert left.count("before") == left.count("after") == 1
    parts = {known[at : at + LEFT] for known in CORES for at in range(len(known) - LEFT)}
    return [part for part in parts if part in left]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "encoding", ["base64 in lines", "base64 in short lines", "hexadecimal in lines"]
)
def test_a_value_in_lines_is_found_behind_every_prefix(
    encoding: str, prefix: str, writer: str
) -> None:
    lines = [PREFIXES[prefix](n) + line for n, line in enumerate(LINES[encoding], 1)]
    assert left_of(lines, writer) == []


@pytest.mark.parametrize("seed", range(50))
def test_a_value_in_lines_is_found_behind_random_prefixes(seed: int) -> None:
    chance = random.Random(seed)
    start = "".join(chance.choices("abzAZ09 .:/+-_#*|[](){}@=,;~", k=chance.randrange(1, 30)))
    mark = chance.choice([": ", " | ", "> ", "\t", "#"])
    counted = chance.choice([True, False])
    width = chance.randrange(20, 80)
    lines = plain_lines(AROUND.encode(), width)
    texts = [f"{start}{n}{mark}{line}" if counted else start + line for n, line in enumerate(lines)]
    assert left_of(texts, chance.choice(["text", "JSON", "list of lines"])) == []
