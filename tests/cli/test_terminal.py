"""Colours are printed only where the user can see them and wants them."""

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from support.build import SESSION, assistant, call, result, session, text, user
from support.terminal import Terminal
from turnlog.cli.terminal import dim, echo, is_coloured, style


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Screen(), {}, True),
        (Screen(), {"TERM": "dumb"}, False),
        (Screen(), {"NO_COLOR": "1"}, False),
        (Screen(), {"NO_COLOR": ""}, True),
        (Screen(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (StringIO(), {}, False),
        (StringIO(), {"FORCE_COLOR": "1"}, True),
    ],
)
def test_colours_are_for_terminals_unless_the_user_says_otherwise(
    stream: StringIO, environment: dict[str, str], expected: bool
) -> None:
    assert is_coloured(stream, environment) == expected


def test_colours_are_taken_out_where_none_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    echo(f"{style('red', 'red', 'bold')} {dim('dim')} {style('as it is', None)}")
    echo(style("wanted", "cyan"), coloured=True)
    echo("to stderr", err=True)
    assert capsys.readouterr() == ("red dim as it is\n\x1b[36mwanted\x1b[0m\n", "to stderr\n")


def test_a_screen_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    echo(style("no", "red"))
    assert screen.getvalue() == "\x1b[31mno\x1b[0m\n"


@pytest.mark.parametrize(
    ("no_color", "expected"),
    [
        ("", ["LESS=-R", "\x1b[32;1m  1 ❯ (new session) Hello\x1b[0m"]),
        ("1", ["LESS=", "  1 ❯ (new session) Hello"]),
    ],
)
def test_a_pager_shows_colours_unless_the_user_wants_none(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_color: str,
    expected: list[str],
) -> None:
    path = project / "11111111-0000-4000-8000-000000000000.jsonl"
    path.write_bytes(session(user("Hello")))
    monkeypatch.setenv("NO_COLOR", no_color)
    settings, *lines = paged(monkeypatch, tmp_path, "show", str(path))
    assert [settings, next(line for line in lines if "❯" in line)] == expected


def test_the_pager_opens_at_the_line_that_was_asked_for(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "11111111-0000-4000-8000-000000000000.jsonl"
    answers = [assistant(text(f"answer {n}\n" * 9), message_id=f"m{n}") for n in range(9)]
    called = assistant(call("Bash", {"command": "make"}, "A"), message_id="x")
    path.write_bytes(session(user("Hello"), *answers, called, result("A", "made")))
    monkeypatch.setenv("NO_COLOR", "1")
    settings, *lines = paged(monkeypatch, tmp_path, "show", str(path), "--line", "11")
    assert settings.startswith("LESS=-R +")
    place = int(settings.removeprefix("LESS=-R +").removesuffix("g"))
    assert lines[place - 1].startswith("● Bash make")
    assert lines[place].strip() == "made"


def test_what_does_not_fit_beside_a_message_is_below_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(user("Hello")))
    missing = "turnlog: nothing found for 'walrus'"
    hint = "(try: turnlog search --regex walrus)"
    assert on_terminal(monkeypatch, 80, "search", "walrus") == [f"{missing} {hint}"]
    assert on_terminal(monkeypatch, 60, "search", "walrus") == [missing, f"  {hint}"]
    resume = "cd /home/ada/shop && claude --resume " + SESSION
    label = "resume the last one:"
    assert on_terminal(monkeypatch, 100, "ls")[-1] == f"{label} {resume}"
    first, last = resume.split(" && ")
    assert on_terminal(monkeypatch, 60, "ls")[-3:] == [label, f"{first} &&", f"  {last}"]
    cloned = on_terminal(monkeypatch, 60, "clone", SESSION)
    assert cloned[-2] == f"  {first} &&"
    assert cloned[-1].startswith("    claude --resume ")


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, *arguments: str) -> list[str]:
    """Run a command on a terminal without colours; return what it prints."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    terminal = Terminal(columns)
    place = terminal.follower
    command = [sys.executable, "-m", "turnlog", *arguments]
    subprocess.run(command, stdin=place, stdout=place, stderr=place, check=False)
    return [line for line in terminal.close().split("\r\n") if line and "indexing" not in line]


def paged(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> list[str]:
    """Run a command on a terminal with a pager that prints its settings first."""
    less = folder / "less"
    less.write_text('#!/bin/sh\necho "LESS=$LESS"\ncat\n')
    less.chmod(0o755)
    for name, value in {"PAGER": str(less), "TERM": "xterm", "LESS": ""}.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    command = [sys.executable, "-m", "turnlog", *arguments]
    subprocess.run(command, stdin=terminal.follower, stdout=terminal.follower, check=True)
    return terminal.close().split("\r\n")
