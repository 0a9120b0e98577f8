"""The commands that archive and restore sessions."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, session, text, user
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.verification import check_archive

CONTENT = session(user("Fix the bug"), assistant(text("done")))


@pytest.fixture
def path(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session, and an archive of its own."""
    monkeypatch.delenv("TURNLOG_ARCHIVE", raising=False)
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(CONTENT)
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "custom-title.json").write_text('{"customTitle":"Bug hunt"}')
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def archive(path: Path) -> Archive:
    return Archive(path.parent.parent.parent / "turnlog" / "archive")


def test_archive_tells_what_it_copied(path: Path, archive: Archive, turnlog: Run) -> None:
    told = turnlog("archive", "--dry-run")
    assert told.out.startswith("Would archive 1 session, ")
    assert not archive.folder.exists()
    done = turnlog("archive")
    assert (done.code, done.out.splitlines()[0][:20]) == (0, "Archived 1 session, ")
    assert str(archive.folder) in done.out
    assert turnlog("archive").out.startswith("Archived nothing")
    assert turnlog("archive", "--quiet").out == ""
    assert turnlog("archive", "--dry-run", "--install").code == 2


def test_archive_gives_its_figures_as_json(path: Path, archive: Archive, turnlog: Run) -> None:
    told = json.loads(turnlog("archive", "--json").out)
    size = len(CONTENT) + 26
    assert told.pop("written") == told.pop("all_written") > 0
    assert told == {
        "path": str(archive.folder),
        "sessions": 1,
        "bytes": size,
        "objects": 2,
        "all_sessions": 1,
        "all_bytes": size,
        "copies": 0,
        "unread": [],
    }


def test_archive_goes_where_it_is_told(
    path: Path, archive: Archive, tmp_path: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    turnlog("archive", "--to", str(tmp_path / "here"))
    monkeypatch.setenv("TURNLOG_ARCHIVE", str(tmp_path / "there"))
    turnlog("archive")
    assert not archive.folder.exists()
    for name in ("here", "there"):
        assert check_archive(Archive(tmp_path / name)).objects == 2


def test_a_deleted_session_is_marked_and_restored(path: Path, turnlog: Run) -> None:
    assert (turnlog("archive", "--list").code, turnlog("archive", "--list", "--json").out) == (
        1,
        "[]\n",
    )
    turnlog("archive")
    assert " gone" not in turnlog("archive", "--list").out
    path.unlink()
    listed = turnlog("archive", "--list").out
    assert "Bug hunt" in listed
    assert " gone" in listed
    (told,) = json.loads(turnlog("archive", "--list", "--json").out)
    assert (told["id"], told["is_gone"], len(told["files"])) == (SESSION, True, 2)
    done = turnlog("restore", "bug hunt")
    assert done.code == 0
    assert f"claude --resume {SESSION}" in done.out
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mtime > 1_000_000_000


@pytest.mark.parametrize("name", [SESSION[:8], "Bug hunt"])
def test_a_session_that_is_only_in_the_archive_is_shown_from_there(
    path: Path, turnlog: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = turnlog("show", SESSION).out, turnlog("turns", SESSION).out
    turnlog("archive")
    _delete(path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shown = turnlog("show", name)
    assert (shown.code, shown.out) == (0, before[0])
    assert turnlog("turns", name).out == before[1]
    assert f"(to resume it: turnlog restore {SESSION})" in shown.err
    assert not list(tmp_path.glob("turnlog-*"))


def test_other_commands_say_how_to_restore_a_session_that_is_only_in_the_archive(
    path: Path, turnlog: Run
) -> None:
    turnlog("archive")
    _delete(path)
    result = turnlog("cost", SESSION[:8])
    assert result.code == 1
    assert f"session {SESSION[:8]} is only in" in result.err
    assert f"turnlog restore {SESSION[:8]}" in result.err
    assert f"turnlog restore {SESSION}" in turnlog("cost", "Bug hunt").err
    assert "try: turnlog ls" in turnlog("cost", "Nothing like it").err


def _delete(path: Path) -> None:
    path.unlink()
    shutil.rmtree(path.with_suffix(""))


def test_forget_takes_a_session_out_of_the_archive_and_keeps_what_others_need(
    path: Path, archive: Archive, turnlog: Run
) -> None:
    other = path.with_name("00000000-0000-4000-8000-000000000001.jsonl")
    other.write_bytes(CONTENT)
    turnlog("archive")
    before = set(archive.objects.sizes())
    done = turnlog("forget", "--archived", SESSION, "--yes")
    assert done.code == 0
    assert f"Forgot {SESSION}" in done.out
    assert archive.names() == [other.stem]
    assert set(archive.objects.sizes()) < before
    assert "sound" in turnlog("archive", "--check").out
    assert path.read_bytes() == CONTENT


def test_restore_refuses_to_write_over_a_file(path: Path, tmp_path: Path, turnlog: Run) -> None:
    turnlog("archive")
    path.write_bytes(b"other\n")
    refused = turnlog("restore", SESSION)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "--into DIR" in refused.err
    assert path.read_bytes() == b"other\n"
    done = json.loads(turnlog("restore", SESSION, "--to", str(tmp_path / "x"), "--json").out)
    copy = tmp_path / "x" / path.relative_to(path.parent.parent.parent)
    assert str(copy) in done["written"]
    assert (copy.read_bytes(), copy.stat().st_mtime) == (CONTENT, 0)


def test_restore_from_another_archive(path: Path, tmp_path: Path, turnlog: Run) -> None:
    turnlog("archive", "--to", str(tmp_path / "other"))
    path.unlink()
    assert turnlog("restore", SESSION).code == 1
    assert turnlog("restore", SESSION, "--from", str(tmp_path / "other")).code == 0
    assert path.read_bytes() == CONTENT


def test_check_names_what_is_damaged(path: Path, archive: Archive, turnlog: Run) -> None:
    turnlog("archive")
    sound = turnlog("archive", "--check")
    assert (sound.code, sound.out) == (0, "1 session, 2 objects: sound\n")
    for each in archive.objects.folder.rglob("*.zst"):
        each.write_bytes(each.read_bytes()[:-1])
    told = turnlog("archive", "--check")
    assert told.code == 1
    assert told.out.count(SESSION) >= 2
    assert told.out.endswith("2 damages\n")
    damages = json.loads(turnlog("archive", "--check", "--json").out)["damages"]
    assert {damage["session"] for damage in damages} == {SESSION}


def test_a_file_that_cannot_be_archived_is_told(path: Path, turnlog: Run) -> None:
    folder = os.fsencode(path.with_suffix(""))
    os.close(os.open(folder + b"/\xff", os.O_CREAT))
    done = turnlog("archive", "--quiet")
    assert (done.code, done.out, done.err.count("not archived")) == (1, "", 1)
    (unread,) = json.loads(turnlog("archive", "--json").out)["unread"]
    assert unread["reason"] == "its name is not UTF-8"


def test_the_hooks_are_installed_once_and_removed(path: Path, turnlog: Run) -> None:
    settings = path.parent.parent.parent / "settings.json"
    settings.write_text('{\n  "model": "opus"\n}\n')
    before = settings.read_text()
    assert turnlog("archive", "--install").out.startswith("Installed in")
    installed = json.loads(settings.read_text())
    assert list(installed["hooks"]) == ["SessionStart", "SessionEnd"]
    assert turnlog("archive", "--install").out.startswith("Already installed")
    assert turnlog("archive", "--install", "--to", "/mnt/my backup").code == 0
    (group,) = json.loads(settings.read_text())["hooks"]["SessionEnd"]
    assert group["hooks"][0]["command"].endswith("archive --background --into '/mnt/my backup'")
    assert turnlog("archive", "--uninstall").out.startswith("Removed from")
    assert settings.read_text() == before
    assert turnlog("archive", "--uninstall").out.startswith("Not installed")


def test_settings_that_are_no_json_are_refused_in_one_line(path: Path, turnlog: Run) -> None:
    settings = path.parent.parent.parent / "settings.json"
    settings.write_text("{,}")
    refused = turnlog("archive", "--install")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert settings.read_text() == "{,}"


def in_background() -> "subprocess.CompletedProcess[str]":
    """Archive in the background, and wait until that is done."""
    command = [sys.executable, "-m", "turnlog", "archive", "--background"]
    read, write = os.pipe()
    done = subprocess.run(command, capture_output=True, text=True, pass_fds=[write], check=False)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:  # the process in the background has it open until it ends
        assert pipe.read() == b""
    return done


def test_the_background_does_the_work(path: Path, archive: Archive) -> None:
    done = in_background()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert check_archive(archive).objects == 2


def test_what_fails_in_the_background_is_told_the_next_time(path: Path, archive: Archive) -> None:
    archive.folder.mkdir(parents=True)
    archive.sessions.write_text("a file where the folder should be")
    assert in_background().returncode == 0
    archive.sessions.unlink()
    told = in_background()
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert str(archive.sessions) in told.stderr
    assert in_background().stderr == ""
    assert check_archive(archive).objects == 2


def test_an_archive_that_cannot_be_made_is_told_at_once(path: Path, archive: Archive) -> None:
    archive.folder.parent.write_text("a file where the folder should be")
    told = in_background()
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)


def test_search_goes_on_finding_a_deleted_session(
    path: Path, tmp_path: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (before,) = json.loads(turnlog("search", "bug", "--json").out)
    turnlog("archive")
    path.unlink()
    gone = [before | {"resume": None}]  # it has to be restored first
    assert json.loads(turnlog("search", "bug", "--json").out) == gone
    shutil.rmtree(tmp_path / "cache")
    assert json.loads(turnlog("search", "bug", "--json").out) == gone


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--list --from file:///x", "--from cannot be combined with --list"),
        ("--from file:///x --dry-run", "--dry-run cannot be combined with --from"),
        ("--check --dry-run", "--dry-run cannot be combined with --check"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    turnlog: Run, words: str, message: str
) -> None:
    done = turnlog("archive", *words.split())
    assert (done.code, done.out) == (2, "")
    assert message in done.err
