"""Archives that commands unpack by a rule: their files are checked."""

import bz2
import gzip
import io
import lzma
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.permissions.archive_members import ArchiveMember, list_members
from turnlog.agent.workspace.access import Runs

HOSTILE = (".git/hooks/pre-commit", ".claude/settings.json", "docs/keep.md", "a/.envrc", "../x")
UNPACKED = (
    *("tar xf x.tar", "tar -xf x.tar", "tar -x -f x.tar", "tar -xvfx.tar"),
    *("tar --extract --file=x.tar", "bsdtar -xf x.tar"),
    *("tar -xkf x.tar", "timeout 9 tar xf x.tar", "unzip x.zip", "unzip -o x.zip -d ."),
)
UNCLEAR = (
    *("cat x.tar | tar x", "tar x < x.tar", "tar xf -", "tar xf missing.tar", 'tar xf "$X"'),
    *(
        "tar xf x.tar --transform=s/a/b/",
        "tar xPf x.tar",
        "tar xif x.tar",
        "tar -xf x.tar -C a",
        "tar xfC x.tar a",
    ),
    *(
        "tar xf host:x.tar",
        "tar xzIf any x.tar",
        "unzip '*.zip'",
        "unzip -j x.zip",
        "unzip -: x.zip",
    ),
    *("cpio -id < x.cpio", "7z x x.7z", "pax -r -f x.tar", "jar xf x.zip", "tar $X"),
    *("gzip -dN x.gz", "gunzip --name x.gz"),
)


KEEP = "Edit(/docs/keep.md)"


def tar_of(*names: str, links: dict[str, str] | None = None) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return sink.getvalue()


def put(root: Path, *names: str) -> None:
    (root / "x.tar").write_bytes(tar_of(*names))
    with zipfile.ZipFile(root / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "x")


def kind_of(
    command: str, root: Path, mode: ApprovalMode = ApprovalMode.DEFAULT, rule: str = KEEP
) -> VerdictKind:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    programs = "tar bsdtar unzip cpio 7z pax jar gzip gunzip cat".split()
    allow = tuple(parse_rule(f"Bash({each}:*)", root, "test") for each in programs)
    deny = (parse_rule(rule, root, "test"),)
    policy = Policy(deny, (), allow, mode, root, (root,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", UNPACKED)
@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_replaces_no_denied_or_protected_file(
    name: str, command: str, tmp_path: Path
) -> None:
    put(tmp_path, "src/app.py", name)
    assert kind_of(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("command", UNCLEAR)
def test_an_archive_that_cannot_be_looked_at_asks(command: str, tmp_path: Path) -> None:
    put(tmp_path, "src/app.py")
    assert kind_of(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("command", UNCLEAR)
@pytest.mark.parametrize("rule", [KEEP, "Read(.env)"])
def test_no_mode_unpacks_it_if_a_rule_denies_a_file(
    rule: str, command: str, tmp_path: Path
) -> None:
    put(tmp_path, "src/app.py")
    assert kind_of(command, tmp_path, ApprovalMode.BYPASS, rule) is VerdictKind.ASK
    assert kind_of(command, tmp_path, ApprovalMode.BYPASS, "WebSearch") is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *UNPACKED,
        "tar xf x.tar --strip-components=1",
        "tar tf x.tar",
        "tar cf y.tar src",
        "unzip -l x.zip",
    ],
)
def test_an_archive_of_other_files_is_unpacked_by_a_rule(command: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "src").mkdir()
    put(tmp_path, "./src/app.py", "src/b.py")
    assert kind_of(command, tmp_path) is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "content",
    [
        tar_of("a/settings.json", links={"a": ".claude"}),
        tar_of("a", links={"a": ".git/hooks/pre-commit"}),
        # tar goes on behind a damaged header, and behind the end of the first compressed stream.
        tar_of("a")[:512] + b"x" * 512 + tar_of(".envrc"),
        gzip.compress(tar_of("a")[:512]) + gzip.compress(tar_of(".envrc")),
        b"x" * 2048,
    ],
)
def test_an_archive_that_may_be_read_in_two_ways_asks(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    assert kind_of("tar xf x.tar", tmp_path) is VerdictKind.ASK


def header_of(name: str, size: bytes) -> bytes:
    """A header of tar with a size as it is written."""
    header = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
    header[124:136], header[148:156] = size.ljust(12, b"\0"), b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def pax_of(headers: dict[str, str]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("a")
        member.pax_headers = headers
        archive.addfile(member)
    return sink.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        # GNU tar takes the first name, Python's module the last one.
        pax_of({"GNU.sparse.name": ".envrc", "path": "a"}),
        pax_of({"unknown": "x"}),
        # Where a size is not a number to one program, the content of a file is its next header.
        *(header_of("a", size) + tar_of(".envrc") for size in (b"2_000", b"0o2000", b"+2000")),
        header_of("a", b"0")[:511] + b"x" + bytes(1024),
        header_of("a", b"2000")[:512],
        bytes(1024),
    ],
)
def test_a_tar_file_with_anything_unusual_asks(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    assert kind_of("tar xf x.tar", tmp_path) is VerdictKind.ASK


def test_a_tar_file_of_git_with_long_names_is_understood(tmp_path: Path) -> None:
    name = f"src/{'long/' * 40}{'x' * 120}.py"
    for run in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *identity, *run], cwd=tmp_path, check=True)
    command = ["git", "archive", "--format=tar", "HEAD"]
    content = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
    assert name in [each.name for each in list_members(content, is_zip=False)]
    for style in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w", format=style) as archive:
            archive.addfile(tarfile.TarInfo(name[:200]))
        assert list_members(sink.getvalue(), is_zip=False) == [ArchiveMember(name[:200])]


def zip_of(name: str, *, inside: str | None = None) -> bytes:
    """A zip file with one member, which may have another name in front of its content."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        # Of a fixed time: these bytes name parameters, which all processes of a run must agree on.
        member = zipfile.ZipInfo("@" * len(name), (2026, 1, 1, 0, 0, 0))
        member.external_attr = 0o600 << 16
        archive.writestr(member, "x")
    content, mark = sink.getvalue(), b"@" * len(name)
    return content.replace(mark, (inside or name).encode(), 1).replace(mark, name.encode(), 1)


def with_second_list(hostile: bytes, harmless: bytes) -> bytes:
    """A zip file whose last record names one list of members, and a record before it another."""
    end, other = hostile.rindex(b"PK\5\6"), harmless.rindex(b"PK\5\6")
    size, start = struct.unpack_from("<II", harmless, other + 12)
    moved = bytearray(harmless[:other])
    struct.pack_into("<I", moved, start + 42, end)
    body = hostile[:end] + moved
    where = (0, 0, 1, 1, size, end + start)
    large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, *where)
    return body + large + struct.pack("<4sIQI", b"PK\6\7", 0, len(body), 1) + hostile[end:]


@pytest.mark.parametrize(
    "content",
    [
        with_second_list(zip_of(".envrc"), zip_of("a")),
        # unzip cuts off versions, drops control characters, and takes a backslash for a slash.
        *(zip_of(name) for name in (".envrc;1", ".env\x01rc", "a\\.envrc", "é")),
        zip_of("a.txt", inside=".envr"),
        zip_of("a") + b"x",
        b"x" + zip_of("a"),
        zip_of("a")[:-30],
        b"",
    ],
)
def test_a_zip_file_with_anything_unusual_asks(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    assert kind_of("unzip -o x.zip", tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        # Without a dash, `f` takes the next argument, whatever letters follow it.
        *("tar xfv x.tar", "tar xfk x.tar", "tar xzfv x.tar"),
        # Behind the archive, a dash starts the name of a member; `--l` takes `-l` back.
        *("unzip x.zip '*' -l", "unzip x.zip -x -l", "unzip x.zip -d -l", "unzip -l --l x.zip"),
        'unzip -l "$X" x.zip',
    ],
)
def test_options_are_read_where_the_programs_read_them(command: str, tmp_path: Path) -> None:
    put(tmp_path, ".envrc")
    for name in "vk":
        (tmp_path / name).write_bytes(tar_of("a"))
    assert kind_of(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_archives_are_looked_at(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    for name, expected in (("src/a.py", VerdictKind.ALLOW), (".envrc", VerdictKind.ASK)):
        (tmp_path / "x.tar").write_bytes(compress(tar_of(name)))
        assert kind_of("tar xf x.tar", tmp_path) is expected


def test_an_archive_that_unpacks_to_gigabytes_is_left_unread(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(gzip.compress(bytes(1 << 27)))
    assert kind_of("tar xf x.tar", tmp_path) is VerdictKind.ASK


def test_the_names_are_those_that_tar_lists(tmp_path: Path) -> None:
    content = tar_of("./a b", "c/d", "é", "x" * 200 + "/y")
    (tmp_path / "x.tar").write_bytes(content)
    command = ["tar", "tf", str(tmp_path / "x.tar"), "--quoting-style=literal"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    names = [each.name for each in list_members(content, is_zip=False)]
    assert names == [name.removeprefix("./") for name in listed]
