"""Files that turnlog did not write are replaced only with consent or a way to undo it."""

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, session, text, user
from support.planted import write
from turnlog.edit.journal import open_journal
from turnlog.edit.outputs import write_export
from turnlog.errors import UsageError

OTHERS = {
    "JSON": b'{"name": "mine"}',
    "text": b"MINE",
    "another's OTLP": b'{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"mine"},"spans":[]}]}]}',
    "another's events": b'{"traceEvents":[{"name":"mine","ph":"X"}]}',
    "binary": b"\0\xff",
    "a trace further down": b'[{"resourceSpans":[{"scope":{"name":"turnlog"}}]}]',
}
TARGETS = [("--to", "out.json"), ("--to", "perfetto", "out.json"), ("--to", "perfetto:out.json")]


@pytest.fixture
def here(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(project / f"{SESSION}.jsonl", session(user("hi"), assistant(text("hello"))))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("target", TARGETS)
def test_another_s_file_is_replaced_with_a_yes_alone(
    here: Path, turnlog: Run, content: bytes, target: tuple[str, ...]
) -> None:
    path = write(here / "out.json", content)
    done = turnlog("trace", SESSION, *target)
    assert (done.code, done.out, path.read_bytes()) == (2, "", content)
    command = shlex.join(["turnlog", "trace", "--yes", SESSION, *target])
    message = "turnlog: out.json exists, and turnlog did not write it"
    assert done.err.splitlines() == [f"{message} (try: {command})"]
    assert turnlog(*shlex.split(command)[1:]).code == 0
    assert path.read_bytes() != content


@pytest.mark.parametrize("before", [*TARGETS, None])
@pytest.mark.parametrize("target", TARGETS)
def test_a_trace_is_replaced_by_another(
    here: Path, turnlog: Run, before: tuple[str, ...] | None, target: tuple[str, ...]
) -> None:
    if before:
        assert turnlog("trace", SESSION, *before).code == 0
    else:
        (here / "out.json").touch()
    assert turnlog("trace", SESSION, *target).code == 0


def test_so_is_one_without_spans(here: Path, project: Path, turnlog: Run) -> None:
    write(project / f"{SESSION}.jsonl", b"")
    for _ in range(2):
        assert turnlog("trace", SESSION, *TARGETS[1]).code == 0
    assert turnlog("trace", SESSION, *TARGETS[0]).code == 0


def test_a_link_is_replaced_with_a_yes_alone(here: Path, turnlog: Run) -> None:
    real = write(here / "real.json", b"mine")
    (here / "out.json").symlink_to(real)
    assert turnlog("trace", SESSION, *TARGETS[0]).code == 2
    assert (here / "out.json").is_symlink()
    assert turnlog("trace", SESSION, "--yes", *TARGETS[0]).code == 0
    assert real.read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_never_replaced(here: Path, turnlog: Run, kind: str) -> None:
    path = here / "out.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    mode = path.lstat().st_mode
    assert turnlog("trace", SESSION, "--yes", *TARGETS[0]).code == 2
    assert path.lstat().st_mode == mode


def test_nothing_is_written_to_other_targets_either(here: Path, turnlog: Run) -> None:
    write(here / "out.json", b"mine")
    assert turnlog("trace", SESSION, "--to", "new.json", "--to", "out.json").code == 2
    assert not (here / "new.json").exists()


def test_an_export_is_private_and_one_that_replaces_a_file_can_be_undone(here: Path) -> None:
    assert write_export(here / "new.md", "said") is None
    assert stat.S_IMODE((here / "new.md").stat().st_mode) == 0o600
    path = write(here / "notes.md", b"MINE")
    record = write_export(path, "said")
    assert (record is not None, path.read_text("utf-8")) == (True, "said")
    open_journal().undo()
    assert path.read_bytes() == b"MINE"


@pytest.mark.parametrize("kind", ["link", "broken link", "pipe", "folder"])
def test_an_export_replaces_files_alone(here: Path, kind: str) -> None:
    path, real = here / "notes.md", write(here / "real.md", b"MINE")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(real if kind == "link" else "nowhere")
    with pytest.raises(UsageError):
        write_export(path, "said")
    assert real.read_bytes() == b"MINE"
    assert not (here / "nowhere").exists()


@pytest.fixture
def stored(project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session, and a working directory outside of its store."""
    monkeypatch.chdir(outside)
    return write(project / f"{SESSION}.jsonl", session(user("hi"), assistant(text("hello"))))


PRINTING = [
    *("ls", "show S", "tree S", "turns S", "files S", "cost S", "context S", "stats"),
    *("check S", "inspect S", "history", "entries S", "schema", "raw S --line 1", "sql SELECT~1"),
]
"""Commands that have the shared option -o."""


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("line", PRINTING)
def test_output_that_replaces_a_file_can_be_undone(outside: Path, turnlog: Run, line: str) -> None:
    path = write(outside / "thesis.txt", b"MINE")
    words = [SESSION if word == "S" else word.replace("~", " ") for word in line.split()]
    done = turnlog(*words, "-o", "thesis.txt")
    assert done.code == 0
    (record,) = open_journal().records()
    note = f"turnlog: replaced thesis.txt; to restore it: turnlog undo {record.id}\n"
    assert done.err.endswith(note)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() != b"MINE"
    assert turnlog("undo").code == 0
    assert path.read_bytes() == b"MINE"


def test_a_report_that_is_written_again_and_again_is_one_change(
    stored: Path, outside: Path, turnlog: Run
) -> None:
    path = write(outside / "report.txt", b"MINE")
    assert turnlog("show", SESSION, "-o", "report.txt").err
    for number in range(3):
        stored.write_bytes(session(user(f"prompt {number}")))
        assert turnlog("show", SESSION, "-o", "report.txt").err == ""
        assert f"prompt {number}" in path.read_text("utf-8")
    assert len(open_journal().records()) == 1
    assert turnlog("undo").code == 0
    assert path.read_bytes() == b"MINE"


@pytest.mark.usefixtures("stored")
def test_a_report_that_someone_changed_is_kept_as_well(outside: Path, turnlog: Run) -> None:
    path = write(outside / "report.txt", b"")
    assert turnlog("show", SESSION, "-o", "report.txt").err == ""
    for content in (b"MINE", b"MINE TOO"):
        write(path, content)
        assert "turnlog undo" in turnlog("show", SESSION, "-o", "report.txt").err
    assert turnlog("undo").code == 0
    assert path.read_bytes() == b"MINE TOO"


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "name",
    [
        "history.jsonl",
        "settings.json",
        "file-history/a/b@v1",
        "turnlog/archive/x",
        "cache/turnlog/x",
    ],
)
@pytest.mark.parametrize("is_linked", [False, True])
def test_no_output_replaces_a_file_of_the_store_or_of_turnlog(
    tmp_path: Path, outside: Path, turnlog: Run, name: str, is_linked: bool
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, b"MINE")
    (outside / "link").symlink_to(path)
    done = turnlog("ls", "-o", "link" if is_linked else str(path))
    assert (done.code, path.read_bytes()) == (2, b"MINE")
    assert " is in " in done.err


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("is_broken", [False, True])
def test_no_output_follows_a_link(outside: Path, turnlog: Run, is_broken: bool) -> None:
    real = outside / "real"
    if not is_broken:
        write(real, b"MINE")
    (outside / "out.txt").symlink_to(real)
    done = turnlog("ls", "-o", "out.txt")
    assert done.code == 2
    assert f"out.txt is a symbolic link to {real.resolve()} (try: turnlog ls -o " in done.err
    assert is_broken or real.read_bytes() == b"MINE"
    assert (outside / "out.txt").is_symlink()


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("redirect", [">> log", "| cat >> log"])
def test_output_to_dev_stdout_is_appended_like_any_output(outside: Path, redirect: str) -> None:
    log = write(outside / "log", b"MINE\n")
    command = shlex.join([sys.executable, "-m", "turnlog", "ls", "--json", "-o", "/dev/stdout"])
    subprocess.run(f"{command} {redirect}", shell=True, check=True)
    assert log.read_bytes().startswith(b"MINE\n[")
