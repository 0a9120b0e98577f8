"""Archives and patches that are replaced before they are read, or that are two things at once."""

import io
import struct
import subprocess
import tarfile
import zlib
from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

PATCH = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n"
PROGRAMS = "mkdir tar unzip cp git patch make gunzip gzip 7z unrar cat".split()
EMPTY_FRAME = b"(\xb5/\xfd\x20\x00\x01\x00\x00"
"""An empty stream of zstd, behind which other streams may follow."""


def tar_of(name: str, *, kind: bytes = b"0", target: str = "", size: int = 0) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, size
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(member, io.BytesIO(b"x" * size))
    return sink.getvalue()


def header_of(start: bytes, size: int = 0, signature: bytes = b"ustar\00000") -> bytes:
    """Return a header of tar, whose first bytes are those of another format."""
    header = bytearray(tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT))
    header[: len(start)], header[124:136] = start, b"%011o\0" % size
    header[257:265], header[148:156] = signature, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def tar_and_gzip() -> bytes:
    """Return a tar file of `.envrc` that is also the compressed tar file of `a`.

    In gzip, a field of any content covers the members that tar finds.
    """
    hidden, shown = tar_of(".envrc"), tar_of("a")
    field = struct.pack("<H", 512 + len(hidden) - 12)
    stream = zlib.compressobj(wbits=-15)
    packed = stream.compress(shown) + stream.flush()
    end = struct.pack("<II", zlib.crc32(shown), len(shown))
    return header_of(b"\x1f\x8b\x08\x04AAAAAA" + field) + hidden + packed + end


def kind_of(command: str, root: Path, *denied: str) -> VerdictKind:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    allow = tuple(parse_rule(f"Bash({each}:*)", root, "test") for each in PROGRAMS)
    deny = tuple(parse_rule(each, root, "test") for each in denied)
    policy = Policy(deny, (), allow, ApprovalMode.DEFAULT, root, (root,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize(
    "content",
    [
        tar_and_gzip(),
        header_of(EMPTY_FRAME, signature=bytes(8)),
        header_of(b"LZIP\1"),
        zlib.compress(header_of(EMPTY_FRAME), wbits=31),
        # A directory to some programs: what follows is its content, or the next member.
        header_of(b"a/", len(tar_of(".envrc"))) + tar_of(".envrc"),
    ],
)
def test_a_tar_file_that_is_also_something_else_asks(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    assert kind_of("tar xf x.tar", tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        *(("secret.txt", VerdictKind.ASK), (".git/config", VerdictKind.ASK)),
        *(("out/key", VerdictKind.ASK), ("b/../secret.txt", VerdictKind.ASK)),
        *(("src/app.py", VerdictKind.ALLOW), ("x" * 120, VerdictKind.ALLOW)),
        ("y" * 120 + "/secret.txt", VerdictKind.ASK),
    ],
)
@pytest.mark.parametrize("style", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_hard_link_gives_no_second_name_to_a_denied_or_protected_file(
    target: str, kind: VerdictKind, style: int, tmp_path: Path
) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "out").symlink_to(outside)
    with tarfile.open(root / "x.tar", "w", format=style) as archive:
        member = tarfile.TarInfo("notes.txt")
        member.type, member.linkname = tarfile.LNKTYPE, target
        archive.addfile(member)
    assert kind_of("tar xf x.tar", root, "Read(/secret.txt)", "Read(secret.txt)") is kind


@pytest.mark.parametrize(
    "command",
    [
        *("cp y.tar x.tar && tar xf x.tar", "cp -r sub/. . && tar xf x.tar", "make; tar xf x.tar"),
        *("cat y.tar > x.tar; tar xf x.tar", "tar xf y.tar; tar xf x.tar"),
        *("cp y.tar real.tar && tar xf link.tar", "cp y.tar x.tar | tar xf x.tar"),
        *("sleep 9; tar xf x.tar", "tar xf x.tar &", "cp y.patch x.patch; git apply x.patch"),
        *("cp y.patch x.patch; patch -p1 < x.patch", "git checkout y && git am x.patch"),
    ],
)
def test_a_file_that_another_part_may_replace_asks(command: str, tmp_path: Path) -> None:
    put(tmp_path)
    assert kind_of(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *(
            "mkdir -p sub && tar xf x.tar",
            "cp y.patch z.patch && tar xf x.tar",
            "tar xf x.tar; make",
        ),
        *("git apply --check x.patch && git apply x.patch", "tar tvf x.tar && tar xf x.tar"),
        *("patch --dry-run -p1 -i x.patch && patch -p1 -i x.patch", "ls && git apply x.patch"),
        "timeout 9 tar xf x.tar 2>/dev/null",
    ],
)
def test_a_file_that_nothing_replaces_is_used_by_a_rule(command: str, tmp_path: Path) -> None:
    put(tmp_path)
    assert kind_of(command, tmp_path) is VerdictKind.ALLOW


def put(root: Path) -> None:
    for name in ("x", "y", "real"):
        (root / f"{name}.tar").write_bytes(tar_of("src/app.py"))
        (root / f"{name}.patch").write_text(PATCH.format("src/app.py"))
    (root / "link.tar").symlink_to("real.tar")
    (root / "sub").mkdir()


@pytest.mark.parametrize(
    "command",
    [
        *("gunzip -N x.gz", "gzip -dN x.gz", "gzip -d --name x.gz"),
        *("7z X x.7z", "7z E x.7z", "unrar X x.rar"),
    ],
)
def test_an_archive_of_another_program_asks_however_it_is_called(
    command: str, tmp_path: Path
) -> None:
    assert kind_of(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("header", ["Index:.envrc", "Index:\v.envrc", "XIndex:.envrc"])
def test_the_name_in_an_index_line_needs_no_blank(header: str, tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text(f"{header}\n@@ -0,0 +1 @@\n+x\n")
    assert kind_of("patch -p0 -i x.patch", tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("depth", [1, 4, 9])
def test_any_number_of_directories_may_be_stripped_from_a_name(depth: int, tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text(PATCH.format("q/" * (depth - 1) + "docs/old/x.md"))
    command = f"git apply -p{depth} x.patch"
    assert kind_of(command, tmp_path, "Edit(/d?c?/o?d/**)") is VerdictKind.ASK
