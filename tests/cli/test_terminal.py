"""Colours are printed where the user can see them, and wants them."""

import os
import subprocess
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

from support.build import session, user
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
    [("", ["LESS=-R", "\x1b[32;1m  1 ❯ Hello\x1b[0m"]), ("1", ["LESS=", "  1 ❯ Hello"])],
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
    less = tmp_path / "less"
    less.write_text('#!/bin/sh\necho "LESS=$LESS"\ncat\n')
    less.chmod(0o755)
    settings = {"PAGER": str(less), "TERM": "xterm", "NO_COLOR": no_color, "LESS": ""}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "turnlog", "show", str(path)]
    subprocess.run(command, stdin=follower, stdout=follower, check=True)
    os.close(follower)
    assert printed_on(leader).split("\r\n")[:2] == expected


def printed_on(leader: int) -> str:
    """All that was printed on a terminal that nobody has open any more."""
    printed = b""
    with os.fdopen(leader, "rb", 0) as terminal, suppress(OSError):
        while some := terminal.read(4096):
            printed += some
    return printed.decode()
