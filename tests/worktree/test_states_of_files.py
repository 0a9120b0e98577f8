"""Evidence that proves the content of a file, and evidence that does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.build import (
    Fields,
    assistant,
    attachment,
    call,
    line,
    nth,
    result,
    session,
    system,
    text,
    user,
)
from support.file_calls import (
    ROOT,
    UPDATED,
    Calls,
    forked,
    full_path,
    recorded,
    state_of,
    worktree_of,
)
from turnlog.conversation.session import open_session
from turnlog.edit.transforms import with_short_results
from turnlog.errors import NotFound
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.file_steps import all_steps
from turnlog.worktree.moments import parse_moment
from turnlog.worktree.places import END
from turnlog.worktree.state_views import MASKED, mask_lines, state_view, step_view
from turnlog.worktree.worktree import open_worktree

EXACT, DERIVED, GAP = Certainty.EXACT, Certainty.DERIVED, Certainty.GAP


def test_a_written_file_is_exact_until_a_command_runs(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.write("a.py", "one\n"), calls.bash("make"), calls.bash("ls")
    )
    then, now = state_of(worktree, "a.py", "line:3"), state_of(worktree, "a.py")
    assert (then.certainty, then.content) == (EXACT, b"one\n")
    assert (now.certainty, now.content) == (DERIVED, b"one\n")
    assert now.belief.reason == "exact as of line 3; Bash in line 4 may have changed it"


@pytest.mark.parametrize(
    ("command", "stays"),
    [
        ("ls -l src | head", True),
        ("cd src && cat a.py 2>/dev/null", True),
        ("git status", True),
        ("git log --output=a.py", False),
        ("git log -p --outp=a.py", False),
        ("git log --oneline", True),
        ('git log -1 --format=%H --"output"=a.py', False),
        ("git log --'ou'tput=a.py", False),
        ('git log -"-output=a.py"', False),
        ("git log --\u201coutput\u201d=a.py", False),
        ("git log # don't\ngit log --\"output\"=a.py # '", False),
        ("git log *", False),
        ("git log '-'*", False),
        ("git log -?output=a.py", False),
        ("git log --grep='a; ls ' *", False),
        ("git log --grep='a b' [-]* # c", False),
        ("git log --% %WRITE%", False),
        ("git log --format='%H %s' -- *.py src/*", True),
        ("git log --author=*ada* src/*.py '*.md' \"[a]\"", True),
        ("git log --format='%h # %s'; git status", True),
        ("git log -1 && ls *.py", True),
        ("cat b > a.py", False),
        ("echo $(rm a.py)", False),
        ("ls; rm a.py", False),
        ("ls `rm a.py`", False),
        ("ls & rm a.py", False),
        ("grep x y\nrm a.py", False),
        ("ls\rrm a.py", False),
        ("ls 2>/dev/null; cat x 2>&1", True),
        ("ls 2>/dev/null/../../a.py", False),
        ("find . -delete", False),
        ("sort -o a.py b", False),
        ("", True),
    ],
)
def test_only_commands_that_certainly_read_leave_a_state_exact(
    tmp_path: Path, command: str, stays: bool
) -> None:
    calls = Calls()
    worktree = worktree_of(tmp_path, calls.write("a.py", "one\n"), calls.bash(command))
    assert (state_of(worktree, "a.py").certainty is EXACT) == stays


@pytest.mark.parametrize(
    "command",
    [
        "(sleep 5; echo >> a.py) &",
        "tmux new-session -d 'sleep 5; echo >> a.py'",
        "docker compose up -d",
        "systemd-run --user make watch",
        "gunicorn app --daemon",
        "Start-Process make",
        "sleep 9 &2>/dev/null",
        "cat a > >(sleep 9; cat > a.py)",
        "sudo -b make watch",
        "code a.py",
        "python -c 'subprocess.Popen(x)'",
    ],
)
def test_a_command_that_leaves_a_process_behind_is_never_over(tmp_path: Path, command: str) -> None:
    calls = Calls()
    worktree = worktree_of(tmp_path, calls.bash(command), calls.write("a.py", "one\n"))
    assert state_of(worktree, "a.py").certainty is DERIVED


def test_a_background_command_is_over_when_the_client_says_so(tmp_path: Path) -> None:
    calls = Calls()
    started: Any = {"stdout": "", "stderr": "", "backgroundTaskId": "b1"}
    given = {"command": "make watch", "run_in_background": True}
    ended = "<task-notification><task-id>b1</task-id><status>completed</status></task-notification>"
    worktree = worktree_of(
        tmp_path,
        calls.pair("Bash", given, "running", started),
        calls.write("a.py", "one\n"),
        user(ended),
        calls.write("b.py", "two\n"),
    )
    assert state_of(worktree, "a.py", "line:5").certainty is DERIVED
    assert state_of(worktree, "b.py").certainty is EXACT


@pytest.mark.parametrize("tool", ["mcp__files__move", "SomethingNew", "Workflow"])
def test_unknown_tools_may_change_anything(tmp_path: Path, tool: str) -> None:
    calls = Calls()
    worktree = worktree_of(tmp_path, calls.write("a.py", "one\n"), calls.pair(tool, {}, "ok", None))
    assert state_of(worktree, "a.py").certainty is DERIVED


def test_a_command_that_runs_at_the_same_time_may_change_the_file_later(tmp_path: Path) -> None:
    worktree = worktree_of(
        tmp_path,
        assistant(call("Bash", {"command": "sleep 1; echo >> a.py"}, "b"), message_id="m"),
        assistant(
            call("Write", {"file_path": full_path("a.py"), "content": "one\n"}, "w"), message_id="m"
        ),
        result(
            "w",
            f"File created successfully at: {full_path('a.py')}",
            tool_use_result={"type": "create", "content": "one\n", "filePath": full_path("a.py")},
            parent=nth(3),
        ),
        result("b", "", parent=nth(2)),
    )
    assert state_of(worktree, "a.py", "line:4").certainty is DERIVED


def test_the_user_may_have_edited_between_two_turns(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.write("a.py", "one\n"), assistant(text("Done.")), user("And now?")
    )
    assert state_of(worktree, "a.py", "1").certainty is EXACT
    assert state_of(worktree, "a.py", "2").certainty is DERIVED


def test_a_hook_may_format_the_file_that_was_just_written(tmp_path: Path) -> None:
    calls = Calls()
    lines = calls.write("a.py", "one\n")
    hook = {"hookEvent": "PostToolUse", "hookName": "PostToolUse:Write", "toolUseID": "toolu_1"}
    before = worktree_of(tmp_path, lines[0], attachment("hook_success", hook), lines[1])
    assert state_of(before, "a.py").certainty is DERIVED
    after = worktree_of(tmp_path, lines, system("stop_hook_summary", hook_count=1))
    assert state_of(after, "a.py").certainty is DERIVED


def test_a_read_does_not_prove_line_endings(tmp_path: Path) -> None:
    state = state_of(worktree_of(tmp_path, Calls().read("a.py", "one\ntwo\n")), "a.py")
    assert (state.certainty, state.content) == (DERIVED, b"one\ntwo\n")
    assert state.belief.reason == "line endings and byte-order mark are not recorded"


def test_reading_what_was_written_keeps_it_exact(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(tmp_path, calls.write("a.py", "one\n"), calls.read("a.py", "one\n"))
    assert state_of(worktree, "a.py").certainty is EXACT


def test_bytes_that_are_not_utf8_are_a_gap(tmp_path: Path) -> None:
    state = state_of(worktree_of(tmp_path, Calls().read("a.py", "one\ncaf\ufffd\nend\n")), "a.py")
    assert (state.certainty, state.content, state.gaps) == (GAP, None, [(2, 2)])
    assert state.belief.known == {1: "one", 3: "end", 4: ""}


def test_parts_that_were_read_are_joined(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.read("a.py", "two\nthree", 2, 5), calls.read("a.py", "five\n", 5, 6)
    )
    first, second = state_of(worktree, "a.py", "line:3"), state_of(worktree, "a.py")
    assert first.gaps == [(1, 1), (4, 5)]
    assert second.gaps == [(1, 4)]
    calls = Calls()
    whole = worktree_of(
        tmp_path, calls.read("a.py", "one\ntwo", 1, 4), calls.read("a.py", "three\n", 3, 4)
    )
    assert state_of(whole, "a.py").content == b"one\ntwo\nthree\n"


def test_an_edit_continues_what_is_known(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        calls.write("a.py", "\tone\n\ttwo\n"),
        calls.edit(
            "a.py",
            "two",
            "TWO",
            "\tone\n\ttwo\n",
            structuredPatch=[
                {
                    "oldStart": 1,
                    "oldLines": 2,
                    "newStart": 1,
                    "newLines": 2,
                    "lines": ["   one", "-  two", "+  TWO"],
                }
            ],
        ),
    )
    state = state_of(worktree, "a.py")
    assert (state.certainty, state.content) == (EXACT, b"\tone\n\tTWO\n")


def test_the_patch_decides_what_an_edit_did(tmp_path: Path) -> None:
    # The client keeps curly quotes of the text, although the new text has straight ones.
    calls = Calls()
    before = "say \u201chi\u201d now\n"
    lines = ["-say \u201chi\u201d now", "+say \u201cho\u201d now"]
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": lines}
    worktree = worktree_of(
        tmp_path,
        calls.write("a.md", before),
        calls.edit("a.md", before[:-1], 'say "ho" now', before, structuredPatch=[hunk]),
    )
    state = state_of(worktree, "a.md")
    assert (state.certainty, state.content) == (EXACT, "say \u201cho\u201d now\n".encode())


def test_deleting_a_line_takes_its_newline_along(tmp_path: Path) -> None:
    calls = Calls()
    hunk = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 1, "lines": ["-x", " k"]}
    worktree = worktree_of(
        tmp_path,
        calls.write("a.txt", "x\nk\n"),
        calls.edit("a.txt", "x", "", "x\nk\n", structuredPatch=[hunk]),
    )
    assert state_of(worktree, "a.txt").content == b"k\n"


def test_an_edit_that_does_not_fit_is_a_gap(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.write("a.py", "one\n"), calls.edit("a.py", "nine", "ten", None)
    )
    state = state_of(worktree, "a.py")
    assert (state.certainty, state.content, state.gaps) == (GAP, None, [(1, None)])


def test_an_edit_of_unknown_content_shows_only_the_lines_of_its_patch(tmp_path: Path) -> None:
    hunk = {
        "oldStart": 10,
        "oldLines": 3,
        "newStart": 10,
        "newLines": 3,
        "lines": [" def f():", "-    one", "+    two", " end"],
    }
    worktree = worktree_of(
        tmp_path, Calls().edit("a.py", "one", "two", None, structuredPatch=[hunk])
    )
    state = state_of(worktree, "a.py")
    # The leading spaces of line 11 may be tabs.
    assert dict(state.belief.known) == {10: "def f():", 12: "end"}
    assert state.gaps == [(1, 9), (11, 11), (13, None)]


@pytest.mark.parametrize(
    ("recorded_patch", "diff"),
    [
        ([], ["@@ somewhere @@", "-one", "+two"]),
        (
            [
                {
                    "oldStart": 9,
                    "oldLines": 1,
                    "newStart": 9,
                    "newLines": 1,
                    "lines": ["-one", "+two"],
                }
            ],
            ["@@ -9,1 +9,1 @@", "-one", "+two"],
        ),
    ],
)
def test_an_edit_of_unknown_content_has_the_diff_that_was_recorded(
    tmp_path: Path, recorded_patch: list[Any], diff: list[str]
) -> None:
    worktree = worktree_of(
        tmp_path, Calls().edit("a.py", "one", "two", None, structuredPatch=recorded_patch)
    )
    (step,) = all_steps(worktree, worktree.find("a.py"))
    assert step_view(step, "s").diff == diff


def test_a_recorded_diff_is_masked(tmp_path: Path) -> None:
    secret = "ghp_" + "Zk3Jq8LwN5vT2yRb7XcM1dPf6HsG9aUe4oKi"
    worktree = worktree_of(tmp_path, Calls().edit("a.py", "one", f"token = '{secret}'", None))
    (step,) = all_steps(worktree, worktree.find("a.py"))
    assert secret not in "".join(step_view(step, "s").diff)
    assert secret in "".join(step_view(step, "s", reveal=True).diff)


def test_crlf_and_marks_are_carried_through_edits(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        calls.write("a.txt", "\ufeffone\r\ntwo\r\n"),
        calls.edit("a.txt", "two", "TWO\nTOO", "\ufeffone\ntwo\n"),
    )
    state = state_of(worktree, "a.txt")
    assert (state.certainty, state.content) == (EXACT, b"\xef\xbb\xbfone\r\nTWO\r\nTOO\r\n")


def test_line_endings_within_an_edit_may_be_converted(tmp_path: Path) -> None:
    for old in ("one\ntwo\n", "one\r\ntwo\r\n"):
        calls = Calls()
        seen = old.replace("\r", "")
        edit = calls.edit("a.txt", "two", "2\r\n3", seen)
        worktree = worktree_of(tmp_path / str(len(old)), calls.write("a.txt", old), edit)
        assert state_of(worktree, "a.txt").certainty is DERIVED


def test_line_endings_within_a_written_text_may_be_converted(tmp_path: Path) -> None:
    calls = Calls(version="2.1.45")
    lines = calls.write("a.txt", "two\r\nthree\r\n", "one\r\n")
    assert state_of(worktree_of(tmp_path, lines), "a.txt").certainty is DERIVED


def test_mixed_line_endings_make_an_edit_derived(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        calls.write("a.txt", "one\r\ntwo\n"),
        calls.edit("a.txt", "two", "TWO", "one\ntwo\n"),
    )
    assert state_of(worktree, "a.txt").certainty is DERIVED


@pytest.mark.parametrize(
    ("version", "content", "original", "certainty", "raw"),
    [
        ("2.1.325", "a\nb\n", None, EXACT, b"a\nb\n"),
        ("2.1.325", "a\nb\n", "x\n", EXACT, b"a\nb\n"),
        ("2.1.325", "\ufeffa\n", "\ufeffx\n", DERIVED, b"\xef\xbb\xbfa\n"),
        ("2.1.100", "a\nb\n", None, EXACT, b"a\nb\n"),
        ("2.1.80", "a\nb\n", None, DERIVED, b"a\nb\n"),
        ("2.1.45", "a\nb\n", None, DERIVED, b"a\nb\n"),
        ("2.1.45", "ab", None, EXACT, b"ab"),
        ("2.1.45", "a\nb\n", "x\r\ny\r\n", EXACT, b"a\r\nb\r\n"),
        ("2.1.45", "a\nb\n", "x\ny\n", EXACT, b"a\nb\n"),
        ("2.1.45", "a\nb\n", "\ufeffx\n", DERIVED, b"a\nb\n"),
        ("1.0.60", "a\nb\n", "x\ny\n", DERIVED, b"a\nb\n"),
        ("not a version", "a\n", None, DERIVED, b"a\n"),
    ],
)
def test_which_writes_prove_bytes_depends_on_the_client(
    tmp_path: Path, version: str, content: str, original: str | None, certainty: str, raw: bytes
) -> None:
    worktree = worktree_of(tmp_path, Calls(version=version).write("a.txt", content, original))
    state = state_of(worktree, "a.txt")
    assert (state.certainty, state.content) == (certainty, raw)


def test_turnlog_chat_keeps_line_endings_when_it_writes(tmp_path: Path) -> None:
    # It records the version of the client whose format it follows; its texts tell it apart.
    path = full_path("a.txt")
    done = {"type": "update", "content": "a\nb\n", "originalFile": "x\ny\n", "filePath": path}
    given = {"file_path": path, "content": "a\nb\n"}
    lines = Calls().pair("Write", given, f"The file {path} has been updated.", done)
    assert state_of(worktree_of(tmp_path, lines), "a.txt").certainty is DERIVED


def test_a_change_by_the_user_before_it_was_written_is_derived(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        calls.write("a.py", "one\n"),
        calls.edit("a.py", "one", "two", "one\n", userModified=True),
    )
    assert state_of(worktree, "a.py").certainty is DERIVED


def test_a_file_that_the_user_edited_shows_only_the_snippet(tmp_path: Path) -> None:
    calls = Calls()
    note = {"filename": full_path("a.py"), "snippet": "2\ttwo\n3\tTHREE"}
    worktree = worktree_of(
        tmp_path, calls.write("a.py", "one\ntwo\nthree\n"), attachment("edited_text_file", note)
    )
    state = state_of(worktree, "a.py")
    assert (state.certainty, dict(state.belief.known)) == (GAP, {2: "two", 3: "THREE"})
    assert state.gaps == [(1, 1), (4, None)]


def test_changes_of_a_command_are_derived_from_what_the_client_noticed(tmp_path: Path) -> None:
    calls = Calls()
    more = {
        "filePath": full_path("a.txt"),
        "hunks": [
            {
                "oldStart": 1,
                "oldLines": 2,
                "newStart": 1,
                "newLines": 3,
                "lines": [" one", " two", "+three"],
            }
        ],
    }
    both = {
        "filePath": full_path("a.txt"),
        "hunks": [
            {
                "oldStart": 1,
                "oldLines": 2,
                "newStart": 1,
                "newLines": 3,
                "lines": ["-one", "+1", " two", "+three"],
            }
        ],
    }
    worktree = worktree_of(
        tmp_path,
        calls.write("a.txt", "one\ntwo\n"),
        calls.bash("echo three >> a.txt", [more]),
        calls.bash("sed -i s/one/1/ a.txt", [both]),
    )
    # The second patch is one of what the client knew before the first command.
    assert state_of(worktree, "a.txt", "line:5").content == b"one\ntwo\nthree\n"
    state = state_of(worktree, "a.txt")
    assert (state.certainty, state.content) == (DERIVED, b"1\ntwo\nthree\n")


def test_files_that_a_command_created_or_deleted(tmp_path: Path) -> None:
    calls = Calls()
    gone: Fields = {"filePath": full_path("a.txt"), "hunks": [], "deleted": True}
    new = {
        "filePath": full_path("b.txt"),
        "created": True,
        "hunks": [
            {
                "oldStart": 1,
                "oldLines": 0,
                "newStart": 1,
                "newLines": 1,
                "lines": ["+x\r", "\\ No newline at end of file"],
            }
        ],
    }
    cut = {
        "filePath": full_path("c.txt"),
        "created": True,
        "hunks": [{"oldStart": 1, "oldLines": 0, "newStart": 1, "newLines": 9, "lines": ["+x"]}],
    }
    worktree = worktree_of(
        tmp_path, calls.write("a.txt", "one\n"), calls.bash("mv a.txt b.txt", [gone, new, cut])
    )
    assert state_of(worktree, "a.txt").is_absent
    assert state_of(worktree, "b.txt").content == b"x\r"
    assert state_of(worktree, "c.txt").certainty is GAP


def test_notebooks_are_known_if_the_client_recorded_them(tmp_path: Path) -> None:
    path = full_path("n.ipynb")
    given = {"notebook_path": path, "new_source": "x"}
    done = {"notebook_path": path, "original_file": "{\n}\n", "updated_file": "{\n 1}", "error": ""}
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        calls.write("n.ipynb", "{\n}\n"),
        calls.pair("NotebookEdit", given, "Updated cell c1 with x", done),
    )
    assert (state_of(worktree, "n.ipynb").certainty, state_of(worktree, "n.ipynb").content) == (
        EXACT,
        b"{\n 1}",
    )
    calls = Calls()
    old = worktree_of(
        tmp_path,
        calls.write("n.ipynb", "{\n}\n"),
        calls.pair("NotebookEdit", given, "Updated cell c1 with x", {"error": ""}),
    )
    assert state_of(old, "n.ipynb").certainty is GAP


def test_a_failed_call_changes_nothing(tmp_path: Path) -> None:
    calls = Calls()
    given = {"file_path": full_path("a.py"), "old_string": "x", "new_string": "y"}
    failed = [
        assistant(call("Edit", given, "e")),
        result("e", "<tool_use_error>String to replace not found", is_error=True),
    ]
    worktree = worktree_of(tmp_path, calls.write("a.py", "one\n"), failed)
    assert state_of(worktree, "a.py").certainty is EXACT


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        ("<tool_use_error>File has not been read yet.</tool_use_error>", True),
        ("String to replace not found in file.", True),
        ("The user doesn't want to proceed with this tool use.", True),
        ("ENOSPC: no space left on device, write", False),
        ("<tool_use_error>EIO: i/o error, write</tool_use_error>", False),
        ("<tool_use_error>Error calling tool (Write): aborted</tool_use_error>", False),
        ("[Request interrupted by user for tool use]", False),
    ],
)
def test_a_call_that_failed_midway_may_have_changed_its_file(
    tmp_path: Path, error: str, stays: bool
) -> None:
    calls = Calls()
    given = {"file_path": full_path("a.py"), "content": "two\n"}
    failed = [assistant(call("Write", given, "e")), result("e", error, is_error=True)]
    worktree = worktree_of(
        tmp_path, calls.write("a.py", "one\n"), calls.write("b.py", "b\n"), failed
    )
    assert (state_of(worktree, "a.py").certainty is EXACT) == stays
    assert state_of(worktree, "b.py").certainty is EXACT


@pytest.mark.parametrize(
    ("error", "is_absent"),
    [
        ("<tool_use_error>File does not exist. Did you mean b.py?</tool_use_error>", True),
        ("File does not exist.", True),
        ("PreToolUse:Read hook error: ticket 42 does not exist.", False),
    ],
)
def test_only_the_clients_own_error_proves_that_a_file_is_missing(
    tmp_path: Path, error: str, is_absent: bool
) -> None:
    failed = [
        assistant(call("Read", {"file_path": full_path("a.py")}, "e")),
        result("e", error, is_error=True),
    ]
    worktree = worktree_of(tmp_path, Calls().write("a.py", "one\n"), failed)
    assert state_of(worktree, "a.py").is_absent == is_absent


def test_a_call_without_a_result_may_have_changed_its_file(tmp_path: Path) -> None:
    calls = Calls()
    given = {"file_path": full_path("a.py"), "content": "two\n"}
    lost = assistant(call("Write", given, "lost"))
    worktree = worktree_of(tmp_path, calls.write("a.py", "one\n"), calls.write("b.py", "b\n"), lost)
    assert state_of(worktree, "a.py").certainty is DERIVED
    assert state_of(worktree, "b.py").certainty is EXACT


def test_before_the_first_evidence_its_original_counts(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.read("other", "x"), calls.edit("a.py", "one", "two", "one\nmore\n")
    )
    state = state_of(worktree, "a.py", "line:3")
    assert (state.certainty, state.content) == (DERIVED, b"one\nmore\n")
    assert state.belief.reason == "first seen in line 5"
    calls = Calls()
    after_command = worktree_of(
        tmp_path, calls.bash("make"), calls.edit("a.py", "one", "two", "one\nmore\n")
    )
    assert state_of(after_command, "a.py", "line:1").certainty is GAP


def test_a_new_file_and_an_empty_one_are_not_told_apart_by_an_edit(tmp_path: Path) -> None:
    worktree = worktree_of(tmp_path, Calls().edit("a.py", "", "new\n", ""))
    base = worktree.base(worktree.find("a.py"))
    assert (base.certainty, base.belief.reason) == (DERIVED, "it was empty or did not exist")
    assert state_of(worktree, "a.py").certainty is EXACT


def test_one_file_by_several_spellings(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.write("src/../a.py", "one\n"), calls.read(f"{ROOT}//./a.py", "one\n")
    )
    assert [name.path for name in worktree.files.values()] == [f"{ROOT}/a.py"]


def test_windows_paths_ignore_case_and_separators(tmp_path: Path) -> None:
    calls = Calls(cwd="C:\\work")
    worktree = worktree_of(
        tmp_path, calls.write("C:\\work\\A.py", "one\n"), calls.read("C:/Work/a.py", "one\n")
    )
    assert len(worktree.files) == 1
    assert worktree.find("a.py").path == "C:\\work\\A.py"


def test_an_abandoned_branch_is_no_evidence_but_a_hazard(tmp_path: Path) -> None:
    path = forked(tmp_path, Calls())
    worktree = open_worktree(open_session(path))
    now, there = state_of(worktree, "a.py"), state_of(worktree, "a.py", "line:7")
    assert (now.certainty, now.content) == (DERIVED, b"one\n")
    assert (there.certainty, there.content) == (EXACT, b"two\n")


def test_a_turn_is_counted_on_the_branch_that_is_asked_for(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(tmp_path)
    path.write_bytes(
        session(
            user("start"),
            *calls.write("a.py", "one\n"),
            user("first way"),
            *calls.write("a.py", "two\n", "one\n"),
            user("first way, continued"),
            *calls.write("a.py", "three\n", "two\n"),
            user("second way", parent=nth(3)),
            assistant(text("done")),
        )
    )
    worktree = open_worktree(open_session(path))
    first, file = worktree.session.tree.rank_of(nth(9)), worktree.find(full_path("a.py"))
    moments = [parse_moment(worktree, number, first) for number in ("1", "2", "3")]
    contents = [worktree.at(file, each.place, each.leaf).content for each in moments]
    assert contents == [b"one\n", b"two\n", b"three\n"]
    with pytest.raises(NotFound, match="has 2 turns, not 3"):
        parse_moment(worktree, "3")


def test_a_snapshot_proves_the_bytes_at_a_prompt(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(tmp_path, calls.write("a.txt", "one\n"), assistant(text("x")))
    copies = tmp_path / "file-history" / path.stem
    copies.mkdir(parents=True)
    (copies / "0123456789abcdef@v2").write_bytes(b"by the user\r\n")
    tracked = {"a.txt": {"backupFileName": "0123456789abcdef@v2", "version": 2, "backupTime": "t"}}
    prompt = nth(99)
    snapshot = {"messageId": prompt, "trackedFileBackups": tracked, "timestamp": "t"}
    more = [
        user("again", uuid=prompt, parent=nth(4)),
        assistant(text("late")),
        line(
            "file-history-snapshot", message_id=prompt, snapshot=snapshot, is_snapshot_update=False
        ),
    ]
    path.write_bytes(path.read_bytes() + b"".join(session(*more).splitlines(keepends=True)))
    worktree = open_worktree(open_session(path))
    state = state_of(worktree, "a.txt")
    assert (state.certainty, state.content) == (EXACT, b"by the user\r\n")
    (copies / "0123456789abcdef@v2").unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(b"key")
    (copies / "0123456789abcdef@v2").symlink_to(secret)
    assert state_of(open_worktree(open_session(path)), "a.txt").content == b"one\n"


def test_a_backup_without_a_copy_proves_that_there_was_no_file(tmp_path: Path) -> None:
    path = recorded(tmp_path, Calls().write("a.txt", "one\n"), assistant(text("x")))
    tracked = {"a.txt": {"backupFileName": None, "version": 2, "backupTime": "t"}}
    snapshot = {"messageId": nth(99), "trackedFileBackups": tracked, "timestamp": "t"}
    more = [
        user("again", uuid=nth(99), parent=nth(4)),
        assistant(text("late")),
        line("file-history-snapshot", message_id=nth(99), snapshot=snapshot),
    ]
    path.write_bytes(path.read_bytes() + session(*more))
    state = state_of(open_worktree(open_session(path)), "a.txt")
    assert (state.certainty, state.content) == (EXACT, None)


def test_a_backup_name_that_was_used_twice_proves_only_the_last_use(tmp_path: Path) -> None:
    def snapshot(number: int, time: str) -> bytes:
        ref = {"backupFileName": "0123456789abcdef@v2", "version": 2, "backupTime": time}
        held = {"messageId": nth(number), "trackedFileBackups": {"a.txt": ref}, "timestamp": time}
        return line("file-history-snapshot", message_id=nth(number), snapshot=held)

    calls = Calls()
    path = recorded(
        tmp_path,
        user("two"),
        snapshot(2, "2026-11-15T06:00:02.000Z"),
        calls.read("x", "x"),
        user("three"),
        snapshot(6, "2026-11-15T06:00:06.000Z"),
    )
    copies = tmp_path / "file-history" / path.stem
    copies.mkdir(parents=True)
    (copies / "0123456789abcdef@v2").write_bytes(b"overwritten\n")
    worktree = open_worktree(open_session(path))
    assert state_of(worktree, "a.txt", "line:4").certainty is GAP
    assert state_of(worktree, "a.txt").content == b"overwritten\n"


def before_change(message: str) -> bytes:
    ref = {"backupFileName": "0123456789abcdef@v1", "version": 1, "backupTime": "t"}
    return line("file-history-delta", tracking_path="a.txt", backup=ref, message_id=message)


def with_copy(folder: Path, path: Path, content: bytes) -> Path:
    copies = folder / "file-history" / path.stem
    copies.mkdir(parents=True)
    (copies / "0123456789abcdef@v1").write_bytes(content)
    return path


def test_a_backup_before_a_change_that_is_not_recorded_is_out_of_date(tmp_path: Path) -> None:
    lines = [assistant(text("I change it.")), before_change(nth(2)), assistant(text("Done."))]
    path = with_copy(tmp_path, recorded(tmp_path, lines), b"before\n")
    worktree = open_worktree(open_session(path))
    state = state_of(worktree, "a.txt")
    assert (state.certainty, state.content) == (DERIVED, b"before\n")
    assert "the change after the backup in line 3 may have changed it" in state.belief.reason


def test_a_backup_lies_before_a_change_whose_result_is_written_before_the_call(
    tmp_path: Path,
) -> None:
    use, done = Calls().edit("a.txt", "one", "two", "one\n")
    path = with_copy(tmp_path, recorded(tmp_path, use, done, before_change(nth(2))), b"one\n")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
    state = state_of(open_worktree(open_session(path)), "a.txt")
    assert (state.certainty, state.content, state.tool) == (EXACT, b"two\n", "Edit")


@pytest.mark.parametrize(
    ("version", "copy", "certainty", "content"),
    [
        ("2.1.100", b"one\r\n", EXACT, b"one\r\n"),
        ("2.0.76", b"one\r\n", EXACT, b"one\r\n"),
        ("2.0.76", b"two\r\n", DERIVED, b"one\n"),
    ],
)
def test_a_backup_of_an_old_client_counts_if_the_edit_confirms_it(
    tmp_path: Path, version: str, copy: bytes, certainty: Certainty, content: bytes
) -> None:
    calls = Calls(version=version)
    use, done = calls.edit("a.txt", "one", "two", "one\n")
    lines = [*calls.read("a.txt", "one\n"), use, before_change(nth(4)), done]
    path = with_copy(tmp_path, recorded(tmp_path, lines), copy)
    worktree = open_worktree(open_session(path))
    *_, state, _ = worktree.versions(worktree.find("a.txt"))
    assert (state.certainty, state.content) == (certainty, content)


def test_an_old_backup_is_derived_if_the_text_before_the_change_is_not_recorded(
    tmp_path: Path,
) -> None:
    calls = Calls(version="2.0.76")
    use, done = calls.edit("a.txt", "one", "two", None)
    path = with_copy(tmp_path, recorded(tmp_path, use, before_change(nth(2)), done), b"one\n")
    state = state_of(open_worktree(open_session(path)), "a.txt", "line:3")
    assert (state.certainty, state.content) == (DERIVED, b"one\n")
    assert state.belief.reason == "the client may have made the backup after the change"
    path = recorded(tmp_path, *calls.read("a.txt", "1\n"), use, before_change(nth(4)), done)
    assert state_of(open_worktree(open_session(path)), "a.txt", "line:5").content == b"1\n"
    path = recorded(tmp_path, *calls.write("a.txt", "one\n"), before_change(nth(2)))
    worktree = open_worktree(open_session(path))
    assert worktree.base(worktree.find("a.txt")).is_absent


def test_a_backup_of_a_sub_agent_lies_before_its_change(tmp_path: Path) -> None:
    path = recorded(
        tmp_path,
        assistant(call("Agent", {"prompt": "go"}, "toolu_agent")),
        before_change("a9e20000-0000-4000-8000-000000000002"),
        result("toolu_agent", "done", tool_use_result={"agentId": "a1", "status": "completed"}),
    )
    given = {"file_path": full_path("a.txt"), "old_string": "before", "new_string": "after"}
    time = "2026-11-15T06:00:02.500Z"
    inner = [
        user("go", timestamp=time),
        assistant(
            call("Edit", given, "sub_1"),
            timestamp=time,
            uuid="a9e20000-0000-4000-8000-000000000002",
        ),
        result("sub_1", UPDATED.format(full_path("a.txt")), timestamp=time),
    ]
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(*inner, agent_id="a1"))
    with_copy(tmp_path, path, b"before\n")
    state = state_of(open_worktree(open_session(path)), "a.txt")
    assert (state.certainty, state.content) == (EXACT, b"after\n")


def test_a_backup_that_lost_bytes_is_not_exact(tmp_path: Path) -> None:
    delta = line(
        "file-history-delta",
        message_id=nth(1),
        snapshot_message_id=nth(1),
        tracking_path="a.txt",
        backup={"backupFileName": "0123456789abcdef@v1", "version": 1, "backupTime": "t"},
    )
    path = recorded(tmp_path, delta)
    copies = tmp_path / "file-history" / path.stem
    copies.mkdir(parents=True)
    (copies / "0123456789abcdef@v1").write_bytes("caf\ufffd\r\nend\r\n".encode())
    state = state_of(open_worktree(open_session(path)), "a.txt")
    assert (state.certainty, dict(state.belief.known)) == (GAP, {2: "end", 3: ""})


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "x@v1", "0123456789abcdef@v1/.."])
def test_a_backup_with_a_foreign_name_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_bytes(b"key")
    delta = line(
        "file-history-delta",
        message_id=nth(1),
        snapshot_message_id=nth(1),
        tracking_path="a.txt",
        backup={"backupFileName": name, "version": 1, "backupTime": "t"},
    )
    worktree = worktree_of(tmp_path, delta)
    assert state_of(worktree, "a.txt").content is None


def test_the_work_of_sub_agents_lies_between_the_lines_of_the_session(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(
        tmp_path,
        calls.write("a.txt", "one\n"),
        assistant(call("Agent", {"prompt": "go"}, "toolu_agent")),
        result("toolu_agent", "done", tool_use_result={"agentId": "a1", "status": "completed"}),
        calls.read("other", "x"),
    )
    given = {"file_path": full_path("a.txt"), "old_string": "one", "new_string": "two"}
    time = "2026-11-15T06:00:04.500Z"
    inner = [
        user("go", timestamp=time),
        assistant(call("Edit", given, "sub_1"), timestamp=time),
        result("sub_1", UPDATED.format(full_path("a.txt")), timestamp=time),
    ]
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(*inner, agent_id="a1"))
    worktree = open_worktree(open_session(path))
    assert state_of(worktree, "a.txt", "line:4").content == b"one\n"
    state = state_of(worktree, "a.txt")
    assert (state.certainty, state.content, state.agent_id) == (EXACT, b"two\n", "a1")
    (folder / "agent-a1.jsonl").unlink()
    alone = state_of(open_worktree(open_session(path)), "a.txt")
    assert (alone.certainty, alone.content) == (DERIVED, b"one\n")


@pytest.mark.parametrize(
    ("cut", "is_known"),
    [
        ("", True),
        ("\n... [9 lines truncated] ...", False),
        ("\n[Truncated: PARTIAL view of the file]", False),
    ],
)
def test_a_read_that_a_sub_agent_saw_cut_is_not_the_whole_file(
    tmp_path: Path, cut: str, is_known: bool
) -> None:
    path = recorded(
        tmp_path,
        assistant(call("Agent", {"prompt": "go"}, "toolu_agent")),
        result("toolu_agent", "done", tool_use_result={"agentId": "a1", "status": "completed"}),
    )
    inner = [
        user("go"),
        assistant(call("Read", {"file_path": full_path("a.txt")}, "sub_1")),
        result("sub_1", f"     1→one\n     2→two{cut}"),
    ]
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(*inner, agent_id="a1"))
    state = state_of(open_worktree(open_session(path)), "a.txt")
    assert (state.certainty is not GAP) == is_known


def test_overlapping_changes_of_two_agents_are_not_told_apart(tmp_path: Path) -> None:
    path = recorded(
        tmp_path,
        assistant(call("Agent", {"prompt": "go"}, "toolu_agent")),
        result("toolu_agent", "started", tool_use_result={"agentId": "a1", "isAsync": True}),
        Calls().write("a.txt", "by the session\n"),
    )
    given = {"file_path": full_path("a.txt"), "content": "by the agent\n"}
    inner = [
        user("go", timestamp="2026-11-15T06:00:03.000Z"),
        assistant(call("Write", given, "sub_1"), timestamp="2026-11-15T06:00:04.500Z"),
        result(
            "sub_1",
            f"File created successfully at: {full_path('a.txt')}",
            timestamp="2026-11-15T06:00:05.500Z",
        ),
    ]
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(*inner, agent_id="a1"))
    worktree = open_worktree(open_session(path))
    assert state_of(worktree, "a.txt").certainty is DERIVED
    assert state_of(worktree, "a.txt", "line:5").certainty is DERIVED


def test_a_command_of_another_agent_may_run_after_a_change_and_before_its_result(
    tmp_path: Path,
) -> None:
    path = recorded(
        tmp_path,
        assistant(call("Agent", {"prompt": "go"}, "toolu_agent")),
        result("toolu_agent", "started", tool_use_result={"agentId": "a1", "isAsync": True}),
        Calls().write("a.txt", "by the session\n"),
        Calls().write("b.txt", "later\n"),
    )
    inner = [
        user("go", timestamp="2026-11-15T06:00:03.000Z"),
        assistant(call("Bash", {"command": "make"}, "sub_1"), timestamp="2026-11-15T06:00:04.200Z"),
        result("sub_1", "", timestamp="2026-11-15T06:00:04.500Z"),
    ]
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(*inner, agent_id="a1"))
    worktree = open_worktree(open_session(path))
    assert state_of(worktree, "a.txt").certainty is DERIVED
    assert state_of(worktree, "b.txt").certainty is EXACT


def test_a_name_that_differs_only_in_case_may_be_the_same_file(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.write("Readme.md", "one\n"), calls.write("README.md", "two\n")
    )
    assert state_of(worktree, "Readme.md").certainty is DERIVED
    assert state_of(worktree, "README.md").certainty is EXACT


def test_a_path_below_the_home_directory_may_be_an_absolute_one(tmp_path: Path) -> None:
    calls = Calls()
    short = {"file_path": "~/x/a.py", "content": "two\n"}
    done = {"type": "update", "content": "two\n", "originalFile": "one\n"}
    worktree = worktree_of(
        tmp_path,
        calls.write("/home/ada/x/a.py", "one\n"),
        calls.write("/home/ada/x/b.py", "one\n"),
        calls.pair("Write", short, UPDATED.format("~/x/a.py"), done),
    )
    assert state_of(worktree, "/home/ada/x/a.py").certainty is DERIVED
    assert state_of(worktree, "/home/ada/x/b.py").certainty is EXACT
    assert worktree.at(worktree.find("~/x/a.py"), END).content == b"two\n"


def test_a_name_in_another_unicode_form_may_be_the_same_file(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path, calls.write("caf\u00e9.md", "one\n"), calls.write("cafe\u0301.md", "two\n")
    )
    assert state_of(worktree, "caf\u00e9.md").certainty is DERIVED


def test_redacted_values_are_not_the_bytes_of_a_file(tmp_path: Path) -> None:
    worktree = worktree_of(tmp_path, Calls().write("a.py", "key = '[github-token:a1b2c3]'\n"))
    state = state_of(worktree, "a.py")
    assert (state.certainty, state.belief.reason) == (DERIVED, "it may have redacted values")


def test_redacted_values_are_found_in_utf16(tmp_path: Path) -> None:
    path = recorded(tmp_path, [before_change(nth(2)), assistant(text("x"))])
    content = "key = '[github-token:a1b2c3]'\n".encode("utf-16")
    worktree = open_worktree(open_session(with_copy(tmp_path, path, content)))
    (version,) = worktree.versions(worktree.find(full_path("a.txt")))
    assert (version.certainty, version.belief.reason) == (DERIVED, "it may have redacted values")


def test_the_reason_of_a_state_is_masked(tmp_path: Path) -> None:
    calls, token = Calls(), "ghp_" + "a1B2c3D4e5F6" * 3
    worktree = worktree_of(
        tmp_path, calls.write(f"A-{token}", "1\n"), calls.write(f"a-{token}", "2\n")
    )
    view = state_view(state_of(worktree, f"A-{token}"))
    assert "Write of" in view.reason
    assert token not in view.reason + view.path


def test_shortened_results_are_not_the_content_of_a_file(tmp_path: Path) -> None:
    calls = Calls()
    old = "".join(f"line {number}\n" for number in range(100))
    new = old.replace("line 7\n", "x" * 300 + "\n")
    recorded_as = [
        *calls.write("a.py", old),
        *calls.read("b.py", old),
        *calls.edit("c.py", "line 7\n", "x" * 300 + "\n", old),
        *calls.bash(
            "make",
            [
                {
                    "filePath": full_path("d.py"),
                    "created": True,
                    "hunks": [
                        {
                            "oldStart": 0,
                            "oldLines": 0,
                            "newStart": 1,
                            "newLines": 1,
                            "lines": [f"+{new}"],
                        }
                    ],
                }
            ],
        ),
    ]
    stubbed = [_stubbed(each) for each in recorded_as]
    worktree = worktree_of(tmp_path, stubbed)
    written = state_of(worktree, "a.py", "line:3")
    assert (written.certainty, written.content) == (EXACT, old.encode())
    assert set(worktree.files) == {full_path("a.py"), full_path("b.py"), full_path("c.py")}
    for path in ("b.py", "c.py"):
        state = state_of(worktree, path)
        assert (state.certainty, state.belief.known) == (GAP, {})


def _stubbed(raw: bytes) -> bytes:
    return json.dumps(with_short_results(json.loads(raw), 0)).encode() + b"\n"


def test_an_edit_whose_patch_is_missing_is_derived(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        calls.write("a.py", "one\n"),
        calls.edit("a.py", "one", "two", "one\n", structuredPatch=[]),
    )
    assert state_of(worktree, "a.py").certainty is DERIVED


def test_lines_of_a_private_key_are_masked_one_by_one() -> None:
    data = ["q8Zk3VtW1nYx7RbP0mLs5DfGh2JcKeUaTi9oXwE4" * 2] * 8
    key = ["-----BEGIN RSA PRIVATE KEY-----", *data, "-----END RSA PRIVATE KEY-----"]
    masked = mask_lines(["a = 1", *key, "b = 2"])
    assert (masked[0], masked[-1]) == ("a = 1", "b = 2")
    assert masked[2:-2] == [MASKED] * len(data)
