"""Help texts: imperative first lines that fit, and examples that parse."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.conftest import Run
from turnlog.cli.root import COMMANDS, GROUPS, command_paths, help_of, root
from turnlog.cli.search import SearchCommand, expand_short_options

PATHS = [" ".join(path) for path in command_paths()]
NO_EXAMPLES = {"hook run", "plugin run"}
"""The client runs them, nobody types them."""


def command_at(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """Return the command that words call, its context and the remaining words."""
    command: click.Command = root
    context = click.Context(root, info_name="turnlog")
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found, f"no command {words[0]}"
        context = click.Context(found, parent=context, info_name=words[0])
        command, words = found, words[1:]
    return command, context, words


def examples_of(path: str) -> Iterator[str]:
    _, is_there, rest = help_of(path.split()).partition("  Examples:\n")
    for line in rest.splitlines() if is_there else ():
        if not line.startswith("    "):
            return
        yield line.strip()


@pytest.mark.parametrize("path", PATHS)
def test_the_first_line_is_an_imperative_sentence_that_fits(path: str) -> None:
    command, _, _ = command_at(path.split())
    first = (command.help or "").splitlines()[0]
    assert first.endswith(".")
    assert first[0].isupper()
    assert not first.split()[0].endswith(("s", "ing"))
    assert command.get_short_help_str(66) == first.removesuffix(".") + "."


@pytest.mark.parametrize("path", [path for path in ["", *PATHS] if path not in NO_EXAMPLES])
def test_every_command_has_examples_whose_options_exist(path: str) -> None:
    examples = list(examples_of(path))
    assert 1 <= len(examples) <= 4
    for example in examples:
        words = shlex.split(
            re.sub(r'(eval|claude --resume) "\$\(', "", example).replace(')"', ""), comments=True
        )
        words = words[words.index("turnlog") + 1 :]
        ends = [words.index(sign) for sign in ("|", ">") if sign in words]
        command, context, rest = command_at(words[: min(ends, default=len(words))])
        if isinstance(command, SearchCommand):
            context.ignore_unknown_options = True
            rest = expand_short_options(rest)
        command.make_parser(context).parse_args(rest)


@pytest.mark.usefixtures("conversation")
@pytest.mark.parametrize("example", list(examples_of("sql")))
def test_statements_in_examples_of_sql_run(
    example: str, turnlog: Run, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(outside)
    outcome = turnlog(*shlex.split(example)[1:])
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize("path", PATHS)
def test_every_option_has_a_help_text(path: str) -> None:
    command, _, _ = command_at(path.split())
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.opts for each in options if not each.help or not each.help.endswith(".")] == []


def test_the_root_help_groups_every_command_once() -> None:
    text = help_of([])
    assert [line for line in text.splitlines() if line.removesuffix(":") in GROUPS] == [
        f"{title}:" for title in GROUPS
    ]
    assert sorted(COMMANDS) == sorted(set(COMMANDS))
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.partition("\n")[2]
