"""Entries in the scrollback, and previews of calls."""

from pathlib import Path
from typing import Any

from turnlog.agent.permissions import ApprovalMode, Policy, Verdict, parse_rule
from turnlog.agent.permissions.gate import REJECTED
from turnlog.agent.permissions.policy import Question, VerdictKind
from turnlog.agent.session.entry_builders import REJECTED_TEXT, STOPPED
from turnlog.agent.terminal.chat_driver import last_turns
from turnlog.agent.terminal.event_text import EntryRenderer
from turnlog.agent.terminal.folding import FoldedText
from turnlog.agent.terminal.listings import ContextShare, context_rows, permission_rows
from turnlog.agent.terminal.screen_protocol import ScrollbackItem
from turnlog.agent.terminal.styled_text import make_style

Fields = dict[str, Any]
ROOT = Path("/work")


def bare(value: str, role: str) -> str:
    return value


def renderer() -> EntryRenderer:
    return EntryRenderer(bare, ROOT)


def said(content: Any, **more: Any) -> Fields:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def use(name: str, **given: Any) -> Fields:
    block = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    return {"type": "assistant", "message": {"content": [block]}}


def result(content: str, data: Any = None, **more: Any) -> Fields:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content}
    block |= {"is_error": True} if more.pop("is_error", False) else {}
    return said([block], **({"toolUseResult": data} if data else {}), **more)


def lines(shown: ScrollbackItem | None) -> list[str]:
    return shown.lines if shown else []


def call(*entries: Fields, seconds: float | None = None) -> list[str]:
    rendered = renderer()
    return [lines(rendered.render(entry, seconds)) for entry in entries][-1]


def test_a_prompt_stands_behind_its_mark() -> None:
    assert call(said("do it\nnow")) == ["❯ do it", "  now"]
    assert call(said("<bash-input>ls</bash-input>")) == ["! ls"]
    assert call(said("<bash-stdout>a\nb</bash-stdout><bash-stderr></bash-stderr>")) == [
        "    a",
        "    b",
    ]
    command = (
        "<command-message>go</command-message>\n<command-name>/go</command-name>\n"
        "<command-args>x</command-args>"
    )
    assert call(said(command)) == ["❯ /go x"]


def test_what_nobody_said_is_not_shown() -> None:
    assert call(said("hidden", isMeta=True)) == []
    assert call(said("a summary", isCompactSummary=True)) == []
    assert call({"type": "progress", "data": {}}) == []


def test_a_call_shows_a_few_lines_of_what_it_printed() -> None:
    printed = "\n".join(f"line {number}" for number in range(9))
    assert call(use("Bash", command="make"), result(printed), seconds=2.4) == [
        "● Bash make  9 lines  2.4s",
        "    line 0",
        "    line 1",
        "    line 2",
        "    line 3",
        "    … 5 more lines · ctrl-o shows all",
    ]


def test_a_command_in_the_background_is_told_by_its_name() -> None:
    started = result("Command running in background with ID: b1.", {"backgroundTaskId": "b1"})
    assert call(use("Bash", command="make"), started) == [
        "● Bash make  in the background",
        "    as b1; /tasks shows it",
    ]


def test_what_a_command_prints_cannot_control_the_terminal() -> None:
    style = make_style(is_coloured=False)
    rendered = EntryRenderer(style, ROOT)
    rendered.render(use("Bash", command="x\x1b[2J"))
    shown = rendered.render(result("\x1b[31mred\x07\r50%\r100%"))
    assert (
        "".join(lines(shown)).replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
        == "● Bash x<ESC>[2J    100%"
    )


def test_what_is_read_is_for_the_model_alone() -> None:
    data = {"type": "text", "file": {"numLines": 40}}
    assert call(use("Read", file_path="/work/src/a.py"), result("1\tx\n2\ty", data)) == [
        "● Read src/a.py  40 lines"
    ]


def test_an_edit_shows_its_diff() -> None:
    hunk = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" a", "-b", "+c"]}
    data = {"structuredPatch": [hunk]}
    assert call(use("Edit", file_path="/work/a.py"), result("updated", data)) == [
        "● Edit a.py  +1 -1",
        "    @@ -1,2 +1,2 @@",
        "     a",
        "    -b",
        "    +c",
    ]


def test_an_error_is_marked_and_told() -> None:
    failed = result("<tool_use_error>no such file</tool_use_error>", is_error=True)
    assert call(use("Read", file_path="/work/a"), failed) == ["✗ Read a", "    no such file"]


REFUSED = result(REJECTED_TEXT, is_error=True, toolDenialKind=REJECTED)


def test_a_call_that_was_not_run_says_no_more() -> None:
    assert call(use("Bash", command="ls"), REFUSED) == ["✗ Bash ls  not run"]


def test_an_edit_that_failed_shows_why_instead_of_a_diff() -> None:
    edit = use("Edit", file_path="/work/a.py", old_string="b", new_string="c")
    failed = result("<tool_use_error>String not found</tool_use_error>", is_error=True)
    assert call(edit, failed) == ["✗ Edit a.py", "    String not found"]


def test_questions_of_the_model_are_shown_with_their_answers() -> None:
    asking = use("AskUserQuestion", questions=[{"question": "Which colour?"}])
    answered = result("Your questions have been answered", {"answers": {"Which colour?": "Red"}})
    assert call(asking, answered) == [
        "● AskUserQuestion Which colour?  answered",
        "    Which colour? → Red",
    ]
    assert call(asking, REFUSED) == ["✗ AskUserQuestion Which colour?  refused"]


def test_a_plan_is_not_shown_again_once_it_is_approved() -> None:
    showing = use("ExitPlanMode", plan="# Sort it\n\n1. Read")
    approved = result("User has approved your plan", {"plan": "# Sort it\n\n1. Read"})
    assert call(showing, approved) == ["● ExitPlanMode Sort it  approved"]
    assert call(showing, REFUSED) == ["✗ ExitPlanMode Sort it  refused"]


def test_files_that_a_prompt_mentions_are_named() -> None:
    texts = [
        "What /work/src/a.py holds, as Read tells it:\n     1\tx",
        "What is in /work/src:\na.py",
        "/etc/shadow was mentioned, but not read: it is outside",
    ]
    blocks = [
        {"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"} for text in texts
    ]
    assert call(said(blocks, isMeta=True)) == [
        "  read src/a.py",
        "  listed src",
        "  did not read /etc/shadow",
    ]


def test_what_an_agent_in_the_background_tells_the_model_is_not_folded_for_the_user() -> None:
    folded: list[FoldedText] = []
    rendered = EntryRenderer(bare, ROOT, folded=folded)
    rendered.render(use("Agent", description="Count", prompt="Count files"))
    shown = rendered.render(result("It works.\nagentId: a1", {"status": "async_launched"}))
    assert lines(shown) == ["● Agent Count  in the background"]
    assert folded == []


def test_a_call_that_was_begun_is_told_as_interrupted() -> None:
    rendered = renderer()
    rendered.render(use("Bash", command="make"))
    rendered.begin("t1")
    assert lines(rendered.render(REFUSED, 3.2)) == ["✗ Bash make  interrupted  3.2s"]
    rendered.render(use("Bash", command="make"))
    rendered.question(asked("Bash", command="make"))
    assert lines(rendered.render(REFUSED)) == ["  ✗ interrupted"]


def test_of_a_call_of_before_it_is_not_known_how_far_it_came() -> None:
    rendered = EntryRenderer(bare, ROOT, is_past=True)
    rendered.render(use("Bash", command="make"))
    assert lines(rendered.render(REFUSED)) == ["✗ Bash make  refused or interrupted"]
    rendered.render(use("Bash", command="make"))
    feedback = result("No, the user said:\nuse\nninja", is_error=True, toolDenialKind=REJECTED)
    assert lines(rendered.render(feedback)) == ["✗ Bash make  refused: use ninja"]


def asked(tool: str, **given: Any) -> Question:
    return Question("t1", tool, given, Verdict(VerdictKind.ASK, "why"))


def test_what_was_shown_with_the_question_is_not_shown_again() -> None:
    rendered = renderer()
    rendered.render(use("Bash", command="ls"))
    (question,) = rendered.question(asked("Bash", command="ls", description="List"))
    assert question.lines == ["● Bash ls  List"]
    shown = rendered.render(result("a"))
    assert lines(shown) == ["    a"]
    assert shown
    assert shown.is_attached


def test_a_refusal_is_told_with_what_the_user_said() -> None:
    rendered = renderer()
    rendered.render(use("Bash", command="ls"))
    rendered.question(asked("Bash", command="ls"))
    text = "…rejected. To tell you how to proceed, the user said:\nuse find"
    shown = rendered.render(result(text, is_error=True, toolDenialKind="user-rejected"))
    assert lines(shown) == ["  ✗ refused: use find"]


def test_notes_and_errors() -> None:
    assert call(said([{"type": "text", "text": STOPPED}])) == ["── interrupted"]
    failure = {"type": "assistant", "message": {"content": [{"type": "text", "text": "API Error"}]}}
    assert call(failure | {"isApiErrorMessage": True}) == ["── API Error"]
    boundary = {"type": "system", "subtype": "compact_boundary"}
    assert call(boundary) == ["── earlier messages were replaced by a summary"]


def test_the_last_turns_start_with_a_prompt() -> None:
    first, second, third = said("1"), said("2"), said("3")
    answer, shell = use("Read"), said("<bash-stdout>x</bash-stdout>")
    chain = [first, answer, result("x"), second, shell, third, answer]
    assert last_turns(chain) == chain[3:]
    assert last_turns([first]) == [first]
    assert last_turns([]) == []


def test_the_context_is_a_bar_of_its_parts() -> None:
    amounts = [
        ContextShare("system", 20_000, "a"),
        ContextShare("memory", 0, "b"),
        ContextShare("talk", 60_000, "c"),
    ]
    head, bar, *rows = context_rows(amounts, 200_000, 33_000, bare, 42)
    assert head == "80k of 200k tokens"
    assert bar == "█" * 16 + "░" * 17 + "▒" * 7
    assert [" ".join(row.split()) for row in rows] == [
        "█ system 20k 10%",
        "█ talk 60k 30%",
        "░ free 87k 44%",
        "▒ kept for a summary 33k 16%",
    ]


def test_a_context_may_be_fuller_than_it_should() -> None:
    amounts = [ContextShare("talk", 250_000, "a")]
    head, bar, *rows = context_rows(amounts, 200_000, 33_000, bare, 42)
    assert (head, bar, len(rows)) == ("250k of 200k tokens", "█" * 40, 1)


def test_permissions_are_told_with_where_they_come_from() -> None:
    home, root = Path.home(), Path("/shop")
    denied = parse_rule("Read(.env)", root, "/shop/.claude/settings.json")
    asked_about = parse_rule("Bash(git push:*)", home, f"{home}/.claude/settings.json")
    allowed = parse_rule("Edit", root, "the command line")
    policy = Policy((denied,), (asked_about,), (allowed,), ApprovalMode.ACCEPT_EDITS, root, (root,))
    assert permission_rows(policy, bare, 80) == [
        "mode   accepts edits     acceptEdits",
        "deny   Read(.env)        ./.claude/settings.json",
        "ask    Bash(git push:*)  ~/.claude/settings.json",
        "allow  Edit              the command line",
    ]


def test_long_thinking_takes_one_line() -> None:
    assert lines(renderer().thought("The cart is empty.", 3.2)) == [
        "✻ thought for 3s · ctrl-o shows it"
    ]
    assert lines(renderer().thought("hm", 0.1)) == lines(renderer().thought("", 9.0)) == []
