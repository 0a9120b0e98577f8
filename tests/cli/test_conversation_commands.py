"""show, tree, turns, calls, files, cost, context: these files, this command, this output."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    line,
    nth,
    result,
    session,
    system,
    text,
    user,
)
from turnlog.render.costs import CostView, ModelCost
from turnlog.render.json_views import CallView, TurnView
from turnlog.render.touched_files import ChangeView, FileView

ID = SESSION[:8]
SECRET = "tr0ub4dor&3"
TOLD = f"password = '{SECRET}'"
EVIL = "\x1b]0;owned\x07\x9b2J\u202egnp\x1b[31m"
"""Sets a terminal's title, clears its screen, turns text around, colours what follows."""
HARM = set("\x00\x07\x08\x1b\x7f\x9b\u202e")
COMMANDS = ("show", "tree", "turns", "calls", "files", "cost", "context")
EDIT = {"file_path": "/home/ada/shop/cart.py", "old_string": "0", "new_string": "sum(items)"}

TALK = (
    user("Fix the total"),
    assistant(call("Bash", {"command": "pytest"}, "A"), message_id="m1"),
    result("A", "1 failed\nbadly", is_error=True),
    assistant(call("Edit", EDIT, "B"), message_id="m2"),
    result("B", "updated"),
    assistant(text("Fixed."), message_id="m3"),
    user("Try again"),
    assistant(text("Old answer."), message_id="m4"),
    user("Try otherwise", parent=nth(6)),
    assistant(text("New answer."), message_id="m5"),
)


def write(project: Path, *lines: bytes) -> Path:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*lines))
    return path


def fields_of(view: Any) -> list[str]:
    return list(view.__struct_fields__)


def test_the_head_of_a_transcript_fits_a_narrow_terminal(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, *TALK)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("PAGER", "cat")
    head = turnlog("show", ID, "--pager").out.split("\n\n")[0].splitlines()
    assert max(map(len, head)) <= 40
    assert head[-3:] == [
        "cd /home/ada/shop &&",
        "  claude --resume \\",
        f"  {SESSION}",
    ]


def test_show_tells_what_was_asked_said_and_done(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    outcome = turnlog("show", ID)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "Fix the total",
        f"session {SESSION} · /home/ada/shop · main",
        "2026-11-15 06:00 · 2 turns · 120 tokens · $0.0018 · claude-opus-5-5",
        f"cd /home/ada/shop && claude --resume {SESSION}",
        "",
        "  1 ❯ (new session) Fix the total",
        "",
        "✗ Bash pytest  2 lines  1.0s",
        "    1 failed",
        "    badly",
        "● Edit /home/ada/shop/cart.py  +1 -1  1.0s",
        "    @@ -1 +1 @@",
        "    -0",
        "    +sum(items)",
        "Fixed.",
        "",
        "── turn 1 · 5s · 90 tokens · $0.0013 ──",
        "",
        "  2 ❯ Try otherwise",
        "",
        "New answer.",
        "",
        "── turn 2 · 1s · 30 tokens · $0.0004 ──",
        "",
    ]


def test_show_one_turn_of_another_branch(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    out = turnlog("show", ID, "--turn", "2", "--branch", nth(8)).out
    assert out.splitlines()[5:8] == ["  2 ❯ Try again", "", "Old answer."]


def test_show_a_turn_that_is_not_there(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    outcome = turnlog("show", ID, "--turn", "3")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"turnlog: {SESSION}.jsonl has 2 turns, no turn 3 (try: turnlog turns {ID})\n"
    )


def test_turns_are_counted_from_one(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    outcome = turnlog("show", ID, "--turn", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--turn" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [("show", "--branch"), ("turns", "--branch"), ("context", "--at")],
    ids=lambda arguments: arguments[0],
)
def test_a_branch_that_is_not_there(
    project: Path, turnlog: Run, arguments: tuple[str, str]
) -> None:
    path = write(project, *TALK)
    command, option = arguments
    outcome = turnlog(command, ID, option, "ffffffff")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"turnlog: no entry 'ffffffff' in {path} (try: turnlog entries {SESSION})\n"
    )


def test_show_as_markdown(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    lines = turnlog("show", ID, "--format", "md", "--turn", "1").out.splitlines()
    start = lines.index("## 1. Fix the total")
    assert lines[:3] == ["# Fix the total", "", f"- Session: `{SESSION}`"]
    assert lines[start + 2 : start + 7] == [
        "*2026-11-15 06:00:01, new session*",
        "",
        "> Fix the total",
        "",
        "* ✗ **Bash** `pytest` → 2 lines",
    ]


def test_show_as_json_is_what_turns_prints(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    shown = json.loads(turnlog("show", ID, "--format", "json", "--turn", "2").out)
    assert shown == json.loads(turnlog("turns", ID, "--json").out)[1:]


def test_show_in_full_unfolds_outputs(project: Path, turnlog: Run) -> None:
    write(project, user("q"), assistant(call("Bash", {"command": "ls"}, "A")), result("A", "found"))
    assert "found" not in turnlog("show", ID).out
    assert "    found" in turnlog("show", ID, "--full").out.splitlines()


def test_show_without_thinking(project: Path, turnlog: Run) -> None:
    thought = {"type": "thinking", "thinking": "hmm", "signature": "x"}
    write(project, user("q"), assistant(thought, text("a")))
    assert "hmm" in turnlog("show", ID).out
    assert "hmm" not in turnlog("show", ID, "--no-thinking").out


def test_show_a_session_without_turns(project: Path, turnlog: Run) -> None:
    write(project, line("summary", summary="x", leaf_uuid=nth(1)))
    assert turnlog("show", ID).out.splitlines() == [
        "x",
        f"session {SESSION} · -home-ada-shop",
        "0 turns · 0 tokens · $0.0000",
        "",
    ]
    assert json.loads(turnlog("show", ID, "--format", "json").out) == []


def test_turns_lists_them(project: Path, turnlog: Run) -> None:
    write(project, *TALK, user("And now?"))
    lines = turnlog("turns", ID).out.splitlines()
    assert [" ".join(row.split()) for row in lines] == [
        "turn started prompt calls failed tokens cost",
        "1 11-15 06:00 (new session) Fix the total 2 1 90 $0.0013",
        "2 11-15 06:00 Try otherwise 0 30 $0.0004",
        "3 11-15 06:00 (no answer) And now? 0 0 $0.0000",
    ]


def test_turns_has_both_times_where_there_is_room_and_waiting_took_longer(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_hooks, without_waiting = (
        system("turn_duration", duration_ms=measured) for measured in (88_947, 5_000)
    )
    first = [user("q1"), assistant(text("a1")), with_hooks]
    late = assistant(text("a2"), timestamp="2026-11-15T06:05:04.000Z")
    write(project, *first, user("q2", timestamp="2026-11-15T06:04:00.000Z"), late, without_waiting)
    monkeypatch.setenv("COLUMNS", "120")
    _, *rows = (row.split() for row in turnlog("turns", ID).out.splitlines())
    assert [
        row[row.index(prompt) :][:5] for row, prompt in zip(rows, ["q1", "q2"], strict=True)
    ] == [
        ["q1", "1m", "28s", "0", "30"],
        ["q2", "5s", "1m", "4s", "0"],
    ]


def test_turns_as_json_has_the_fields_of_a_turn(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    first, second = json.loads(turnlog("turns", ID, "--json").out)
    assert list(first) == fields_of(TurnView)
    assert list(first["calls"][0]) == fields_of(CallView)
    assert (first["prompt_uuid"], first["files"]) == (nth(1), [EDIT["file_path"]])
    assert second["prompt"] == "Try otherwise"


def test_turns_of_another_branch(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    turns = json.loads(turnlog("turns", ID, "--json", "--branch", nth(8)).out)
    assert [turn["prompt"] for turn in turns] == ["Fix the total", "Try again"]


def test_calls_lists_those_of_all_branches(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    lines = turnlog("calls", ID).out.splitlines()
    assert [" ".join(row.split()) for row in lines] == [
        "line tool call outcome time",
        "2 ✗ Bash pytest 2 lines 1.0s",
        "4 ● Edit /home/ada/shop/cart.py +1 -1 1.0s",
    ]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), ["A", "B"]),
        (("--errors",), ["A"]),
        (("--tool", "Edit"), ["B"]),
        (("--tool", "Edit", "--errors"), []),
        (("--tool", "edit"), []),
    ],
)
def test_calls_are_filtered(
    project: Path, turnlog: Run, arguments: tuple[str, ...], found: list[str]
) -> None:
    write(project, *TALK)
    calls = json.loads(turnlog("calls", ID, "--json", *arguments).out)
    assert [each["id"] for each in calls] == found
    assert all(list(each) == fields_of(CallView) for each in calls)
    assert len(turnlog("calls", ID, *arguments).out.splitlines()[1:]) == len(found)


def test_files_lists_them_with_their_diffs(project: Path, turnlog: Run) -> None:
    read = {"file_path": "/home/ada/shop/a.py"}
    write(project, *TALK, assistant(call("Read", read, "C")), result("C"))
    assert turnlog("files", ID).out == (
        "file                    +lines  -lines  reads\n"
        "/home/ada/shop/cart.py      +1      -1\n"
        "/home/ada/shop/a.py                         1\n"
    )
    assert turnlog("files", ID, "--diff").out.splitlines()[1:6] == [
        "/home/ada/shop/cart.py      +1      -1",
        "  Edit in line 4, 2026-11-15T06:00:04.000Z",
        "    @@ -1 +1 @@",
        "    -0",
        "    +sum(items)",
    ]


def test_files_as_json(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    (file,) = json.loads(turnlog("files", ID, "--json").out)
    assert list(file) == fields_of(FileView)
    assert list(file["changes"][0]) == fields_of(ChangeView)


def test_tree_draws_the_branches(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    assert turnlog("tree", ID).out.splitlines() == [
        "● Fix the total  [00000000]",
        "├─○ Try again  [00000000]",
        "└─● Try otherwise  [00000000]",
    ]


def test_tree_as_json_names_what_follows(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    stones = json.loads(turnlog("tree", ID, "--json").out)
    assert stones[0] == {
        "uuid": nth(1),
        "kind": "user",
        "line": 1,
        "active": True,
        "trigger": None,
        "pre_tokens": None,
        "next": [nth(7), nth(9)],
        "agents": [],
    }
    assert [stone["active"] for stone in stones] == [True, False, True]


def test_tree_names_the_sessions_next_to_it(project: Path, turnlog: Run) -> None:
    write(project, *TALK, line("continued-in", continued_in_session_id="later"))
    forked = user("q", forked_from={"sessionId": "earlier"})
    (project / "other.jsonl").write_bytes(session(forked, session_id="other"))
    assert turnlog("tree", ID).out.splitlines()[-1] == "continued in later"
    assert turnlog("tree", "other").out.splitlines()[0] == "continues earlier"


def test_cost_prints_a_table(project: Path, turnlog: Run) -> None:
    sage = assistant(text("x"), message={"model": "sage-9"}, version="2.1.29")
    counted = line("cost-state", startTime=1, totalCostUSD=0.5)
    write(project, user("q"), assistant(text("a")), sage, counted)
    rows = [" ".join(row.split()) for row in turnlog("cost", ID).out.splitlines()]
    assert rows == [
        "model input output cache write cache read cost",
        "claude-opus-5-5 10 20 0 0 $0.0004",
        "sage-9 10 20 0 0 ?",
        "total $0.0004",
        "Not in the total, as no price is known: sage-9",
        "A lower bound: this client version records too few output tokens.",
        "The client itself counted $0.5000.",
    ]


def test_cost_sets_sub_agents_apart(project: Path, turnlog: Run) -> None:
    side: dict[str, Any] = {"is_sidechain": True}
    write(
        project,
        user("q"),
        assistant(text("a")),
        user("go", parent=None, **side),
        assistant(text("b"), **side),
    )
    rows = turnlog("cost", ID).out.splitlines()
    assert rows[2].startswith("└ claude-opus-5-5 ")
    assert rows[-1] == "└ by sub-agents"


def test_cost_as_json(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    view = json.loads(turnlog("cost", ID, "--json").out)
    assert list(view) == fields_of(CostView)
    assert list(view["models"][0]) == fields_of(ModelCost)
    assert (view["models"][0]["messages"], view["client_cost_usd"]) == (5, None)


def test_context_lists_the_blocks(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    lines = turnlog("context", ID).out.splitlines()
    assert [" ".join(row.split()) for row in lines[:4]] == [
        "message content",
        "user text Fix the total",
        "assistant tool_use Bash: {'command': 'pytest'}",
        "user tool_result 1 failed badly",
    ]


def test_context_as_json_is_what_the_client_would_send(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    messages = json.loads(turnlog("context", ID, "--json").out)
    assert messages[-1] == {"role": "assistant", "content": [text("New answer.")]}
    at = json.loads(turnlog("context", ID, "--json", "--at", nth(8)).out)
    assert at[-1] == {"role": "assistant", "content": [text("Old answer.")]}


def test_context_from_the_start_goes_back_across_compactions(project: Path, turnlog: Run) -> None:
    write(project, *TALK, *compaction("So far."), user("And now?"))
    short = json.loads(turnlog("context", ID, "--json").out)
    whole = json.loads(turnlog("context", ID, "--json", "--from-start").out)
    assert short[0]["content"] == [text("So far.\n"), text("And now?")]
    assert whole[0]["content"] == [text("Fix the total")]
    assert whole[-2:] == short


def test_context_says_where_the_client_starts_and_how_to_see_the_rest(
    project: Path, turnlog: Run
) -> None:
    late = {"parent": "gone", "timestamp": "2026-11-15T09:00:00.000Z"}
    write(project, user("Fix it"), assistant(text("Done.")), user("And now?", **late))
    sent = turnlog("context", ID, "--json")
    assert json.loads(sent.out)[0]["content"] == [text("And now?")]
    assert "line 3 names a parent that is missing" in sent.err
    assert f"turnlog context {ID} --all-history" in sent.err
    whole = turnlog("context", ID, "--json", "--all-history")
    assert json.loads(whole.out)[0]["content"] == [text("Fix it")]
    assert whole.err == ""


def everywhere(told: str, named: str = "") -> tuple[bytes, ...]:
    """A session with one text in all its texts, and one in all its names."""
    edit = {"file_path": f"/x{named}", "old_string": "", "new_string": told}
    return (
        user(told),
        assistant(
            {"type": "thinking", "thinking": told, "signature": "x"},
            text(told),
            text(f"`{told}` **{told}**\n# {told}\n```\n{told}\n```"),
            call("Bash", {"command": told}, "A"),
            call("Edit", edit, "B"),
            call(f"Odd{named}", {"x": told}, "C"),
            message={"model": f"sage{named}"},
        ),
        result("A", told, is_error=True),
        result("B", told),
        result("C", told, tool_use_result={"type": named}),
        assistant({"type": f"odd{named}", "text": told}),
        assistant(text(told), is_api_error_message=True),
        user(f"<bash-stdout>{told}</bash-stdout>"),
    )


@pytest.mark.parametrize(
    "words",
    [*COMMANDS, "show --full", "show --format md", "files --diff"],
)
def test_control_characters_do_not_reach_the_terminal(
    project: Path, turnlog: Run, words: str
) -> None:
    write(project, *everywhere(EVIL, EVIL))
    command, *options = words.split()
    outcome = turnlog(command, ID, *options)
    assert outcome.code == 0
    assert outcome.out
    assert HARM.isdisjoint(outcome.out)


@pytest.mark.parametrize(
    "words",
    """show; show --full; show --format md; show --format json; tree; turns; turns --json; calls;
    calls --json; files --diff; files --json; context; context --json""".split(";"),
)
def test_secrets_are_masked_unless_they_are_wanted(
    project: Path, turnlog: Run, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    write(project, *everywhere(f"\n{TOLD}\n"))
    command, *options = words.split()
    masked, shown = turnlog(command, ID, *options), turnlog(command, ID, *options, "--reveal")
    assert (masked.code, shown.code) == (0, 0)
    assert (SECRET in masked.out, SECRET in shown.out) == (False, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_session_that_is_not_there(project: Path, turnlog: Run, command: str) -> None:
    outcome = turnlog(command, "ffffffff")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("turnlog: ")
