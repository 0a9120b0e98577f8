"""Questions of the model in a real terminal: options to choose from, and plans to approve."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.scripted_api import ScriptedApi, called, said
from support.tmux import isolate_terminal, needs_tmux, terminal
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
