"""Questions of the model in a real terminal: options to choose from, and plans to approve."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.scripted_api import ScriptedApi, called, said
from support.tmux import isolate_terminal, needs_tmux, terminal
from turnlog.agent.permissions.policy import Question, Verdict, VerdictKind
from turnlog.agent.terminal.question_menu import plan_items
from turnlog.agent.terminal.screen_protocol import ScrollbackItem
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.store.paths import Store

pytestmark = needs_tmux


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate_terminal(monkeypatch, tmp_path)


def results(store: Store) -> list[dict[str, Any]]:
    """The results of calls in the only session, in which nothing is amiss."""
    (path,) = store.session_files()
    assert check_session(open_session(path)) == []
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [entry for entry in entries if "toolUseResult" in entry]


def chat(*options: str) -> list[str]:
    return [sys.executable, "-m", "turnlog", "chat", *options]


def test_questions_are_answered_by_options_and_in_own_words(
    api: ScriptedApi, project: Path, store: Store
) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    colour = {"question": "Which colour?", "header": "Colour", "options": options}
    sizes = [{"label": "Small"}, {"label": "Medium"}, {"label": "Large"}]
    size = {"question": "Which sizes?", "header": "Size", "options": sizes, "multiSelect": True}
    font = {"question": "Which font?", "header": "Font", "options": options}
    asked = ("t1", "AskUserQuestion", {"questions": [colour, size, font]})
    api.replies[:] = [called(asked), said("All clear.")]
    # In this mode nothing else is asked about; a question still is.
    with terminal(chat("--permission-mode", "acceptEdits", "Go."), project) as pane:
        pane.see("Which colour?", "question 1 of 3", "2. Blue", "cold", "3. Something else")
        pane.keys("2")
        pane.see("Which sizes?", "1. ☐ Small")
        pane.keys("1")
        pane.keys("3")
        pane.see("1. ☒ Small", "3. ☒ Large")
        pane.keys("Enter")
        pane.see("Which font?")
        pane.keys("3")
        pane.type("Serif")
        pane.see("Something else: Serif")
        pane.keys("Enter")
        pane.see("All clear.")
    (result,) = results(store)
    expected = {"Which colour?": "Blue", "Which sizes?": "Small, Large", "Which font?": "Serif"}
    assert result["toolUseResult"]["answers"] == expected
    said_to_model = api.requests[-1].body["messages"][-1]["content"][0]["content"]
    assert said_to_model.startswith('Your questions have been answered: "Which colour?"="Blue", ')


HIDING = {
    "a comment": "Read it. <!-- SECRET -->",
    "details": "<details><summary>More</summary>SECRET</details>",
    "a script": "<script>SECRET</script>\n\nRead it.",
    "a definition": "Read it.\n\n[x]: https://SECRET.example",
    "an image": "Read it. ![x](https://SECRET.example)",
    "the title of a link": '[x](https://e.example "SECRET")',
    "the info string of a fence": "```python SECRET\n1\n```",
    "an attribute": "Read it. <b class=SECRET>x</b>",
    "a surplus cell": "|a|\n|-|\n|1|SECRET|",
    "a control sequence": "Read it. \x1b[8mSECRET",
}


def items_of(plan: str, columns: int = 80) -> ScrollbackItem:
    verdict = Verdict(VerdictKind.ASK, "")
    (item,) = plan_items(Question("t1", "ExitPlanMode", {"plan": plan}, verdict), columns)
    return item


@pytest.mark.parametrize("plan", HIDING.values(), ids=HIDING.keys())
def test_a_plan_is_shown_as_it_is_written_if_markdown_would_hide_a_part(plan: str) -> None:
    item = items_of(plan)
    assert (item.is_markdown, item.lines) == (False, plan.replace("\x1b", "<ESC>").split("\n"))


@pytest.mark.parametrize("columns", [20, 80])
def test_a_plan_without_hidden_parts_is_rendered(columns: int) -> None:
    table = "| step | what |\n|---|---|\n| 1 | read the whole cart, then sort it |"
    code = "- *one*\n\t- `two`\n\n```python\nprint(1)\n```"
    plan = f"# Sort\n\n1. [Read](https://e.example) **it**.\n2. Sort it.\n\n{table}\n\n{code}\n"
    assert items_of(plan, columns).is_markdown


def test_nothing_of_a_plan_is_hidden_on_screen(api: ScriptedApi, project: Path) -> None:
    plan = "Read it. <!-- then delete it -->\x1b[8m\n\n[x]: https://e.example/run"
    api.replies[:] = [called(("t1", "ExitPlanMode", {"plan": plan})), said("Done.")]
    with terminal(chat("--permission-mode", "plan", "Go."), project) as pane:
        pane.see("<!-- then delete it --><ESC>[8m", "[x]: https://e.example/run", "this plan?")
        pane.keys("Escape")


def test_a_plan_is_refused_with_a_word_and_then_approved(
    api: ScriptedApi, project: Path, store: Store
) -> None:
    plan = "# Sort the cart\n\n1. Read it.\n2. Sort it."
    write = {"file_path": str(project / "cart.txt"), "content": "a\nb\n"}
    api.replies[:] = [
        called(("t1", "ExitPlanMode", {"plan": "Delete the cart."})),
        called(("t2", "ExitPlanMode", {"plan": plan})),
        called(("t3", "Write", write)),
        said("Sorted."),
    ]
    with terminal(chat("--permission-mode", "plan", "Sort the cart."), project) as pane:
        pane.see("Delete the cart.", "Start with this plan?", "plans only")
        pane.keys("3")
        pane.type("keep it")
        pane.see("No, keep planning: keep it")
        pane.keys("Enter")
        pane.see("Sort it.", "Start with this plan?")
        pane.keys("1")
        pane.see("Sorted.", "accepts edits")
    assert (project / "cart.txt").read_text() == "a\nb\n"
    refused, approved, _ = results(store)
    assert "keep it" in json.dumps(refused)
    saved = Path(approved["toolUseResult"]["filePath"])
    assert (saved.parent, saved.read_text()) == (store.plans, plan)
    reminder = json.dumps(api.requests[0].body["messages"])
    assert "call ExitPlanMode with it" in reminder
