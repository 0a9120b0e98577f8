"""List the files in a tar or zip archive, if every program would unpack the same ones.

Programs repair, skip and rename members: tar continues after a damaged header, unzip drops control
characters from names. An archive that leaves room for such choices raises `NotUnderstood`.
"""

import bz2
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

LARGEST_UNPACKED = 64 << 20
"""Maximum size of a decompressed archive, in bytes."""
MOST_MEMBERS = 2_000
BLOCK = 512
NUMBER = re.compile(rb" *([0-7]{1,11})[ \0]*")
"""An octal number in a tar header, read strictly: some programs accept `+7`, others `1_0`."""
CHECKSUM = slice(148, 156)
USTAR, GNU = b"ustar\00000", b"ustar  \0"
FILES, LINKS, FOLDER, HARD_LINK = b"0\0", b"12", b"5", b"1"
LONG_NAME, LONG_TARGET, RECORDS, SHARED_RECORDS = b"L", b"K", b"x", b"g"
NAMED, LINKED = "path", "linkpath"
KNOWN_RECORDS = frozenset("atime ctime gid gname linkpath mtime path uid uname".split())
"""Pax records that are accepted; only `path` and `linkpath` affect where a file is written."""
RECORD = re.compile(rb"([1-9][0-9]{0,6}) ([A-Za-z]+)=")
COMMENT = re.compile(rb"[0-9]+ comment=[0-9a-f]{40,64}\n")
"""The only global pax record that is accepted: the commit hash that `git archive` writes."""
ZIP_END = struct.Struct("<4s4H2IH")
ZIP_MEMBER, ZIP_CONTENT = struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s5H3I2H")
END_MARK, LOCATOR_MARK = b"PK\5\6", b"PK\6\7"
MEMBER_MARK, CONTENT_MARK = b"PK\1\2", b"PK\3\4"
LOCATOR_SIZE = 20
ZIP_NAME = re.compile(rb"[ !$-)+-.0-9=@A-Z\[\]^_`a-z{}~/]+")
"""A name that unzip does not change: it would cut off `;1`, and turn a backslash into a slash."""
UNICODE_NAME = b"up"
"""The ID of the Unicode Path extra field, which gives a member a second name."""


class NotUnderstood(Exception):
    """The arguments or the archive are ambiguous, or use a feature that is not supported here."""


class ArchiveMember(NamedTuple):
    """A file in an archive."""

    name: str
    is_link: bool = False
    """True for symbolic and hard links."""
    shared: str = ""
    """The target of a hard link; empty for other members."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


DECOMPRESSORS: dict[bytes, Callable[[], _Decompressor]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lzma.LZMADecompressor,
}
OTHER_COMPRESSIONS = (
    *(b"\x1f\x9d", b"\x1f\xa0", b"LZIP", b"LRZI", b"GRZipII", b"\x89LZO", b"(\xb5/\xfd", b"]\0\0"),
    *(b'\x04"M\x18', b"\xed\xab\xee\xdb", b"begin"),
)
"""Magic bytes of formats that tar programs also decompress, but this module does not."""


def list_members(content: bytes, *, is_zip: bool) -> list[ArchiveMember]:
    """Return the files in an archive; raise `NotUnderstood` if it is ambiguous."""
    found = _zip_members(content) if is_zip else _tar_members(_unpacked(content))
    members: list[ArchiveMember] = []
    for member in found:
        members.append(member)
        if len(members) > MOST_MEMBERS:
            raise NotUnderstood
    return members


def _unpacked(content: bytes) -> bytes:
    """Return a tar file without its compression."""
    for start, create in DECOMPRESSORS.items():
        if content.startswith(start) and not _is_signed(content):
            stream = create()
            found = stream.decompress(content, LARGEST_UNPACKED)
            # Programs also decompress the streams after the first one, and join the results.
            if not stream.eof or stream.unused_data:
                raise NotUnderstood
            return _only_tar(found)
    return _only_tar(content)


def _only_tar(content: bytes) -> bytes:
    """Return a tar file unchanged; raise `NotUnderstood` if a program might decompress it.

    Magic bytes at the start make bsdtar decompress a file in any case, and GNU tar if its first
    header has no `ustar` signature.
    """
    if not _is_signed(content) or content.startswith((*DECOMPRESSORS, *OTHER_COMPRESSIONS)):
        raise NotUnderstood
    return content


def _is_signed(content: bytes) -> bool:
    return content[257:262] == b"ustar"


def _tar_members(content: bytes) -> Iterator[ArchiveMember]:
    place, is_first = 0, True
    given: dict[str, str] = {}
    while any(head := content[place : place + BLOCK]):
        kind, size = _kind_and_size(head)
        body = content[place + BLOCK : place + BLOCK + size]
        if len(body) < size:
            raise NotUnderstood
        place += BLOCK + -(-size // BLOCK) * BLOCK
        if kind == SHARED_RECORDS:
            if not is_first or not COMMENT.fullmatch(body):
                raise NotUnderstood
        elif kind in LONG_NAME + LONG_TARGET + RECORDS:
            found = _given_by(kind, body)
            # A second name for the same file: programs differ in which one counts.
            if not given.keys().isdisjoint(found):
                raise NotUnderstood
            given |= found
        else:
            yield _member(head, kind, size, given)
            given = {}
        is_first = False
    # After a damaged header or an empty block, some programs continue with the next header.
    if is_first or given or content[place:].strip(b"\0"):
        raise NotUnderstood


def _given_by(kind: bytes, body: bytes) -> dict[str, str]:
    """Return the name and link target that an extension header sets for the next member."""
    if kind == RECORDS:
        return _names_in_records(body)
    return {NAMED if kind == LONG_NAME else LINKED: _text(body)}


def _member(head: bytes, kind: bytes, size: int, given: dict[str, str]) -> ArchiveMember:
    name = given.get(NAMED) or _name_in_head(head)
    # If a file's name ends with a slash, some programs take the file for a directory, and its
    # content for further members.
    if size and name.endswith("/"):
        raise NotUnderstood
    target = given.get(LINKED) or _text(head[157:257].partition(b"\0")[0])
    return ArchiveMember(_plain(name), kind in LINKS, _plain(target) if kind == HARD_LINK else "")


def _kind_and_size(head: bytes) -> tuple[bytes, int]:
    """Return a header's kind and the size of its body; raise `NotUnderstood` if it is unusual."""
    kind = head[156:157]
    known = FILES + LINKS + FOLDER + LONG_NAME + LONG_TARGET + RECORDS + SHARED_RECORDS
    blanked = head[: CHECKSUM.start] + b" " * 8 + head[CHECKSUM.stop :]
    if len(head) < BLOCK or kind not in known or head[257:265] not in (USTAR, GNU):
        raise NotUnderstood
    size = _number(head[124:136])
    if sum(blanked) != _number(head[CHECKSUM]) or (size and kind in LINKS + FOLDER):
        raise NotUnderstood
    return kind, size


def _number(field: bytes) -> int:
    found = NUMBER.fullmatch(field)
    if not found:
        raise NotUnderstood
    return int(found[1], 8)


def _name_in_head(head: bytes) -> str:
    # GNU headers have timestamps where others have the prefix of a long name.
    prefix = head[345:500].partition(b"\0")[0] if head[257:265] == USTAR else b""
    name = head[:100].partition(b"\0")[0]
    return _text(prefix + b"/" + name if prefix else name)


def _names_in_records(body: bytes) -> dict[str, str]:
    """Return the name and link target in a pax header; each is empty if it is missing."""
    found: dict[str, bytes] = {}
    while body:
        start = RECORD.match(body)
        size = int(start[1]) if start else 0
        record, body = body[:size], body[size:]
        key = start[2].decode() if start else ""
        if not start or not record.endswith(b"\n") or key in found or key not in KNOWN_RECORDS:
            raise NotUnderstood
        found[key] = record[start.end() : -1]
    names = {key: found.get(key, b"") for key in (NAMED, LINKED)}
    if any(b"\0" in name for name in names.values()):
        raise NotUnderstood
    return {key: _text(name) for key, name in names.items()}


def _text(raw: bytes) -> str:
    name = raw.removesuffix(b"\0")
    if b"\0" in name:
        raise NotUnderstood
    return name.decode("utf-8", "surrogateescape")


def _plain(name: str) -> str:
    return str(PurePosixPath(name.lstrip("/") or "."))


def _zip_members(content: bytes) -> Iterator[ArchiveMember]:
    end = content.rfind(END_MARK)
    if end < 0 or len(content) < end + ZIP_END.size:
        raise NotUnderstood
    _, disk, first_disk, here, count, size, start, comment = ZIP_END.unpack_from(content, end)
    is_whole = end + ZIP_END.size + comment == len(content) and start + size == end
    # A zip64 end record, for large archives, could point to another central directory.
    is_large = content[max(0, end - LOCATOR_SIZE) :].startswith(LOCATOR_MARK)
    if not is_whole or is_large or disk or first_disk or here != count:
        raise NotUnderstood
    for _ in range(count):
        if start + ZIP_MEMBER.size > end:
            raise NotUnderstood
        mark, *_, named, extra, note, _, _, mode, place = ZIP_MEMBER.unpack_from(content, start)
        name = _zip_name(content, start + ZIP_MEMBER.size, named, extra)
        if mark != MEMBER_MARK or not _is_named_alike(content, place, name):
            raise NotUnderstood
        yield ArchiveMember(name.decode().strip("/"), mode >> 28 == 0o12)
        start += ZIP_MEMBER.size + named + extra + note
    if start != end:
        raise NotUnderstood


def _zip_name(content: bytes, start: int, named: int, extra: int) -> bytes:
    """Return a member's name; raise `NotUnderstood` if unzip might use another one."""
    name, more = content[start : start + named], content[start + named : start + named + extra]
    if not ZIP_NAME.fullmatch(name) or UNICODE_NAME in more:
        raise NotUnderstood
    return name


def _is_named_alike(content: bytes, place: int, name: bytes) -> bool:
    """Return whether a member's local header has the same name as the central directory."""
    if place + ZIP_CONTENT.size > len(content):
        return False
    mark, *_, named, extra = ZIP_CONTENT.unpack_from(content, place)
    return mark == CONTENT_MARK and name == _zip_name(
        content, place + ZIP_CONTENT.size, named, extra
    )
