"""The whole screen in a real terminal, with a scripted model over real HTTP."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from support.build import assistant, session, text, user
from support.scripted_api import ScriptedApi, answered, called, refused, said
from support.tmux import PATIENCE, Pane, Start, needs_tmux, terminal
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.store.paths import Store

pytestmark = needs_tmux

STATUS = "asks before changes"


def sessions(store: Store) -> list[Path]:
    return sorted(store.session_files(), key=lambda path: path.stat().st_mtime)


def entries(path: Path) -> list[dict[str, Any]]:
    """The lines of a session in which nothing is amiss."""
    opened = open_session(path)
    assert opened.problems == []
    assert [finding.message for finding in check_session(opened)] == []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@contextmanager
def waiting(start: Start, api: ScriptedApi) -> Generator[Pane]:
    """A chat whose model runs a command that waits for a file named go."""
    wait = {"command": "while [ ! -e go ]; do sleep 0.05; done"}
    api.replies[:] = [called(("t1", "Bash", wait)), said("Done.")]
    with start("--permission-mode", "bypassPermissions") as pane:
        pane.say("wait")
        pane.see("○ Bash while")
        yield pane


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_prompt_and_its_answer_stand_above_the_prompt(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    text = "# Plan\n\nFirst *this*:\n\n- one\n- 日本語\n\n```python\nx = 1\n```\n\nThat is it."
    api.replies[:] = [answered({"type": "text", "text": text}, input_tokens=20_000)]
    with start() as pane:
        pane.say("hello")
        pane.see("That is it.", "2% of 1M")
        screen = pane.wait(lambda screen: "esc to interrupt" not in screen)
        lines = screen.split("\n")
        assert lines[1:] == [
            "",
            "❯ hello",
            "",
            "Plan",
            "",
            "First this:",
            "",
            " • one",
            " • 日本語",
            "",
            "x = 1",
            "",
            "That is it.",
            "",
            "❯",
            lines[-1],
        ]
        assert lines[0].endswith(f"/{project.name}")
        assert lines[-1].startswith(f"  {STATUS} · 2% of 1M · $0.")


def test_an_edit_is_asked_about_with_its_diff(
    start: Start, api: ScriptedApi, project: Path, store: Store
) -> None:
    file = project / "a.py"
    file.write_text("x = 1\n")
    given = {"file_path": str(file), "old_string": "x = 1", "new_string": "x = 2"}
    read = called(("t1", "Read", {"file_path": str(file)}))
    api.replies[:] = [read, called(("t2", "Edit", given)), said("Done.")]
    with start() as pane:
        pane.say("change it")
        screen = pane.see("Make this change?", "❯ 1. Yes")
        assert "● Edit a.py  +1 -1\n    @@ -1,1 +1,1 @@\n    -x = 1\n    +x = 2" in screen
        assert file.read_text() == "x = 1\n"
        pane.keys("Down", "Enter")
        pane.see("Done.", "accepts edits")
        assert file.read_text() == "x = 2\n"
        assert pane.scrollback().count("+x = 2") == 1
        pane.keys("C-d")
        wait_for(pane.is_dead)
    entries(sessions(store)[0])


def test_a_refusal_tells_the_model_what_to_do_instead(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "touch made"})), said("As you wish.")]
    with start() as pane:
        pane.say("make it")
        pane.see("Run this command?", "● Bash touch made", "don't ask again for Bash(touch made")
        pane.keys("3")
        pane.type("write made instead")
        pane.see("3. No: write made instead")
        pane.keys("Enter")
        pane.see("✗ refused: write made instead", "As you wish.")
    (block,) = [
        block
        for block in api.requests[-1].body["messages"][-1]["content"]
        if block["type"] == "tool_result"
    ]
    assert block["content"].endswith("the user said:\nwrite made instead")
    assert not (project / "made").exists()


def test_a_rule_is_remembered(start: Start, api: ScriptedApi, project: Path) -> None:
    again = called(("t2", "Bash", {"command": "touch made"}))
    api.replies[:] = [called(("t1", "Bash", {"command": "touch made"})), again, said("Done.")]
    with start() as pane:
        pane.say("make it")
        pane.see("Run this command?")
        pane.keys("2")
        pane.see("Done.")
    saved = json.loads((project / ".claude" / "settings.local.json").read_text())
    assert saved["permissions"]["allow"] == ["Bash(touch made)"]


def test_escape_interrupts_and_keeps_what_was_said(
    start: Start, api: ScriptedApi, store: Store
) -> None:
    long = "one two three four five six seven eight"
    api.replies[:] = [said(long)._replace(hold_after=10), said("Still here.")]
    with start() as pane:
        pane.say("go on")
        pane.see("one two three", "esc to interrupt")
        pane.keys("Escape")
        pane.see("one two three", "── interrupted")
        pane.wait(lambda screen: "esc to interrupt" not in screen)
        pane.say("and now?")
        pane.see("Still here.")
    texts = [
        entry["message"]["content"] for entry in entries(sessions(store)[0]) if "message" in entry
    ]
    assert [{"type": "text", "text": "[Request interrupted by user]"}] in texts


def test_what_was_interrupted_is_told_with_the_last_that_it_printed(
    start: Start, api: ScriptedApi
) -> None:
    command = "seq 5; sleep 60"
    api.replies[:] = [called(("t1", "Bash", {"command": command})), said("Done.")]
    last = "    …\n    3\n    4\n    5\n\n── interrupted"
    with start("--allowed-tools", "Bash(seq:*),Bash(sleep:*)") as pane:
        pane.say("count")
        pane.see("    5", "esc to interrupt")
        pane.keys("Escape")
        pane.see(f"✗ Bash {command}  interrupted")
        pane.see(last)
        pane.say(f"!{command}")
        pane.see(f"! {command}\n\n○ Bash", "    5")
        pane.keys("Escape")
        pane.see(f"! {command}\n{last}")
        pane.say("/permissions")
        pane.see("mode   asks before changes", "allow  Bash(seq:*)", "the command line")


def test_a_command_of_the_user_takes_the_place_of_one_of_turnlogs_own(
    start: Start, api: ScriptedApi, store: Store
) -> None:
    commands = store.root / "commands"
    commands.mkdir()
    (commands / "compact.md").write_text("---\ndescription: My own\n---\nSay COMPACT.")
    with start() as pane:
        pane.type("/comp")
        pane.see("/compact  My own")
        pane.keys("Enter")
        pane.see("❯ /compact\n\nDone.")
    assert "Say COMPACT." in json.dumps(api.requests[0].body["messages"])


def test_what_is_typed_meanwhile_is_queued_and_seen_with_the_next_step(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    wait = {"command": "while [ ! -e go ]; do sleep 0.05; done; echo \033[31mgone\033[0m"}
    api.replies[:] = [called(("t1", "Bash", wait)), said("Both done.")]
    with start("--permission-mode", "bypassPermissions") as pane:
        pane.say("wait for it")
        pane.see("○ Bash while")
        pane.say("and do this too")
        pane.see("❯ and do this too  queued")
        (project / "go").touch()
        screen = pane.see("Both done.")
        assert screen.index("gone") < screen.index("❯ and do this too") < screen.index("Both done.")
        assert "too  queued" not in screen
    (last,) = [each for each in api.requests if len(each.body["messages"]) > 1]
    assert last.body["messages"][-1]["content"][-1]["text"] == "and do this too"
    kinds = [
        (entry["operation"], entry["content"])
        for entry in entries(sessions(store)[0])
        if entry["type"] == "queue-operation"
    ]
    assert kinds == [("enqueue", "and do this too"), ("remove", "and do this too")]


def test_what_is_queued_can_be_taken_back(start: Start, api: ScriptedApi, project: Path) -> None:
    with waiting(start, api) as pane:
        pane.say("never mind")
        pane.see("never mind  queued")
        pane.keys("Up")
        pane.wait(lambda screen: "mind  queued" not in screen and "❯ never mind" in screen)
        (project / "go").touch()
        pane.see("Done.")
    assert len(api.requests) == 2


def test_a_command_that_is_queued_waits_for_the_end_of_the_turn(
    start: Start, api: ScriptedApi, project: Path, store: Store
) -> None:
    with waiting(start, api) as pane:
        pane.say("/context")
        pane.see("/context  queued")
        (project / "go").touch()
        screen = pane.see("Done.", "░ free")
        assert screen.index("Done.") < screen.index("❯ /context")
    lines = entries(sessions(store)[0])
    queue = [entry["operation"] for entry in lines if entry["type"] == "queue-operation"]
    assert queue == ["enqueue", "dequeue"]


def test_the_conversation_is_compacted_and_goes_on(
    start: Start, api: ScriptedApi, store: Store
) -> None:
    api.replies[:] = [said("An answer."), said("The summary."), said("After it.")]
    with start() as pane:
        pane.say("first")
        pane.see("An answer.")
        pane.say("/compact the names")
        pane.see("── Compacted")
        pane.say("second")
        pane.see("After it.")
    assert "The user adds: the names" in json.dumps(api.requests[1].body["messages"][-1])
    assert "The summary." in json.dumps(api.requests[2].body["messages"][0])
    assert [e for e in entries(sessions(store)[0]) if e.get("subtype") == "compact_boundary"]


def test_going_back_brings_back_files_and_the_prompt(
    start: Start, api: ScriptedApi, project: Path, store: Store
) -> None:
    write = {"file_path": str(project / "new.txt"), "content": "new\n"}
    api.replies[:] = [said("Hello."), called(("t1", "Write", write)), said("Written.")]
    with start("--permission-mode", "acceptEdits") as pane:
        pane.say("hi")
        pane.see("Hello.")
        pane.say("write it")
        pane.see("Written.")
        pane.say("/rewind")
        pane.see("Go back to before which prompt?", "❯ write it", "  hi")
        pane.keys("Enter")
        pane.see("Go back with what?\nto before: write it\n  new.txt is deleted\n❯ 1. Conversation")
        pane.keys("2")
        pane.see("Delete 1 file?\n  new.txt is deleted\n❯ 1. No, leave everything as it is")
        pane.keys("2")
        pane.wait(lambda screen: screen.split("\n")[-2] == "❯ write it")
        pane.see("── went back:", "1 file\n   deleted;")
        assert not (project / "new.txt").exists()
        pane.keys("C-c")
        pane.say("/rewind")
        pane.see("❯ Undo the last rewind")
        pane.keys("Enter")
        pane.see("── undone")
        assert (project / "new.txt").read_text() == "new\n"
    entries(sessions(store)[0])


def test_up_and_enter_out_of_habit_delete_nothing(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    write = {"file_path": str(project / "new.txt"), "content": "new\n"}
    api.replies[:] = [called(("t1", "Write", write)), said("Written."), said("Hello.")]
    with start("--permission-mode", "acceptEdits", columns=80, rows=24) as pane:
        pane.say("write it")
        pane.see("Written.")
        pane.say("hi")
        pane.see("Hello.")
        pane.say("/rewind")
        pane.see("❯ hi", "  write it")
        pane.keys("Up")
        pane.keys("Enter")
        pane.see("to before: hi", "no file has changed since")
        pane.keys("Escape")
        pane.wait(lambda screen: "Go back" not in screen)
        pane.say("/rewind")
        pane.see("❯ hi", "  write it")
        pane.keys("Down", "Enter")
        pane.see("new.txt is deleted", "❯ 1. Conversation  files stay as they are")
        pane.keys("Enter")
        pane.see("── went back:")
        assert (project / "new.txt").read_text() == "new\n"


def test_all_files_that_would_be_deleted_can_be_listed(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    names = [f"new-{number:02}\x1b[2J.txt" for number in range(20)]
    calls = [
        (f"t{rank}", "Write", {"file_path": str(project / name), "content": "x\n"})
        for rank, name in enumerate(names)
    ]
    api.replies[:] = [called(*calls), said("Written.")]
    with start("--permission-mode", "acceptEdits", columns=80, rows=24) as pane:
        pane.say("write them")
        pane.see("Written.")
        pane.say("/rewind")
        pane.see("❯ write them")
        pane.keys("Enter")
        pane.see("… and 12 more", "deletes 20 files", "ctrl-e to show all")
        pane.keys("C-e")
        pane.see("new-19<ESC>[2J.txt is deleted")
        listed = pane.scrollback()
        assert all(f"new-{number:02}<ESC>[2J.txt is deleted" in listed for number in range(20))
        pane.keys("3")
        pane.see("Delete 20 files?", "❯ 1. No, leave everything as it is")
        pane.keys("Enter")
        pane.wait(lambda screen: "Delete 20" not in screen)
    assert len(list(project.iterdir())) == 20


def test_another_session_is_found_and_gone_on_with(
    start: Start, api: ScriptedApi, store: Store
) -> None:
    api.replies[:] = [said("About carts."), said("New one."), said("Carts again.")]
    with start() as pane:
        pane.say("mend the cart")
        pane.see("About carts.")
        pane.say("/clear")
        pane.see("── a new conversation")
        pane.say("something else")
        pane.see("New one.")
        pane.say("/resume")
        pane.see("2 sessions", "mend the cart", "something else")
        pane.keys("Escape", "Escape")
        # The chat is as it was before the picker, and takes what is typed.
        pane.wait(lambda screen: "sessions" not in screen and STATUS in screen)
        pane.see("About carts.", "New one.")
        pane.say("/resume")
        pane.see("2 sessions")
        pane.type("cart")
        pane.see("1 session")
        pane.keys("Enter")
        pane.wait(lambda screen: screen.count("About carts.") == 2)
        pane.say("and then?")
        pane.see("Carts again.")
    sent = json.dumps(api.requests[-1].body["messages"])
    assert "mend the cart" in sent
    assert "something else" not in sent
    assert len(sessions(store)) == 2


LATE_SIGNALS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
from turnlog.__main__ import main
sys.exit(main())
"""
"""A chat that redraws by its timers before it hears of a new size."""


@pytest.mark.parametrize("command", [(), (sys.executable, "-c", LATE_SIGNALS, "chat")])
def test_a_resized_terminal_shows_everything_once(
    start: Start, api: ScriptedApi, command: Sequence[str]
) -> None:
    # No program can know of a new size that comes while its drawing is on the way to the terminal:
    # one clean run out of a few is all that can be asked for.
    assert any(_resizes_cleanly(start, api, command) for _ in range(4))


def _resizes_cleanly(start: Start, api: ScriptedApi, command: Sequence[str]) -> bool:
    long = "word " * 60
    api.replies[:] = [said(f"Start.\n\n{long}")._replace(hold_after=40)]
    with start(columns=90, command=command) as pane:
        pane.say(
            "a prompt that is rather long, so that a narrow terminal has to break it somewhere"
        )
        pane.see("Start.", "word word", "esc to interrupt")
        for columns, end in ((40, "of 1M"), (100, "claude-opus-5-5"), (36, "of 1M")):
            pane.resize(columns, 30)
            pane.wait(lambda screen, end=end: "Answering" in screen and screen.endswith(end))
        pane.keys("Escape")
        pane.see("── interrupted")
        pane.wait(lambda screen: "Answering" not in screen)
        # The screen may be caught while it is drawn again.
        end = time.monotonic() + 3
        while _counts(pane.scrollback()) != [1, 1, 1] and time.monotonic() < end:
            time.sleep(0.05)
        return _counts(pane.scrollback()) == [1, 1, 1]


def _counts(shown: str) -> list[int]:
    return [shown.count(text) for text in (STATUS, "Start.", "interrupted")]


def test_what_commands_print_never_reaches_the_terminal_raw(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    evil = {"command": r"printf '\033[2J\033]0;pwned\a\033[31mred\033[0m\r50%%\r100%% \u65e5\n'"}
    api.replies[:] = [called(("t1", "Bash", evil)), said("Done.\x1b[2J")]
    with start("--permission-mode", "bypassPermissions") as pane:
        pane.say("print it")
        screen = pane.see("Done.")
        assert "❯ print it" in screen
        assert "    100% 日" in screen
        assert "red" not in screen.replace("\\033[31mred", "")
        assert "pwned" not in pane.run("display-message", "-p", "#{pane_title}")


def test_the_model_is_told_of_a_shell_command_of_the_user_and_answers(
    start: Start, api: ScriptedApi, store: Store
) -> None:
    with start() as pane:
        pane.say("!echo from the shell")
        pane.see("! echo from the shell\n    from the shell", "Done.")
    told = [block["text"].strip() for block in api.requests[0].body["messages"][0]["content"]]
    assert told == [
        "<bash-input>echo from the shell</bash-input>",
        "<bash-stdout>from the shell</bash-stdout><bash-stderr></bash-stderr>",
    ]
    entries(sessions(store)[0])
    typed = [json.loads(line)["display"] for line in store.history.read_text().splitlines()]
    assert typed == ["!echo from the shell"]


def test_a_pull_request_that_the_user_makes_is_linked(
    start: Start, store: Store, project: Path
) -> None:
    (project / "gh").write_text("#!/bin/sh\necho https://github.com/octo/shop/pull/7\n")
    (project / "gh").chmod(0o755)
    with start() as pane:
        pane.say("!./gh pr create")
        pane.see("pull/7", "Done.")
    links = [each for each in entries(sessions(store)[0]) if each["type"] == "pr-link"]
    assert [each["prNumber"] for each in links] == [7]


def test_the_end_of_a_command_in_the_background_starts_a_turn(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    wait = {"command": "until [ -e go ]; do sleep 0.05; done", "description": "Wait for go"}
    api.replies[:] = [called(("t1", "Bash", wait | {"run_in_background": True})), said("Started.")]
    api.replies += [said("I heard of it.")]
    with start("--permission-mode", "bypassPermissions") as pane:
        pane.say("start it")
        pane.see("Started.")
        pane.wait(lambda screen: "esc to interrupt" not in screen)
        (project / "go").touch()
        pane.see('── Background command "Wait for go" completed', "I heard of it.")
    notice = entries(sessions(store)[0])
    assert [each["operation"] for each in notice if each["type"] == "queue-operation"] == [
        "enqueue",
        "dequeue",
    ]


def test_prompts_of_several_lines_pastes_and_completions(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    (project / "notes.txt").write_text("hi\n")
    with start() as pane:
        pane.type("one\\")
        pane.keys("Enter")
        pane.type("two")
        pane.keys("M-Enter")
        pane.paste("three\nfour")
        pane.see("❯ one\n  two\n  three\n  four")
        pane.paste("long\n" * 20)
        pane.see("four[Pasted text #1 +20 lines]")
        pane.keys("C-c")
        pane.wait(lambda screen: "Pasted" not in screen)
        pane.type("/conte")
        pane.see("/context", "Show what fills the context")
        pane.keys("Enter")
        pane.see("❯ /context", "░ free")
        pane.type("see @no")
        pane.see("notes.txt")
        pane.keys("Tab")
        pane.see("❯ see @notes.txt")
        pane.type("please")
        pane.keys("Enter")
        pane.see("Done.")
    assert "What" in json.dumps(api.requests[-1].body["messages"])
    assert "notes.txt holds" in json.dumps(api.requests[-1].body["messages"])


def test_the_mode_changes_by_a_key(start: Start, api: ScriptedApi) -> None:
    with start() as pane:
        for told in ("accepts edits", "plans only", STATUS):
            pane.keys("BTab")
            pane.see(told)


def test_a_narrow_terminal_without_colours(
    start: Start, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    api.replies[:] = [said("Some `code` and 日本語 in a line that is too long for it.")]
    with start(columns=36, rows=12) as pane:
        pane.say("hello")
        pane.see("too long for it.")
        drawn = pane.run("capture-pane", "-p", "-e")
        assert not [code for code in ("[31m", "[32m", "[33m", "[36m") if code in drawn]


def test_ctrl_c_clears_then_twice_leaves_and_restores_the_terminal(
    start: Start, api: ScriptedApi, project: Path
) -> None:
    after = "echo left with $?; read line; echo read $line; read more"
    chat = f"{sys.executable} -m turnlog chat; {after}"
    with start(command=["sh", "-c", chat]) as pane:
        pane.say("hello")
        pane.see("Done.")
        pane.type("typed")
        pane.see("❯ typed")
        pane.keys("C-c")
        pane.wait(lambda screen: "❯ typed" not in screen)
        pane.keys("C-c")
        screen = pane.see("turnlog chat --resume", "left with 0")
        assert STATUS not in screen
        pane.say("echoed again")
        pane.see("\nechoed again\nread echoed again")
        assert pane.run("display-message", "-p", "#{alternate_on} #{cursor_flag}") == "0 1\n"


def test_one_ctrl_c_is_not_enough(start: Start, api: ScriptedApi) -> None:
    with start() as pane:
        pane.keys("C-c")
        pane.see("ctrl-c again to leave")
        pane.see(STATUS)
        pane.say("still here?")
        pane.see("Done.")


def test_a_closed_terminal_loses_nothing(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    wait = {"command": "echo started; touch on; sleep 600"}
    api.replies[:] = [called(("t1", "Bash", wait), text="Wait for it.")]
    with start("--permission-mode", "bypassPermissions") as pane:
        pane.say("go")
        wait_for((project / "on").exists)
        pid = int(pane.run("display-message", "-p", "#{pane_pid}"))
        pane.run("kill-server")
        wait_for(lambda: not Path(f"/proc/{pid}").exists())
    kinds = [entry.get("subtype") or entry["type"] for entry in entries(sessions(store)[0])]
    assert kinds[-6:] == [
        "assistant",
        "user",
        "user",
        "turn_duration",
        "last-prompt",
        "cost-state",
    ]


def test_what_the_api_refuses_is_one_clear_line(start: Start, api: ScriptedApi) -> None:
    api.replies[:] = [refused(401, "invalid x-api-key"), said("Better.")]
    with start() as pane:
        pane.say("hello")
        pane.see("── API Error: ", "invalid x-api-key", "export ANTHROPIC_API_KEY")
        pane.say("again")
        pane.see("Better.")


def test_without_a_terminal_there_is_a_hint(start: Start, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "chat", "hi"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "turnlog chat -p" in done.stderr


def test_thinking_is_folded_and_effort_can_be_changed(
    start: Start, api: ScriptedApi, store: Store
) -> None:
    thought = {"type": "thinking", "thinking": "The cart is empty.", "signature": "c2ln"}
    api.replies[:] = [answered(thought, {"type": "text", "text": "Fill it."}), said("Sure.")]
    with start() as pane:
        pane.say("What now?")
        assert "The cart is empty." not in pane.see("Fill it.")
        pane.keys("C-o")
        pane.see("The cart is empty.")
        pane.say("/effort high")
        pane.see("the effort is high", "high effort")
        pane.say("Do it.")
        pane.see("Sure.")
    asked = [request.body for request in api.requests]
    assert [body["output_config"]["effort"] for body in asked] == ["medium", "high"]
    assert asked[0]["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert thought in asked[1]["messages"][1]["content"]
    assert json.loads(store.settings.read_text())["effortLevel"] == "high"


def test_a_session_to_resume_can_be_picked(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    path = store.project_of(str(project)) / f"{uuid4()}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(user("What is in the cart?"), assistant(text("A melon."))))
    with terminal([sys.executable, "-m", "turnlog", "chat", "--resume"], project) as pane:
        pane.see("What is in the cart?", "chat")
        pane.keys("Enter")
        pane.see("A melon.", STATUS)
        pane.say("Thanks.")
        pane.see("Done.")
    assert "A melon." in json.dumps(api.requests[0].body["messages"])


def test_the_users_own_command_writes_the_status_line(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    reads = "import json, sys; s = json.load(sys.stdin); print(s['output_style']['name'], 'it is')"
    command = f'{sys.executable} -c "{reads}"'
    store.root.mkdir(exist_ok=True)
    line = {"statusLine": {"type": "command", "command": command}}
    store.settings.write_text(json.dumps(line))
    usual = [sys.executable, "-m", "turnlog", "chat"]
    with terminal(usual, project) as pane:
        pane.see(f"{STATUS} · default it is")
        pane.say("/output-style Learning")
        pane.see("the output style is Learning", f"{STATUS} · Learning it is")
        pane.say("Go.")
        pane.see("Done.")
    assert "TODO(human)" in json.dumps(api.requests[0].body["system"])
    assert json.loads(store.settings.read_text())["outputStyle"] == "Learning"
