"""Everyday commands and keys, in a real terminal."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, said
from support.tmux import Pane, isolate_terminal, needs_tmux, terminal
from turnlog.agent.terminal.completer import offers
from turnlog.agent.terminal.memory_commands import add_line
from turnlog.agent.terminal.slash_commands import known
from turnlog.errors import UsageError
from turnlog.store.paths import Store


@pytest.fixture
def pane(
    api: ScriptedApi, store: Store, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pane]:
    """A chat in a terminal, whose editor adds a few words to any file."""
    isolate_terminal(monkeypatch, tmp_path)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'from the editor' >> \"$1\"\n")
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    with terminal([sys.executable, "-m", "turnlog", "chat"], project, 100, 40) as running:
        running.see("% of 1M")
        yield running


@needs_tmux
def test_a_side_question_leaves_no_trace_and_a_branch_is_a_copy(
    pane: Pane, api: ScriptedApi, store: Store
) -> None:
    api.replies[:] = [said("It is a cart."), said("Three wheels."), said("Moved on.")]
    pane.say("What is it?")
    pane.see("It is a cart.")
    pane.say("/btw How many wheels?")
    pane.see("Three wheels.")
    pane.say("/branch")
    pane.see("a branch of")
    pane.say("Go on.")
    pane.see("Moved on.")
    first, second = sorted(store.session_files(), key=lambda path: path.stat().st_mtime)
    assert "Go on." not in first.read_text()
    assert "Go on." in second.read_text()
    assert "Three wheels." not in json.dumps(api.requests[-1].body["messages"])
    assert "It is a cart." in json.dumps(api.requests[-1].body["messages"])


@needs_tmux
def test_keys_find_earlier_prompts_write_elsewhere_and_explain(
    pane: Pane, api: ScriptedApi, project: Path
) -> None:
    pane.keys("?")
    pane.see("ctrl-r", "search earlier prompts")
    pane.say("count the melons")
    pane.see("Done.")
    pane.keys("C-r")
    pane.see("Earlier prompts")
    pane.type("melons")
    pane.keys("Enter")
    pane.wait(lambda screen: "❯ count the melons" in screen.splitlines()[-2])
    pane.keys("C-g")
    pane.see("count the melonsfrom the editor")
    pane.keys("C-c")
    pane.say("# use tabs")
    pane.see("Remember this where?")
    pane.keys("1")
    pane.see("added to")
    assert (project / "CLAUDE.md").read_text() == "- use tabs\n"
    pane.say("/memory")
    pane.see("Edit which memory file?")
    pane.keys("1")
    # The line may be folded anywhere: it starts with a path of any length.
    pane.wait(lambda screen: "CLAUDE.md: it takes effect in the next" in " ".join(screen.split()))
    pane.wait(lambda _: "from the editor" in (project / "CLAUDE.md").read_text())


@needs_tmux
def test_a_prompt_is_put_aside_until_another_one_is_sent(pane: Pane, api: ScriptedApi) -> None:
    pane.type("a long draft")
    pane.see("❯ a long draft")
    pane.keys("C-s")
    pane.see("prompt stashed")
    pane.say("count the melons")
    pane.see("Done.", "❯ a long draft")
    assert "prompt stashed" not in pane.screen()
    assert "draft" not in json.dumps(api.requests[-1].body["messages"])
    pane.keys("M-p")
    pane.see("Which model, here and in new sessions?")
    pane.keys("Escape")
    pane.see("❯ a long draft")


@needs_tmux
def test_status_and_plan_mode_are_a_command_away(
    pane: Pane, api: ScriptedApi, project: Path
) -> None:
    pane.say("/status")
    pane.see("claude-opus-5-5", "ANTHROPIC_API_KEY", "turnlog deletes no sessions", api.url)
    pane.say("/plan sort the cart")
    pane.see("plans only", "Done.")
    assert "call ExitPlanMode" in json.dumps(api.requests[-1].body["messages"])
    pane.say("/security-review")
    pane.wait(lambda _: len(api.requests) == 2)
    assert "for security" in json.dumps(api.requests[-1].body["messages"])


def test_commands_are_found_by_letters_in_order() -> None:
    assert [each.text for each in offers("/cpct", known({}), [])] == ["/compact"]


def test_nothing_is_remembered_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine\n")
    link = tmp_path / "CLAUDE.md"
    link.symlink_to(tmp_path / "own")
    with pytest.raises(UsageError):
        add_line(link, "theirs")
    assert (tmp_path / "own").read_text() == "mine\n"


def test_a_line_is_added_to_a_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "CLAUDE.md"
    path.write_bytes(b"caf\xe9")
    add_line(path, "use tabs")
    assert path.read_bytes() == b"caf\xe9\n- use tabs\n"


@needs_tmux
@pytest.mark.parametrize("first", ["", "an-editor-that-is-not-installed"])
def test_an_editor_with_an_open_quote_is_one_line(
    api: ScriptedApi, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    isolate_terminal(monkeypatch, tmp_path)
    monkeypatch.setenv("VISUAL", first)
    monkeypatch.setenv("EDITOR", "vi 'x")
    with terminal([sys.executable, "-m", "turnlog", "chat"], project, 100, 40) as pane:
        pane.see("% of 1M")
        pane.keys("C-g")
        pane.see("$EDITOR is not a command: no closing quotation (try: export EDITOR=vi)")
        pane.say("/memory")
        pane.see("Edit which memory file?")
        pane.keys("1")
        pane.wait(lambda screen: screen.count("$EDITOR is not a command") == 2)
        assert "Traceback" not in pane.wait(lambda screen: True)


@needs_tmux
def test_a_command_that_changes_something_is_recorded(
    pane: Pane, api: ScriptedApi, store: Store
) -> None:
    pane.say("/rename too early")
    pane.see("the session is called too early")
    pane.say("Hello.")
    pane.see("Done.")
    pane.say("/model haiku")
    pane.see("the model is")
    pane.say("/cost")
    pane.see("total")
    pane.say("/rename the cart")
    pane.see("the session is called the cart")
    (path,) = store.session_files()

    def commands() -> list[str]:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        return [line["commandRun"]["command"] for line in lines if "commandRun" in line]

    pane.wait(lambda _: commands() == ["model", "rename"])
