"""The documents tell the truth: every command, option, error and public name is in them."""

import subprocess
from pathlib import Path
from runpy import run_path
from shutil import which

import click
import pytest

import turnlog
from turnlog import errors
from turnlog.cli.root import COMMANDS, help_of, root

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs/commands.md").read_text("utf-8")
DOCUMENTS = "\n".join(
    path.read_text("utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_in_the_reference(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command
    options = [text for each in command.params for text in each.opts if text.startswith("--")]
    missing = [text for text in (f"## turnlog {name}", *options) if text not in REFERENCE]
    assert not missing


def test_every_error_is_in_the_reference() -> None:
    names = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert [name for name in names if f"`{name}`" not in REFERENCE] == []


def test_every_public_name_is_in_the_documents() -> None:
    assert [name for name in turnlog.__all__ if f"{name}" not in DOCUMENTS] == []


def test_the_stored_help_is_what_the_command_prints() -> None:
    stored = ROOT / "src/turnlog/cli/help.txt"
    assert stored.read_text("utf-8") == help_of([])


def test_the_man_page_is_generated_from_the_help() -> None:
    stored = ROOT / "share/man/man1/turnlog.1"
    generate = run_path(str(ROOT / "scripts/man_page.py"))["man_page"]
    assert stored.read_text("utf-8") == generate()


@pytest.mark.skipif(not which("groff"), reason="groff is not installed")
def test_groff_prints_the_man_page_without_warnings() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", "share/man/man1/turnlog.1"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert printed.stderr == ""
    assert "turnlog search migration -n 3 --json" in printed.stdout
    assert r"--regex 'TODO\(\w+\)'" in printed.stdout
