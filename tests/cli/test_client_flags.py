"""Flags of the client: each one works, is ignored with a notice, or is refused with a reason."""

from pathlib import Path
from runpy import run_path

import pytest
from click.testing import CliRunner

from turnlog.cli.client_flags import CLIENT_FLAGS, IGNORED, REFUSED, without_client_flags
from turnlog.cli.root import root
from turnlog.errors import UsageError

TABLE = run_path(str(Path(__file__).parents[2] / "scripts" / "flag_table.py"))
EXPLAIN = ("--explain-permission", "ls")
"""Makes `chat` print a verdict and exit, without an API."""


@pytest.mark.parametrize("names", TABLE["flag_names"](), ids=" ".join)
def test_every_flag_of_the_client_is_known(names: tuple[str, ...]) -> None:
    treatment, reason = TABLE["treatment_of"](names)
    assert treatment == "supported" or reason


def run_chat(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(root, ["chat", *EXPLAIN, *arguments])
    error = done.exception
    return (2 if isinstance(error, UsageError) else done.exit_code), done.stderr


@pytest.mark.parametrize("flag", [each for each in CLIENT_FLAGS if each.treatment == IGNORED])
def test_ignored_flags_are_named(flag: tuple[tuple[str, ...], str]) -> None:
    names, argument = flag[:2]
    for name in names:
        code, told = run_chat(name, *(["value"] if argument else []))
        assert (code, told.startswith(f"turnlog: {names[-1]} is ignored: ")) == (0, True)


def test_flags_that_ask_for_what_turnlog_does_anyway_are_silent() -> None:
    assert run_chat("--no-chrome", "--await-initialize") == (0, "")


@pytest.mark.parametrize("flag", [each for each in CLIENT_FLAGS if each.treatment == REFUSED])
def test_refused_flags_give_a_reason(flag: tuple[tuple[str, ...], str, str, str]) -> None:
    for name in flag[0]:
        for given in (name, f"{name}=value"):
            with pytest.raises(UsageError, match=f"^{name} is not supported: {flag[3]}"):
                without_client_flags(["-p", given], {})


def test_values_of_other_options_are_no_flags() -> None:
    code, told = run_chat("--append-system-prompt", "--bare", "--allowedTools=Read", "--", "--ide")
    assert (code, told) == (0, "")


def test_an_unknown_flag_is_still_an_error() -> None:
    code, told = run_chat("--nonsense")
    assert code == 2
    assert "No such option" in told
