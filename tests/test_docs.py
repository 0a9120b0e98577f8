"""The documents are complete: every command, option, error and public name is in them."""

import re
import subprocess
from collections.abc import Iterator
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
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXAMPLES = {
    "src/turnlog/agent/tools/todo_read.py",
    "src/turnlog/index/reports/stop.sql",
}
"""Files that the recipes of CONTRIBUTING.md create."""
SOURCE = ROOT / "src/turnlog"
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
    assert "turnlog search timeout OR deadline --errors --tool Bash" in printed.stdout
    assert r"--regex 'TODO\(\w+\)'" in printed.stdout


def uninstalling_commands(command: click.Command, path: str) -> Iterator[str]:
    if any("--uninstall" in each.opts for each in command.params):
        yield f"{path} --uninstall"
    if "uninstall" in getattr(command, "commands", {}):
        yield f"{path} uninstall"


def test_the_readme_uninstalls_all_that_can_be_installed() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    section = readme.split("## Uninstall")[1].split("\n## ")[0]
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command
        for call in uninstalling_commands(command, f"turnlog {name}"):
            assert call in section


def described_modules() -> Iterator[str]:
    """Yield the modules of the tables of docs/architecture.md, and every path in its text."""
    package = ""
    for line in ARCHITECTURE.split("\n"):
        if heading := re.match(r"##+ (?:`([\w/]+)`$)?", line):
            package = heading[1] or ""
        if line.startswith("| `"):
            cell = line.split("|")[1]
            yield from (f"{package}/{name}" for name in re.findall(r"`([\w.]+)`", cell))
        yield from re.findall(r"`(\w+(?:/\w+)+)`", line)


def exists(module: str) -> bool:
    place = SOURCE / module.strip("/")
    return place.exists() or place.with_suffix(".py").exists()


def test_every_module_that_the_architecture_names_exists() -> None:
    assert [module for module in described_modules() if not exists(module)] == []


def test_every_package_is_described_in_the_architecture() -> None:
    packages = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*/__init__.py")}
    headings = re.findall(r"^##+ `([\w/]+)`$", ARCHITECTURE, re.MULTILINE)
    assert {str(package) for package in packages} == set(headings)


def test_every_path_that_the_recipes_name_exists() -> None:
    pattern = r"\b(?:src|tests|docs|scripts|bench)/[\w./-]*\w|\b[A-Z]+\.md\b|\b\w+\.toml\b"
    paths = set(re.findall(pattern, CONTRIBUTING))
    assert len(paths) > 25
    assert [path for path in paths - EXAMPLES if not (ROOT / path).exists()] == []


def test_every_name_that_the_recipes_add_to_is_in_its_module() -> None:
    named = re.findall(r"`(src/[\w/]+\.py|tests/[\w/]+\.py)`[^`]*`([A-Z_]{4,})`", CONTRIBUTING)
    assert len(named) >= 8
    texts = {path: (ROOT / path).read_text("utf-8") for path, _ in named}
    assert [pair for pair in named if not re.search(rf"^{pair[1]}\b", texts[pair[0]], re.M)] == []
