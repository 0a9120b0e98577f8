"""turnlog chat on the command line, as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, called, refused, said, scripted_api
from support.terminal import Terminal
from turnlog.conversation.session import open_session
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store

NAME = "5e551011-0000-4000-8000-000000000000"
NO_KEY = "no key for the Messages API (try: export ANTHROPIC_API_KEY=KEY)"


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api(said("Done.")) as running:
        yield running


class Shell:
    """Starts turnlog in a folder, with a home and a key of its own."""

    def __init__(self, store: Store, folder: Path, api: ScriptedApi) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        kept = {name: value for name, value in os.environ.items() if "ANTHROPIC" not in name}
        self.environment = kept | {
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(store.root),
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "not-a-key",
        }
        self.session = store.project_of(str(self.folder)) / f"{NAME}.jsonl"

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "turnlog", "chat", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, piped: str = "") -> tuple[int, str, str]:
        running = self.start(*arguments)
        out, err = running.communicate(piped, timeout=60)
        return running.returncode, out, err


@pytest.fixture
def shell(store: Store, tmp_path: Path, api: ScriptedApi) -> Shell:
    return Shell(store, tmp_path, api)


def prompts_of(api: ScriptedApi, number: int) -> list[str]:
    """Return the user's messages in a request."""
    messages = api.requests[number].body["messages"]
    blocks = [b for message in messages if message["role"] == "user" for b in message["content"]]
    return [block["text"].strip() for block in blocks]


def test_whoever_waits_at_a_terminal_is_told_that_the_api_is_asked_again(
    shell: Shell, api: ScriptedApi
) -> None:
    api.replies[:] = [refused(529, "Overloaded"), said("Done.")]
    terminal = Terminal()
    code = subprocess.run(
        [sys.executable, "-m", "turnlog", "chat", "-p", "hello"],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal.follower,
        timeout=60,
        check=False,
    ).returncode
    told = terminal.close()
    assert (code, "trying again in 0 s (try 1 of 10)" in told) == (0, True)
    api.replies[:] = [refused(529, "Overloaded"), said("Done.")]
    assert shell.run("-p", "hello") == (0, "Done.\n", "")
    api.replies[:] = [refused(529, "Overloaded"), said("Done.")]
    assert "(try 1 of 10)" in shell.run("-p", "hello", "--verbose")[2]


def test_a_prompt_is_answered_and_kept(shell: Shell, api: ScriptedApi) -> None:
    assert shell.run("-p", "hello", "--session-id", NAME) == (0, "Done.\n", "")
    assert shell.run("-p", "again", "--resume", NAME) == (0, "Done.\n", "")
    assert shell.run("-p", "more", "--continue")[0] == 0
    assert prompts_of(api, 2) == ["hello", "again", "more"]
    assert len(open_session(shell.session).turns) == 3
    code, _, told = shell.run("-p", "x", "--session-id", NAME)
    assert (code, f"exists already (try: --resume {NAME})" in told) == (2, True)


def test_what_is_piped_in_is_part_of_the_prompt(shell: Shell, api: ScriptedApi) -> None:
    shell.run("-p", "explain", piped="an error\n")
    assert prompts_of(api, 0) == ["explain\n\nan error"]


def test_what_is_piped_to_a_custom_command_mentions_no_files(
    shell: Shell, store: Store, api: ScriptedApi
) -> None:
    for name in ("piped", "typed", "written"):
        (shell.folder / f"{name}.txt").write_text(f"CONTENT-{name}")
    command = store.root / "commands" / "explain.md"
    command.parent.mkdir(parents=True)
    command.write_text("By @written.txt, explain $ARGUMENTS")
    shell.run("-p", "/explain @typed.txt", piped="see @piped.txt now\n")
    sent = json.dumps(api.requests[0].body)
    assert "see @piped.txt now" in sent
    read = [name for name in ("piped", "typed", "written") if f"CONTENT-{name}" in sent]
    assert read == ["typed", "written"]


def test_a_stream_of_prompts_gives_a_stream_of_messages(shell: Shell, api: ScriptedApi) -> None:
    lines = [
        json.dumps({"type": "user", "message": {"role": "user", "content": each}}) + "\n"
        for each in ("one", "two")
    ]
    streams = ("--input-format", "stream-json", "--output-format", "stream-json")
    code, out, _ = shell.run("-p", *streams, piped="".join(lines))
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert (code, kinds) == (0, ["system", "assistant", "assistant", "result"] * 2)


def test_rules_and_limits_of_the_command_line_hold(shell: Shell, api: ScriptedApi) -> None:
    touch = called(
        ("t1", "Bash", {"command": "touch made"}), ("t2", "Bash", {"command": "mkdir d"})
    )
    api.replies[:] = [touch, said("Done.")]
    code, out, _ = shell.run(
        *("-p", "go", "--output-format", "json", "--allowed-tools", "Bash(touch:*) Read"),
        *("--disallowed-tools", "Bash(mkdir:*)"),
    )
    (denial,) = json.loads(out)["permission_denials"]
    assert (code, denial["tool_use_id"]) == (0, "t2")
    assert (shell.folder / "made").exists()
    assert shell.run("-p", "go", "--max-turns", "1")[:2] == (0, "Done.\n")


def test_nothing_is_asked_by_the_clients_own_option(shell: Shell, api: ScriptedApi) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "touch made"})), said("Done.")]
    mode = ("--permission-mode", "plan", "--dangerously-skip-permissions")
    assert shell.run("-p", "go", *mode)[0] == 0
    assert (shell.folder / "made").exists()


def test_a_name_and_further_settings_can_be_given(shell: Shell, api: ScriptedApi) -> None:
    given = ("-n", "mend the cart", "--settings", '{"model": "claude-y"}')
    shell.run("-p", "go", "--session-id", NAME, *given)
    assert api.requests[0].body["model"] == "claude-y"
    assert describe(locate_session(shell.session)).title == "mend the cart"


def test_the_system_prompt_can_be_given(shell: Shell, api: ScriptedApi) -> None:
    shell.run("-p", "go", "--system-prompt", "Be a poet.", "--append-system-prompt", "Rhyme.")
    system = [block["text"] for block in api.requests[0].body["system"]]
    assert (system[0], system[-1]) == ("Be a poet.", "Rhyme.")


def test_ending_the_program_ends_the_turn_first(shell: Shell, api: ScriptedApi) -> None:
    api.replies[:] = [said("A long story.")._replace(hold_after=8)]
    running = shell.start("-p", "go", "--session-id", NAME, "--output-format", "json")
    assert running.stdin
    running.stdin.close()
    running.stdin = None
    assert api.holding.wait(60)
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, json.loads(out)["subtype"], err) == (
        1,
        "error_during_execution",
        "",
    )
    said_last = open_session(shell.session).context()[-2]
    assert said_last["content"][-1]["text"] == "[Request interrupted by user]"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-p"], "a prompt is missing"),
        (["-p", "x", "--resume", "nope"], "no session matches 'nope'"),
        (["-p", "x", "--resume"], "--resume needs a session here"),
        (["-p", "x", "--continue"], "no session was started in"),
        (["-p", "x", "--fork-session"], "--fork-session needs a session"),
        (["-p", "x", "--allowed-tools", "Bash(rm"], "'Bash(rm' is not a list of permission rules"),
        (["-p", "x", "--settings", "no.json"], "no.json cannot be read: No such file"),
        (["-p", "x", "--settings", "{no"], "--settings is not valid: JSON is malformed"),
        (["-p", "x", "--session-id", "nope"], "'nope' is not a UUID (try: --session-id "),
    ],
)
def test_what_makes_no_sense_is_told(shell: Shell, arguments: list[str], told: str) -> None:
    code, _, err = shell.run(*arguments)
    assert code in (1, 2)
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_rule_that_makes_no_sense_is_told_at_the_start(shell: Shell, store: Store) -> None:
    store.root.mkdir(parents=True, exist_ok=True)
    store.settings.write_text('{"permissions": {"deny": ["Bash(rm"]}}')
    code, out, err = shell.run("-p", "go")
    assert (code, out) == (0, "Done.\n")
    assert err == (
        f"turnlog: {store.settings}: 'Bash(rm' is not a permission rule; it is skipped,"
        " so it does NOT deny any call\n"
    )


def test_without_a_key_it_says_so(shell: Shell) -> None:
    del shell.environment["ANTHROPIC_API_KEY"]
    code, out, err = shell.run("-p", "go")
    assert (code, out) == (1, "")
    assert NO_KEY in err
