"""turnlog export to a directory: manifests and files that turnlog did not write."""

import json
import os
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, session, text, user
from support.planted import write

MANIFEST = ".turnlog-export.jsonl"
HEAD = b'{"turnlog_export":1,"salt":""}\n'


@pytest.fixture
def here(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a directory `d`, and a session in the store."""
    write(project / f"{SESSION}.jsonl", session(user("hi"), assistant(text("hello"))))
    folder = tmp_path / "work"
    (folder / "d").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def record(path: Path, **fields: object) -> bytes:
    status = path.lstat()
    about = {"state": "x", "size": status.st_size, "modified": status.st_mtime_ns}
    return json.dumps(about | fields).encode() + b"\n"


def test_a_manifest_cannot_name_files_outside_its_directory(
    here: Path, project: Path, turnlog: Run
) -> None:
    removed = write(here / "removed.html", b"precious")
    replaced = write(here / "replaced.html", b"precious")
    own = f"{project.name}/{SESSION}.jsonl"
    lines = record(removed, session="gone/x.jsonl", name="../removed.html")
    lines += record(replaced, session=own, name="../replaced.html", state="")
    write(here / "d" / MANIFEST, HEAD + lines)
    assert turnlog("export", "--all", "-o", "d").out == "d: 1 session written, 0 unchanged\n"
    assert (removed.read_bytes(), replaced.read_bytes()) == (b"precious", b"precious")
    assert (here / f"d/{SESSION}.html").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b"[]\n",
        b'{"session":1}\n',
        b'{"session":"a","name":"\\u0000.html"}\n',
        b'{"session":"a","name":"a.html","last_active":"yesterday"}\n',
        b'{"session":"a","name":"a.html","last_active":"9999-12-31T23:59:59-12:00"}\n',
        b'{"session":"a","na',
    ],
)
def test_malformed_lines_of_a_manifest_are_ignored(here: Path, turnlog: Run, line: bytes) -> None:
    manifest = write(here / "d" / MANIFEST, HEAD + line)
    done = turnlog("export", "--project", "shop", "-o", "d")
    assert (done.code, done.out) == (0, "d: 1 session written, 0 unchanged\n")
    assert all(map(json.loads, manifest.read_bytes().splitlines()))


@pytest.mark.parametrize("salt", ["zz", "abc", "00"])
def test_a_malformed_salt_is_refused(
    here: Path, turnlog: Run, salt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_EXPORT_PASSWORD", "x")
    write(here / "d" / MANIFEST, HEAD.replace(b'""', f'"{salt}"'.encode()))
    done = turnlog("export", "--all", "--password", "-o", "d")
    assert (done.code, "is not a manifest of turnlog" in done.err) == (2, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_manifest_is_a_regular_file(here: Path, turnlog: Run) -> None:
    linked = write(here / "linked", HEAD)
    manifest = here / "d" / MANIFEST
    manifest.symlink_to(linked)
    done = turnlog("export", "--all", "-o", "d")
    assert (done.code, "is not a regular file" in done.err) == (2, True)
    assert linked.read_bytes() == HEAD
    manifest.unlink()
    os.mkfifo(manifest)
    assert "is not a regular file" in turnlog("export", "--all", "-o", "d").err


def test_unfinished_files_are_not_written_through_a_link(here: Path, turnlog: Run) -> None:
    (here / "elsewhere").mkdir()
    (here / "d/.turnlog-export").symlink_to(here / "elsewhere")
    done = turnlog("export", "--all", "-o", "d")
    assert (done.code, "is a symbolic link" in done.err) == (1, True)


def test_pages_that_only_look_like_those_of_an_index_are_kept(here: Path, turnlog: Run) -> None:
    mine = write(here / "d/index-2.html", b"mine")
    turnlog("export", SESSION, "-o", "d/index-3.html")
    assert turnlog("export", "--all", "-o", "d").code == 0
    assert mine.read_bytes() == b"mine"
    assert (here / "d/index-3.html").exists()


def test_no_session_takes_the_name_of_a_page_of_the_index(
    here: Path, project: Path, turnlog: Run
) -> None:
    (project / f"{SESSION}.jsonl").rename(project / "index-2.jsonl")
    assert turnlog("export", "--all", "-o", "d").code == 0
    assert (here / "d/index-2~2.html").exists()


def test_a_directory_may_contain_a_session_in_several_formats(here: Path, turnlog: Run) -> None:
    for form in ("html", "md"):
        done = turnlog("export", "--all", "-o", "d", "--format", form)
        assert done.out == "d: 1 session written, 0 unchanged\n"
    assert (here / f"d/{SESSION}.html").read_bytes().startswith(b"<!doctype html>")
    assert (here / f"d/{SESSION}.md").read_bytes().startswith(b"# hi\n")
    assert turnlog("export", "--all", "-o", "d").out == "d: 0 sessions written, 1 unchanged\n"
    assert ".md" not in (here / "d/index.html").read_text()


def test_titles_and_names_without_utf8_are_exported(
    here: Path, project: Path, turnlog: Run
) -> None:
    halves = session(user("half X", cwd="/home/X")).replace(b"X", rb"\ud800")
    write(project / f"{SESSION}.jsonl", halves)
    try:
        write(project / os.fsdecode(b"name\xff.jsonl"), session(user("hi")))
    except OSError:
        pytest.skip("the file system has only names in UTF-8")
    for expected in ("2 sessions written, 0 unchanged", "0 sessions written, 2 unchanged"):
        done = turnlog("export", "--all", "-o", "d")
        assert (done.code, done.out) == (0, f"d: {expected}\n")


def test_an_index_in_markdown_has_one_line_per_session(
    here: Path, project: Path, turnlog: Run
) -> None:
    prompt = user("a\\](http://b) <!--", cwd="/home\n\n# Fake")
    write(project / f"{SESSION}.jsonl", session(prompt))
    turnlog("export", "--all", "-o", "d", "--format", "md")
    *_, line = (here / "d/index.md").read_text().splitlines()
    assert line.startswith(rf"- [a\\\](http://b) \<!--]({SESSION}.md) home # Fake · ")


def test_a_manifest_hashes_the_folders_of_sessions(here: Path, project: Path, turnlog: Run) -> None:
    folder = project.parent / ("-home-ada-glpat-" + "x7Qa" * 5)
    write(folder / "5e551011-0000-4000-8000-00000000000a.jsonl", session(user("hi")))
    turnlog("export", "--all", "-o", "d")
    manifest = here / "d" / MANIFEST
    hashed = manifest.read_bytes()
    assert b"x7Qa" not in hashed
    # As turnlog 0.1 wrote it.
    head, *lines = hashed.splitlines()
    names = {path.stem: f"{path.parent.name}/{path.name}" for path in project.parent.glob("*/*")}
    files = [json.loads(line) for line in lines]
    plain = [file | {"session": names[file["name"].removesuffix(".html")]} for file in files]
    manifest.write_bytes(b"\n".join([head, *(json.dumps(file).encode() for file in plain), b""]))
    assert turnlog("export", "--all", "-o", "d").out == "d: 0 sessions written, 2 unchanged\n"
    assert manifest.read_bytes() == hashed
