"""The picture of a session's tree."""

from pathlib import Path

from inline_snapshot import snapshot

from conversation.conftest import Opened
from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    encode,
    nth,
    result,
    session,
    text,
    user,
)
from turnlog.conversation.session import Session
from turnlog.render.tree_drawing import draw_tree, milestones


def picture(whole: Session, reveal: bool = False) -> str:
    return "\n".join(draw_tree(whole, reveal))


def uuid(name: str) -> str:
    return f"{name:0<8}-0000"


def test_branches_a_sub_agent_and_a_compaction(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(session(user("look"), agent_id="a1"))
    meta = {"toolUseId": "T", "description": "Look around"}
    (folder / "agent-a1.meta.json").write_bytes(encode(meta))
    whole = opened(
        user("Find the bug", uuid=uuid("a")),
        assistant(call("Agent", {"prompt": "look"}, "T")),
        result("T"),
        assistant(text("found")),
        user("Fix it this way", uuid=uuid("b")),
        assistant(text("done")),
        user("And test it", uuid=uuid("c")),
        user("Fix it that way", parent=nth(4), uuid=uuid("d")),
        assistant(text("done")),
        *compaction("So far", logical_parent_uuid=nth(9)),
        user("Go on", uuid=uuid("e")),
        user("Go on otherwise", parent=nth(11), uuid=uuid("f")),
        user("<command-name>/review</command-name>", uuid=uuid("0")),
    )
    assert picture(whole) == snapshot("""\
● Find the bug  [a0000000]
│  ↳ Look around (agent a1)
├─○ Fix it this way  [b0000000]
│ ○ And test it  [c0000000]
└─● Fix it that way  [d0000000]
  ● ── compacted (manual, 1,000 tokens before) ──
  ├─○ Go on  [e0000000]
  └─● Go on otherwise  [f0000000]
    ● /review  [00000000]\
""")


def test_sessions_with_several_roots_are_drawn_one_below_the_other(opened: Opened) -> None:
    whole = opened(user("one", uuid="one"), user("two", parent=None, uuid="two"))
    assert picture(whole).splitlines() == ["○ one  [one]", "● two  [two]"]


def test_a_long_prompt_is_cut_and_set_on_one_line(opened: Opened) -> None:
    (line,) = picture(opened(user("a\n\tb " + "x" * 200, uuid="u"))).splitlines()
    assert line == f"● a b {'x' * 96}…  [u]"


def test_secrets_in_prompts_are_masked(opened: Opened) -> None:
    whole = opened(user("password = 'tr0ub4dor&3'", uuid="u"))
    assert "tr0ub4dor&3" not in picture(whole)
    assert "tr0ub4dor&3" in picture(whole, reveal=True)


def test_lines_that_nobody_asked_with_are_no_milestones(opened: Opened) -> None:
    whole = opened(
        user("q1"), user("meta", is_meta=True), assistant(text("a")), user("<bash-stdout>x")
    )
    stones, firsts = milestones(whole)
    assert [stone.node.line for stone in stones.values()] == [1]
    assert firsts == [0]


def test_an_empty_session_has_no_picture(opened: Opened) -> None:
    assert picture(opened()) == ""


def test_a_session_of_many_prompts_is_drawn_without_recursion(opened: Opened) -> None:
    whole = opened(*(user(f"q{number}") for number in range(3000)))
    assert len(picture(whole).splitlines()) == 3000
