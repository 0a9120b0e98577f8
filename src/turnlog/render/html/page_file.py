"""The HTML file of an export: a frame, compressed documents in inert elements, and a script.

The documents are JSON: pages for the viewer, and turns for programs (`read_export`). They are
stored in chunks of about 256 KB, which the page inflates on demand, so that a page of any size
opens at once.
"""

import base64
import hashlib
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_object
from turnlog.render.html.encryption import PageCipher, PageKey, derive_key
from turnlog.secrets import mask

CHUNK = 256 * 1024
LEVEL = 2
"""zlib's level; level 5 takes 2.5 times as long and saves a seventh."""
MOST_PENDING = 2
"""Maximum number of chunks waiting to be compressed."""
START = '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="generator" '
MARK = f'{START}content="turnlog export">'
"""The start of every exported page, by which turnlog recognizes its own files."""
ELEMENT = re.compile(rb'<script type="application/x-turnlog-(\w+)">([^<]*)</script>')
SHARED = ("input", "result")
"""Fields of calls that are the same on pages and in the JSON of turns, so they are stored once."""
SHORTEST = 64
"""Minimum characters of a text that is worth sharing."""
NUMBERED = re.compile(r"^ *[0-9]+(?:→|\t)", re.MULTILINE)
"""A line number in the result of `Read`, followed by an arrow (up to 2.1.45) or a tab (since)."""
REMINDER = "\n\n<system-reminder>"
STREAMS = ("pages", "turns")


@dataclass(frozen=True)
class Frame:
    """Everything in a page except its documents."""

    title: str
    style: str
    body: str
    """HTML, written by turnlog."""
    script: str = ""
    """The script of the page; it runs after all documents are read."""

    @property
    def policy(self) -> str:
        """The content security policy: one script, one style, images as data, and nothing else."""
        # The hashes admit exactly these texts. Even if a session smuggled a <script> or an
        # `onerror=` into the page, it would not run, and no request would leave the browser.
        rules = ["default-src 'none'", f"style-src {_hash(self.style)}", "img-src data:"]
        if self.script:
            rules += [
                f"script-src {_hash(self.script)}",
                "require-trusted-types-for 'script'",
                "trusted-types turnlog",
            ]
        return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])

    def write_start(self, file: BinaryIO) -> None:
        """Write everything before the documents."""
        start = (
            f"{MARK}\n"
            f'<meta http-equiv="Content-Security-Policy" content="{escape(self.policy)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{escape(self.title)}</title>\n<style>{self.style}</style>\n{self.body}\n"
        )
        file.write(start.encode("utf-8", "replace"))

    def write_end(self, file: BinaryIO) -> None:
        """Write the script, after the documents that it reads."""
        if self.script:
            file.write(f'<script type="module">{self.script}</script>\n'.encode())
        file.write(b"</html>\n")


class PageWriter:
    """Writes a page while its documents are built; holds one chunk of each stream in memory."""

    def __init__(self, file: BinaryIO, frame: Frame, key: PageKey | None = None) -> None:
        self._file, self._frame, self._key = file, frame, key
        self._seal: Callable[[bytes, str], bytes] = lambda data, part: data
        self._thread = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()
        frame.write_start(file)
        if key:
            page = os.urandom(16)
            self._seal = PageCipher(key, page).encrypt
            lock = {"salt": _base64(key.salt), "iterations": key.iterations, "page": _base64(page)}
            self._element("lock", base64.b64encode(json.dumps(lock).encode()))
        self._streams = {name: _Stream(name, self._write) for name in STREAMS}

    def add(self, stream: str, document: bytes) -> int:
        """Add a document, encoded as JSON, to a stream and return its number."""
        return self._streams[stream].add(document)

    def finish(self, head: Fields) -> None:
        """Write the remaining chunks, then the head, which states how many secrets were masked."""
        starts = {name: stream.finish() for name, stream in self._streams.items()}
        self._write("head", 0, encode_json(head | {"starts": starts}))
        self._wait(0)
        self._thread.shutdown()
        self._frame.write_end(self._file)

    def _write(self, name: str, number: int, data: bytes) -> None:
        # zlib releases the interpreter's lock: a second core compresses a chunk while this one
        # builds the next. Only a few chunks may wait, to bound memory.
        self._pending.append(self._thread.submit(self._pack, name, number, data))
        self._wait(MOST_PENDING)

    def _wait(self, most: int) -> None:
        while len(self._pending) > most:
            self._pending.popleft().result()

    def _pack(self, name: str, number: int, data: bytes) -> None:
        packed = self._seal(zlib.compress(data, LEVEL), f"{name} {number}")
        self._element(name, base64.b64encode(packed))

    def _element(self, name: str, content: bytes) -> None:
        # A browser neither runs nor renders a script of an unknown type, and base64 cannot end it.
        self._file.write(b'<script type="application/x-turnlog-%s">' % name.encode())
        self._file.write(content)
        self._file.write(b"</script>\n")


@dataclass
class _Stream:
    name: str
    write: Callable[[str, int, bytes], None]
    starts: list[int] = field(default_factory=list[int])
    """The number of each chunk's first document."""
    _count: int = 0
    _held: list[bytes] = field(default_factory=list[bytes])
    _size: int = 0

    def add(self, document: bytes) -> int:
        if self._held and self._size + len(document) > CHUNK:
            self._flush()
        self._held.append(document)
        self._size += len(document)
        self._count += 1
        return self._count - 1

    def finish(self) -> list[int]:
        if self._held:
            self._flush()
        return self.starts

    def _flush(self) -> None:
        number = len(self.starts)
        self.starts.append(self._count - len(self._held))
        self.write(self.name, number, b"[" + b",".join(self._held) + b"]")
        self._held.clear()
        self._size = 0


@dataclass(frozen=True)
class ExportedPage:
    """The content of an exported page."""

    head: Fields
    pages: list[Fields]
    """All pages for the viewer: of the branch, of other branches, and of sub-agents."""
    turns: list[Fields]
    """The turns of the branch; equal to the JSON that `turnlog show` prints."""


def read_export(path: Path, password: str | None = None) -> ExportedPage:
    """Read the documents of an exported page back."""
    found: dict[str, list[bytes]] = {}
    for name, content in ELEMENT.findall(path.read_bytes()):
        found.setdefault(name.decode(), []).append(base64.b64decode(content))
    if "head" not in found:
        raise UsageError(f"{path} contains no documents", "turnlog export SESSION -o FILE.html")
    opened = _opener(found, path, password)
    head: Fields = json.loads(opened("head", 0))
    pages, turns = (
        [
            document
            for number in range(len(found.get(name, [])))
            for document in _documents(opened, name, number)
        ]
        for name in STREAMS
    )
    return ExportedPage(head, pages, [_whole_turn(turn, pages) for turn in turns])


def _documents(opened: Callable[[str, int], bytes], name: str, number: int) -> Iterator[Fields]:
    yield from json.loads(opened(name, number))


def _opener(
    found: dict[str, list[bytes]], path: Path, password: str | None
) -> Callable[[str, int], bytes]:
    """Return a function that decrypts and inflates a chunk."""
    if "lock" not in found:
        return lambda name, number: zlib.decompress(found[name][number])
    if password is None:
        raise UsageError(f"{path} is encrypted", "turnlog export --help")
    lock = json.loads(found["lock"][0])
    key = derive_key(password, base64.b64decode(lock["salt"]), lock["iterations"])
    cipher = PageCipher(key, base64.b64decode(lock["page"]))
    return lambda name, number: zlib.decompress(
        cipher.decrypt(found[name][number], f"{name} {number}")
    )


def slim_turn(turn: Fields, page: Fields, number: int) -> Fields:
    """Return the JSON of a turn without the inputs and results that its page contains."""
    rows = _calls_of(page)
    calls = [
        {name: value for name, value in call.items() if name not in SHARED}
        if (mask(call["id"]), call["line"]) in rows
        else call
        for call in turn["calls"]
    ]
    return turn | {"calls": calls, "page": number}


def share_texts(turn: Fields, page: Fields) -> None:
    """Deduplicate texts of structured results that the turn's page has, too; both are masked."""
    rows = _calls_of(page)
    for call in turn["calls"]:
        row = rows.get((call["id"], call["line"]))
        structured = call["tool_use_result"]
        if row and is_object(structured) and (shared := _share(structured, _texts_of(row))):
            call["shared"] = shared


def _share(structured: Fields, texts: dict[str, list[Any]]) -> list[Any]:
    """Set shared texts of a structured result to null; return their paths and sources."""
    shared: list[Any] = []
    nested = [[name] for name, value in structured.items() if is_object(value)]
    for path in ([], *nested):
        holder = structured[path[0]] if path else structured
        for name, value in holder.items():
            if isinstance(value, str) and len(value) >= SHORTEST and (found := texts.get(value)):
                shared.append([[*path, name], found])
    for path, _ in shared:
        (structured[path[0]] if len(path) > 1 else structured)[path[-1]] = None
    return shared


def _texts_of(row: Fields) -> dict[str, list[Any]]:
    """Return the texts of a call that its structured result may repeat, each with its place."""
    found: dict[str, list[Any]] = {}
    if is_object(row["input"]):
        given = row["input"].items()
        found = {text: ["input", name] for name, text in given if isinstance(text, str)}
    result = row["result"]
    if isinstance(result, str):
        if NUMBERED.match(result):
            whole = _unnumbered(result)
            # The client adds reminders after the file's last line.
            found |= {text: ["lines", len(text)] for text in (whole, whole.partition(REMINDER)[0])}
        found[result] = ["result"]
    return found


def _unnumbered(result: str) -> str:
    """Return a file's content from a result that shows it with line numbers."""
    return NUMBERED.sub("", result)


def _whole_turn(turn: Fields, pages: list[Fields]) -> Fields:
    number: int = turn.pop("page")
    rows = _calls_of(pages[number])
    for call in turn["calls"]:
        row = rows.get((call["id"], call["line"]), {})
        call |= {name: row[name] for name in SHARED if name not in call}
        for path, found in call.pop("shared", []):
            structured = call["tool_use_result"]
            holder = structured[path[0]] if len(path) > 1 else structured
            holder[path[-1]] = _shared_text(call, found)
    return turn


def _shared_text(call: Fields, found: list[Any]) -> str:
    if found[0] == "input":
        return call["input"][found[1]]
    result: str = call["result"]
    return _unnumbered(result)[: found[1]] if found[0] == "lines" else result


def _calls_of(page: Fields) -> dict[tuple[str, int], Fields]:
    return {(row["id"], row["line"]): row for row in page["rows"] if row["type"] == "call"}


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8; escape lone surrogates, which UTF-8 cannot encode."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _hash(text: str) -> str:
    return f"'sha256-{_base64(hashlib.sha256(text.encode()).digest())}'"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
