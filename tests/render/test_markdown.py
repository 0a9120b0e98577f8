"""Rows as Markdown."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from inline_snapshot import snapshot
from markdown_it import MarkdownIt

from conversation.conftest import Opened
from render.conftest import did
from support.build import assistant, call, compaction, result, text, thinking, user
from turnlog.render.depth import Depth
from turnlog.render.export import markdown_lines
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import AnswerRow, NoteRow, PromptRow, Row, ViewOptions, rows_of


def document(row: Row, full: bool = False) -> list[str]:
    return list(to_markdown([row], full))


def open_note(text: str) -> Row:
    return NoteRow(text, is_open=True)


def test_a_session(opened: Opened) -> None:
    edit = {"file_path": "cart.py", "old_string": "return 0", "new_string": "return sum(items)"}
    whole = opened(
        user("The total is zero.\nFix it."),
        assistant(thinking("one\ntwo"), message_id="m1"),
        assistant(text("I'll look:\n\n- here"), message_id="m1"),
        assistant(call("Bash", {"command": "pytest -q\nls"}, "A"), message_id="m1"),
        result("A", "failed\nbadly", is_error=True),
        assistant(call("Edit", edit, "B"), message_id="m2"),
        result("B", "ok"),
        *compaction("So far."),
        user("Thanks"),
    )
    assert "\n".join(to_markdown(rows_of(whole, ViewOptions()))) == snapshot("""\
## 1. The total is zero.

*2026-11-15 06:00:01, new session*

> The total is zero.
> Fix it.

> *thinking:* one
> two

I'll look:

- here

* ✗ **Bash** → 2 lines

  ```sh
  pytest -q
  ls
  ```

  ```
  failed
  badly
  ```

* **Edit** `cart.py` → +1 -1

  ```diff
  @@ -1 +1 @@
  -return 0
  +return sum(items)
  ```

*the conversation was compacted here (manual, 1,000 tokens before)*

*summary of what came before*

*6s · 60 tokens · $0.0009*

## 2. Thanks

*2026-11-15 06:00:10*

> Thanks

*0s · 0 tokens · $0.0000*
""")


@pytest.mark.parametrize(
    ("body", "fence"),
    [(["plain"], "```"), (["a `b`"], "```"), (["```py", "x"], "````"), (["x ````` y"], "``````")],
)
def test_a_fence_is_longer_than_any_backticks_in_it(body: list[str], fence: str) -> None:
    lines = document(did("ls", body=body), full=True)
    assert lines[2:] == [f"  {line}" for line in (fence, *body, fence)] + [""]


def test_a_title_cannot_end_its_code_span() -> None:
    (line, _) = document(did("echo `date`", outcome="1 line"))
    assert line == "* **Bash** `` echo `date` `` → 1 line"


def test_a_command_of_several_lines_is_complete() -> None:
    lines = document(did("cd /srv\nmake", outcome="9 lines"))
    assert lines == ["* **Bash** → 9 lines", "", "  ```sh", "  cd /srv", "  make", "  ```", ""]


def test_headings_of_answers_are_below_those_of_turns() -> None:
    said = AnswerRow("# Plan\n\n```sh\n# a comment\n```\n##### Deep")
    assert document(said)[:-1] == [
        "### Plan",
        "",
        "```sh",
        "# a comment",
        "```",
        "###### Deep",
    ]


def test_the_output_of_a_call_is_there_only_in_full_or_if_it_failed() -> None:
    body = [str(n) for n in range(12)]
    assert len(document(did("x", body=body))) == 2
    assert len(document(did("x", is_error=True, body=body))) == 2 + 8 + 3
    assert len(document(did("x", body=body), full=True)) == 2 + 12 + 3


def test_what_a_sub_agent_did_is_quoted_below_its_call() -> None:
    inner: list[Row] = [PromptRow(1, "typed", "look", None), AnswerRow("# one\n\ntwo")]
    lines = document(did("Look", name="Agent", rows=inner))
    assert lines[1:-1] == [
        "",
        "  > ### 1. look",
        "  >",
        "  > > look",
        "  >",
        "  > #### one",
        "  >",
        "  > two",
    ]


def test_a_prompt_without_text_has_a_heading_all_the_same() -> None:
    assert document(PromptRow(3, "image", "", None)) == ["## 3. ", "", "*image*", "", ""]


@pytest.mark.parametrize(
    "said",
    [
        "```\n# cut off",
        "~~~~py\ncut off\n~~~",
        "``` a`b\n# not a fence",
        "```\n```~~~\n# open",
        "- item\n  ```\n  cut off",
        "- item\n  ```\nout of the item\n```\n# open",
        "   ```\nless indented",
        "<!-- open",
        "text\n\n  <script>\n\n# open",
        "<![CDATA[\n\n<?php\n\n<!DOCTYPE",
        "<PRE\n\n# open",
        "   # Indented",
        "Underlined\n===\n\nAnother\n---",
    ],
)
@pytest.mark.parametrize("row", [AnswerRow, open_note])
def test_nothing_in_an_answer_reaches_the_next_turn(said: str, row: Callable[[str], Row]) -> None:
    rows = [row(said), PromptRow(2, "typed", "Next", None)]
    tokens = MarkdownIt().parse("\n".join(to_markdown(rows)))
    tops = [
        after.content
        for token, after in pairwise(tokens)
        if token.type == "heading_open" and token.tag in ("h1", "h2") and token.level == 0
    ]
    assert tops == ["2. Next"]


def test_names_with_line_breaks_make_no_headings(opened: Opened) -> None:
    name = "x\n\n# Fake\n"
    session = opened(
        user("hi", cwd=f"/home/{name}", git_branch=name),
        assistant(call(name, {"a": 1}, "A"), message={"model": name}),
        result("A", name),
    )
    lines = "\n".join(markdown_lines(session, ViewOptions(full=True), Depth.FULL))
    tokens = MarkdownIt().parse(lines)
    heads = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    assert heads == ["hi", "1. hi"]
