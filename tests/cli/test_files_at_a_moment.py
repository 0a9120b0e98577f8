"""`turnlog files --at`, `--blame`, `--restore`; `history-of`; `git`: these files, this output."""

import json
import subprocess
import time
from pathlib import Path

import pytest

import turnlog as library
from cli.conftest import Run
from support.build import SESSION, assistant, attachment, session, text, user
from support.file_calls import ROOT, Calls, full_path
from turnlog.edit.journal import open_journal

ID = SESSION


@pytest.fixture
def stored(project: Path) -> Path:
    """Three turns: a file is written, edited, and changed by a command."""
    calls = Calls()
    lines = [
        user("Write it"),
        *calls.write("src/a.py", "one\ntwo\n"),
        assistant(text("done")),
        user("Change it"),
        *calls.edit("src/a.py", "two", "TWO", "one\ntwo\n"),
        *calls.read("part.txt", "b\nc", 2, 5),
        assistant(text("done")),
        user("Run it"),
        *calls.bash("make"),
        *calls.edit("part.txt", "x", "y", None),
        assistant(text("done")),
    ]
    path = project / f"{ID}.jsonl"
    path.write_bytes(session(*lines))
    return path


def test_a_file_as_of_a_turn_is_printed(stored: Path, turnlog: Run) -> None:
    outcome = turnlog("files", ID, "a.py", "--at", "1")
    assert (outcome.code, outcome.out) == (0, "one\ntwo\n")
    assert outcome.err == f"{ROOT}/src/a.py as of turn 1 is exact, Write in line 3\n"
    later = turnlog("files", ID, "src/a.py", "--at", "3")
    assert later.out == "one\nTWO\n"
    assert "as of turn 3 is derived, Edit in line 7 (" in later.err


def test_a_pipe_gets_every_byte_of_a_file(project: Path, turnlog: Run) -> None:
    content = "\x1b[31mred\x1b[0m\r\nend"
    lines = [user("Write it"), *Calls().write("a.txt", content), assistant(text("done"))]
    (project / f"{ID}.jsonl").write_bytes(session(*lines))
    assert turnlog("files", ID, "a.txt", "--at", "1").out == content


@pytest.mark.parametrize("moment", ["line:3", "L3", "turn:1", "2026-11-15T06:00:04Z"])
def test_moments_are_turns_lines_and_times(stored: Path, turnlog: Run, moment: str) -> None:
    assert turnlog("files", ID, "a.py", "--at", moment).out == "one\ntwo\n"


def test_a_time_of_day_is_one_of_the_last_day(
    stored: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert turnlog("files", ID, "a.py", "--at", "6:00:04").out == "one\ntwo\n"
    for minute in ("06:01", "06:00", "6:00"):
        assert turnlog("files", ID, "a.py", "--at", minute).out == "one\nTWO\n"
    assert turnlog("files", ID, "a.py", "--at", "25:00").code == 2


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("9", f"{ID} has 3 turns, not 9 (try: turnlog show {ID})"),
        ("0", f"{ID} has 3 turns, not 0 (try: turnlog show {ID})"),
        ("line:99", f"{ID} has 16 lines, not 99 (try: turnlog entries {ID})"),
        (
            "noon",
            "'noon' is not a turn such as 3, a line such as line:120, or a time "
            f"(try: turnlog files {ID} --at 1)",
        ),
    ],
)
def test_a_moment_that_is_none(stored: Path, turnlog: Run, moment: str, told: str) -> None:
    outcome = turnlog("files", ID, "a.py", "--at", moment)
    assert (outcome.code > 0, outcome.out, outcome.err) == (True, "", f"turnlog: {told}\n")


def test_a_gap_shows_the_known_lines_and_fails(stored: Path, turnlog: Run) -> None:
    outcome = turnlog("files", ID, "part.txt", "--at", "2")
    assert outcome.code == 1
    assert outcome.out == "   … line 1 unknown\n2  b\n3  c\n   … lines 4-5 unknown\n"
    (told,) = [json.loads(turnlog("files", ID, "part.txt", "--at", "2", "--json").out)]
    assert (told["certainty"], told["content"]) == ("gap", None)
    assert told["gaps"] == [{"first": 1, "last": 1}, {"first": 4, "last": 5}]
    assert told["known"] == {"2": "b", "3": "c"}


@pytest.fixture
def edited_outside(project: Path) -> Path:
    """A file is written, edited twice, changed by the user, and then seen in part."""
    calls = Calls()
    lines = [
        user("Write it"),
        *calls.write("a.py", "one\ntwo\n"),
        *calls.bash("make"),
        *calls.edit("a.py", "two", "TWO", "one\ntwo\n"),
        *calls.edit("a.py", "TWO", "three", "one\nTWO\n"),
        user("I changed it"),
        attachment("edited_text_file", {"filename": full_path("a.py"), "snippet": "1\tzero"}),
        assistant(text("seen")),
    ]
    path = project / f"{ID}.jsonl"
    path.write_bytes(session(*lines))
    return path


@pytest.mark.usefixtures("edited_outside")
def test_after_an_outside_edit_the_last_state_known_in_full_is_named(turnlog: Run) -> None:
    gap = turnlog("files", ID, "a.py", "--at", "06:01")
    assert gap.code == 1
    command = f"turnlog files {ID} {full_path('a.py')} --at line:9"
    assert f"known in full is that of line 9 (try: {command})" in gap.err
    assert turnlog(*command.split()[1:]).out == "one\nthree\n"


@pytest.mark.usefixtures("edited_outside")
def test_a_gap_is_restored_as_of_the_state_that_is_named(turnlog: Run, tmp_path: Path) -> None:
    target = tmp_path / "then"
    refused = turnlog("files", ID, "a.py", "--at", "2", "--restore", str(target))
    assert not target.exists()
    command = refused.err.rpartition("(try: turnlog ")[2].rstrip(")\n")
    assert turnlog(*command.split()).code == 0
    assert (target / "a.py").read_text() == "one\nthree\n"


def test_without_a_state_known_in_full_a_gap_says_so(stored: Path, turnlog: Run) -> None:
    assert "no earlier state is known in full" in turnlog("files", ID, "part.txt", "--at", "2").err


@pytest.mark.usefixtures("edited_outside")
def test_an_assumption_of_derived_states_is_printed_once(turnlog: Run) -> None:
    listed = turnlog("files", ID, "a.py")
    derived = [row for row in listed.out.splitlines() if "derived" in row]
    assert len(derived) == 2
    assert "recorded" not in listed.out
    assert " ".join(listed.err.split()) == (
        "derived: complete, if an assumption holds line 7, line 9: the text is known; line endings "
        "and byte-order mark are not recorded"
    )


def test_all_changed_files_as_of_a_moment(stored: Path, turnlog: Run) -> None:
    states = json.loads(turnlog("files", ID, "--at", "3", "--json").out)
    assert [(each["path"], each["certainty"]) for each in states] == [
        (full_path("src/a.py"), "derived"),
        (full_path("part.txt"), "gap"),
    ]
    assert "gap" in turnlog("files", ID, "--at", "3").out


def test_the_states_and_changes_of_one_file(stored: Path, turnlog: Run) -> None:
    rows = turnlog("files", ID, "a.py").out.splitlines()
    assert [row.split()[2:6] for row in rows[1:]] == [
        ["1", "3", "Write", "exact"],
        ["2", "7", "Edit", "derived"],
    ]
    out = turnlog("files", ID, "a.py", "--diff").out
    assert "Change it" in out
    assert out.splitlines()[-3:] == ["   one", "  -two", "  +TWO"]
    since = turnlog("files", ID, "a.py", "--at", "1", "--diff").out
    assert since == "@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"


def test_blame_names_the_turn_of_each_line(stored: Path, turnlog: Run) -> None:
    assert turnlog("files", ID, "a.py", "--blame").out == (
        "turn 1 line 3 Write      1  one\nturn 2 line 7 Edit       2  TWO\n"
    )
    views = json.loads(turnlog("files", ID, "a.py", "--blame", "--at", "1", "--json").out)
    assert [view["turn"] for view in views] == [1, 1]
    assert turnlog("files", ID, "--blame").code == 2


def test_restore_writes_real_bytes_and_is_undone(
    stored: Path, turnlog: Run, tmp_path: Path
) -> None:
    target = tmp_path / "then"
    planned = turnlog("files", ID, "--at", "1", "--restore", str(target), "--dry-run")
    assert planned.out.startswith("Would restore 1 file as of turn 1\n")
    assert "turnlog undo" not in planned.out
    assert not target.exists()
    done = turnlog("files", ID, "--at", "1", "--restore", str(target))
    (change,) = open_journal().records()
    assert done.out.endswith(f"\n  turnlog undo {change.id}\n")
    assert (target / "src/a.py").read_bytes() == b"one\ntwo\n"
    assert "turnlog: not restored: /home/ada/shop/part.txt: lines from 1 on unknown" in done.err
    again = turnlog("files", ID, "--at", "3", "--restore", str(target), "--json")
    assert json.loads(again.out)["written"] == [str(target / "src/a.py")]
    assert (target / "src/a.py").read_bytes() == b"one\nTWO\n"
    assert turnlog("undo").code == 0
    assert (target / "src/a.py").read_bytes() == b"one\ntwo\n"
    assert turnlog("undo").code == 0
    assert not target.exists()


def test_restore_replaces_no_file_that_changed_since(
    stored: Path, turnlog: Run, tmp_path: Path
) -> None:
    file = tmp_path / "then/src/a.py"
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    outcome = turnlog("files", ID, "--at", "1", "--restore", str(tmp_path / "then"))
    assert outcome.code == 1
    assert "has changed since the session; nothing was written" in outcome.err
    assert file.read_text() == "mine\n"


def test_restore_follows_no_link(stored: Path, turnlog: Run, tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "then", tmp_path / "elsewhere"
    target.mkdir()
    elsewhere.mkdir()
    (target / "src").symlink_to(elsewhere)
    outcome = turnlog("files", ID, "a.py", "--restore", str(target))
    assert outcome.code == 1
    assert "is a symbolic link" in outcome.err
    assert not list(elsewhere.iterdir())


def test_history_of_a_file_in_all_sessions(stored: Path, project: Path, turnlog: Run) -> None:
    other = "0bad0000-0000-4000-8000-000000000000"
    calls = Calls()
    calls.count = 50
    late = "2026-11-16T06:00:00.000Z"
    lines = [user("Start over"), *calls.write("src/a.py", "new\n", "one\nTWO\n")]
    raw = session(*lines, session_id=other).replace(b"2026-11-15", b"2026-11-16")
    (project / f"{other}.jsonl").write_bytes(raw)
    told = json.loads(turnlog("history-of", full_path("src/a.py"), "--json").out)
    assert [(row["session"], row["turn"], row["prompt"]) for row in told] == [
        (ID, 1, "Write it"),
        (ID, 2, "Change it"),
        (other, 1, "Start over"),
    ]
    assert told[1]["diff"][-2:] == ["-two", "+TWO"]
    assert late[:10] in told[2]["time"]
    short = turnlog("history-of", "src/a.py", "-n", "1")
    assert "Start over" in short.out
    assert "Write it" not in short.out
    assert short.err == "turnlog: 1 change in 1 session\n"
    assert turnlog("history-of", "nosuch.py").err == (
        "turnlog: no session changed nosuch.py (try: turnlog stats file)\n"
    )
    assert turnlog("history-of", "a%py").code == 1


def test_history_of_names_commands_whose_changes_are_unknown(
    stored: Path, project: Path, turnlog: Run
) -> None:
    other = "0bad0000-0000-4000-8000-000000000000"
    lines = [user("Fix it"), *Calls().bash("cd src && sed -i s/one/two/ a.py; touch b.sh")]
    (project / f"{other}.jsonl").write_bytes(session(*lines, session_id=other))
    done = turnlog("history-of", "src/a.py")
    assert "Write it" in done.out
    assert done.err.startswith(
        "turnlog: 1 session ran commands that name a.py, and may have changed it"
        " (try: turnlog search a.py --tool Bash --kind input)\n"
    )
    assert other[:8] in turnlog("search", "a.py", "--tool", "Bash", "--kind", "input").out
    assert turnlog("history-of", "src/b.sh").err == (
        "turnlog: no session changed src/b.sh; 1 session ran commands that name b.sh, and may have"
        " changed it (try: turnlog search b.sh --tool Bash --kind input)\n"
    )


def test_history_of_shows_a_command_as_typed_and_marks_a_cut_prompt(
    project: Path, turnlog: Run, tmp_path: Path
) -> None:
    calls = Calls()
    typed = "<command-message>fix</command-message> <command-name>/fix</command-name>"
    lines = [
        user(f"{typed} <command-args>it</command-args>"),
        *calls.write("src/a.py", "one\n"),
        assistant(text("done")),
        user("again and " * 30),
        *calls.edit("src/a.py", "one", "two", "one\n"),
    ]
    (project / f"{ID}.jsonl").write_bytes(session(*lines))
    told = turnlog("history-of", "src/a.py").out.splitlines()
    assert "  /fix it" in told
    (cut,) = [line for line in told if line.startswith("  again")]
    assert cut.endswith("…")
    turnlog("git", ID, "-o", str(tmp_path / "g"))
    log = ["git", "-C", str(tmp_path / "g"), "log", "--format=%s"]
    assert "/fix it" in subprocess.check_output(log, text=True).splitlines()


def test_history_of_a_name_that_several_files_have(project: Path, turnlog: Run) -> None:
    calls = Calls()
    lines = [user("Both"), *calls.write("src/a.py", "one\n"), *calls.write("lib/a.py", "two\n")]
    more = [*calls.edit("src/a.py", "one", "ONE", "one\n")]
    (project / f"{ID}.jsonl").write_bytes(session(*lines, *more))
    told = json.loads(turnlog("history-of", "a.py", "--json").out)
    assert [(row["path"], row["line"]) for row in told] == [
        (full_path("src/a.py"), 3),
        (full_path("lib/a.py"), 5),
        (full_path("src/a.py"), 7),
    ]
    (last,) = json.loads(turnlog("history-of", "a.py", "-n", "1", "--json").out)
    assert last["line"] == 7


def test_git_creates_a_repository(stored: Path, turnlog: Run, tmp_path: Path) -> None:
    target = tmp_path / "repository"
    outcome = turnlog("git", ID, "-o", str(target))
    assert outcome.out.startswith(f"Exported 3 commits, 2 files to {target}\n")
    log = subprocess.run(
        ["git", "-C", target, "log", "--format=%s"], capture_output=True, text=True, check=True
    )
    assert log.stdout.split("\n")[:2] == ["Change it", "Write it"]
    again = turnlog("git", ID, "-o", str(target))
    assert (again.code, "is not empty" in again.err) == (1, True)


def test_the_library_does_the_same(stored: Path, project: Path, tmp_path: Path) -> None:
    log = library.open(project.parent.parent)
    opened = log.session(ID)
    assert opened.file("src/a.py", at="1")["content"] == "one\ntwo\n"
    assert [row["turn"] for row in opened.file_history("a.py")] == [1, 2]
    assert all(row["is_active"] for row in opened.file_history("a.py"))
    done = opened.restore_files(tmp_path / "then", at="1", path="a.py")
    assert (done["written"], done["gaps"]) == ([str(tmp_path / "then/src/a.py")], [])
    every = opened.restore_files(tmp_path / "all", at="1", dry_run=True)
    assert (every["written"], every["gaps"]) == (
        [str(tmp_path / "all/src/a.py")],
        [full_path("part.txt")],
    )
    assert opened.export_git(tmp_path / "git", bare=True)["commits"] == 3
    assert len(log.history_of(full_path("src/a.py"))) == 2


def test_files_are_not_put_among_the_sessions(stored: Path, turnlog: Run) -> None:
    before = sorted(stored.parent.parent.rglob("*"))
    for words in (("files", ID, "--restore"), ("git", ID, "-o")):
        outcome = turnlog(*words, str(stored.parent / "new"))
        assert outcome.code == 2
        assert f"is in {stored.parent.parent} (try: turnlog {words[0]} {words[2]} ./new)" in (
            outcome.err
        )
    assert sorted(stored.parent.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        ("link", "src is a symbolic link; nothing was written"),
        ("file", "src exists and is not a directory; nothing was written"),
        ("folder", "src/a.py exists and is not a regular file; nothing was written"),
    ],
)
def test_restore_hints_at_another_directory_if_something_is_in_the_way(
    stored: Path, turnlog: Run, tmp_path: Path, taken: str, message: str
) -> None:
    target = tmp_path / "then"
    target.mkdir()
    if taken == "link":
        (target / "src").symlink_to(tmp_path)
    elif taken == "file":
        (target / "src").write_text("mine")
    else:
        (target / "src/a.py").mkdir(parents=True)
    done = turnlog("files", ID, "--at", "1", "--restore", str(target))
    assert done.code == 1
    hint = "(try: turnlog files SESSION --at TURN --restore OTHER_DIR)"
    assert done.err.endswith(f"{message} {hint}\n")
