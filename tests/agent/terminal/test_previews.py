"""Previews of calls in permission prompts: complete and undisguised."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.agent.permissions import Verdict
from turnlog.agent.permissions.policy import AccessDecision, Question, VerdictKind, strictest
from turnlog.agent.terminal.call_preview import CallPlace, preview
from turnlog.agent.terminal.event_text import EntryRenderer
from turnlog.agent.terminal.folding import LEAST, PAGE, Unfolding, fold_rows
from turnlog.agent.terminal.permission_prompt import Asking, head_of

ROOT = Path("/work")
PLACE = CallPlace(ROOT, ROOT)


def bare(value: str, role: str) -> str:
    return value


def told(tool: str, place: CallPlace = PLACE, **given: Any) -> list[str]:
    """Return the preview of a call, the title first."""
    shown = preview(tool, given, place)
    return [f"{shown.title}  {shown.facts}".strip(), *(line for _, line in shown.lines)]


def asked(tool: str = "Bash", *reasons: str, rules: tuple[str, ...] = (), **given: Any) -> Question:
    verdict = Verdict(VerdictKind.ASK, "; ".join(reasons), rules, reasons=reasons)
    return Question("t1", tool, given, verdict)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("a1; a2; a3; ls \r; touch pwned", "a1; a2; a3; ls <CR>; touch pwned"),
        ("ls \x1b]; touch pwned", "ls <ESC>]; touch pwned"),
        ("ls \x1b[8m; touch pwned\x1b[0m", "ls <ESC>[8m; touch pwned<ESC>[0m"),
        ("ls\x0b\x0c\x1c\x85\u2028touch x", "ls<U+000B><U+000C><U+001C><U+0085><U+2028>touch x"),
        ("ls # \u202etxt.exe", "ls # <U+202E>txt.exe"),
        ("rm\u200b \u00a0x\U000e0041", "rm<U+200B> <U+00A0>x<U+E0041>"),
        ("touch a\b\b\b\b\bls   ", "touch a<BS><BS><BS><BS><BS>ls"),
        ("ls" + " " * 5_000 + "; rm x", "ls<5,000 spaces>; rm x"),
    ],
)
def test_a_command_hides_nothing(command: str, shown: str) -> None:
    assert told("Bash", command=command) == [shown]


def test_a_command_with_right_to_left_letters_is_also_shown_in_its_order() -> None:
    assert told("Bash", command="cp א ب") == [
        "cp א ب",
        "in the order that bash reads it:",
        "cp <U+05D0> <U+0628>",
    ]


@pytest.mark.parametrize("count", [2, 50])
def test_all_lines_of_a_command_are_shown(count: int) -> None:
    command = "\n".join(f"echo {number}" for number in range(count))
    assert told("Bash", command=command) == [
        "echo 0 …",
        *(f"echo {number}" for number in range(count)),
    ]


def test_many_empty_lines_are_counted() -> None:
    assert told("Bash", command="ls" + "\n" * 501 + "rm x")[1:] == [
        "ls",
        "<500 empty lines>",
        "rm x",
    ]


def test_a_command_is_shown_with_all_else_that_is_given() -> None:
    elsewhere = CallPlace(ROOT, ROOT / "pkg")
    shown = told("Bash", elsewhere, command="make", run_in_background=True, extra={"a": 1})
    assert shown == ["make", "in pkg", "run_in_background: true", 'extra: {"a": 1}']


def test_the_directory_of_the_session_is_not_cut_out_of_a_command() -> None:
    assert told("Bash", command="rm -rf /work/x") == ["rm -rf /work/x"]


def test_a_line_with_a_carriage_return_is_shown_whole(tmp_path: Path) -> None:
    content = "import os; os.system('x')\rprint('hello')\n"
    shown = told("Write", CallPlace(tmp_path, tmp_path), file_path="new.py", content=content)
    assert shown == [
        "new.py  +1 -0",
        "a new file",
        "@@ -0,0 +1,1 @@",
        "+import os; os.system('x')<CR>print('hello')",
    ]


def test_blanks_at_the_end_of_changed_lines_and_a_missing_newline_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("same \nx\n")
    shown = told("Write", CallPlace(tmp_path, tmp_path), file_path=str(file), content="same \nx \t")
    assert shown[-5:] == [
        "@@ -1,2 +1,2 @@",
        " same ",
        "-x",
        "+x<U+0020><TAB>",
        "\\ No newline at end of file",
    ]


def test_a_link_and_an_unusual_mode_are_named(tmp_path: Path) -> None:
    target, link = tmp_path / "run.sh", tmp_path / "notes.txt"
    target.write_text("a\n")
    target.chmod(0o755)
    link.symlink_to(target)
    shown = told("Write", CallPlace(tmp_path, tmp_path), file_path=str(link), content="b\n")
    assert shown[:3] == ["notes.txt  +1 -1", f"a link to {target}", "mode 0755"]


def test_an_edit_is_shown_as_the_diff_it_would_make(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("".join(f"{number}\n" for number in range(10)))
    shown = told("Edit", PLACE, file_path=str(path), old_string="5", new_string="five")
    assert shown[1:] == ["@@ -3,7 +3,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"]


def test_an_edit_that_would_fail_is_shown_as_well(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x\n")
    shown = told("Edit", PLACE, file_path=str(path), old_string="no", new_string="yes\r")
    assert "this would fail: String to replace not found in file." in shown
    assert "+yes<CR>" in shown


def test_a_cell_of_a_notebook_is_shown_as_a_diff(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"cells": [{"id": "c1", "cell_type": "code", "source": ["a\\n", "b\\n"]}]}')
    given = {"notebook_path": str(path), "cell_id": "c1", "new_source": "a\nc\n"}
    assert told("NotebookEdit", CallPlace(tmp_path, tmp_path), **given) == [
        "a.ipynb  +1 -1",
        "cell_id: c1",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+c",
    ]


@pytest.mark.parametrize("ids", [("a", "a"), (None, "cell-0")])
def test_of_cells_with_one_name_the_one_that_changes_is_shown(
    ids: tuple[str | None, str], tmp_path: Path
) -> None:
    path = tmp_path / "a.ipynb"
    first, second = ({"id": each, "cell_type": "code"} for each in ids)
    cells = [first | {"source": "first"}, second | {"source": "second"}]
    path.write_text(json.dumps({"cells": cells}))
    given = {"notebook_path": str(path), "cell_id": ids[1], "edit_mode": "delete", "new_source": ""}
    shown = told("NotebookEdit", CallPlace(tmp_path, tmp_path), **given)
    assert "-first" in shown
    assert "-second" not in shown


def test_all_that_another_tool_is_given_is_shown() -> None:
    shown = told("mcp__x__y", description="just look", sql="select\n\x1b]0;x", more=["a", 1])
    assert shown == [
        "",
        "description: just look",
        "sql:",
        "  │ select",
        "  │ <ESC>]0;x",
        'more: ["a", 1]',
    ]


@pytest.mark.parametrize(
    ("url", "note"),
    [
        ("https://аpple.com/x", "the host is аpple.com, or xn--pple-43d.com"),
        ("https://xn--pple-43d.com/", "the host is xn--pple-43d.com, or аpple.com"),
        ("https://good.example@evil.example/", "the host is evil.example"),
    ],
)
def test_a_host_that_may_be_misread_is_named(url: str, note: str) -> None:
    assert told("WebFetch", url=url, prompt="read it") == [url, note, "prompt: read it"]


def test_all_reasons_are_told() -> None:
    findings = [
        AccessDecision(VerdictKind.ASK, f"no rule allows a{number}") for number in range(200)
    ]
    verdict = strictest(findings)
    question = Question("t1", "Bash", {"command": "x"}, verdict)
    assert head_of(question)[1] == "for 200 reasons, listed above"
    call, reasons = EntryRenderer(bare, ROOT).question(question)
    assert call.lines == ["● Bash x"]
    assert reasons.lines == [f"  • no rule allows a{number}" for number in range(200)]


def test_few_reasons_stand_with_the_question() -> None:
    assert head_of(asked("Bash", "one", "two\r")) == ["Run this command?", "one; two<CR>"]


async def labels(question: Question) -> list[str]:
    return [item.label for item in Asking(question).items]


def test_a_rule_that_would_be_saved_is_shown_in_full() -> None:
    rules = tuple(f"Bash(tool{number} \r x)" for number in range(8))
    label = asyncio.run(labels(asked(rules=rules)))[1]
    assert all(f"Bash(tool{number} <CR> x)" in label for number in range(8))


def test_rules_that_cannot_be_shown_are_not_offered() -> None:
    rules = (f"Bash({'x' * 5_000})",)
    assert asyncio.run(labels(asked(rules=rules))) == ["Yes", "No"]


ROWS = st.lists(st.text("ab", max_size=3), min_size=1, max_size=60)


@given(st.lists(ROWS, min_size=1, max_size=2), st.integers(8, 40))
def test_what_is_folded_says_how_much_and_can_be_unfolded(
    parts: list[list[str]], room: int
) -> None:
    folded = fold_rows(parts, room)
    for whole, shown in zip(parts, folded, strict=True):
        if shown == whole:
            continue
        (place,) = [rank for rank, row in enumerate(shown) if "ctrl-e shows all" in row]
        hidden = int(shown[place].split("… ")[1].split()[0])
        assert shown[:place] == whole[:place]
        assert shown[place + 1 :] == whole[place + hidden :]
    assert sum(map(len, folded)) <= room + LEAST


def test_what_is_long_is_unfolded_page_by_page() -> None:
    rows = [str(number) for number in range(2 * PAGE + 10)]
    whole = Unfolding(rows)
    pages = [whole.turn() for _ in range(3)]
    assert [row for page in pages for row in page[:-1]] == rows
    assert "1,010 more lines" in pages[0][-1]
    assert whole.turn() == pages[0]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("TodoWrite", {"todos": [{"content": "EVIL", "status": "pending"}]}),
        ("mcp__x__y", {"items": ["EVIL"]}),
        ("mcp__x__y", {"query": {"deep": ["EVIL"]}}),
        ("TaskCreate", {"subject": "EVIL"}),
        ("Skill", {"skill": "a" * 2_000 + "EVIL"}),
    ],
)
def test_a_title_never_stands_for_an_input_that_it_does_not_say(
    tool: str, given: dict[str, Any]
) -> None:
    assert "EVIL" in "".join(told(tool, **given))
