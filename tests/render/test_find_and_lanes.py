"""Find in a session, rows of sub-agents, and lanes of a timeline."""

from datetime import timedelta
from pathlib import Path

import pytest

from conversation.conftest import Opened
from support.build import (
    SESSION,
    START,
    assistant,
    call,
    encode,
    result,
    session,
    stamp,
    text,
    thinking,
    user,
)
from turnlog.errors import NotFound
from turnlog.render.html.find_in_session import find_text
from turnlog.render.html.lanes import agent_page, lanes_of
from turnlog.render.html.session_pages import PageOptions, SessionPages

SECRET = "tr0ub4dor&3"


def test_a_text_is_found_wherever_a_row_shows_it(opened: Opened) -> None:
    whole = opened(
        user("Needle one"),
        assistant(thinking("a needle"), text("no"), call("Bash", {"command": "x"}, "A")),
        result("A", "hay\nNEEDLE"),
        user("two"),
        assistant(call("Bash", {"needle": 1}, "B")),
    )
    found = find_text(SessionPages(whole), "needle")
    places = [(match["turn"], match["row"], match["field"]) for match in found["matches"]]
    assert places == [(1, 0, "text"), (1, 1, "text"), (1, 3, "result"), (2, 1, "input")]
    assert [match["line"] for match in found["matches"]] == [1, 2, 2, 5]
    assert found["matches"][2]["snippet"] == "hay NEEDLE"
    assert found["is_complete"]


def test_a_secret_cannot_be_found_letter_by_letter(opened: Opened) -> None:
    whole = opened(user(f"password = '{SECRET}'"), assistant(text("ok")))
    assert find_text(SessionPages(whole), SECRET[:3])["matches"] == []


def test_a_long_session_gives_the_same_matches_as_a_short_one(opened: Opened) -> None:
    whole = opened(*(user(f"prompt {n} über {'x' * (n % 3)}") for n in range(300)))
    pages = SessionPages(whole)
    for wanted in ("prompt 29", "PROMPT 7", "über x", "r xx"):
        fast = [match["turn"] for match in find_text(pages, wanted)["matches"]]
        texts = [f"prompt {n} über {'x' * (n % 3)}" for n in range(300)]
        assert fast == [n + 1 for n, told in enumerate(texts) if wanted.lower() in told]


def test_matches_are_limited(opened: Opened) -> None:
    pages = SessionPages(opened(*(user("same") for _ in range(20))))
    found = find_text(pages, "same", limit=5)
    assert (len(found["matches"]), found["is_complete"]) == (5, False)
    assert find_text(pages, "  ")["matches"] == []


def add_agent(folder: Path, *lines: bytes) -> None:
    path = folder / SESSION / "subagents" / "agent-a1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(*lines, agent_id="a1"))
    path.with_suffix(".meta.json").write_bytes(encode({"toolUseId": "T", "description": "Look"}))


def test_rows_of_a_sub_agent_come_in_ranges(opened: Opened, tmp_path: Path) -> None:
    add_agent(tmp_path, user("look"), *(assistant(text(f"a{n}")) for n in range(5)), user("more"))
    whole = opened(user("q1"), assistant(call("Agent", {"prompt": "look"}, "T")), result("T"))
    page = agent_page(whole, "a1")
    assert (page["label"], page["total"], len(page["rows"])) == ("Look", 9, 9)
    part = agent_page(whole, "a1", PageOptions(first=2, count=3))
    assert [row["text"] for row in part["rows"]] == ["a1", "a2", "a3"]
    assert [part["messages"][row["message"]]["line"] for row in part["rows"]] == [3, 4, 5]
    with pytest.raises(NotFound):
        agent_page(whole, "../a1")


def test_lanes_tell_when_the_session_and_its_sub_agents_were_active(
    opened: Opened, tmp_path: Path
) -> None:
    late = stamp(START + timedelta(minutes=30))
    add_agent(tmp_path, user("look"), assistant(text("seen")))
    whole = opened(
        user("q1"),
        assistant(call("Agent", {"prompt": "look"}, "T")),
        result("T"),
        user("q2", timestamp=late),
    )
    main, agent = lanes_of(SessionPages(whole))
    start = round(START.timestamp() * 1000)
    assert main["spans"] == [[start + 1000, start + 3000], [start + 1_800_000] * 2]
    assert (agent["id"], agent["spans"]) == ("a1", [[start + 1000, start + 2000]])
    assert (agent["line"], agent["turn"], main["calls"], agent["calls"]) == (2, 1, 1, 0)


def test_the_lane_of_the_session_has_the_figures_of_the_shown_branch(opened: Opened) -> None:
    used = {"usage": {"output_tokens": 1000}, "model": "claude-opus-5"}
    pages = SessionPages(
        opened(
            user("q1"),
            assistant(text("old"), message=used, message_id="m1"),
            user("q2", parent=None),
            assistant(text("new"), message=used, message_id="m2"),
        )
    )
    main, facts = lanes_of(pages)[0], pages.facts()
    names = ("calls", "errors", "tokens", "cost_usd", "models")
    assert [main[name] for name in names] == [facts[name] for name in names]
    assert (main["tokens"], main["cost_usd"]) == (1000, 0.025)
