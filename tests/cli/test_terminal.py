"""Colours are printed where the user can see them, and wants them."""

import sys
from io import StringIO

import pytest

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
