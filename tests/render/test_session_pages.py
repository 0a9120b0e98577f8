"""The pages of a session: an outline from nodes, rows with lines, the same texts as `show`."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conversation.conftest import Opened
from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    encode,
    image,
    line,
    nth,
    result,
    session,
    text,
    thinking,
    user,
)
from support.page_texts import texts_of_page, texts_of_turn
from turnlog.conversation.session import Session
from turnlog.errors import NotFound
from turnlog.render.html.find_in_session import find_labels
from turnlog.render.html.session_pages import (
    LONGEST,
    PageOptions,
    SessionPages,
    count_masked,
    session_head,
    turn_page,
    whole_page,
)
from turnlog.render.json_views import turn_view
from turnlog.secrets import mask_value
from turnlog.store.paths import Store

SECRET = "tr0ub4dor&3"
USED = {"usage": {"input_tokens": 1000, "output_tokens": 100}, "model": "claude-opus-5"}


def kinds(page: dict[str, Any]) -> list[str]:
    return [row["type"] for row in page["rows"]]


def printed(whole: Session) -> list[Any]:
    return [
        mask_value(msgspec.to_builtins(turn_view(whole, turn, reveal=True))) for turn in whole.turns
    ]


def test_a_page_has_the_rows_of_show_with_their_lines(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(thinking("hm"), message_id="m", message=USED),
        assistant(text("**a1**"), message_id="m", message=USED),
        assistant(call("Bash", {"command": "ls"}), message_id="m", message=USED),
        result("toolu_1", "x\r\ny"),
    )
    page = turn_page(whole, 1)
    assert kinds(page) == ["prompt", "thinking", "answer", "call", "end"]
    assert [row.get("line") for row in page["rows"]] == [1, 2, 3, 4, None]
    answer, did = page["rows"][2:4]
    assert answer["html"] == "<p><strong>a1</strong></p>\n"
    assert (did["input"], did["result"], did["result_line"]) == ({"command": "ls"}, "x\r\ny", 5)
    assert [row.get("message") for row in page["rows"]] == [None, 0, 0, 0, None]
    (message,) = page["messages"]
    assert (message["context"], message["output"], message["cost_usd"]) == (1000, 100, 0.0075)
    assert (page["n"], page["total"], page["masked"]) == (1, 5, 0)


def test_the_texts_are_those_of_show_also_with_secrets_in_them(opened: Opened) -> None:
    told = f"password = '{SECRET}'"
    whole = opened(
        user(told),
        assistant(call("Bash", {"command": f"echo {told}", "env": {"password": SECRET}}, "A")),
        result("A", f"1\n{told}", is_error=True),
        user("<command-name>/review</command-name><command-args>it</command-args>"),
        assistant(call("mcp__x", {}, "B")),
        user("q3"),
    )
    pages = SessionPages(whole)
    found = [texts_of_page(pages.page(turn.n)) for turn in pages.turns]
    assert found == list(map(texts_of_turn, printed(whole)))
    assert SECRET not in json.dumps([pages.page(turn.n) for turn in pages.turns])
    assert count_masked(pages.page(1)["rows"]) >= 3


def test_the_head_counts_without_reading_results(opened: Opened) -> None:
    whole = opened(
        user("first\nprompt"),
        assistant(call("Edit", {"file_path": "a"}, "A"), call("Bash", {}, "B"), message=USED),
        result("A"),
        result("B", "boom", is_error=True),
        *compaction("So far: a lot."),
        user("second"),
        assistant(text("done"), message=USED),
    )
    head = session_head(whole, PageOptions(store=Store(Path.home() / ".claude")))
    outline = head["outline"]
    assert outline["label"] == ["first prompt", "second"]
    assert (outline["calls"], outline["errors"], outline["edits"]) == ([2, 0], [1, 0], [1, 0])
    assert (outline["compactions"], outline["line"]) == ([1, 0], [1, 7])
    assert (outline["context"], outline["cost"]) == ([1000, 1000], [0.0075, 0.0075])
    assert {len(column) for column in outline.values()} == {2}
    assert head["session"]["turns"] == 2
    assert head["session"]["resume"] == f"cd /home/ada/shop && claude --resume {SESSION}"
    assert head["session"]["project"] == "/home/ada/shop"
    assert head["session"]["cost_usd"] == 0.015


def test_the_outline_estimates_the_rows_of_a_turn(opened: Opened) -> None:
    whole = opened(
        user("q1"), assistant(thinking("hm"), text("a"), call("Bash", {}, "A")), result("A")
    )
    pages = SessionPages(whole)
    assert pages.head()["outline"]["rows"] == [pages.page(1)["total"]] == [5]


def test_a_live_session_gets_only_the_outline_that_is_new(opened: Opened) -> None:
    whole = opened(*(user(f"q{n}") for n in range(1, 6)))
    head = SessionPages(whole).head(since=4)
    assert (head["outline"]["n"], head["outline"]["label"]) == ([4, 5], ["q4", "q5"])
    assert head["session"]["turns"] == 5


def test_the_outline_of_a_long_session_comes_in_blocks(opened: Opened) -> None:
    many = [call("Bash", {}, f"c{n}") for n in range(30)]
    whole = opened(*(user(f"q{n}") for n in range(1, 301)), user("q301"), assistant(*many))
    head = SessionPages(whole, PageOptions(outline=300)).head()
    assert head["outline"]["label"] == [f"q{n}" for n in range(1, 257)]
    blocks = head["blocks"]
    assert (blocks["size"], blocks["line"]) == (256, [1, 257])
    assert blocks["long_turns"] == [(300, 32)]
    later = SessionPages(whole).outline(257, 301)
    assert (later["n"][0], later["label"][-1]) == (257, "q301")
    rows = [*head["outline"]["rows"], *later["rows"]]
    assert blocks["rows"] == sum(rows)
    assert head["session"]["calls"] == 30


def test_an_outline_is_filtered_by_the_labels_of_its_turns(opened: Opened) -> None:
    whole = opened(*(e for n in range(250) for e in (user(f"ask {n}"), assistant(text("ask 7")))))
    pages = SessionPages(whole)
    found = find_labels(pages, "ASK 7")
    assert [match["turn"] for match in found["matches"]] == [8, *range(71, 81)]
    assert found["matches"] == find_labels(pages, "ask 7 ")["matches"]
    assert find_labels(pages, "ask", limit=3)["is_complete"] is False


def test_branches_are_named_by_their_last_prompts(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user("old"), user("new", parent=nth(2)))
    head = session_head(whole)
    found = [(b["label"], b["leaf"], b["is_active"]) for b in head["branches"]]
    assert found == [("old", nth(3), False), ("new", nth(4), True)]
    other = SessionPages(whole, PageOptions(leaf=nth(3)))
    assert other.head()["outline"]["label"] == ["q1", "old"]
    assert other.page(2)["rows"][0]["text"] == "old"


def test_the_active_branch_is_listed_if_it_ends_where_others_go_on(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        user("old"),
        assistant(text("a2")),
        line("last-prompt", leafUuid=nth(2), explicit=True),
    )
    found = [(b["label"], b["leaf"], b["is_active"]) for b in session_head(whole)["branches"]]
    assert found == [("q1", nth(2), True), ("old", nth(4), False)]


def test_parallel_results_are_not_branches(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(call("Bash", {}, "A"), message_id="m"),
        assistant(call("Bash", {}, "B"), message_id="m"),
        result("A", parent=nth(2)),
        result("B", parent=nth(3)),
        assistant(text("done"), parent=nth(5)),
    )
    assert len(session_head(whole)["branches"]) == 1


def test_an_unknown_leaf_or_turn_is_not_found(opened: Opened) -> None:
    whole = opened(user("q1"))
    with pytest.raises(NotFound):
        session_head(whole, PageOptions(leaf="nosuch"))
    for n in (0, 2):
        with pytest.raises(NotFound):
            turn_page(whole, n)


def test_long_texts_are_clipped_and_long_turns_come_in_ranges(opened: Opened) -> None:
    calls = [call("Bash", {"command": "x" * 99}, f"c{n}") for n in range(300)]
    answer = assistant(text("the last word"))
    whole = opened(user("q1"), assistant(*calls), result("c0", "y" * 500), answer)
    pages = SessionPages(whole, PageOptions(clip=80))
    page = pages.page(1)
    assert (len(page["rows"]), page["total"]) == (200, 303)
    first = page["rows"][1]
    assert (len(first["result"]), len(first["input"]["command"])) == (80, 80)
    assert first["cut"] == {"title": 99, "input": 99, "result": 500}
    assert [each["row"]["type"] for each in page["ending"]] == ["answer", "end"]
    rest = pages.page(1, PageOptions(first=200, count=200))
    assert (rest["first"], len(rest["rows"]), rest["rows"][-2]["text"]) == (
        200,
        103,
        "the last word",
    )
    assert len(whole_page(whole, 1)["rows"]) == 303
    assert whole_page(whole, 1)["rows"][1]["result"] == "y" * 500


def test_a_huge_text_is_cut_before_it_is_masked(opened: Opened) -> None:
    huge = "x " * LONGEST
    whole = opened(
        user(huge),
        assistant(text(huge), call("Write", {"file_path": "a", "content": huge}, "A")),
        result("A", huge, tool_use_result={"structuredPatch": [{"lines": [f"+{huge}"]}]}),
    )
    page = SessionPages(whole).page(1, PageOptions(clip=None))
    assert len(json.dumps(page)) < 7 * LONGEST
    did = page["rows"][2]
    assert (len(did["result"]), did["cut"]["result"]) == (LONGEST, 2 * LONGEST)
    assert len(whole_page(whole, 1)["rows"][2]["result"]) == 2 * LONGEST


def test_images_are_data_urls_of_bitmaps_only(opened: Opened) -> None:
    bad = image("PHN2Zz4=", "image/svg+xml")
    odd = image('"><script>', "image/png")
    png, gif = "iVBORw0KGgo=", "R0lGODlhAwAFAA=="
    labelled = image("cGFzc3dvcmQ6IGh1bnRlcjI=", "image/png")  # password: hunter2
    whole = opened(
        user([text("see"), image(png), bad, odd, labelled]),
        assistant(call("Read", {"file_path": "a.png"}, "A")),
        result("A", [image(gif, "image/png"), bad, labelled]),
    )
    prompt, did = turn_page(whole, 1)["rows"][:2]
    assert prompt["images"] == [f"data:image/png;base64,{png}"]
    assert did["images"] == [f"data:image/gif;base64,{gif}"]


def test_lists_of_tasks_plans_and_diffs_are_told_as_such(opened: Opened) -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]
    edit = {"file_path": "f", "old_string": "x", "new_string": "y"}
    whole = opened(
        user("q1"),
        assistant(
            call("TodoWrite", {"todos": todos}, "A"),
            call("ExitPlanMode", {"plan": "# Plan"}, "B"),
            call("Edit", edit, "C"),
        ),
        result("A"),
        result("B"),
        result("C"),
    )
    tasks, plan, changed = turn_page(whole, 1)["rows"][1:4]
    assert tasks["todos"][0] == {"status": "completed", "content": "a"}
    assert plan["html"] == "<h1>Plan</h1>\n"
    assert (changed["style"], changed["body"]) == ("diff", ["@@ -1 +1 @@", "-x", "+y"])
    assert changed["is_edit"]


def test_sub_agents_are_named_and_loaded_on_demand(opened: Opened, tmp_path: Path) -> None:
    add_agent(tmp_path)
    whole = opened(user("q1"), assistant(call("Agent", {"prompt": "look"}, "T")), result("T"))
    head = session_head(whole)
    (agent,) = head["agents"]
    assert (agent["id"], agent["label"], agent["turn"], agent["line"]) == ("a1", "Look", 1, 2)
    did = turn_page(whole, 1)["rows"][1]
    assert (did["agent"], "rows" in did) == ("a1", False)


def add_agent(folder: Path) -> None:
    """Write the file of a sub-agent that the call `T` started."""
    path = folder / SESSION / "subagents" / "agent-a1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(user("look"), assistant(text("seen")), agent_id="a1"))
    about = {"toolUseId": "T", "description": "Look"}
    path.with_suffix(".meta.json").write_bytes(encode(about))


def test_an_empty_session_has_a_head(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b"")
    head = session_head(Session(path))
    assert (head["session"]["turns"], head["branches"], head["outline"]["n"]) == (0, [], [])
