"""Files that turnlog did not write are replaced only with consent or a way to undo it."""

import os
import shlex
import stat
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, session, text, user
from support.planted import write
from turnlog.edit.journal import open_journal
from turnlog.edit.service import write_export
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
