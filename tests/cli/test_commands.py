"""These files, this command, this output."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.build import assistant, call, line, session, user
from turnlog.cli.inspect import MANY
from turnlog.cli.root import COMMANDS

ID = "3f2a9c1e-0000-4000-8000-00000000000a"
OTHER = "3f2b0000-0000-4000-8000-00000000000b"

ENTRIES: tuple[dict[str, Any], ...] = (
    {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "cwd": "/home/ada/shop",
        "version": "2.1.325",
        "gitBranch": "main",
        "timestamp": "2026-11-14T10:00:00.000Z",
        "message": {"role": "user", "content": "Fix the bug"},
    },
    {
        "type": "assistant",
        "uuid": "a1",
        "parentUuid": "u1",
        "timestamp": "2026-11-14T10:00:05.000Z",
        "message": {
            "id": "m1",
            "role": "assistant",
            "model": "claude-opus-5",
            "content": [
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
            ],
        },
    },
    {
        "type": "system",
        "subtype": "turn_duration",
        "uuid": "d1",
        "parentUuid": "a1",
        "durationMs": 5000,
        "timestamp": "2026-11-14T10:00:06.000Z",
    },
    {"type": "sparkle", "uuid": "x1", "parentUuid": "d1", "glitter": 7},
)
LINES = b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in ENTRIES)


def write(project: Path, name: str = ID, content: bytes = LINES) -> Path:
    path = project / f"{name}.jsonl"
    path.write_bytes(content)
    return path


def test_ls_lists_sessions_under_their_directory(project: Path, turnlog: Run) -> None:
    write(project)
    outcome = turnlog("ls")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert lines[0].split() == ["session", "age", "title", "branch", "model", "size"]
    assert lines[1] == "/home/ada/shop"
    assert lines[2].split()[0] == "3f2a9c1e"
    assert "Fix the bug" in lines[2]
    assert all(len(line) <= 80 for line in lines)


def test_ls_as_json_tells_all_it_knows(project: Path, turnlog: Run) -> None:
    path = write(project)
    (row,) = json.loads(turnlog("ls", "--json").out)
    assert row == {
        "id": ID,
        "store": str(project.parent.parent),
        "path": str(path),
        "project": "-home-ada-shop",
        "title": "Fix the bug",
        "first_prompt": "Fix the bug",
        "first_command": None,
        "cwd": "/home/ada/shop",
        "branch": "main",
        "version": "2.1.325",
        "model": "claude-opus-5",
        "slug": None,
        "tag": None,
        "started": "2026-11-14T10:00:00Z",
        "last_active": "2026-11-14T10:00:06Z",
        "size": len(LINES),
        "subagents": 0,
        "live": False,
        "resume": f"cd /home/ada/shop && claude --resume {ID}",
    }


def test_ls_keeps_apart_folders_that_name_the_same_directory(project: Path, turnlog: Run) -> None:
    write(project)
    (project.parent / "-old-place").mkdir()
    write(project.parent / "-old-place", OTHER)
    assert len(turnlog("ls").out.splitlines()) == 5


def test_ls_limits_and_says_so(project: Path, turnlog: Run) -> None:
    write(project, ID)
    write(project, OTHER)
    outcome = turnlog("ls", "--limit", "1")
    assert len(outcome.out.splitlines()) == 3
    assert "1 of 2 sessions" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--project", "SHOP"), 1),
        (("--project", "blog"), 0),
        (("--since", "2026-11-14"), 1),
        (("--since", "2026-11-15T00:00:00Z"), 0),
    ],
)
def test_ls_filters(project: Path, turnlog: Run, arguments: tuple[str, str], found: int) -> None:
    write(project)
    assert len(json.loads(turnlog("ls", "--json", *arguments).out)) == found


def test_ls_of_an_empty_store_fails_with_a_hint(turnlog: Run) -> None:
    outcome = turnlog("ls")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.endswith("(try: turnlog --samples ls)\n")
    assert outcome.err.count("\n") == 1


def test_turnlog_alone_shows_samples_where_there_are_no_sessions_and_says_so(turnlog: Run) -> None:
    outcome = turnlog()
    assert outcome.code == 0
    assert "these are turnlog's samples" in outcome.err
    assert "Fix the rounding bug in invoices" in outcome.out


def test_turnlog_alone_lists_the_users_sessions(project: Path, turnlog: Run) -> None:
    write(project)
    outcome = turnlog()
    assert "Fix the bug" in outcome.out
    assert outcome.err == ""


def test_a_title_cannot_move_the_cursor_or_break_the_row(project: Path, turnlog: Run) -> None:
    write(project, content=LINES.replace(b"Fix the bug", b"two\\nlines\\u001b[2J\\u202e"))
    outcome = turnlog("ls")
    assert len(outcome.out.splitlines()) == 3
    assert "\x1b[2J" not in outcome.out
    assert "\u202e" not in outcome.out


def test_entries_prints_a_row_per_line(project: Path, turnlog: Run) -> None:
    write(project)
    head, *rows = [line.split() for line in turnlog("entries", ID).out.splitlines()]
    assert head == ["line", "time", "size", "kind", "content"]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert rows[1][-2:] == ["Bash:", "ls"]
    assert "turn_duration" in rows[2]


def test_entries_as_json_has_an_object_per_line(project: Path, turnlog: Run) -> None:
    write(project)
    objects = [json.loads(line) for line in turnlog("entries", ID, "--json").out.splitlines()]
    first_line = LINES.index(b"\n") + 1
    assert objects[1] == {
        "line": 2,
        "offset": first_line,
        "type": "assistant",
        "subtype": None,
        "kind": "assistant",
        "uuid": "a1",
        "parent_uuid": "u1",
        "timestamp": "2026-11-14T10:00:05.000Z",
    }
    assert (objects[2]["subtype"], objects[2]["kind"]) == ("turn_duration", "system/turn_duration")
    assert (objects[3]["type"], objects[3]["uuid"]) == ("sparkle", "x1")


def test_entries_shows_what_is_wrong_with_a_line(project: Path, turnlog: Run) -> None:
    write(project, content=b'{"type":"user"}{"type":"user"}\nnonsense\n\n{"type":')
    objects = [json.loads(line) for line in turnlog("entries", ID, "--json").out.splitlines()]
    assert [(each["line"], each["problem"]) for each in objects] == [
        (1, "2 values on one line"),
        (1, "2 values on one line"),
        (2, "not JSON: Expecting value at column 1"),
        (4, "the last line is torn"),
    ]
    assert "the last line is torn" in turnlog("entries", ID).out


def test_raw_prints_the_bytes_of_a_line(project: Path, turnlog: Run) -> None:
    write(project)
    assert turnlog("raw", ID, "--line", "3").out.encode() == LINES.splitlines(keepends=True)[2]


def test_a_text_that_is_cut_ends_in_an_ellipsis(project: Path, turnlog: Run) -> None:
    content = session(user("word " * 40), line("ai-title", ai_title="title " * 40))
    write(project, content=content)
    rows = turnlog("entries", ID).out.splitlines()[1:]
    assert [(row[-1], len(row)) for row in rows] == [("…", 80), ("…", 80)]


def test_candidates_have_one_line_each(project: Path, turnlog: Run) -> None:
    secret = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"
    for name, prompt in (
        (ID, "long words " * 20),
        (OTHER, f"long words and the key {secret} " * 3),
    ):
        write(project, name, session(user(prompt)))
    _, *rows = turnlog("show", "long words").err.splitlines()
    assert max(map(len, rows)) <= 80
    assert sorted(row[-1] for row in rows) == ["…", "…"]
    assert secret[:8] not in "".join(rows)


def test_raw_of_a_line_that_is_not_there(project: Path, turnlog: Run) -> None:
    write(project)
    outcome = turnlog("raw", ID, "--line", "9")
    assert outcome.code == 1
    assert "has 4 lines, no line 9" in outcome.err


@pytest.mark.parametrize("name", [ID, ID.upper(), "3f2a", "Fix the bug", "fix THE", "last"])
def test_a_session_is_named_in_many_ways(project: Path, turnlog: Run, name: str) -> None:
    write(project, ID)
    write(project, OTHER, b'{"type":"user","message":{"role":"user","content":"Else"}}\n')
    os.utime(project / f"{OTHER}.jsonl", (0, 0))
    outcome = turnlog("entries", name, "--json")
    assert json.loads(outcome.out.splitlines()[0])["uuid"] == "u1"


def test_a_path_is_a_session(project: Path, turnlog: Run) -> None:
    path = write(project)
    assert turnlog("entries", str(path)).code == 0
    assert turnlog("entries", str(path) + "x.jsonl").code == 1


def test_an_ambiguous_name_lists_the_candidates(project: Path, turnlog: Run) -> None:
    write(project, ID)
    write(project, OTHER)
    outcome = turnlog("entries", "3f2")
    assert outcome.code == 1
    head = outcome.err.splitlines()[0]
    assert head.startswith("turnlog: '3f2' matches 2 sessions (try: turnlog show 3f2")
    assert {line.split()[0] for line in outcome.err.splitlines()[1:]} == {ID, OTHER}


def test_of_many_candidates_the_first_are_listed(project: Path, turnlog: Run) -> None:
    for number in range(25):
        write(project, f"3f2a{number:04}-0000-4000-8000-000000000000")
    _, *rows = turnlog("entries", "3f2a").err.splitlines()
    assert len(rows) == 11
    assert all(row.startswith("  3f2a00") for row in rows[:10])
    assert rows[10] == "  and 15 more"


def test_inspect_reports_an_invented_type_and_field(project: Path, turnlog: Run) -> None:
    write(project, content=LINES + b'{"type":"user","mood":"good","message":{"role":"user"}}\n')
    report = json.loads(turnlog("inspect", ID, "--json").out)
    assert report["kinds"]["sparkle"] == {"count": 1, "known": False}
    assert report["kinds"]["user"] == {"count": 2, "known": True}
    assert report["fields"]["user.mood"] == {"count": 1, "known": False}
    assert report["tools"] == {"Bash": {"count": 1, "known": True}}
    assert report["versions"] == {"2.1.325": 1}
    rows = [line.split() for line in turnlog("inspect", ID).out.splitlines()]
    assert ["1", "sparkle", "unknown"] in rows
    assert ["1", "user.mood", "unknown"] in rows


@pytest.mark.parametrize(("tools", "rest"), [(MANY, []), (MANY + 1, ["1"])])
def test_inspect_lists_unknown_then_frequent_tools_and_counts_the_rest(
    project: Path, turnlog: Run, tools: int, rest: list[str]
) -> None:
    # Each one more often than the next, except that the last two unknown ones are equals.
    counts = {f"mend_{n:02}": max(3, tools - n) for n in range(tools - 1)}
    names = [name for name, count in reversed(counts.items()) for _ in range(count)]
    calls = [assistant(call(name, {}, f"toolu_{n}")) for n, name in enumerate([*names, "Bash"])]
    write(project, content=session(*calls))
    out = turnlog("inspect", ID).out
    listed = out.partition("  Tools")[2].partition("\n\n")[0].splitlines()[1:]
    expected = [f"{count:>10}  {name}  unknown" for name, count in counts.items()]
    expected.append(f"{1:>10}  Bash")
    assert [line.rstrip() for line in listed[:MANY]] == expected[:MANY]
    assert [line.split()[0] for line in listed[MANY:]] == rest
    assert "\n\n\n" not in out


def test_inspect_covers_sub_agents_unless_a_session_is_named(project: Path, turnlog: Run) -> None:
    write(project)
    (project / ID / "subagents").mkdir(parents=True)
    (project / ID / "subagents" / "agent-a1.jsonl").write_bytes(LINES)
    assert json.loads(turnlog("inspect", "--all", "--json").out)["files"] == 2
    assert json.loads(turnlog("inspect", ID, "--json").out)["files"] == 1
    assert turnlog("inspect", ID, "--all").code == 2


def test_inspect_prints_a_problem_on_one_line(project: Path, turnlog: Run) -> None:
    (project / "two\nlines\x1b[2J.jsonl").write_bytes(b"{torn}\n")
    problems = turnlog("inspect").out.partition("Problems\n")[2].splitlines()
    assert len(problems) == 1
    assert f"{project}/two lines [2J.jsonl:1  not JSON" in problems[0]


def test_where_names_every_place(project: Path, turnlog: Run) -> None:
    places = json.loads(turnlog("where", "--json").out)
    assert places["projects"] == {"path": str(project.parent), "exists": True}
    assert places["history"]["exists"] is False


def test_schema_prints_one_kind_or_all(turnlog: Run) -> None:
    one = json.loads(turnlog("schema", "system/compact_boundary").out)
    assert one["properties"]["subtype"] == {"const": "compact_boundary"}
    assert len(json.loads(turnlog("schema").out)["anyOf"]) > 40
    outcome = turnlog("schema", "nonsense")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(turnlog: Run, shell: str) -> None:
    assert "_TURNLOG_COMPLETE" in turnlog("completion", shell).out


@pytest.mark.parametrize(
    "arguments", [("nosuch",), ("ls", "--nosuch"), ("ls", "--since", "soon"), ("raw", "last")]
)
def test_a_wrong_command_line_is_one_line_with_a_hint(
    turnlog: Run, arguments: tuple[str, ...]
) -> None:
    outcome = turnlog(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("turnlog: ")
    assert "(try: turnlog" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_reader_that_leaves_is_no_error(project: Path) -> None:
    path = write(project, content=LINES * 5000)
    command = [sys.executable, "-m", "turnlog", "entries", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_tail_shows_the_last_lines_and_then_what_is_appended(project: Path) -> None:
    path = write(project)
    command = [sys.executable, "-m", "turnlog", "tail", str(path), "-n", "2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert [json.loads(process.stdout.readline())["type"] for _ in range(2)] == [
            "system",
            "sparkle",
        ]
        time.sleep(0.3)
        with path.open("ab") as file:
            file.write(b'{"type":"mode","mode":"normal"}\n')
        assert json.loads(process.stdout.readline())["type"] == "mode"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_command_has_help(turnlog: Run, name: str) -> None:
    outcome = turnlog(*filter(None, [name]), "--help")
    assert outcome.code == 0
    assert outcome.out.startswith("Usage: turnlog")
