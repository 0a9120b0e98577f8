"""Keys and screens of every day, in a real terminal."""

from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, answered, called, said
from support.tmux import Start, needs_tmux

pytestmark = needs_tmux


def test_folded_output_is_shown_page_by_page(start: Start, api: ScriptedApi) -> None:
    counted = answered({"type": "text", "text": "Counted."})
    api.replies[:] = [called(("t1", "Bash", {"command": "seq 2500"})), counted]
    with start() as pane:
        pane.say("Count.")
        pane.see("2496 more lines · ctrl-o shows all", "Counted.")
        for last, left in (("999", "1,501"), ("1999", "501")):
            pane.keys("C-o")
            pane.see(f"    {last}\n    … {left} more lines · ctrl-o shows more")
        pane.keys("C-o")
        pane.see("    2500\n\n❯")
        pane.keys("C-o")
        pane.see("nothing is folded")


def test_the_keys_are_listed_in_full_in_a_narrow_terminal(start: Start) -> None:
    with start(columns=40, rows=60) as pane:
        pane.type("?")
        screen = pane.see("ctrl-c, ctrl-d", "exit")
    assert "…" not in screen
    listed = " ".join(screen.split())
    assert "ctrl-b, ctrl-x ctrl-b move running calls to the background" in listed


def test_the_status_line_names_the_key_for_help_while_nothing_is_typed(start: Start) -> None:
    with start() as pane:
        pane.see("? for keys")
        pane.type("hello")
        pane.wait(lambda screen: "hello" in screen and "? for keys" not in screen)


def test_vi_keys_show_their_mode(start: Start) -> None:
    with start() as pane:
        pane.say("/vim")
        pane.see("vi keys are on", "· INSERT ·")
        pane.type("hello")
        pane.keys("Escape")
        pane.see("❯ hello", "· NORMAL ·")
        pane.type("ddi")
        pane.wait(lambda screen: "· INSERT ·" in screen and "❯ hello" not in screen)


def test_a_command_in_the_background_is_counted_in_the_status_line(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    wait = {"command": "while [ ! -e go ]; do sleep 0.05; done", "run_in_background": True}
    api.replies[:] = [called(("t1", "Bash", wait)), said("It runs."), said("It has ended.")]
    with start("--permission-mode", "bypassPermissions") as pane:
        pane.say("Wait.")
        pane.see("It runs.", "1 in the background")
        (project / "go").touch()
        pane.wait(lambda screen: "It has ended." in screen and "in the background ·" not in screen)


def test_shift_tab_in_a_question_accepts_further_edits(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    new = {"file_path": str(project / "new.py"), "content": "x = 1\n"}
    api.replies[:] = [called(("t1", "Write", new)), said("Written.")]
    with start() as pane:
        pane.say("Write it.")
        pane.see("2. Yes, and accept edits from now on  shift-tab")
        pane.keys("BTab")
        pane.see("Written.", "accepts edits")
    assert (project / "new.py").read_text() == "x = 1\n"


def test_nobody_is_asked_about_an_edit_that_cannot_be_made(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    file = project / "a.py"
    file.write_text("x = 1\n")
    edit = {"file_path": str(file), "old_string": "y = 1", "new_string": "y = 2"}
    api.replies[:] = [
        called(("t1", "Read", {"file_path": str(file)})),
        called(("t2", "Edit", edit)),
        said("It is not there."),
    ]
    with start() as pane:
        pane.say("Change it.")
        screen = pane.see("It is not there.")
    assert "✗ Edit a.py" in screen
    assert "String to replace not found" in screen
    (result,) = api.requests[-1].body["messages"][-1]["content"]
    assert result["is_error"]
    assert "String to replace not found in file." in result["content"]


def test_a_clipboard_without_an_image_is_told(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with start() as pane:
        pane.keys("C-v")
        pane.see("no image in the clipboard")
