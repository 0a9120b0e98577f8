"""No command prints a secret, whichever field of a session contains it."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.conftest import Run
from support.build import SESSION
from support.planted_fields import PLANTED_FILE, Planter, plant_everywhere
from turnlog import cli
from turnlog.cli.root import COMMANDS, root
from turnlog.store.paths import Store

ID = SESSION
NOT_RUN = {
    "web": "runs until it is stopped: tests/web plants secrets there",
    "mcp": "speaks a protocol until its input ends: tests/mcp_server plants secrets there",
    "chat": "talks with a model: what it prints is the conversation itself",
    "tail": "does not end: has a test of its own",
    "raw": "prints bytes, which is what it is for",
    "hook run": "is called by the client, with JSON on stdin",
}
LONG = frozenset({"--serve", "--background", "--help", "--reveal", "--pager", "--with-model"})
"""Options that serve, fork, page, or ask a model; and --reveal."""
FILLED = {
    "session": ID,
    "sessions": ID,
    "query": "needle",
    "path": PLANTED_FILE,
    "title": "a new name",
    "statement": "SELECT * FROM prompts JOIN calls",
    "directory": "/somewhere",
    "new": "/somewhere",
    "to": "/somewhere/else",
    "kind": "user",
    "shell": "bash",
    "change": "",
    "changes": "",
}
"""What stands for an argument."""
EXTRA = {
    "show": "{} --full; {} --format md --full; {} --line 2; {} --turn 1",
    "search": """--regex needle; --kind result needle; --kind input needle; needle --limit 0;
        --kind input --json needle; --tool mcp__x__call needle""",
    "stats": "session; project; model; tool; file; branch; errors",
    "files": """{}; {} --diff; {} --json; {} --at 1; {} --at 1 --json; {} needle.py --at 1;
        {} needle.py --at 1 --json; {} needle.py --at 1 --diff; {} needle.py --at line:1;
        {} needle.py --blame --json; {} --at 1 --restore out; {} --restore other --json""",
    "git": "{} -o repository; {} -o another --json; {} -o bare --bare",
    "trace": """{} --dry-run; {} --dry-run --json; --all --dry-run; {} --to out.json;
        {} --dry-run --content full --json""",
    "check": "--all; --all --json",
    "inspect": "--all; --all --full; --all --json",
    "redact": "{} --dry-run; {} --dry-run --json; --all --dry-run; {}; {} --json; --all",
    "archive": "--dry-run --json; ; --list; --list --json; --check",
    "rm": "{} --dry-run --json; {} --json --history",
    "mv": "{} --to /somewhere --dry-run",
    "edit": """{} --strip-thinking --dry-run; {} --compress --dry-run;
        {} --repair --json --dry-run""",
    "export": """{} -o -; {} -o - --no-js; {} -o - --format md --depth full;
        {} -o - --format txt --depth full; {} -o - --format json; -a -o out""",
    "bundle": """{} -o x.turnlog; {} -o x.turnlog --dry-run; {} -o x.turnlog --json;
        {} -o x.turnlog --as-is; {} -o x.turnlog --as-is --json; --since 9999d -o x.turnlog""",
    "unbundle": "x.turnlog; x.turnlog --json",
    "share": "{} --to page.html --yes; {} --to x.html --yes --json; --list --json",
    "rename": "{} name --dry-run",
    "tag": "{} name --dry-run; {} --remove",
    "schema": "--list",
    "forget": "--all --yes",
    "lake push": """lake; lake --json; lake --with paths --with commands --with texts; lake --again;
        lake --names hash --dry-run""",
    "lake status": "lake; lake --json",
    "lake verify": "lake; lake --json",
    "lake compact": "lake --grace 0; lake --json",
    "lake pull": "lake copy; lake copy --json",
    "lake forget": "lake --user nobody --yes; lake --session {} --yes; lake --user x --dry-run",
    "lake install": "lake; lake --timer --json; lake --dry-run",
}
"""Command lines that the options alone do not give."""
QUERIES = (
    "SELECT * FROM calls",
    "SELECT * FROM files",
    "SELECT * FROM sessions",
    "SELECT * FROM turns",
    "SELECT text AS password FROM prompts",
)


def leaves(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the program, by the words that call it."""
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command
        if isinstance(command, click.Group):
            yield from leaves(command, f"{name}{each} ")
        else:
            yield f"{name}{each}", command


TREE = dict(leaves(root))
REVEALING = [
    name
    for name, command in TREE.items()
    if name not in NOT_RUN and any("--reveal" in each.opts for each in command.params)
]


def lines_of(name: str, command: click.Command) -> list[list[str]]:
    """Return command lines of a command: with each of its flags, and each choice of an option."""
    arguments = [
        FILLED.get(str(each.name), "")
        for each in command.params
        if isinstance(each, click.Argument)
    ]
    base = [word for word in arguments if word]
    options = [each for each in command.params if isinstance(each, click.Option)]
    options = [each for each in options if LONG.isdisjoint(each.opts)]
    flags = [[*base, each.opts[-1]] for each in options if each.is_flag]
    chosen = [
        [*base, each.opts[-1], str(choice)]
        for each in options
        if isinstance(each.type, click.Choice)
        for choice in each.type.choices
    ]
    extra = [words.format(ID).split() for words in EXTRA.get(name, "").split(";") if words]
    if name == "sql":
        extra = [[query, *form] for query in QUERIES for form in ([], ["--json"], ["--csv"])]
    return [base, *flags, *chosen, *extra]


@pytest.fixture
def planter(project: Path, monkeypatch: pytest.MonkeyPatch) -> Planter:
    monkeypatch.chdir(project.parent)
    # `lake install --timer` writes below it, and later tests must not find that.
    monkeypatch.setenv("HOME", str(project.parent / "person"))
    return Planter()


def test_commands_are_known() -> None:
    assert {name.split()[0] for name in TREE} == set(COMMANDS)
    assert NOT_RUN.keys() <= TREE.keys()


@pytest.mark.parametrize("name", ["", *(each for each in TREE if each not in NOT_RUN)])
def test_no_command_prints_a_secret(
    project: Path, planter: Planter, turnlog: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, words in enumerate(lines_of(name, TREE[name]) if name else [[], []]):
        monkeypatch.setenv("COLUMNS", "240" if rank % 2 else "60")
        planter.is_split = rank % 4 > 1
        path = plant_everywhere(Store(project.parent.parent), planter)
        outcome = turnlog(*name.split(), *words)
        assert planter.leaked(outcome.out + outcome.err) == [], words
        assert "Traceback" not in outcome.err, words
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", REVEALING)
def test_reveal_shows_secrets(
    project: Path, planter: Planter, turnlog: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    plant_everywhere(Store(project.parent.parent), planter)
    words = {"sql": ["SELECT text FROM prompts"], "stats": ["project"], "ls": []}
    words["files"] = [ID, PLANTED_FILE, "--diff"]
    outcome = turnlog(*name.split(), *words.get(name, lines_of(name, TREE[name])[0]), "--reveal")
    assert planter.leaked(outcome.out), outcome


def test_raw_prints_the_bytes(project: Path, planter: Planter, turnlog: Run) -> None:
    path = plant_everywhere(Store(project.parent.parent), planter)
    first = path.read_text("utf-8").splitlines()[0]
    assert turnlog("raw", ID, "--line", "1").out == f"{first}\n"


@pytest.mark.parametrize("options", [[], ["--json"], ["--reveal"]])
def test_tail_masks_what_it_follows(project: Path, planter: Planter, options: list[str]) -> None:
    path = plant_everywhere(Store(project.parent.parent), planter)
    command = [sys.executable, "-m", "turnlog", "tail", ID, "-n", "100", *options]
    size = len(path.read_bytes().splitlines()[-100:])
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as tail:
        assert tail.stdout
        seen = ""
        limit = time.monotonic() + 30
        while seen.count("\n") < min(size, 40) and time.monotonic() < limit:
            seen += tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
    assert bool(planter.leaked(seen)) == (options == ["--reveal"])


def test_completion_of_sessions_masks_titles(
    project: Path, planter: Planter, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_everywhere(Store(project.parent.parent), planter)
    asked = {"_TURNLOG_COMPLETE": "zsh_complete", "COMP_WORDS": "turnlog show ", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "turnlog"]
    told = subprocess.run(
        command, env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert ID in told.stdout
    assert planter.leaked(told.stdout + told.stderr) == []


def test_the_status_line_masks_the_model(project: Path, planter: Planter) -> None:
    plant_everywhere(Store(project.parent.parent), planter)
    given = {"session_id": ID, "model": {"display_name": f"Opus {planter.token('display name')}"}}
    command = [sys.executable, "-m", "turnlog", "statusline"]
    told = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith("Opus [github-token:")


def test_the_status_line_passes_no_control_sequences_on(project: Path) -> None:
    given = {"model": {"display_name": "Opus\x1b]0;title\x07\u202e\x9b2J"}}
    command = [sys.executable, "-m", "turnlog", "statusline"]
    variables = os.environ | {"NO_COLOR": "1"}
    told = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=True, env=variables
    )
    assert told.stdout.startswith("Opus ]0;title 2J")
    assert told.stdout.strip().isprintable()


def test_a_private_key_in_a_diff_is_masked(project: Path, turnlog: Run) -> None:
    from support.build import assistant, call, result, session, user

    body = "\n".join("Q7x4Jq0Zb8mTRk4d" * 4 for _ in range(6))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    edit = {"file_path": "/k.pem", "content": key}
    lines = [user("go"), assistant(call("Write", edit)), result("toolu_1")]
    (project / f"{ID}.jsonl").write_bytes(session(*lines))
    for words in (["files", ID, "--diff"], ["show", ID, "--full"], ["show", ID, "--format", "md"]):
        assert "Jq0Zb8mT" not in turnlog(*words).out


WRITERS = {
    "chat.py",
    "file_moments.py",
    "hosted.py",
    "main.py",
    "raw.py",
    "show.py",
    "tables.py",
    "terminal.py",
}
"""Modules that write to a stream themselves: what prints, masked tables, bytes, stored help, a
version, the printed chat, a pager, the content of a file."""


def test_only_one_module_prints() -> None:
    folder = Path(cli.__file__).parent
    for path in folder.glob("*.py"):
        calls = {
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
        }
        names = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
        assert path.name in WRITERS or calls.isdisjoint(names), path.name
