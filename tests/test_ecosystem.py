"""The ecosystem check: what it runs, which differences it reports, and which it lets pass."""

import importlib
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from support.build import session, user
from turnlog.cli.root import help_of

SCRIPTS = Path(__file__).parent.parent / "scripts"
VERSION = """
import os, sys, uuid
from pathlib import Path

def main():
    command, path = sys.argv[1], Path(sys.argv[2])
    if command == "tally":
        os._exit(2)
    if command == "cost":
        print('{"dollars": DOLLARS, "session": "%s"}' % path.name)
    if command == "clone":
        clone = path.with_name(f"clone-{uuid.uuid4()}.jsonl")
        clone.write_bytes(path.read_bytes().replace(b"hi", b"GREETING"))
        print(f"Cloned to {clone}")
    if command == "undo":
        for clone in Path(os.environ["HOME"]).rglob("clone-*"):
            clone.unlink()
    os._exit(0)
"""
SCENES = """
session = '''
tally {session} | cost {session}
'''
change = '''
clone {session}
'''
"""
LEFT_OUT = {
    *("pick", "resume", "web", "tail"),  # run until they are stopped
    *("share", "agents", "forget", "completion"),  # have little to do with what sessions contain
}
Check = Callable[..., tuple[int, str]]


@pytest.fixture
def ecosystem(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    return importlib.import_module("ecosystem")


@pytest.fixture
def check(
    ecosystem: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """Compare a version of a tiny turnlog with the next, on two sessions."""
    sessions, repository = tmp_path / "sessions", tmp_path / "repository"
    sessions.mkdir()
    for name in ("one", "two"):
        (sessions / f"{name}.jsonl").write_bytes(session(user("hi")))
    (tmp_path / "scenes.toml").write_text(SCENES)
    package = repository / "src" / "turnlog"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr(ecosystem, "ROOT", repository)
    monkeypatch.setattr(ecosystem, "CACHE", tmp_path / "cache")

    def write(dollars: str, greeting: str) -> None:
        text = VERSION.replace("DOLLARS", dollars).replace("GREETING", greeting)
        (package / "__main__.py").write_text(text)

    def run(dollars: str = "1.5", greeting: str = "hello", intended: str = "") -> tuple[int, str]:
        write(dollars, greeting)
        (tmp_path / "intended.toml").write_text(intended)
        options = [f"--{name}={tmp_path / name}.toml" for name in ("scenes", "intended")]
        monkeypatch.setattr(sys, "argv", ["", "HEAD", f"--sessions={sessions}", *options])
        code = ecosystem.main()
        return code, capsys.readouterr().out

    write("1.5", "hello")
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "One"]):
        subprocess.run(["git", "-C", str(repository), *arguments], check=True)
    return run


def test_equal_versions_have_no_differences(check: Check) -> None:
    assert check() == (0, "6 commands: 0 differences, 0 intended\n")


def test_a_changed_number_is_shown_once_for_all_sessions(check: Check) -> None:
    code, text = check(dollars="2.5")
    assert code == 1
    assert text.count("=== tally {session} | cost {session} (2)") == 1
    assert "for example in sessions/one.jsonl (session)" in text
    assert '- "dollars": 1.5,\n+ "dollars": 2.5,' in text


def test_a_changed_byte_in_a_clone_is_shown(check: Check) -> None:
    code, text = check(greeting="hullo")
    assert code == 1
    assert '-  "content": "hello"' in text
    assert '+  "content": "hullo"' in text
    assert "undo" not in text


def test_an_intended_difference_passes_and_any_other_one_fails(check: Check) -> None:
    intended = (
        '[[intended]]\ncommand = "*cost *"\nlines = \'"dollars"\'\nreason = "dearer models"\n'
    )
    code, text = check(dollars="2.5", intended=intended)
    assert code == 0
    assert "intended: dearer models (tally {session} | cost {session})" in text
    assert check(dollars="2.5", greeting="hullo", intended=intended)[0] == 1
    code, text = check(intended=intended)
    assert code == 0
    assert "not seen: dearer models" in text


def test_a_check_that_breaks_fails_even_if_it_breaks_in_both_versions(
    ecosystem: ModuleType,
) -> None:
    broken = {"place": {ecosystem.FAILED: "no such file"}}
    (group,) = ecosystem.compare(broken, broken, [])
    assert group.reason == ""


def test_every_command_is_played_or_left_to_other_tests() -> None:
    scenes = tomllib.loads((SCRIPTS / "ecosystem_scenes.toml").read_text())
    lines = f"{scenes['session']}{scenes['change']}{scenes['store']}".replace("@each ", "")
    played = {spelling.split()[0] for line in lines.splitlines() for spelling in line.split(" | ")}
    commands = {
        line.split()[0]
        for line in help_of([]).partition("View:")[2].splitlines()
        if line.startswith("  ") and line[2] != " "
    }
    assert commands - played - {"chat"} == LEFT_OUT
