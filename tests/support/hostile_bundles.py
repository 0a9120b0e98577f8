"""Bundles that nobody should import, each wrong in one way; generated from kinds and places."""

import hashlib
import io
import json
import struct
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from backports import zstd

from support.build import SESSION, encode, session, user

OTHER = "22222222-0000-4000-8000-000000000000"
TRANSCRIPT = f"{SESSION}/session.jsonl"
CONTENT = session(user("hello", cwd="/home/ada/shop", slug="calm-old-fox"))
PREFIX = "{turnlog:"
MIB = 1 << 20

NAMES = (
    "..", ".", "", "a\\b", "..\\..\\x", "C:", "c:x", "con", "NUL.txt", "aux ", "COM1.log", "lpt9",
    "x" * 256, "a\nb.txt", "a\x1b[2Jb.txt", "a\x7f.txt", "a\u202egpj.txt", "a\u2028b.txt",
    ".hidden", "a.sh", "a.js", "a.py", "run", "a.txt\x00.sh", "{turnlog:home}.txt",
    "{turnlog:store}", "a.exe", "a.html",
)  # fmt: skip
"""Components that no name may have."""
FOLDERS = (
    f"{SESSION}/sidecars", f"{SESSION}/sidecars/tool-results", f"{SESSION}/todos",
    f"{SESSION}/uploads",
)  # fmt: skip
FOREIGN = (
    "settings.json", "settings.local.json", "CLAUDE.md", ".credentials.json", ".claude.json",
    "history.jsonl", "commands/x.md", "agents/x.md", "skills/x/SKILL.md", "hooks/x.sh", "x.jsonl",
    "/etc/passwd", "/tmp/x.txt", "../x.txt", "../../.ssh/authorized_keys", "~/x.txt",
    "manifest.json",
    f"{OTHER}/session.jsonl", f"{SESSION}", f"{SESSION}/", f"{SESSION}/settings.json",
    f"{SESSION}/../../settings.json", f"{SESSION}//session.jsonl", f"./{SESSION}/session.jsonl",
    f"{SESSION}/sidecars/../../../x.txt", f"{SESSION}/sidecars/memory/MEMORY.md",
    f"{SESSION}/sidecars/CLAUDE.md", f"{SESSION}/sidecars/workflows/scripts/run.js",
    f"{SESSION}/session-env/hook.sh", f"{SESSION}/session-env/a.txt", f"{SESSION}/hooks/a.json",
    f"{SESSION}/shell-snapshots/a.sh", f"{SESSION}/plugins/a.json", f"{SESSION}/file-history/a.txt",
    f"{SESSION}/file-history/../x@v1", f"{SESSION}/file-history/sub/0123456789abcdef@v1",
    f"{SESSION}/plans/../x.md", f"{SESSION}/plans/.x.md", f"{SESSION}/plans/a.txt",
    f"{SESSION}/pastes/../../settings.txt", f"{SESSION}/pastes/notes.txt",
    f"{SESSION}/pastes/abc.txt",
    f"{SESSION}/todos/{OTHER}-agent-1.json", f"{SESSION}/todos/{SESSION}-agent-1.sh",
    f"{SESSION}/subagents/{OTHER}.jsonl", f"{SESSION}/subagents/x/agent-1.jsonl",
    f"{SESSION}/unknown/x.txt", f"{SESSION}/image-cache/x.svg", f"{SESSION}/tasks/.lock",
    f"{SESSION.upper()}/session.jsonl", "not-an-id/session.jsonl",
    f"memory/{SESSION}/session.jsonl",
)  # fmt: skip
"""Names that belong to no session."""
WRONG_FIELDS: dict[str, list[Any]] = {
    "format": ["zip", 1, None, ""],
    "version": [0, 2, -1, "1", None, 10**30],
    "turnlog": [1, None, "x" * 5000],
    "is_redacted": ["yes", 1, None],
    "masked": [[], {"a": -1}, {"a": "x"}, {"a": 10**30}],
    "tokens": ["", "{", "{home}", "{turnlog", "{turnlog-0:", "{turnlog-01:", "/", "x{turnlog:", 5],
    "projects": [None, {}, [], [{"path": 1, "name": "x"}], [{"path": "/x"}]],
    "sessions": [[], None, {}, [{"id": SESSION}]],
    "files": [[], None, {}, [{"path": TRANSCRIPT}]],
    "omitted": [None, {}, [{"path": 1, "reason": "x"}], [{}]],
    "hooks": [{}],
}
"""Values of the manifest's fields that turnlog never writes."""
WRONG_SESSIONS: dict[str, list[Any]] = {
    "id": ["", "x", "../x", SESSION[:-1], f"{SESSION}\n", f"{SESSION}/", 1, None, OTHER,
           "{turnlog:home}", "memory", "g" * 36],
    "project": [1, -1, "0", None, 10**30],
    "client_versions": [None, "2.1", [1], ["x"] * 2000],
    "lines": [0, 2, -1, "1", None, 10**12],
    "title": [1, ["x"], "x" * 9000],
    "command": ["rm"],
}  # fmt: skip
WRONG_FILES: dict[str, list[Any]] = {
    "path": [1, None, ["a"], ""],
    "size": [-1, 0, len(CONTENT) + 1, len(CONTENT) - 1, "1", None, 10**30, 1 << 45],
    "sha256": ["", "0" * 64, "A" * 64, "0" * 63, None, hashlib.sha256(CONTENT).hexdigest().upper()],
    "mode": [0o755],
    "link": ["/etc/passwd"],
}
WRONG_PROJECTS = (
    "{turnlog:home}/../x", "/a/{turnlog:home}", "{turnlog:store}", "/a/../../b", "/a\0b",
    "{turnlog:home}{turnlog:home}", "/etc", "{turnlog:home}x", "{turnlog-7:home}/x",
    "{turnlog:project-0}",
)  # fmt: skip
HEADERS: dict[str, Callable[[tarfile.TarInfo], None]] = {
    "hard link": lambda info: _typed(info, tarfile.LNKTYPE, "/etc/passwd"),
    "symbolic link": lambda info: _typed(info, tarfile.SYMTYPE, "../../../../etc/passwd"),
    "character device": lambda info: _typed(info, tarfile.CHRTYPE),
    "block device": lambda info: _typed(info, tarfile.BLKTYPE),
    "directory": lambda info: _typed(info, tarfile.DIRTYPE),
    "named pipe": lambda info: _typed(info, tarfile.FIFOTYPE),
    "contiguous file": lambda info: _typed(info, tarfile.CONTTYPE),
    "old regular file": lambda info: _typed(info, tarfile.AREGTYPE),
    "sparse file": lambda info: _typed(info, tarfile.GNUTYPE_SPARSE),
    "unknown type": lambda info: _typed(info, b"Z"),
    "link target on a file": lambda info: setattr(info, "linkname", "/etc/passwd"),
    "setuid": lambda info: setattr(info, "mode", 0o4755),
    "executable": lambda info: setattr(info, "mode", 0o755),
    "world writable": lambda info: setattr(info, "mode", 0o666),
    "no permissions": lambda info: setattr(info, "mode", 0),
    "owner": lambda info: setattr(info, "uid", 1000),
    "group": lambda info: setattr(info, "gid", 1000),
    "owner's name": lambda info: setattr(info, "uname", "root"),
    "time": lambda info: setattr(info, "mtime", 1),
}
"""Headers of the transcript that turnlog never writes."""


def _typed(info: tarfile.TarInfo, kind: bytes, target: str = "") -> None:
    info.type, info.linkname = kind, target


class HostileBundle(NamedTuple):
    """A bundle, and what is wrong with it."""

    name: str
    content: bytes


@dataclass
class Forge:
    """A bundle in the making: sound until something is changed."""

    contents: dict[str, bytes] = field(default_factory=lambda: {TRANSCRIPT: CONTENT})
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    session: dict[str, Any] = field(default_factory=dict[str, Any])
    file: dict[str, Any] = field(default_factory=dict[str, Any])
    order: list[str] | None = None
    """The files in the archive, if not those of the manifest."""

    def manifest(self) -> bytes:
        lines = self.contents.get(TRANSCRIPT, b"").count(b"\n")
        one: dict[str, Any] = {
            "id": SESSION,
            "project": 0,
            "title": None,
            "client_versions": [],
            "lines": lines,
        }
        files = [
            {"path": name, "size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
            for name, raw in self.contents.items()
        ]
        files[0] |= self.file
        known: dict[str, Any] = {
            "format": "turnlog-bundle", "version": 1, "turnlog": "0.1.0", "is_redacted": True,
            "masked": {}, "tokens": PREFIX,
            "projects": [{"path": "{turnlog:home}/shop", "name": "shop"}],
            "sessions": [one | self.session], "files": files, "omitted": [],
        }  # fmt: skip
        return json.dumps(known | self.fields).encode()

    def tar(self, change: Callable[[tarfile.TarInfo], None] = lambda info: None) -> bytes:
        blocks = [_member("manifest.json", self.manifest())]
        for number, name in enumerate(self.order or list(self.contents)):
            raw = self.contents.get(name, b"extra")
            blocks.append(_member(name, raw, change if number == 0 else lambda info: None))
        return b"".join([*blocks, bytes(1024)])

    def packed(self) -> bytes:
        return zstd.compress(self.tar(), 3)


def _member(
    name: str, raw: bytes, change: Callable[[tarfile.TarInfo], None] = lambda info: None
) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(raw), 0o600
    change(info)
    try:
        header = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
    except ValueError:  # too long: as GNU tar writes it
        header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return header + raw + bytes(-len(raw) % 512)


def sound_bundle() -> bytes:
    """A bundle with nothing wrong: what the others differ from."""
    return Forge().packed()


def hostile_bundles() -> Iterator[HostileBundle]:
    """Yield bundles, each wrong in one way."""
    for kind in (_names, _fields, _headers, _archives, _frames, _contents, _bombs, _encrypted):
        yield from kind()


def _with(name: str, raw: bytes = b"x", **changes: Any) -> bytes:
    forge = Forge(**changes)
    forge.contents[name] = raw
    return forge.packed()


def _names() -> Iterator[HostileBundle]:
    for name in FOREIGN:
        yield HostileBundle(f"name {name!r}", _with(name))
    for folder in FOLDERS:
        for name in NAMES:
            yield HostileBundle(f"name {name!r} in {folder}", _with(f"{folder}/{name}"))
    results = f"{SESSION}/sidecars/tool-results"
    for one, other in (
        ("a.txt", "A.txt"), ("é.txt", "e\u0301.txt"), ("ß.txt", "ss.txt"), ("a.txt", "a.txt/b.txt"),
        ("ﬁ.txt", "fi.txt"),
    ):  # fmt: skip
        forge = Forge()
        forge.contents |= {f"{results}/{one}": b"1", f"{results}/{other}": b"2"}
        yield HostileBundle(f"collision of {one!r} and {other!r}", forge.packed())
    twice = Forge()
    entry = json.loads(twice.manifest())["files"][0]
    twice.fields["files"] = [entry, entry]
    twice.order = [TRANSCRIPT, TRANSCRIPT]
    yield HostileBundle("a file twice", twice.packed())


def _fields() -> Iterator[HostileBundle]:
    for name, values in WRONG_FIELDS.items():
        for value in values:
            bad = Forge(fields={name: value})
            yield HostileBundle(f"{name} {repr(value)[:80]}", bad.packed())
    for name, values in WRONG_SESSIONS.items():
        for value in values:
            bad = Forge(session={name: value})
            yield HostileBundle(f"session {name} {repr(value)[:80]}", bad.packed())
    for name, values in WRONG_FILES.items():
        for value in values:
            yield HostileBundle(
                f"file {name} {repr(value)[:80]}", Forge(file={name: value}).packed()
            )
    for path in WRONG_PROJECTS:
        projects = [{"path": path, "name": "shop"}]
        yield HostileBundle(f"project {path!r}", Forge(fields={"projects": projects}).packed())
    one = json.loads(Forge().manifest())["sessions"][0]
    yield HostileBundle("a session twice", Forge(fields={"sessions": [one, one]}).packed())
    upper = one | {"id": SESSION.upper()}
    yield HostileBundle("a session in capitals", Forge(fields={"sessions": [one, upper]}).packed())
    other = one | {"id": OTHER}
    yield HostileBundle("no transcript", Forge(fields={"sessions": [one, other]}).packed())
    many = [{"path": f"{OTHER}/x", "size": 0, "sha256": "0" * 64}] * 250_000
    yield HostileBundle("250,000 files", Forge(fields={"files": many}).packed())
    yield HostileBundle("20,000 sessions", Forge(fields={"sessions": [one] * 20_000}).packed())


def _headers() -> Iterator[HostileBundle]:
    for name, change in HEADERS.items():
        yield HostileBundle(f"header: {name}", zstd.compress(Forge().tar(change), 3))


def _archives() -> Iterator[HostileBundle]:
    tar = Forge().tar()
    yield HostileBundle("no manifest", zstd.compress(_member(TRANSCRIPT, CONTENT) + bytes(1024)))
    first = Forge().manifest()
    yield HostileBundle(
        "only a manifest", zstd.compress(_member("manifest.json", first) + bytes(1024))
    )
    extra = Forge(order=[TRANSCRIPT, f"{SESSION}/sidecars/tool-results/a.txt"])
    yield HostileBundle("a file too many", extra.packed())
    two = Forge()
    two.contents[f"{SESSION}/prompts.jsonl"] = b""
    two.order = [f"{SESSION}/prompts.jsonl", TRANSCRIPT]
    yield HostileBundle("another order", two.packed())
    for end in (0, 100, 512, 600, 1024, 1500, len(tar) - 1024, len(tar) - 512):
        yield HostileBundle(f"archive cut at {end}", zstd.compress(tar[:end]))
    yield HostileBundle("data after the end", zstd.compress(tar + b"x" * 512))
    yield HostileBundle("zeros after the end", zstd.compress(tar + bytes(512)))
    hidden = bytearray(tar)
    hidden[512 + len(first)] = 1
    yield HostileBundle("data in the padding", zstd.compress(bytes(hidden)))
    broken = bytearray(tar)
    broken[148] ^= 1
    yield HostileBundle("checksum of a header", zstd.compress(bytes(broken)))
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=kind) as archive:
            for name, raw in (("manifest.json", first), (f"{SESSION}/{'é' * 90}.txt", CONTENT)):
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(raw), 0o600
                archive.addfile(info, io.BytesIO(raw))
        yield HostileBundle(f"tar extensions {kind}", zstd.compress(stream.getvalue()))
    pax = tarfile.TarInfo.create_pax_global_header({"path": "/etc/passwd"})
    yield HostileBundle("a global header", zstd.compress(pax + tar))


def _frames() -> Iterator[HostileBundle]:
    packed = Forge().packed()
    yield HostileBundle("empty file", b"")
    yield HostileBundle("not a bundle", b"hello world\n" * 100)
    yield HostileBundle("gzip", b"\x1f\x8b\x08\0" + bytes(100))
    yield HostileBundle("only magic", packed[:4])
    yield HostileBundle("truncated frame", packed[: len(packed) // 2])
    yield HostileBundle("last byte missing", packed[:-1])
    yield HostileBundle("two frames", packed + packed)
    yield HostileBundle("bytes after the frame", packed + b"x")
    yield HostileBundle("skippable frame", packed + struct.pack("<II", 0x184D2A50, 4) + b"evil")
    yield HostileBundle(
        "skippable frame first", struct.pack("<II", 0x184D2A50, 4) + b"evil" + packed
    )
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    yield HostileBundle("a byte changed", bytes(flipped))
    yield HostileBundle("2 GiB window", b"\x28\xb5\x2f\xfd\x00\xa8" + bytes(20))
    yield HostileBundle("armor without base64", b"-----TURNLOG BUNDLE-----\n%%%\n")
    yield HostileBundle("armor with something else", b"-----TURNLOG BUNDLE-----\naGVsbG8=\n")


def _contents() -> Iterator[HostileBundle]:
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    open_only = b"[" * 500_000 + b"\n"
    for name, raw in (
        ("nested arrays", deep), ("open arrays", open_only), ("no entry", b"hello\n"),
        ("blank lines", b"\n\n\n"), ("only numbers", b"1\n2\n"), ("empty", b""),
        ("unknown token", CONTENT.replace(b"hello", b"{turnlog:root}")),
        ("unknown project", CONTENT.replace(b"hello", b"{turnlog:project-1}")),
        ("open token", CONTENT.replace(b"hello", b"{turnlog:home")),
        ("token in a token", CONTENT.replace(b"hello", b"{turnlog:{turnlog:home}}")),
        ("NUL bytes", bytes(1000) + b"\n"),
    ):  # fmt: skip
        yield HostileBundle(f"transcript: {name}", Forge(contents={TRANSCRIPT: raw}).packed())
    yield HostileBundle("nested to-do list", _with(f"{SESSION}/todos/{SESSION}-agent-1.json", deep))
    spread = b"[\n" * 100_000 + b"]\n" * 100_000
    for name in (f"todos/{SESSION}-agent-1.json", "sidecars/custom-title.json"):
        yield HostileBundle(f"nested over many lines: {name}", _with(f"{SESSION}/{name}", spread))
    prompts = f"{SESSION}/prompts.jsonl"
    for name, fields in (
        ("of another session", {"display": "x", "sessionId": OTHER}),
        ("of no session", {"display": "x"}),
        ("without text", {"sessionId": SESSION}),
        ("with a number", {"display": 1, "sessionId": SESSION}),
    ):
        yield HostileBundle(f"prompt {name}", _with(prompts, encode(fields)))
    yield HostileBundle("prompts: no JSON", _with(prompts, b"rm -rf /\n"))
    cut = encode({"display": "x", "sessionId": SESSION}).rstrip()
    yield HostileBundle("prompts: torn line", _with(prompts, cut))
    foreign = session(user("x"), session_id=OTHER, agent_id="a1")
    yield HostileBundle(
        "sub-agent of another session", _with(f"{SESSION}/subagents/agent-a1.jsonl", foreign)
    )
    yield HostileBundle("a plan that no entry names", _with(f"{SESSION}/plans/other.md"))
    yield HostileBundle("a paste that no prompt names", _with(f"{SESSION}/pastes/0123456789ab.txt"))


def _bombs() -> Iterator[HostileBundle]:
    name = f"{SESSION}/sidecars/tool-results/a.txt"
    yield HostileBundle("300 MiB of zeros", _with(name, bytes(300 * MIB)))
    huge = Forge(file={"size": 8 << 30})
    yield HostileBundle("8 GiB announced", huge.packed())
    manifest = b'{"format":"turnlog-bundle","version":1,"x":"' + b"a" * (70 * MIB) + b'"}'
    bomb = _member("manifest.json", manifest) + bytes(1024)
    yield HostileBundle("70 MiB manifest", zstd.compress(bomb))
    nested = b'{"format":"turnlog-bundle","version":1,"omitted":' + b"[" * 200_000
    yield HostileBundle("nested manifest", zstd.compress(_member("manifest.json", nested)))
    line = Forge(contents={TRANSCRIPT: CONTENT + b'"' + b"a" * (257 * MIB)})
    yield HostileBundle("a line of 257 MiB", line.packed())


def _encrypted() -> Iterator[HostileBundle]:
    start = b"age-encryption.org/v1\n"
    body = b"A" * 43
    for name, stanza in (
        ("no stanza", b""),
        ("recipient", b"-> X25519 " + b"A" * 43 + b"\n" + body + b"\n--- "),
        ("work factor 63", b"-> scrypt " + b"A" * 22 + b" 63\n" + body + b"\n--- "),
        ("work factor 22", b"-> scrypt " + b"A" * 22 + b" 22\n" + body + b"\n--- "),
        ("two stanzas", (b"-> scrypt " + b"A" * 22 + b" 1\n" + body + b"\n") * 2 + b"--- "),
        ("garbage", b"-> scrypt " + b"A" * 22 + b" 1\n" + body + b"\n--- " + b"A" * 43 + b"\nx"),
    ):
        yield HostileBundle(f"age: {name}", start + stanza)
