"""A command line that bypasses the parser has the same effect as a parsed one."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from support.build import assistant, session, text, user
from turnlog.cli import main, root
from turnlog.cli.direct import COMPLETE

SESSION = "11111111-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "fixed"),
        ("search", "was", "fixed"),
        ("search", "capybara"),
        ("search", ""),
        ("search", "(", "OR"),
        ("search", '"was fixed"'),
        ("search",),
        ("search", "-h"),
        ("search", "fixed", "--limit", "x"),
        ("search", "--", "fixed"),
        ("search", "--like", "what was repaired"),
        ("search", "--like", "zzqx"),
        ("search", "--like", ""),
        ("search", "--like", SESSION[:8]),
        ("search", "--like", "last"),
        ("search", "--like", "nosuch.jsonl"),
        ("search", "--like", "--json"),
        ("search", "--like"),
        ("statusline",),
        ("statusline", "--help"),
        ("nosuch",),
    ],
)
def test_both_ways_say_the_same(
    project: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    lines = session(user("Is it fixed?"), assistant(text("It was fixed.")), session_id=SESSION)
    (project / f"{SESSION}.jsonl").write_bytes(lines)
    root.run(["sync"])
    capfd.readouterr()
    outcomes: list[tuple[int, tuple[str, ...]]] = []
    for run in (main.run, root.run):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f'{{"session_id": "{SESSION}"}}'))
        outcomes.append((run(list(arguments)), tuple(capfd.readouterr())))
    assert outcomes[0] == outcomes[1]
    assert any(outcomes[0][1])


@pytest.mark.parametrize(
    "arguments", [["search", "fixed"], ["search", "--like", "fixed"], ["statusline"]]
)
def test_what_is_run_directly_loads_no_click(project: Path, arguments: list[str]) -> None:
    code = (
        f"import sys; from turnlog.cli.main import run; run({arguments})\n"
        "sys.exit('click' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], input=b"{}", check=False).returncode == 0


def test_a_status_line_loads_neither_msgspec_nor_a_way_to_zip(project: Path) -> None:
    code = (
        "import sys; from turnlog.cli.main import run; run(['statusline'])\n"
        "sys.exit(bool({'msgspec', 'zipfile', 'tempfile'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], input=b"{}", check=False).returncode == 0


def test_a_shell_that_completes_is_answered_by_the_parser(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "turnlog sea")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert main.run(["search", "fixed"]) == 0
    assert capfd.readouterr().out == "plain,search\n"
