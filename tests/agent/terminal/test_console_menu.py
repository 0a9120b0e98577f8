"""Menus, and the question whether a call may run."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from turnlog.agent.permissions import Verdict
from turnlog.agent.permissions.policy import PermissionReply, Question, VerdictKind
from turnlog.agent.terminal.menu import Choices, Item, Menu
from turnlog.agent.terminal.permission_prompt import ACCEPT, Asking
from turnlog.agent.terminal.styled_text import cells, make_style

STYLE = make_style(is_coloured=False)
ITEMS = [Item("one", 1, "first"), Item("two", 2), Item("three", 3)]
Result = TypeVar("Result")


def in_loop(make: Callable[[], Result]) -> Result:
    async def run() -> Result:
        return make()

    return asyncio.run(run())


def plain(rows: list[str]) -> list[str]:
    return [
        row.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") for row in rows
    ]


def press(menu: Menu, *keys: str) -> Menu:
    for key in keys:
        name, _, text = key.partition(":")
        menu.press(name, text)
    return menu


def question(tool: str = "Bash", *rules: str) -> Question:
    return Question(
        "t1", tool, {"command": "ls"}, Verdict(VerdictKind.ASK, "no rule allows ls", rules)
    )


def test_keys_move_and_choose() -> None:
    menu = in_loop(lambda: press(Menu(["Which?"], ITEMS), "down", "down", "up", "enter"))
    assert menu.chosen.result() == 2


def test_a_list_ends_at_both_ends() -> None:
    up = in_loop(lambda: press(Menu(["Which?"], ITEMS), "up", "enter"))
    down = in_loop(lambda: press(Choices(["Which?"], ITEMS), *["down"] * 9, "enter"))
    assert (up.chosen.result(), down.chosen.result()) == (1, 3)


def test_escape_chooses_nothing() -> None:
    assert in_loop(lambda: press(Menu(["Which?"], ITEMS), "escape")).chosen.result() is None


def test_what_is_typed_narrows_a_list_down() -> None:
    menu = in_loop(
        lambda: press(Menu(["Which?"], ITEMS, is_narrowed=True), "text:t", "text:h", "enter")
    )
    assert menu.chosen.result() == 3


def test_nothing_can_be_chosen_where_nothing_matches() -> None:
    menu = in_loop(lambda: press(Menu(["Which?"], ITEMS, is_narrowed=True), "text:x", "enter"))
    assert not menu.chosen.done()
    assert plain(menu.rows(STYLE, 40, 10)) == ["Which?", "search: x▏", "  nothing"]


def test_a_long_list_shows_what_is_chosen() -> None:
    items = [Item(f"item {number}", number) for number in range(100)]
    rows = in_loop(lambda: press(Menu(["Which?"], items), *["down"] * 50).rows(STYLE, 40, 8))
    assert len(rows) == 8
    assert "❯ item 50" in plain(rows)


def test_rows_fit_and_notes_stand_at_their_end() -> None:
    items = [Item("日本語のとても長い題名です", 1, "3h ago"), Item("x", 2, "1y ago")]
    rows = plain(in_loop(lambda: Menu(["Which?"], items).rows(STYLE, 30, 10)))
    assert rows[1:] == ["❯ 日本語のとても長い…  3h ago", "  x                    1y ago"]
    assert max(map(cells, rows)) <= 30


def test_a_few_choices_are_chosen_by_number() -> None:
    assert in_loop(lambda: press(Choices(["Which?"], ITEMS), "text:2")).chosen.result() == 2


def test_the_question_tells_why_and_what_would_be_remembered() -> None:
    asking = in_loop(lambda: Asking(question("Bash", "Bash(ls *)")))
    assert plain(asking.rows(STYLE, 60, 20)) == [
        "Run this command?",
        "no rule allows ls",
        "❯ 1. Yes",
        "  2. Yes, and don't ask again for Bash(ls *)",
        "  3. No",
        "enter to choose · esc to refuse and stop",
    ]


def test_rules_to_remember_are_never_cut() -> None:
    rules = ("Bash(npm run a-very-long-name:*)", "Bash(rm -rf build)")
    rows = plain(in_loop(lambda: Asking(question("Bash", *rules))).rows(STYLE, 24, 20))
    assert all(cells(row) <= 24 for row in rows[:-1])
    said = "".join(rows).replace(" ", "")
    assert all(rule.replace(" ", "") in said for rule in rules)


def test_replies() -> None:
    def reply(*keys: str) -> PermissionReply:
        return in_loop(lambda: press(Asking(question("Bash", "Bash(ls *)")), *keys)).chosen.result()

    assert reply("enter") == PermissionReply("allow")
    assert reply("text:1") == PermissionReply("allow")
    assert reply("text:2") == PermissionReply("allow", remember=("Bash(ls *)",))
    assert reply("escape") == PermissionReply("deny")
    assert reply("down", "down", "enter") == PermissionReply("deny")
    typed = [f"text:{each}" for each in "use 2 dots"]
    assert reply("text:3", *typed, "erase", "enter") == PermissionReply(
        "deny", feedback="use 2 dot"
    )


def test_edits_can_be_accepted_from_now_on() -> None:
    asking = in_loop(lambda: press(Asking(question("Edit"), offers_edits=True), "down", "enter"))
    assert asking.chosen.result() is ACCEPT


def test_shift_tab_accepts_edits_from_now_on() -> None:
    editing = in_loop(lambda: press(Asking(question("Edit"), offers_edits=True), "mode"))
    assert editing.chosen.result() is ACCEPT
    running = in_loop(lambda: press(Asking(question("Bash"), offers_edits=True), "mode"))
    assert not running.chosen.done()


def test_shift_tab_accepts_nothing_out_of_sight() -> None:
    def asked() -> Asking:
        asking = Asking(question("Edit"), offers_edits=True)
        asking.preface = [f"line {number}" for number in range(40)]
        asking.fit(STYLE, 80, 10)
        asking.press("mode")
        return asking

    assert not in_loop(asked).chosen.done()


def test_commands_offer_no_edits() -> None:
    asking = in_loop(lambda: Asking(question("Bash"), offers_edits=True))
    assert [item.label for item in asking.items] == ["Yes", "No"]


def test_a_sub_agent_is_named() -> None:
    asked = Question("t1", "Bash", {}, Verdict(VerdictKind.ASK, ""), "a1b2", "Explore")
    assert in_loop(lambda: Asking(asked)).head == ["Run this command? (sub-agent Explore, a1b2)"]
