"""Archives that nobody should restore, each wrong in one way; generated from kinds and places."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backports import zstd

SESSION = "11111111-0000-4000-8000-000000000000"
PROJECT = "projects/-home-ada"
TRANSCRIPT = f"{PROJECT}/{SESSION}.jsonl"
CONTENT = b'{"type":"user","sessionId":"%s"}\n' % SESSION.encode()
MIB = 1 << 20

FOREIGN = (
    "settings.json", "settings.local.json", "CLAUDE.md", ".credentials.json", ".claude.json",
    "history.jsonl.bak", "commands/x.md", "agents/x.md", "skills/x/SKILL.md",
    "plugins/x/hooks.json", "hooks/x.sh", "sessions/1.json", "plans/x.sh", "plans/a/x.md",
    "paste-cache/x.txt", "debug/x.txt", "shell-snapshots/x.sh",
    f"{PROJECT}/memory/MEMORY.md", f"{PROJECT}/settings.json", f"{PROJECT}/CLAUDE.md",
    f"{PROJECT}/22222222-0000-4000-8000-000000000000.jsonl", f"{PROJECT}/sessions-index.json",
    f"{PROJECT}/22222222-0000-4000-8000-000000000000/tool-results/a.txt",
    "projects/x.jsonl", f"{SESSION}.jsonl", f"projects/.hidden/{SESSION}.jsonl", "projects",
    f"Projects/-home-ada/{SESSION}.jsonl", f"{PROJECT}/{SESSION}", f"{PROJECT}/agent-1.json",
    "file-history/22222222-0000-4000-8000-000000000000/a@v1", "todos/other-agent-1.json",
    f"todos/{SESSION}-agent-1.sh", f"unknown/{SESSION}/x",
)  # fmt: skip
"""Paths of the store that are no file of the session."""
NAMES = (
    "..", ".", "", "a\0b", "a\\b", "..\\..\\x", "C:", "c:x", "con", "NUL.txt", "aux ", "COM1.log",
    "lpt9", "x" * 256, "é" * 128, "a\nb", "a\x1b[2Jb", "a\x7f", "a\x85b", "a\u202egpj", "a\u2028b",
)  # fmt: skip
"""Components that no path may have."""
FOLDERS = (
    f"{PROJECT}/{SESSION}", f"{PROJECT}/{SESSION}/subagents", f"{PROJECT}/{SESSION}/tool-results",
    f"file-history/{SESSION}", f"uploads/{SESSION}",
)  # fmt: skip
"""Where the session may have files of any name."""
WRONG_VALUES = {
    "path": [1, None, ["a"], ""],
    "mode": [-1, "0600", 1.5, 1 << 70, None],
    "mtime_ns": ["x", 1.5, None],
    "size": [-1, 0, 10**30, "1", None, 1 << 40],
    "inode": [-1, "x"],
    "pieces": [None, [["../../../etc/passwd", 1]], [["a" * 63, 1]], [["A" * 64, 1]], [[1, 1]],
               [["0" * 64 + "\n", 1]], [["0" * 64, -1]], [["0" * 64, 1]], [["0" * 64, 1 << 40]]],
}  # fmt: skip
"""Values of a file's fields that turnlog never writes."""


@dataclass
class Builder:
    """An archive in the making."""

    folder: Path
    place: Path
    """Where its session is restored to."""
    files: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    session: Any = SESSION
    name: str = SESSION

    def put_object(self, raw: bytes, packed: bytes | None = None) -> list[Any]:
        """Store a piece, or something else in its place."""
        name = hashlib.sha256(raw).hexdigest()
        path = self.object_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zstd.compress(raw, 6) if packed is None else packed)
        return [name, len(raw)]

    def object_path(self, name: str) -> Path:
        return self.folder / "objects" / name[:2] / f"{name}.zst"

    def add(self, path: str = TRANSCRIPT, content: bytes = CONTENT, **other: Any) -> None:
        sound = {"path": path, "mode": 0o600, "mtime_ns": 1, "size": len(content), "inode": 1}
        pieces = {"read_ns": 1, "pieces": [self.put_object(content)]}
        self.files.append(sound | pieces | other)

    def manifest(self) -> bytes:
        store = str(self.folder.parent / "store")
        held = {"session": self.session, "store": store, "files": self.files}
        raw = json.dumps(held).encode()
        told = b'{"turnlog":1,"sha256":"%s","session":%s}'
        return told % (hashlib.sha256(raw).hexdigest().encode(), raw)

    def save(self, raw: bytes | None = None) -> None:
        path = self.folder / "sessions" / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.manifest() if raw is None else raw)


Case = Callable[[Builder], None]


def hostile_cases() -> Iterator[tuple[str, Case]]:
    """Every archive, by what is wrong with it."""
    for path in FOREIGN:
        yield f"path {path}", lambda b, path=path: b.add(path)
    for path in ("/etc/x", "//x", f"/{TRANSCRIPT}", "~/x", f"{PROJECT}/../../x", "../" * 9 + "x"):
        yield f"path {path}", lambda b, path=path: b.add(path)
    for number, name in enumerate(NAMES):
        for place in FOLDERS:
            where = f"{place}/{name}/x" if number % 2 else f"{place}/{name}"
            yield f"name {name[:20]!r} in {place}", lambda b, where=where: b.add(where)
    for key, values in WRONG_VALUES.items():
        for number, value in enumerate(values):
            name = f"{key} {number}: {value!r:.40}"
            wrong: dict[str, Any] = {key: value}
            yield name, lambda b, wrong=wrong: b.add(**wrong)
    for case in (*NESTED, *LINKS, *OBJECTS, *MANIFESTS, *PLACES):
        yield case.__name__.replace("_", " "), case


def deep_path(b: Builder) -> None:
    b.add(f"{PROJECT}/{SESSION}/" + "a/" * 40 + "x")


def long_path(b: Builder) -> None:
    b.add(f"{PROJECT}/{SESSION}/" + ("a" * 200 + "/") * 6 + "x")


def names_that_differ_in_case(b: Builder) -> None:
    b.add(f"{PROJECT}/{SESSION}/A.txt")
    b.add(f"{PROJECT}/{SESSION}/a.txt")


def names_that_differ_in_normalization(b: Builder) -> None:
    b.add(f"{PROJECT}/{SESSION}/\u00e9")
    b.add(f"{PROJECT}/{SESSION}/e\u0301")


def the_same_path_twice(b: Builder) -> None:
    b.add(f"{PROJECT}/{SESSION}/a")
    b.add(f"{PROJECT}/{SESSION}/a", b"other\n")


def a_file_below_a_file(b: Builder) -> None:
    b.add(f"{PROJECT}/{SESSION}/a")
    b.add(f"{PROJECT}/{SESSION}/a/b")


def a_session_named_memory(b: Builder) -> None:
    b.session = b.name = "memory"
    b.add(f"{PROJECT}/memory/MEMORY.md")


def prompts_of_another_session(b: Builder) -> None:
    b.add("history.jsonl", CONTENT + CONTENT.replace(b"1111", b"2222"))


def prompts_that_are_not_json(b: Builder) -> None:
    b.add("history.jsonl", CONTENT + b"[]\n")


def a_manifest_of_another_session(b: Builder) -> None:
    b.session = "22222222-0000-4000-8000-000000000000"


NESTED = (
    deep_path, long_path, names_that_differ_in_case, names_that_differ_in_normalization,
    the_same_path_twice, a_file_below_a_file, a_session_named_memory, a_manifest_of_another_session,
    prompts_of_another_session, prompts_that_are_not_json,
)  # fmt: skip


def _moved_and_linked(path: Path) -> None:
    real = path.with_name(f"{path.name}.real")
    path.rename(real)
    path.symlink_to(real)


def a_linked_object(b: Builder) -> None:
    b.add()
    _moved_and_linked(b.object_path(b.files[0]["pieces"][0][0]))


def a_linked_folder_of_objects(b: Builder) -> None:
    b.add()
    _moved_and_linked(b.object_path(b.files[0]["pieces"][0][0]).parent)


def linked_objects(b: Builder) -> None:
    b.add()
    _moved_and_linked(b.folder / "objects")


def linked_sessions(b: Builder) -> None:
    b.add()
    b.save()
    _moved_and_linked(b.folder / "sessions")


def a_linked_manifest(b: Builder) -> None:
    b.add()
    b.save()
    _moved_and_linked(b.folder / "sessions" / f"{SESSION}.json")


LINKS = (
    a_linked_object, a_linked_folder_of_objects, linked_objects, linked_sessions, a_linked_manifest
)  # fmt: skip


def a_bomb_of_one_piece(b: Builder) -> None:
    piece = b.put_object(bytes(MIB))
    b.add(TRANSCRIPT, size=423 * MIB, pieces=[piece] * 423)


def a_bomb_of_many_files(b: Builder) -> None:
    piece = b.put_object(b"\n" * MIB)
    for number in range(60):
        b.add(f"{PROJECT}/{SESSION}/{number}", size=10 * MIB, pieces=[piece] * 10)


def a_bomb_of_a_terabyte(b: Builder) -> None:
    piece = b.put_object(bytes(MIB))
    b.add(TRANSCRIPT, size=100_000 * MIB, pieces=[piece] * 100_000)


def a_frame_of_another_size(b: Builder) -> None:
    b.add(size=10, pieces=[b.put_object(b"0123456789", zstd.compress(bytes(400 * MIB)))])


def a_frame_that_declares_no_size(b: Builder) -> None:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.content_size_flag: 0})
    b.add(
        size=10,
        pieces=[b.put_object(b"0123456789", packer.compress(bytes(400 * MIB), packer.FLUSH_FRAME))],
    )


def a_frame_that_lies_about_its_size(b: Builder) -> None:
    packed = bytearray(zstd.compress(bytes(400 * MIB)))
    at = packed.index((400 * MIB).to_bytes(4, "little"))
    packed[at : at + 4] = MIB.to_bytes(4, "little")
    b.add(size=MIB, pieces=[b.put_object(bytes(MIB), bytes(packed))])


def two_frames(b: Builder) -> None:
    packed = zstd.compress(b"0123456789")
    b.add(size=10, pieces=[b.put_object(b"0123456789", packed * 2)])


def an_object_cut_short(b: Builder) -> None:
    packed = zstd.compress(b"0123456789")
    b.add(size=10, pieces=[b.put_object(b"0123456789", packed[:-1])])


def another_content(b: Builder) -> None:
    b.add(size=10, pieces=[b.put_object(b"0123456789", zstd.compress(b"9876543210"))])


def an_object_that_is_missing(b: Builder) -> None:
    b.add()
    b.object_path(b.files[0]["pieces"][0][0]).unlink()


def an_object_that_is_a_fifo(b: Builder) -> None:
    an_object_that_is_missing(b)
    os.mkfifo(b.object_path(b.files[0]["pieces"][0][0]))


def an_object_that_is_a_folder(b: Builder) -> None:
    an_object_that_is_missing(b)
    b.object_path(b.files[0]["pieces"][0][0]).mkdir()


def a_sparse_object_of_a_terabyte(b: Builder) -> None:
    b.add()
    os.truncate(b.object_path(b.files[0]["pieces"][0][0]), 1 << 40)


def the_last_of_many_files_is_damaged(b: Builder) -> None:
    for number in range(20):
        b.add(f"{PROJECT}/{SESSION}/{number:02}", b"%d" % number)
    another_content(b)


OBJECTS = (
    a_bomb_of_one_piece, a_bomb_of_many_files, a_bomb_of_a_terabyte, a_frame_of_another_size,
    a_frame_that_declares_no_size, a_frame_that_lies_about_its_size, two_frames,
    an_object_cut_short, another_content, an_object_that_is_missing, an_object_that_is_a_fifo,
    an_object_that_is_a_folder, a_sparse_object_of_a_terabyte, the_last_of_many_files_is_damaged,
)  # fmt: skip


def a_manifest_that_is_no_json(b: Builder) -> None:
    b.save(b"\xff\xfe{")


def a_manifest_nested_deeply(b: Builder) -> None:
    b.save(b'{"turnlog":1,"sha256":"","session":' + b"[" * 10**6)


def a_manifest_with_another_hash(b: Builder) -> None:
    b.add()
    b.save(b.manifest().replace(b'"mode": 384', b'"mode": 385'))


def a_sparse_manifest_of_a_terabyte(b: Builder) -> None:
    b.save()
    os.truncate(b.folder / "sessions" / f"{SESSION}.json", 1 << 40)


def a_manifest_of_millions_of_pieces(b: Builder) -> None:
    b.add(pieces=[["", 0]] * 5_000_000)


def a_manifest_that_is_a_fifo(b: Builder) -> None:
    b.save()
    (b.folder / "sessions" / f"{SESSION}.json").unlink()
    os.mkfifo(b.folder / "sessions" / f"{SESSION}.json")


MANIFESTS = (
    a_manifest_that_is_no_json, a_manifest_nested_deeply, a_manifest_with_another_hash,
    a_sparse_manifest_of_a_terabyte, a_manifest_of_millions_of_pieces, a_manifest_that_is_a_fifo,
)  # fmt: skip


def a_link_in_the_place_of(b: Builder, where: str) -> None:
    path = b.place / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(b.place.parent / "outside", target_is_directory=True)


def a_link_at_the_projects(b: Builder) -> None:
    a_link_in_the_place_of(b, "projects")


def a_link_at_the_project(b: Builder) -> None:
    a_link_in_the_place_of(b, PROJECT)


def a_link_at_the_session(b: Builder) -> None:
    a_link_in_the_place_of(b, TRANSCRIPT)


def a_dangling_link_at_the_session(b: Builder) -> None:
    path = b.place / TRANSCRIPT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(b.place.parent / "outside" / "new")


def a_link_below_the_session(b: Builder) -> None:
    b.add(f"{PROJECT}/{SESSION}/tool-results/a/b.txt")
    a_link_in_the_place_of(b, f"{PROJECT}/{SESSION}/tool-results")


def a_fifo_at_the_session(b: Builder) -> None:
    path = b.place / TRANSCRIPT
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def a_folder_at_the_session(b: Builder) -> None:
    (b.place / TRANSCRIPT).mkdir(parents=True)


def another_file_at_the_session(b: Builder) -> None:
    path = b.place / TRANSCRIPT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"mine\n")


PLACES = (
    a_link_at_the_projects, a_link_at_the_project, a_link_at_the_session,
    a_dangling_link_at_the_session, a_link_below_the_session, a_fifo_at_the_session,
    a_folder_at_the_session, another_file_at_the_session,
)  # fmt: skip


def build(case: Case, folder: Path) -> Builder:
    """Make an archive below a folder, and what lies where its session would go."""
    for name in ("outside", "store/projects"):
        (folder / name).mkdir(parents=True)
    builder = Builder(folder / "archive", folder / "place")
    builder.place.mkdir()
    case(builder)
    if not any(file["path"] == TRANSCRIPT for file in builder.files):
        builder.add()
    if not os.path.lexists(builder.folder / "sessions"):
        builder.save()
    return builder
