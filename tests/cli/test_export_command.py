"""turnlog export: files, directories and refusals."""

import json
import re
import time
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, line, result, session, text, user
from support.chat_process import NAME, ChatProcess
from support.planted import write
from support.pty_chat import pty_command
from turnlog.render.export import FORMATS
from turnlog.render.html.page_file import read_export

OTHER = SESSION.replace("5e551011", "6e551011")


@pytest.fixture
def here(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and two sessions in the store."""
    called = assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1")
    talk = session(user("hi"), called, result("A", "a.py"), assistant(text("hello")))
    write(project / f"{SESSION}.jsonl", talk)
    write(project / f"{OTHER}.jsonl", session(user("other"), assistant(text("yes"))))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def states(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.mark.parametrize("form", FORMATS)
def test_the_extension_names_the_format(here: Path, turnlog: Run, form: str) -> None:
    done = turnlog("export", SESSION, "-o", f"x.{form}")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(rf"x\.{form}: [\d.]+ k?B\n", done.out)
    assert turnlog("export", SESSION, "-o", "y", "--format", form).code == 0
    written = (here / f"x.{form}").read_bytes()
    assert written == (here / "y").read_bytes()
    assert turnlog("export", SESSION, "-o", "-", "--format", form).out.encode() == written
    assert (here / "y").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("form", ["md", "json"])
def test_an_export_is_what_show_prints(here: Path, turnlog: Run, form: str) -> None:
    turnlog("export", SESSION, "-o", f"x.{form}")
    shown = turnlog("show", SESSION, "--format", form).out
    assert (here / f"x.{form}").read_text() == shown


def test_a_page_contains_the_json_of_show(here: Path, turnlog: Run) -> None:
    turnlog("export", SESSION, "-o", "x.html")
    assert read_export(here / "x.html").turns == json.loads(turnlog("show", SESSION, "--json").out)


@pytest.mark.parametrize("form", FORMATS)
def test_own_exports_are_replaced_and_other_files_only_with_a_yes(
    here: Path, turnlog: Run, form: str
) -> None:
    name = f"x.{form}"
    for _ in range(2):
        assert turnlog("export", SESSION, "-o", name).code == 0
    (here / name).write_text("mine")
    done = turnlog("export", SESSION, "-o", name)
    assert (done.code, (here / name).read_text()) == (2, "mine")
    command = f"turnlog export --yes {SESSION} -o {name}"
    message = f"turnlog: {name} exists, and turnlog did not write it"
    assert done.err.splitlines() == [f"{message} (try: {command})"]
    assert turnlog(*command.split()[1:]).code == 0
    assert (here / name).read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-o x.html", "name a session, or use --all, --project or --since (try: turnlog export l"),
        (f"{SESSION} --all -o d", "SESSION cannot be combined with --all, --project or --since"),
        (f"{SESSION}", "missing option '-o'"),
        (f"{SESSION} -o x.pdf", "cannot export to x.pdf: expected a name in .html, .md"),
        (f"{SESSION} -o no/x.html", "no is not a directory"),
        (f"{SESSION} -o x.md --no-js", "--no-js is for HTML, not md"),
        (f"{SESSION} -o x.md --password", "--password is for HTML, not md"),
        (f"{SESSION} -o x.html --no-js --password", "--no-js cannot be combined with --password"),
        (f"{SESSION} -o x.html --turn 9", "has 1 turns, no turn 9"),
        (f"{SESSION} -o x.html --password-file gone", "cannot read the password from gone"),
        ("--all -o d --turn 1", "--turn and --leaf need one session and a file"),
        ("--all -o -", "several sessions cannot be written to stdout"),
    ],
)
def test_what_is_refused(
    here: Path, turnlog: Run, arguments: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_EXPORT_PASSWORD", "x")
    done = turnlog("export", *arguments.split())
    assert done.code in (1, 2)
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert names(here) == []


@pytest.mark.parametrize("form", ["html", "md"])
def test_the_index_names_projects_by_their_folder_alone(
    here: Path, turnlog: Run, form: str
) -> None:
    turnlog("export", "--all", "-o", "d", "--format", form)
    index = (here / f"d/index.{form}").read_text()
    manifest = (here / "d/.turnlog-export.jsonl").read_text()
    assert "shop" in index
    assert "/home/ada" not in index + manifest
    assert "-home-ada" not in index + manifest


def test_a_file_in_the_store_is_never_written(here: Path, project: Path, turnlog: Run) -> None:
    path = project / f"{SESSION}.jsonl"
    before = path.read_bytes()
    done = turnlog("export", SESSION, "-o", str(path), "--format", "html", "--yes")
    assert (done.code, path.read_bytes()) == (2, before)


def test_a_password_comes_from_the_environment_or_a_file(
    here: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no terminal to ask" in turnlog("export", SESSION, "-o", "x.html", "--password").err
    monkeypatch.setenv("TURNLOG_EXPORT_PASSWORD", "from there")
    assert turnlog("export", SESSION, "-o", "x.html", "--password").code == 0
    assert read_export(here / "x.html", "from there").turns
    write(here / "secret", b"from a file\nignored\n")
    assert turnlog("export", SESSION, "-o", "y.html", "--password-file", "secret").code == 0
    assert read_export(here / "y.html", "from a file").turns
    write(here / "empty", b"\n")
    assert "empty" in turnlog("export", SESSION, "-o", "z.html", "--password-file", "empty").err


def test_a_typed_password_is_confirmed_and_never_shown(tmp_path: Path) -> None:
    chat = ChatProcess(tmp_path, "http://127.0.0.1:9")
    write(chat.session, session(user("hi"), assistant(text("hello"))))
    with pty_command(chat, "export", NAME, "-o", "x.html", "--password") as running:
        running.see("Password: ")
        running.type("correct horse\n")
        running.see("Repeat for confirmation: ")
        running.type("correct horse\n")
        running.see("x.html: ")
        assert "horse" not in running.screen
    assert read_export(chat.work / "x.html", "correct horse").turns


def test_a_password_is_utf8(here: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "secret", b"\xff")
    done = turnlog("export", SESSION, "-o", "x.html", "--password-file", "secret")
    assert (done.code, "secret is not UTF-8" in done.err) == (2, True)
    monkeypatch.setenv("TURNLOG_EXPORT_PASSWORD", "\udcff")
    done = turnlog("export", SESSION, "-o", "x.html", "--password")
    assert (done.code, "the password is not UTF-8" in done.err) == (2, True)


@pytest.mark.parametrize("zone", ["UTC+12", "UTC-12"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_times_without_a_local_time_are_omitted(
    here: Path, project: Path, turnlog: Run, zone: str, moment: str
) -> None:
    talk = session(user("hi", timestamp=moment), assistant(text("hello"), timestamp=moment))
    write(project / f"{SESSION}.jsonl", talk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        codes = [turnlog("export", SESSION, "-o", f"x.{form}").code for form in FORMATS]
        codes.append(turnlog("export", SESSION, "-o", "static.html", "--no-js").code)
    time.tzset()
    assert codes == [0, 0, 0, 0, 0]


def test_all_sessions_are_written_with_an_index(here: Path, turnlog: Run) -> None:
    done = turnlog("export", "--all", "-o", "d")
    assert (done.code, done.out) == (0, "d: 2 sessions written, 0 unchanged\n")
    assert names(here / "d") == [f"{SESSION}.html", f"{OTHER}.html", "index.html"]
    index = (here / "d/index.html").read_text()
    assert re.findall(r'<a href="([^"]*)">(.*?)</a>', index) == [
        (f"{SESSION}.html", "hi"),
        (f"{OTHER}.html", "other"),
    ]
    assert json.loads(turnlog("export", "-a", "-o", "d", "--json").out)["unchanged"] == 2


def test_only_what_changed_is_rewritten(here: Path, project: Path, turnlog: Run) -> None:
    turnlog("export", "--all", "-o", "d")
    before = states(here / "d")
    assert turnlog("export", "--all", "-o", "d").out == "d: 0 sessions written, 2 unchanged\n"
    assert states(here / "d") == before
    with (project / f"{OTHER}.jsonl").open("ab") as file:
        file.write(line("custom-title", custom_title="Renamed"))
    assert turnlog("export", "--all", "-o", "d").out == "d: 1 session written, 1 unchanged\n"
    after = states(here / "d")
    assert {name for name in after if after[name] != before[name]} - {".turnlog-export.jsonl"} == {
        f"{OTHER}.html",
        "index.html",
    }
    assert "Renamed" in (here / "d/index.html").read_text()
    # Other options make other files.
    done = turnlog("export", "--all", "-o", "d", "--depth", "prompts")
    assert done.out == "d: 2 sessions written, 0 unchanged\n"


def test_files_of_removed_sessions_are_removed_if_they_are_unchanged(
    here: Path, project: Path, turnlog: Run
) -> None:
    turnlog("export", "--all", "-o", "d")
    write(here / "d/mine.html", b"mine")
    (project / f"{OTHER}.jsonl").unlink()
    partial = turnlog("export", "--project", "shop", "-o", "d")
    assert (partial.code, (here / f"d/{OTHER}.html").exists()) == (0, True)
    done = turnlog("export", "--all", "-o", "d")
    assert done.out == "d: 0 sessions written, 1 unchanged, 1 removed\n"
    assert names(here / "d") == [f"{SESSION}.html", "index.html", "mine.html"]
    (here / f"d/{SESSION}.html").write_text("edited")
    (project / f"{SESSION}.jsonl").unlink()
    kept = turnlog("export", "--all", "-o", "d")
    assert f"{SESSION}.html was changed, and is kept" in kept.err
    assert (here / f"d/{SESSION}.html").read_text() == "edited"


def test_a_file_that_was_changed_is_not_replaced_without_a_yes(here: Path, turnlog: Run) -> None:
    turnlog("export", "--all", "-o", "d")
    path = here / f"d/{SESSION}.html"
    path.write_text("edited")
    done = turnlog("export", "--all", "-o", "d")
    assert (done.code, path.read_text()) == (1, "edited")
    assert "was changed" in done.err
    assert turnlog("export", "--all", "--yes", "-o", "d").code == 0
    assert path.read_text() != "edited"


def test_an_index_of_someone_else_is_not_replaced(here: Path, turnlog: Run) -> None:
    (here / "d").mkdir()
    index = write(here / "d/index.html", b"mine")
    done = turnlog("export", "--all", "-o", "d")
    assert (done.code, index.read_bytes(), names(here / "d")) == (2, b"mine", ["index.html"])
    assert "d/index.html exists, and turnlog did not write it" in done.err


def test_a_killed_export_goes_on_where_it_stopped(here: Path, turnlog: Run) -> None:
    turnlog("export", "--all", "-o", "d")
    manifest = here / "d/.turnlog-export.jsonl"
    head, first, *_ = manifest.read_bytes().splitlines(keepends=True)
    # As if killed after the file was written, before that was noted, in the middle of a line.
    claim = json.loads(first) | {"state": "", "size": -1, "modified": -1}
    manifest.write_bytes(head + json.dumps(claim).encode() + b"\n" + b'{"session":')
    (here / f"d/{OTHER}.html").unlink()
    done = turnlog("export", "--all", "-o", "d")
    assert (done.code, done.out) == (0, "d: 2 sessions written, 0 unchanged\n")


def test_several_sessions_go_to_a_directory(here: Path, turnlog: Run) -> None:
    assert turnlog("export", SESSION, OTHER, "-o", "d", "--format", "md").code == 0
    assert names(here / "d") == [f"{SESSION}.md", f"{OTHER}.md", "index.md"]
    assert f"[hi]({SESSION}.md)" in (here / "d/index.md").read_text()


def test_sessions_of_one_name_get_files_of_their_own(
    here: Path, project: Path, turnlog: Run
) -> None:
    copy = project.parent / "-home-ada-else"
    copy.mkdir()
    write(copy / f"{SESSION}.jsonl", session(user("copy"), assistant(text("c"))))
    for unchanged in (0, 3):
        done = turnlog("export", "--all", "-o", "d")
        assert f"{unchanged} unchanged" in done.out
    assert names(here / "d") == [
        f"{SESSION}.html",
        f"{SESSION}~2.html",
        f"{OTHER}.html",
        "index.html",
    ]


def test_one_password_opens_all_pages_and_the_index_tells_no_titles(
    here: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_EXPORT_PASSWORD", "one for all")
    for unchanged in (0, 2):
        done = turnlog("export", "--all", "-o", "d", "--password")
        assert f"{unchanged} unchanged" in done.out
    assert read_export(here / f"d/{OTHER}.html", "one for all").turns
    for name in ("index.html", ".turnlog-export.jsonl"):
        found = (here / "d" / name).read_text()
        assert "other" not in found
        assert "/home/ada" not in found
    monkeypatch.setenv("TURNLOG_EXPORT_PASSWORD", "another")
    assert "2 sessions written" in turnlog("export", "--all", "-o", "d", "--password").out


def test_a_session_that_cannot_be_read_does_not_stop_the_others(here: Path, turnlog: Run) -> None:
    turnlog("export", "--all", "-o", "d")
    (here / f"d/{SESSION}.html").unlink()
    (here / f"d/{SESSION}.html").mkdir()
    done = turnlog("export", "--all", "-o", "d", "--depth", "answers")
    assert done.code == 1
    assert SESSION in done.err
    assert "1 session written" in done.out
