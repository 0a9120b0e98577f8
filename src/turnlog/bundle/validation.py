"""Open a bundle as hostile input: everything is validated before anything is written to the store.

Names are first matched against the allowlist of `members`, and sizes are limited. Files are then
unpacked to a private temporary directory under numbers, never under names from the bundle.
"""

import base64
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from shlex import quote
from typing import BinaryIO

import msgspec

from turnlog.bundle.container import read_container
from turnlog.bundle.manifest import BundleManifest
from turnlog.bundle.members import (
    PROMPTS,
    TRANSCRIPT,
    has_tokens,
    is_json_name,
    member_problem,
)
from turnlog.bundle.path_tokens import NAMED_TOKEN
from turnlog.edit.journal import staging_folder
from turnlog.errors import Damaged, NotFound, UsageError
from turnlog.format.age_files import decrypt_with_password, is_age_file
from turnlog.format.json_values import is_object, parse_json
from turnlog.format.jsonl import read_lines
from turnlog.format.private_files import secure_folder
from turnlog.format.regular_files import open_regular
from turnlog.store.archive.allowed_paths import collision
from turnlog.store.destination import require_space
from turnlog.store.paths import unpacking_folder
from turnlog.text import one_line

ALWAYS_ALLOWED = 256 << 20
"""Bytes that any bundle may unpack to."""
RATIO = 200
"""A larger bundle may unpack to this many times its own size; sessions reach 5 to 40."""
LARGEST = 64 << 30
LONGEST_LINE = 256 << 20
DEEPEST = 200
"""Maximum levels of nested JSON; the client writes about ten."""
BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*+"?|[{}\[\]]', re.DOTALL)
LARGEST_WHOLE = 512 << 20
"""Maximum bytes of a bundle that has to be in memory as a whole."""
HEAD = 64
LONGEST_HEAD = 256
"""Bytes of which at least `HEAD` are left without armor."""
AGAIN = "turnlog bundle SESSION -o NEW.turnlog"
"""The command that makes a new bundle, to be typed where the session is."""
ARMOR = b"-----TURNLOG BUNDLE-----\n"
"""First line of a bundle in text form: base64, for places that accept no binary files."""

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class OpenBundle:
    """A bundle whose files were unpacked and validated."""

    path: Path
    manifest: BundleManifest
    folder: Path
    """Contains the files under their numbers in the manifest."""

    def file(self, number: int) -> Path:
        """Return the unpacked file with a number."""
        return self.folder / str(number)

    def numbers_of(self, session: str) -> list[int]:
        """Return the numbers of a session's files."""
        return self._numbers.get(session, [])

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        # Computed once for all sessions: a bundle may have 10,000 of them, and 200,000 files.
        found: dict[str, list[int]] = {}
        for number, file in enumerate(self.manifest.files):
            found.setdefault(file.path.split("/", 1)[0], []).append(number)
        return found


@contextmanager
def open_bundle(
    path: Path,
    password: str | None = None,
    max_size: int | None = None,
    content: Path | None = None,
) -> Generator[OpenBundle]:
    """Unpack and validate a bundle in a temporary directory; raise `Damaged` if it is invalid.

    `content` is a private copy to read instead of `path`.
    """
    with private_folder() as folder, _read(content or path) as file:
        size = os.fstat(file.fileno()).st_size
        source = _decrypted(path, file, password, max_size)

        def require(manifest: BundleManifest) -> None:
            _require_names(manifest)
            _require_sizes(manifest, size, max_size, path)
            require_space(folder.parent, sum(each.size for each in manifest.files))

        def unpack(number: int, chunks: Iterator[bytes]) -> None:
            # Numbered names: nothing that the sender chose is used as a path before it was checked.
            with (folder / str(number)).open("wb") as target:
                target.writelines(_bounded(chunks))

        try:
            manifest = read_container(source, require, unpack)
            bundle = OpenBundle(path, manifest, folder)
            require_contents(bundle)
        except Damaged as error:
            raise refused(path, one_line(error.message), error.hint) from error
        yield bundle


def refused(path: Path, problem: str, hint: str | None = None) -> Damaged:
    """Return the error for a bundle that is not imported; by default, the hint is to make it again.

    Nothing on this machine can mend a damaged bundle.
    """
    return Damaged(f"{path}: {problem}; nothing was written", hint or AGAIN)


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield chunks; raise `Damaged` for a line that is too long to be read into memory."""
    length = 0
    for chunk in chunks:
        # Only the last line of a chunk can still grow; the others are shorter than the chunk.
        _, newline, rest = chunk.rpartition(b"\n")
        length = len(rest) if newline else length + len(chunk)
        if length > LONGEST_LINE:
            raise Damaged(f"a line has more than {LONGEST_LINE:,} bytes")
        yield chunk


@contextmanager
def private_folder() -> Generator[Path]:
    """Create a folder for contents of bundles; remove it, and those that killed processes left."""
    with ExitStack() as stack:
        yield _enter_folder(stack)


def _enter_folder(stack: ExitStack) -> Path:
    place = unpacking_folder()
    try:
        # Not in /tmp: contents are there in plain, and the next run must find what SIGKILL leaves.
        secure_folder(place, must_own=True)
        return stack.enter_context(staging_folder(place))
    except OSError:  # a home directory that is read-only or someone else's
        folder = tempfile.TemporaryDirectory(prefix="turnlog-bundle-")
        return Path(stack.enter_context(folder))


@contextmanager
def _read(path: Path) -> Generator[BinaryIO]:
    try:
        file = open_regular(path)
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {path}", "ls *.turnlog") from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise NotFound(message, f"ls -l {quote(str(path))}") from error
    with file:
        yield file


@contextmanager
def private_copy(path: Path) -> Generator[Path]:
    """Yield a copy of a bundle that nobody else can replace or change.

    Whoever may write to the directory of a bundle, such as /tmp or a share, could otherwise swap
    the file after its signature was verified.
    """
    with private_folder() as folder, _read(path) as file:
        require_space(folder.parent, os.fstat(file.fileno()).st_size)
        copy = folder / "bundle"
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        yield copy


def needs_password(path: Path, content: Path | None = None) -> bool:
    """Return whether a bundle is encrypted; `content` is a private copy of it."""
    with _read(content or path) as file:
        return is_age_file(_without_armor(path, file.read(LONGEST_HEAD), is_start=True))


def _without_armor(path: Path, raw: bytes, is_start: bool = False) -> bytes:
    if not raw.startswith(ARMOR):
        return raw
    text = b"".join(raw[len(ARMOR) :].split())
    try:
        return base64.b64decode(text[: len(text) & ~3] if is_start else text, validate=True)
    except ValueError as error:
        raise refused(path, "the text is not base64") from error


def _decrypted(path: Path, file: BinaryIO, password: str | None, max_size: int | None) -> BinaryIO:
    start = file.read(LONGEST_HEAD)
    file.seek(0)
    is_text = start.startswith(ARMOR)
    if not is_text and not is_age_file(start):
        return file
    # Both are decoded in memory.
    size, allowed = os.fstat(file.fileno()).st_size, max(LARGEST_WHOLE, max_size or 0)
    if size > allowed:
        message = f"it has {size:,} bytes, which is too much for one in text form or encrypted"
        hint = f"turnlog unbundle {quote(str(path))} --max-size {size}"
        raise refused(path, message, hint)
    raw = _without_armor(path, file.read(size))
    if not is_age_file(raw[:HEAD]):
        return BytesIO(raw)
    hint = f"turnlog unbundle {quote(str(path))} --password-file FILE"
    if password is None:
        raise UsageError(f"{path} is encrypted", hint)
    try:
        return BytesIO(decrypt_with_password(raw, password))
    except Damaged as error:
        raise Damaged(f"{path}: {error.message}", error.hint or hint) from error


def _require_names(manifest: BundleManifest) -> None:
    """Raise `Damaged` for a name that is not on the allowlist, or that occurs twice."""
    ids = {session.id for session in manifest.sessions}
    for file in manifest.files:
        if problem := member_problem(file.path):
            raise Damaged(f"{file.path!r} {problem}")
        if file.path.partition("/")[0] not in ids:
            raise Damaged(f"{file.path!r} belongs to no session of the manifest")
    if path := collision(file.path for file in manifest.files):
        raise Damaged(f"{path!r} would overwrite another file")
    transcripts = Counter(
        file.path.split("/")[0] for file in manifest.files if file.path.endswith(f"/{TRANSCRIPT}")
    )
    if missing := next((name for name in ids if transcripts[name] != 1), None):
        raise Damaged(f"session {missing} has no transcript")


def _require_sizes(manifest: BundleManifest, packed: int, limit: int | None, path: Path) -> None:
    """Raise `Damaged` for a decompression bomb."""
    total = sum(file.size for file in manifest.files)
    # A few kB of zstd can hold gigabytes of zeros; sessions are text and compress far less.
    allowed = limit if limit is not None else min(max(ALWAYS_ALLOWED, RATIO * packed), LARGEST)
    if total > allowed:
        message = f"it would expand from {packed:,} to {total:,} bytes"
        raise Damaged(message, f"turnlog unbundle {quote(str(path))} --max-size {total}")


def require_contents(bundle: OpenBundle) -> None:
    """Raise `Damaged` for content that neither the client nor turnlog writes."""
    known = _known_tokens(bundle.manifest)
    for number, file in enumerate(bundle.manifest.files):
        path = bundle.file(number)
        if has_tokens(file.path):
            _require_known_tokens(path, file.path, bundle.manifest.tokens, known)
        if is_json_name(file.path):
            _require_shallow(path, file.path)
        if file.path.endswith(f"/{PROMPTS}"):
            _require_prompts(path, file.path)
    for session in bundle.manifest.sessions:
        _require_transcript(bundle, session.id, session.lines)


def _known_tokens(manifest: BundleManifest) -> set[str]:
    count = range(len(manifest.projects))
    numbered = {f"{kind}-{number}" for kind in ("project", "folder") for number in count}
    return {"home", "store", *numbered}


def _require_known_tokens(path: Path, name: str, prefix: str, known: set[str]) -> None:
    mark = prefix.encode()
    for raw in _pieces(path):
        if mark not in raw:
            continue
        text = raw.decode("utf-8", "replace")
        named = [found[2] for found in NAMED_TOKEN.finditer(text) if found[1] == prefix]
        # The sender chose a prefix that its files do not contain: any other use is forged.
        if len(named) != text.count(prefix) or not known.issuperset(named):
            raise Damaged(f"{name!r} contains an unknown token")


def _require_shallow(path: Path, name: str) -> None:
    is_log = name.endswith(".jsonl")
    depth = 0
    for raw in _pieces(path):
        # Recursive parsers, the client's among them, fail or crash on 100,000 nested arrays; in a
        # document, each of them may be on a line of its own.
        count = raw.count(b"[") + raw.count(b"{")
        if is_log and count <= DEEPEST:
            continue
        deepest, depth = _depths(raw, 0 if is_log else depth)
        if deepest > DEEPEST:
            raise Damaged(f"{name!r} is nested too deeply")


def depth_of(raw: bytes) -> int:
    """Return the number of levels of nested JSON in a text, which need not be valid.

    >>> depth_of(b'{"a":[[1]],"b":"[[[["}')
    3
    """
    return _depths(raw, 0)[0]


def _depths(raw: bytes, depth: int) -> tuple[int, int]:
    """Return the greatest nesting depth of a text that starts at `depth`, and its last depth."""
    deepest = depth
    for token in BRACKETS.finditer(raw):
        mark = raw[token.start()]
        if mark in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in b"}]":
            # Invalid JSON may close more than it opened; this must not allow deeper nesting later.
            depth = max(0, depth - 1)
    return deepest, depth


def _require_prompts(path: Path, name: str) -> None:
    """Raise `Damaged` for prompts of another session: the history is shared by all."""
    session = name.split("/", 1)[0]
    for raw in _pieces(path):
        fields = _object_in(raw)
        if fields is None or fields.get("sessionId") != session:
            raise Damaged(f"{name!r} contains lines other than prompts of the session")
        if not isinstance(fields.get("display"), str) or not raw.endswith(b"\n"):
            raise Damaged(f"{name!r} contains a line that is not a prompt")


def _require_transcript(bundle: OpenBundle, session: str, lines: int) -> None:
    files, name = bundle.manifest.files, f"{session}/{TRANSCRIPT}"
    path = bundle.file(next(n for n in bundle.numbers_of(session) if files[n].path == name))
    count = objects = 0
    for raw in _pieces(path):
        count += 1
        objects += _object_in(raw) is not None
    if count != lines:
        raise Damaged(f"session {session} has {count:,} lines instead of {lines:,}")
    if not objects:
        raise Damaged(f"session {session} contains no entry")


def _object_in(raw: bytes) -> dict[str, object] | None:
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # msgspec refuses lone surrogates, which the standard library reads.
        try:
            value = parse_json(raw)
        except ValueError:
            return None
    return value if is_object(value) else None


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, whatever its kind."""
    return (line.raw for line in read_lines(path))
