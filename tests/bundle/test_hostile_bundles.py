"""Hostile bundles: every one is refused with a reason, and nothing is written anywhere."""

import os
import re
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from support.build import SESSION
from support.hostile_bundles import Forge, HostileBundle, hostile_bundles, sound_bundle
from support.two_homes import User, create_users
from turnlog.bundle.members import member_problem
from turnlog.bundle.merge import Relation
from turnlog.bundle.validation import ARMOR, needs_password, private_folder
from turnlog.errors import Damaged, TurnlogError
from turnlog.format.age_files import AGE
from turnlog.store.paths import unpacking_folder

BUNDLES = list(hostile_bundles())
TRACE = re.compile(r"0x[0-9a-f]{6,}|Traceback")


@pytest.fixture
def bob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return create_users(tmp_path, monkeypatch)[1]


def everything(folder: Path) -> dict[str, int]:
    """Every path below a folder, with its modification time."""
    found = folder.rglob("*")
    return {str(path): path.lstat().st_mtime_ns for path in found if not path.is_dir()}


def test_there_are_more_than_200_of_them() -> None:
    names = [bundle.name for bundle in BUNDLES]
    assert len(names) == len(set(names)) > 200


def test_a_sound_bundle_is_imported(bob: User, tmp_path: Path) -> None:
    path = tmp_path / "x.turnlog"
    path.write_bytes(sound_bundle())
    (found,) = bob.unbundle(path).sessions
    assert (found.id, found.relation) == (SESSION, Relation.NEW)


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_hostile_bundles_are_refused(bundle: HostileBundle, bob: User, tmp_path: Path) -> None:
    path = tmp_path / "x.turnlog"
    path.write_bytes(bundle.content)
    before = everything(tmp_path)
    with pytest.raises(TurnlogError) as caught:
        bob.unbundle(path, password="x")
    assert everything(tmp_path) == before
    message = caught.value.message
    assert message
    assert caught.value.hint
    assert not TRACE.search(message)
    assert "\n" not in message
    assert "\x1b" not in message
    assert not list((tmp_path / "temporary").iterdir())
    assert not list(unpacking_folder().iterdir())


def test_a_bomb_takes_little_memory(bob: User, tmp_path: Path) -> None:
    path = tmp_path / "x.turnlog"
    bomb = next(bundle for bundle in BUNDLES if bundle.name == "300 MiB of zeros")
    path.write_bytes(bomb.content)
    tracemalloc.start()
    try:
        with pytest.raises(Damaged):
            bob.unbundle(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("start", [ARMOR, AGE])
def test_what_has_to_be_read_at_once_is_bounded(start: bytes, bob: User, tmp_path: Path) -> None:
    path = tmp_path / "x.turnlog"
    path.write_bytes(start + b"QUJD" * 100)
    os.truncate(path, 3 << 30)  # sparse
    assert needs_password(path) is (start == AGE)
    tracemalloc.start()
    try:
        with pytest.raises(Damaged) as caught:
            bob.unbundle(path, password="x")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert (caught.value.hint or "").endswith(f"--max-size {3 << 30}")


def test_the_next_run_removes_what_a_killed_one_left(bob: User) -> None:
    script = """
import os, signal
from turnlog.bundle.validation import private_folder
with private_folder() as folder:
    (folder / "secret").write_text("plain")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with private_folder() as mine:
        (mine / "content").write_text("x")
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        left = Path(done.stdout.strip())
        assert left.parent == mine.parent == unpacking_folder()
        assert (left / "secret").exists()
        assert (
            stat.S_IMODE(left.stat().st_mode) == stat.S_IMODE(mine.parent.stat().st_mode) == 0o700
        )
        with private_folder():
            assert not left.exists()
            assert (mine / "content").exists()  # in use
    assert not list(unpacking_folder().iterdir())


def test_a_large_bundle_is_imported_on_request(bob: User, tmp_path: Path) -> None:
    path = tmp_path / "x.turnlog"
    path.write_bytes(sound_bundle())
    with pytest.raises(Damaged) as caught:
        bob.unbundle(path, max_size=10)
    assert "--max-size" in (caught.value.hint or "")
    assert bob.unbundle(path, max_size=10_000).record


def test_a_bundle_does_not_choose_a_hidden_directory(bob: User, tmp_path: Path) -> None:
    (bob.home / ".ssh").mkdir()
    path = tmp_path / "x.turnlog"
    projects = [{"path": "{turnlog:home}/.ssh", "name": "x"}]
    path.write_bytes(Forge(fields={"projects": projects}).packed())
    (found,) = bob.unbundle(path, into=None).sessions
    assert found.directory == str(bob.work)


@pytest.mark.parametrize("kind", ["fifo", "folder", "missing"])
def test_only_regular_files_are_read(kind: str, bob: User, tmp_path: Path) -> None:
    path = tmp_path / "x.turnlog"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(TurnlogError):
        bob.unbundle(path)


def test_a_name_that_no_header_holds_is_refused() -> None:
    session = "0a1b2c3d-0000-4000-8000-000000000000"
    name = f"{session}/session/tool-results/{'x' * 120}.txt"
    assert member_problem(name) == "has a name that is too long"
