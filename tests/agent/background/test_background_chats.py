"""Chats in the background: real processes, which outlive the terminal that started them."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.chat_process import SECONDS, ChatProcess, ProcessOutput
from support.pty_chat import pty_command, wait_for
from support.scripted_api import ScriptedApi, called, said, scripted_api
from turnlog.store.registry import start_of


class BackgroundRig:
    """Starts chats in the background, and ends those that a test leaves behind."""

    def __init__(self, home: Path, api: ScriptedApi) -> None:
        self.chat = ChatProcess(home, api.url)
        self.folder = home / "turnlog" / "agents"
        self.environment = self.chat.environment | {"TERM": "xterm-256color"}

    def run(self, *words: str) -> ProcessOutput:
        done = subprocess.run(
            [sys.executable, "-m", "turnlog", *words],
            cwd=self.chat.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return ProcessOutput(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> str:
        done = self.run("chat", "--bg", *words)
        assert (done.code, done.err) == (0, "")
        return done.out.split()[0]

    def jobs(self) -> list[dict[str, Any]]:
        return json.loads(self.run("agents", "--json").out)

    def job(self, name: str) -> dict[str, Any]:
        return next(each for each in self.jobs() if each["id"] == name)

    def logs(self, name: str) -> str:
        return self.run("agents", "logs", name).out

    def see(self, name: str, *texts: str) -> None:
        """Wait until texts are on the screen of a chat."""
        wait_for(lambda: all(text in self.logs(name) for text in texts), lambda: self.logs(name))

    def host(self, name: str) -> int:
        """Return the process that runs a chat: the parent of the chat."""
        status = Path(f"/proc/{self.job(name)['pid']}/stat").read_text()
        return int(status.rpartition(")")[2].split()[1])

    def close(self) -> None:
        for job in self.jobs():
            self.run("agents", "stop", job["id"])


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api(said("All done here.")) as running:
        yield running


@pytest.fixture
def rig(tmp_path: Path, api: ScriptedApi) -> Iterator[BackgroundRig]:
    found = BackgroundRig(tmp_path.resolve(), api)
    try:
        yield found
    finally:
        found.close()


def test_a_chat_works_in_the_background_and_can_be_stopped_and_resumed(rig: BackgroundRig) -> None:
    name = rig.start("Tidy up", "--name", "tidy")
    rig.see(name, "Tidy up", "All done here.")
    job = rig.job(name)
    assert (job["status"], job["name"], job["cwd"]) == ("running", "tidy", str(rig.chat.work))
    session = rig.chat.session.with_name(f"{job['session']}.jsonl")
    assert "All done here." in session.read_text()
    stopped = rig.run("agents", "stop", name[:4])
    assert (stopped.code, job["session"] in stopped.out) == (0, True)
    ended = rig.job(name)
    assert (ended["status"], ended["exit_code"], ended["pid"]) == ("ended", 0, None)
    assert "All done here." in rig.logs(name)
    assert not Path(f"/proc/{job['pid']}").exists()
    assert rig.run("agents", "rm", name).code == 0
    assert rig.jobs() == []
    assert session.exists()


def test_a_question_waits_for_whoever_attaches(rig: BackgroundRig, api: ScriptedApi) -> None:
    made = rig.chat.work / "made"
    api.replies[:] = [called(("t1", "Bash", {"command": f"touch {made}"})), said("It is made.")]
    name = rig.start("Make it")
    rig.see(name, "Run this command?")
    assert not made.exists()
    with pty_command(rig.chat, "agents", "attach", name) as attached:
        attached.see("Run this command?", "Make it")
        attached.type("1")
        attached.see("It is made.")
        attached.type("\x1c")
        attached.process.wait(SECONDS)
        attached.see(f"{name} keeps running")
    assert made.exists()
    assert rig.job(name)["status"] == "running"


def test_files_are_for_the_user_alone(rig: BackgroundRig) -> None:
    name = rig.start("Hi")
    rig.see(name, "All done here.")
    rig.run("agents", "stop", name)
    places = [rig.folder, rig.folder / name, *(rig.folder / name).iterdir()]
    assert {"state.json", "output.txt", "lock"} <= {each.name for each in places}
    shared = [each for each in places if stat.S_IMODE(each.lstat().st_mode) & 0o077]
    assert shared == []


def test_a_killed_host_takes_its_chat_along_and_is_reported(rig: BackgroundRig) -> None:
    name = rig.start("Hi")
    rig.see(name, "All done here.")
    pid = rig.job(name)["pid"]
    # A host saves what its chat has printed now and then, as nobody can ask a killed one.
    output = rig.folder / name / "output.txt"
    wait_for(lambda: output.exists() and "All done here." in output.read_text())
    os.kill(rig.host(name), signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert rig.job(name)["status"] == "killed"
    assert "All done here." in rig.logs(name)
    assert rig.run("agents", "stop", name).code == 0
    attached = rig.run("agents", "attach", name)
    assert attached.code == 2  # no terminal; nothing is signalled either


def test_a_state_that_names_another_process_stops_nothing(rig: BackgroundRig) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            name = rig.start("Hi")
            rig.see(name, "All done here.")
            rig.run("agents", "stop", name)
            file = rig.folder / name / "state.json"
            # As after a reboot: the state says that it runs, and its id is another program's.
            state = json.loads(file.read_text()) | {"pid": other.pid, "ended": None}
            file.write_text(json.dumps(state))
            assert rig.job(name)["status"] == "killed"
            assert rig.run("agents", "stop", name).code == 0
            assert (other.poll(), start_of(other.pid) is not None) == (None, True)
        finally:
            other.kill()


def test_closing_the_terminal_that_started_it_ends_nothing(rig: BackgroundRig) -> None:
    with pty_command(rig.chat, "chat", "--bg", "Hi") as starting:
        starting.see("turnlog agents attach")
        name = starting.screen.split()[0]
        starting.process.wait(SECONDS)
        starting.hang_up()
        rig.see(name, "All done here.")
        assert rig.job(name)["status"] == "running"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["chat", "--bg", "-p", "Hi"], "--bg needs a prompt and an interactive chat"),
        (["chat", "--bg", "--permission-mode", "nonsense"], "nonsense"),
        (["agents", "stop", "nope"], "no background chat is named 'nope'"),
        (["agents", "logs", ""], "no background chat is named ''"),
        (["agents", "attach", "x"], "attaching needs a terminal"),
    ],
)
def test_senseless_requests_are_refused(rig: BackgroundRig, words: list[str], told: str) -> None:
    done = rig.run(*words)
    assert done.code in (1, 2)
    assert told in done.err
    assert rig.jobs() == []


def test_no_chat_is_started_without_a_key(rig: BackgroundRig) -> None:
    del rig.environment["ANTHROPIC_API_KEY"]
    done = rig.run("chat", "--bg", "Hi")
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line == ("turnlog: no key for the Messages API (try: export ANTHROPIC_API_KEY=KEY)")
    assert rig.jobs() == []


def test_a_key_of_the_users_settings_is_enough(rig: BackgroundRig) -> None:
    key = rig.environment.pop("ANTHROPIC_API_KEY")
    settings = Path(rig.environment["CLAUDE_CONFIG_DIR"]) / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"env": {"ANTHROPIC_API_KEY": key}}))
    rig.see(rig.start("Hi"), "All done here.")


def test_a_command_that_prints_the_key_is_enough(rig: BackgroundRig) -> None:
    key = rig.environment.pop("ANTHROPIC_API_KEY")
    settings = rig.chat.work / ".claude" / "settings.local.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"apiKeyHelper": f"echo {key}"}))
    rig.see(rig.start("--trust", "Hi"), "All done here.")


def test_logs_mask_a_key_that_takes_two_rows(rig: BackgroundRig, api: ScriptedApi) -> None:
    key = "sk-ant-api03-" + "Ab3dE5gH7jK9" * 8
    api.replies[:] = [said(f"Found `{key}` there, and no other.")]
    name = rig.start("Look for keys")
    rig.see(name, "and no other.")
    for shown in (rig.logs(name), rig.run("agents", "logs", name, "--json").out):
        assert ("anthropic-key" in shown, "H7j" in shown) == (True, False)
