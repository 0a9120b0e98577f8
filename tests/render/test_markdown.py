"""Rows as Markdown."""

import pytest
from inline_snapshot import snapshot

from conversation.conftest import Opened
from render.conftest import did
from support.build import assistant, call, compaction, result, text, thinking, user
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import AnswerRow, PromptRow, Row, ViewOptions, rows_of


def document(row: Row, full: bool = False) -> list[str]:
    return list(to_markdown([row], full))


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

*2026-11-15 06:00:01*

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
