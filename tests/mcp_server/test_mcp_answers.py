"""Answers are short and explain themselves: nothing is told twice, marks have a meaning."""

from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, call, result, session, text, user
from support.mcp_peer import SHOP, put
from turnlog.mcp_server.answers import split_blocks
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.store.paths import Store

LAMP = "1a3b0000-0000-4000-8000-000000000001"


def ask(root: Path, tool: str, **given: Any) -> str:
    answer, is_error = ToolRuns([Store(root)], Path(SHOP)).run(tool, given, {})
    assert not is_error, answer
    return answer


def talk(root: Path, *lines: bytes) -> None:
    put(root, SHOP, session(*lines, session_id=LAMP), LAMP)


@pytest.mark.parametrize("given", [{"query": "bulb"}, {"query": "light source", "like": True}])
def test_an_answer_that_ends_a_turn_is_quoted_once(root: Path, given: dict[str, Any]) -> None:
    talk(
        root,
        user("Which lamp?", cwd=SHOP),
        assistant(text("The lamp with the green bulb."), cwd=SHOP),
    )
    answer = ask(root, "search", **given)
    assert answer.count("the green bulb") == 1
    assert f"[{LAMP[:8]}:2] the turn ended: The lamp with the green bulb." in answer


def test_a_hit_beyond_the_quoted_start_of_the_last_answer_is_shown(root: Path) -> None:
    long = "A sentence about something else. " * 60
    talk(root, user("Which lamp?", cwd=SHOP), assistant(text(f"{long}The bulb is green.")))
    answer = ask(root, "search", query="bulb")
    assert "The bulb is green." in answer
    assert "the turn ended: A sentence about something else." in answer


@pytest.mark.parametrize("given", [{}, {"session": LAMP[:8]}])
def test_marks_of_costs_are_explained(root: Path, given: dict[str, str]) -> None:
    note = "* excludes models without a known price."
    assert note not in ask(root, "sessions")
    usage = {"input_tokens": 10, "output_tokens": 10}
    message = {"model": "nobody-knows", "usage": usage}
    answered = assistant(text("Green."), message_id="of-lamp", message=message)
    talk(root, user("Which lamp?", cwd=SHOP), answered)
    assert note in ask(root, "sessions", **given)


def test_hidden_thinking_is_not_shown_as_null(root: Path) -> None:
    hidden = {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}
    talk(root, user("Which lamp?", cwd=SHOP), assistant(hidden, text("Green.")))
    answer = ask(root, "context", session=LAMP[:8])
    assert "null" not in answer
    assert "assistant thinking, ~4 tokens: (not text)" in answer


def test_a_reference_deep_in_a_turn_is_in_the_first_answer(root: Path) -> None:
    lines = [user("Which lamp?", cwd=SHOP)]
    for number in range(60):
        lines += [
            assistant(call("Bash", {"command": f"measure {number}"}, f"c{number}")),
            result(f"c{number}", "the voltage is as it was before\n" * 12),
        ]
    talk(root, *lines, assistant(text("The green one.")))
    answer = ask(root, "read", ref=f"{LAMP[:8]}:110")
    assert "prompt: Which lamp?" in answer
    assert ":110 Bash" in answer
    assert "Bash measure 3 " not in answer
    assert "after the prompt left out: turn=1 shows them." in answer
    whole = ask(root, "read", ref=f"{LAMP[:8]}:110", turn=1)
    assert "Bash measure 3 " in whole
    assert "left out" not in whole
    near = ask(root, "read", ref=f"{LAMP[:8]}:6")
    assert "Bash measure 0 " in near
    assert "left out" not in near


def test_reads_of_parts_are_not_listed_as_changes(root: Path) -> None:
    def read(start: int, name: str) -> list[bytes]:
        file = {"filePath": f"{SHOP}/b.py", "content": "one", "numLines": 1, "startLine": start}
        done = {"type": "text", "file": file | {"totalLines": 90}}
        asked = {"file_path": f"{SHOP}/b.py", "offset": start, "limit": 1}
        return [assistant(call("Read", asked, name)), result(name, "1\tone", tool_use_result=done)]

    edit = {"file_path": f"{SHOP}/b.py", "old_string": "one", "new_string": "two"}
    lines = [user("Look at b.py", cwd=SHOP), *read(10, "r1"), *read(20, "r2")]
    talk(root, *lines)
    assert "0 changes" in ask(root, "files", path="b.py")
    talk(root, *lines, assistant(call("Edit", edit, "e1")), result("e1"))
    answer = ask(root, "files", path="b.py")
    assert "1 change," in answer
    assert "+two" in answer


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"query": "green bulb"}, ""),
        ({"query": "green bulb of the zeppelin"}, ", none with all words; like=true searches"),
        ({"query": "green bulb", "like": True}, ", by subject"),
        ({"query": "gre+n", "regex": True}, ""),
    ],
)
def test_a_search_says_how_well_its_results_match(
    root: Path, given: dict[str, Any], note: str
) -> None:
    talk(root, user("Which lamp?", cwd=SHOP), assistant(text("The lamp with the green bulb.")))
    head, _, rest = ask(root, "search", **given, limit=1).partition("\n")
    assert f"1 of at most 1 sessions{note}" in head
    assert head.endswith("sessions") == (not note)
    assert "green bulb" in rest


@pytest.mark.parametrize("sign", ["\n", " "])
def test_a_long_text_is_split_between_words_or_lines(sign: str) -> None:
    whole = sign.join(f"word{number}" for number in range(5_000))
    parts = split_blocks([whole])
    assert len(parts) > 1
    assert sign.join(parts) == whole


def test_a_long_text_without_an_end_is_split_anywhere() -> None:
    parts = split_blocks(["x" * 20_000])
    assert len(parts) > 1
    assert "".join(parts) == "x" * 20_000
