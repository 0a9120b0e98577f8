"""Rows as text for a terminal."""

from inline_snapshot import snapshot

from conversation.conftest import Opened
from render.conftest import did
from support.build import assistant, call, result, text, thinking, user
from turnlog.conversation.session import Session
from turnlog.render.rows import AnswerRow, Row, ThoughtRow, ViewOptions, rows_of
from turnlog.render.terminal_text import Terminal


def plainly(text: str, role: str) -> str:
    return text


def marked(text: str, role: str) -> str:
    return f"<{role}>{text}</>"


def draw(whole: Session, full: bool = False) -> str:
    rows = rows_of(whole, ViewOptions(full=full))
    return "\n".join(Terminal(plainly, full).draw(rows))


def lines(row: Row, full: bool = False) -> list[str]:
    return list(Terminal(marked, full).draw([row]))


def small_session(opened: Opened) -> Session:
    patch = [
        {
            "oldStart": 1,
            "oldLines": 2,
            "newStart": 1,
            "newLines": 2,
            "lines": [" def total():", "-    return 0", "+    return sum(items)"],
        }
    ]
    edited = {"file_path": "/home/ada/shop/cart.py", "old_string": "0", "new_string": "sum(items)"}
    return opened(
        user("The total is always zero.\nPlease fix it."),
        assistant(thinking("one\ntwo\nthree\nfour"), message_id="m1"),
        assistant(text("I'll **look** at `cart.py`:\n\n- first item"), message_id="m1"),
        assistant(call("Bash", {"command": "pytest -q"}, "A"), message_id="m1"),
        result("A", "\n".join(f"line {n}" for n in range(12)), is_error=True),
        assistant(call("Edit", edited, "B"), message_id="m2"),
        result("B", "The file has been updated.", tool_use_result={"structuredPatch": patch}),
        user("meta text", is_meta=True),
        assistant(text("# Done\n\n```python\nx = 1\n```\nFixed."), message_id="m3"),
        user([{"type": "text", "text": "[Request interrupted by user]"}]),
        user("<command-name>/review</command-name>"),
        assistant(text("Fine."), message_id="m4"),
    )


def test_a_session_folded(opened: Opened) -> None:
    assert draw(small_session(opened)) == snapshot("""\
  1 ❯ (new session) The total is always zero.
      Please fix it.

  ∴ one
  ∴ two
  ∴ three
  ∴ … 1 more line
I'll look at cart.py:

• first item

✗ Bash pytest -q  12 lines  1.0s
    line 0
    line 1
    line 2
    line 3
    line 4
    line 5
    line 6
    line 7
    … 4 more lines
● Edit /home/ada/shop/cart.py  +1 -1  1.0s
    @@ -1,2 +1,2 @@
     def total():
    -    return 0
    +    return sum(items)
Done

```python
x = 1
```
Fixed.

── interrupted by the user
── turn 1 · 9s · 90 tokens · $0.0013 ──

  2 ❯ (command) /review

Fine.

── turn 2 · 1s · 30 tokens · $0.0004 ──
""")


def test_a_session_in_full(opened: Opened) -> None:
    assert draw(small_session(opened), full=True) == snapshot("""\
  1 ❯ (new session) The total is always zero.
      Please fix it.

  ∴ one
  ∴ two
  ∴ three
  ∴ four
I'll look at cart.py:

• first item

✗ Bash pytest -q  12 lines  1.0s
    line 0
    line 1
    line 2
    line 3
    line 4
    line 5
    line 6
    line 7
    line 8
    line 9
    line 10
    line 11
● Edit /home/ada/shop/cart.py  +1 -1  1.0s
    @@ -1,2 +1,2 @@
     def total():
    -    return 0
    +    return sum(items)
── meta: meta text
Done

```python
x = 1
```
Fixed.

── interrupted by the user: [Request interrupted by user]
── turn 1 · 9s · 90 tokens · $0.0013 ──

  2 ❯ (command) /review

Fine.

── turn 2 · 1s · 30 tokens · $0.0004 ──
""")


def test_markdown_is_coloured_but_not_laid_out_anew() -> None:
    said = AnswerRow("# Title\na `b` **c**\n* item\n```sh\n# code `x`\n```\n2*3*4 and `")
    assert lines(said) == snapshot(
        [
            "<heading>Title</>",
            "<text>a <code>b</> <bold>c</></>",
            "<text>• item</>",
            "<dim>```sh</>",
            "<code># code `x`</>",
            "<dim>```</>",
            "<text>2*3*4 and `</>",
            "",
        ]
    )


def test_what_is_not_coloured_passes_through_the_style_too() -> None:
    (line,) = lines(did("ls"))
    assert line == "<ok>●</> <tool>Bash</> <text>ls</>  <dim></>"
    assert lines(AnswerRow("hello"))[0] == "<text>hello</>"


def test_long_lines_and_titles_are_cut_unless_all_is_asked_for() -> None:
    row = did("x" * 200 + "\nmore", duration_ms=2500, style="diff", body=["+" + "y" * 2000])
    folded, full = lines(row), lines(row, full=True)
    assert "x" * 160 + "… …</>" in folded[0]
    assert "2.5s" in folded[0]
    assert (len(folded[1]) < 1100, len(full[1]) > 2000) == (True, True)


def test_a_long_diff_is_folded_and_says_how_much_is_left() -> None:
    row = did("x.py", style="diff", body=[f"+{n}" for n in range(30)])
    assert len(lines(row)) == 1 + 24 + 1
    assert lines(row)[-1] == "<dim>    … 6 more lines</>"
    assert len(lines(row, full=True)) == 1 + 30


def test_the_output_of_a_call_that_went_well_is_folded_away() -> None:
    row = did("ls", body=["a", "b"])
    assert len(lines(row)) == 1
    assert lines(row, full=True)[1:] == ["<output>    a</>", "<output>    b</>"]


def test_what_a_sub_agent_did_is_indented() -> None:
    row = did("Look", rows=[ThoughtRow("hm"), AnswerRow("seen")])
    assert lines(row)[1:] == ["  ┃ <thought>  ∴ hm</>", "  ┃ <text>seen</>", "  ┃"]


def wide(row: Row, width: int) -> list[str]:
    return list(Terminal(plainly, full=False, width=width).draw([row]))


def test_what_a_sub_agent_said_wraps_within_the_terminal() -> None:
    row = did("Look", rows=[AnswerRow("word " * 20)])
    inside = wide(row, 40)[1:]
    assert max(map(len, inside)) <= 40
    assert len(inside) > 3


def test_a_call_that_does_not_fit_continues_below_its_name() -> None:
    row = did("make all check install", outcome="12 lines")
    assert wide(row, 40) == ["● Bash make all check install  12 lines"]
    assert wide(row, 30) == ["● Bash make all check install", "  12 lines"]
    assert wide(row, 24) == ["● Bash make all check", "  install  12 lines"]


def test_prose_breaks_between_words_and_aligns_below_list_items() -> None:
    said = AnswerRow("- a list item that is long\n\nProse with a https://example.org/long/address.")
    assert wide(said, 16) == [
        "• a list item",
        "  that is long",
        "",
        "Prose with a",
        "https://example.org/long/address.",
        "",
    ]


def test_code_is_not_broken() -> None:
    line = "x = " + "1 + " * 20
    assert wide(AnswerRow(f"```\n{line}\n```"), 20)[1] == line.rstrip()


def test_tables_are_laid_out() -> None:
    table = "| Name | `Count` |\n|---|--:|\n| one | 1 |\n| a \\| b | 22 |\nafter"
    assert wide(AnswerRow(table), 80) == [
        "Name  │ Count",
        "──────┼──────",
        "one   │ 1",
        "a | b │ 22",
        "after",
        "",
    ]


def test_cells_of_a_table_that_does_not_fit_are_wrapped() -> None:
    table = "| Key | Meaning |\n|---|---|\n| a | some words to be wrapped |"
    assert wide(AnswerRow(table), 20) == [
        "Key │ Meaning",
        "────┼───────────────",
        "a   │ some words to",
        "    │ be wrapped",
        "",
    ]


def test_the_row_that_was_asked_for_is_known_by_its_line() -> None:
    terminal = Terminal(plainly, full=False)
    drawn = list(terminal.draw([AnswerRow("one\ntwo"), did("ls", is_open=True, body=["a"])]))
    assert terminal.opened_at is not None
    assert drawn[terminal.opened_at].startswith("● Bash ls")


def test_the_lines_of_a_diff_have_roles_of_their_own(opened: Opened) -> None:
    rows = rows_of(small_session(opened), ViewOptions())
    drawn = list(Terminal(marked, full=False).draw(rows))
    start = drawn.index("<dim>    @@ -1,2 +1,2 @@</>")
    assert drawn[start + 1 : start + 4] == [
        "<output>     def total():</>",
        "<removed>    -    return 0</>",
        "<added>    +    return sum(items)</>",
    ]
