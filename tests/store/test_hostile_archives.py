"""An archive that anyone could have made: refused as a whole, with a reason, in bounded memory."""

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.hostile_archives import (
    CONTENT,
    PROJECT,
    SESSION,
    TRANSCRIPT,
    Builder,
    build,
    hostile_cases,
)
from turnlog.errors import Unavailable
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.restore import Restored, restore_session

MEMORY = 700 << 20
"""Bytes of address space: Python with all that the commands load takes about half of it."""

CASES = dict(hostile_cases())

DRIVER = """
import contextlib, io, json, os, sys
from turnlog.cli.main import run

told = {}
for folder in sys.stdin.read().split("\\0"):
    os.environ["TURNLOG_ARCHIVE"] = f"{folder}/archive"
    os.environ["CLAUDE_CONFIG_DIR"] = f"{folder}/store"
    os.environ["XDG_CACHE_HOME"] = os.environ["TURNLOG_HOME"] = f"{folder}.own"
    commands = json.loads(sys.argv[1])
    for command in commands:
        command = [part.replace("FOLDER", folder) for part in command]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = run(command)
            except BaseException as error:
                code = f"{type(error).__name__}: {error}"
        told.setdefault(folder, []).append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""


def tree(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything below a folder, with modes and contents; links as they are."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in [folder, *folder.rglob("*")]:
        mode = path.lstat().st_mode
        held: bytes | str = ""
        if stat.S_ISLNK(mode):
            held = str(path.readlink())
        elif stat.S_ISREG(mode) and path.stat().st_size < 1 << 30:
            held = path.read_bytes()
        found[str(path.relative_to(folder))] = (mode, held)
    return found


def drive(folders: list[Path], *commands: list[str]) -> dict[Path, list[Any]]:
    """Run commands on each archive in one process of limited memory and files of limited size."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))

    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(commands)],
        input="\0".join(map(str, folders)),
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {Path(folder): told for folder, told in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """All hostile archives, each in a folder of its own."""
    root = tmp_path_factory.mktemp("hostile")
    folders = {root / str(number): name for number, name in enumerate(CASES)}
    for folder, name in folders.items():
        build(CASES[name], folder)
    return folders


def test_there_are_many_kinds_of_hostile_archives() -> None:
    assert len(CASES) >= 60


def test_nothing_of_a_hostile_archive_is_restored(hostile: dict[Path, str]) -> None:
    before = {folder: tree(folder) for folder in hostile}
    told = drive(list(hostile), ["restore", "", "--to", "FOLDER/place"])
    failures: dict[str, object] = {}
    for folder, name in hostile.items():
        ((code, out, err),) = told[folder]
        is_refused = code == 1 and not out and err.startswith("turnlog: ") and err.count("\n") == 1
        if not is_refused or tree(folder) != before[folder] or "\x1b" in err:
            failures[name] = (code, out, err, tree(folder).keys() ^ before[folder].keys())
    assert failures == {}


def test_every_reader_survives_hostile_archives(hostile: dict[Path, str]) -> None:
    before = {folder: tree(folder) for folder in hostile}
    told = drive(
        list(hostile),
        ["archive", "--list"],
        ["archive", "--list", "--json"],
        ["archive", "--check"],
        ["show", SESSION],
        ["search", "user"],
        ["forget", "--archived", "nosuch"],
    )
    for folder, name in hostile.items():
        for code, _, err in told[folder]:
            assert code in (0, 1), (name, code, err)
            assert "Traceback" not in err
        assert tree(folder) == before[folder], name


@pytest.mark.parametrize("mode", [0o6755, 0o4711, 0o777, 0o2070, 0o000, 0o1777, 0o644, 0o500])
def test_only_a_copy_of_an_edited_file_may_be_executable(tmp_path: Path, mode: int) -> None:
    copy = f"file-history/{SESSION}/0123456789abcdef@v1"

    def add_both(builder: Builder) -> None:
        builder.add(mode=mode)
        builder.add(copy, mode=mode)

    edited, transcript = restored(build(add_both, tmp_path)).written
    assert stat.S_IMODE(transcript.stat().st_mode) == 0o600
    assert stat.S_IMODE(edited.stat().st_mode) == 0o600 | mode & 0o700
    for folder in (edited.parent, transcript.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_full_disk_is_reported_with_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    usage = usage._replace(free=64 << 20)

    def disk_usage(_: Path) -> object:
        return usage

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    with pytest.raises(Unavailable, match="64 MiB kept free, but 67,108,864 bytes free"):
        restored(build(lambda b: b.add(), tmp_path))


@pytest.mark.parametrize("moment", [-(10**18), 10**30, 2**63, 0])
def test_times_are_between_1970_and_now(tmp_path: Path, moment: int) -> None:
    builder = build(lambda b: b.add(mtime_ns=moment), tmp_path)
    (path,) = restored(builder).written
    assert 0 <= path.stat().st_mtime_ns <= path.parent.stat().st_mtime_ns + 10**9


@pytest.mark.parametrize(
    "script",
    [
        f"session-env/{SESSION}/sessionstart-hook-0.sh",
        f"{PROJECT}/{SESSION}/workflows/scripts/run.js",
        f"{PROJECT}/{SESSION}/Workflows/x/SCRIPTS/run.mjs",
    ],
)
def test_scripts_that_the_client_runs_are_left_out(tmp_path: Path, script: str) -> None:
    builder = build(lambda b: b.add(script, b"touch /tmp/pwned\n"), tmp_path)
    done = restored(builder)
    assert (len(done.written), done.left_out) == (1, [script])
    assert not (builder.place / script).exists()


def test_all_that_belongs_to_a_session_is_accepted(tmp_path: Path) -> None:
    paths = [
        TRANSCRIPT, f"{PROJECT}/agent-1a2b.jsonl", f"{PROJECT}/agent-1a2b.meta.json",
        f"{PROJECT}/{SESSION}/custom-title.json",
        f"{PROJECT}/{SESSION}/subagents/workflows/wf_1/agent-a.jsonl",
        f"{PROJECT}/{SESSION}/tool-results/Ünï cødé 😀.txt", f"file-history/{SESSION}/0a@v1",
        f"image-cache/{SESSION}/1.png", f"uploads/{SESSION}/CLAUDE.md", f"tasks/{SESSION}/1.json",
        f"todos/{SESSION}-agent-{SESSION}.json",
    ]  # fmt: skip

    def sound(builder: Builder) -> None:
        for path in paths:
            builder.add(path)

    builder = build(sound, tmp_path)
    assert restored(builder).written == sorted(builder.place / path for path in paths)


def test_a_root_that_is_a_link_is_the_users_own_choice(tmp_path: Path) -> None:
    builder = build(lambda b: None, tmp_path)
    builder.place.rmdir()
    builder.place.symlink_to(tmp_path / "outside", target_is_directory=True)
    restored(builder)
    assert (tmp_path / "outside" / TRANSCRIPT).read_bytes() == CONTENT


def test_a_large_session_can_be_restored_on_request(tmp_path: Path) -> None:
    def repetitive(builder: Builder) -> None:
        piece = builder.put_object(b"y\n" * (1 << 19))
        builder.add(f"{PROJECT}/{SESSION}/tool-results/yes.txt", size=20 << 20, pieces=[piece] * 20)

    builder = build(repetitive, tmp_path)
    archive = Archive(builder.folder)
    done = restore_session(archive, archive.load(SESSION), builder.place, max_size=21 << 20)
    assert len(done.written) == 2


def restored(builder: Builder) -> Restored:
    archive = Archive(builder.folder)
    old = os.umask(0)
    try:
        return restore_session(archive, archive.load(SESSION), builder.place)
    finally:
        os.umask(old)
