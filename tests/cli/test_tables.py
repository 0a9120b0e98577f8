"""Every table in terminals of 40, 80 and 200 columns: headers, cell widths, whole numbers."""

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli.conftest import Run
from support.build import SESSION, START, assistant, call, line, result, session, stamp, text, user
from support.terminal import Terminal
from turnlog.cli.tables import NARROWEST, Column, Table, draw_table
from turnlog.index.reports.reports import REPORTS
from turnlog.text import SGR

WIDE = "日本語の題名 🎉 がここにとても長く書いてあるので切らなければなりません" * 2
PASSWORD = "tr0ub4dor&3" + "xyz"
HUGE = 123_456_789_012
FOLDER = "-home-ada-shop"
COMMANDS = {
    "ls": "session",
    "turns last": "turn",
    "calls last": "line",
    "files last": "file",
    "entries last": "line",
    "context last": "message",
    "cost last": "model",
    "replay last": "conversation",
    "trace last --dry-run": "span",
    "history": "change",
    "archive --list": "session",
    "redact --all --dry-run": None,
    "edit last --strip-tools --dry-run": "change",
    "inspect last": "count",
    "sql SELECT*FROM(messages)": "id",
    "check --all": None,
    "tree last": None,
    "search 日本語": None,
    "": "session",
}
"""Commands that print tables, with the first head of each; None where it is not on one line."""


def write_store(root: Path) -> None:
    """A store whose titles, paths, names and numbers are wider than any terminal."""
    folder = root / "projects" / FOLDER
    folder.mkdir(parents=True)
    cwd = f"/home/ada/{'とても長い/' * 12}shop"
    usage = {f"{name}_tokens": HUGE for name in ("input", "output")}
    usage |= {f"cache_{name}_input_tokens": HUGE for name in ("read", "creation")}
    path = f"{cwd}/データ/{'x' * 90}.py"
    tool = f"mcp__{'server' * 9}__tool"
    lines: list[bytes] = []
    for n in range(12):
        at = stamp(START + timedelta(days=n))
        model = f"claude-opus-5-{'日' * 20 if n % 2 else 'x' * 40}"
        body = {"model": model if n % 3 else "claude-opus-5", "usage": usage}
        lines += [
            user(f"{WIDE} {n}", timestamp=at, cwd=cwd, git_branch="機能/" * 20),
            assistant(
                call("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, f"E{n}"),
                call(tool, {"query": WIDE}, f"T{n}"),
                call("Read", {"file_path": path}, f"R{n}"),
                message_id=f"m{n}",
                message=body,
                timestamp=at,
            ),
            result(f"E{n}", WIDE, timestamp=at, tool_use_result={"filePath": path}),
            result(f"T{n}", WIDE, is_error=True, timestamp=at),
            assistant(text(WIDE), message_id=f"n{n}", message=body, timestamp=at),
        ]
    lines.append(user(f"{WIDE} DB_PASSWORD={PASSWORD} {WIDE}", parent="00000000-lost"))
    lines.append(line("custom-title", custom_title=WIDE))
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    write_store(root)
    for arguments in (["archive"], ["rename", "last", WIDE]):
        os.utime(root / "projects" / FOLDER / f"{SESSION}.jsonl", (1.7e9, 1.7e9))
        subprocess.run(_command(arguments), env=_environment(root), check=True, capture_output=True)
    return root


def _command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "turnlog", *arguments]


def _environment(root: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    own = {"CLAUDE_CONFIG_DIR": root, "TURNLOG_HOME": root / "own", "HOME": root}
    own["XDG_CACHE_HOME"] = root / "cache"
    return kept | {name: str(path) for name, path in own.items()} | {"TERM": "xterm-256color"}


def printed(root: Path, arguments: list[str], columns: int) -> list[str]:
    """Return the lines that a command prints on a terminal of so many columns, uncoloured."""
    terminal = Terminal(columns, rows=50)
    process = subprocess.run(
        _command(arguments),
        env=_environment(root),
        stdin=terminal.follower,
        stdout=terminal.follower,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    lines = re.sub(SGR, "", terminal.close()).splitlines()
    assert process.returncode in {0, 1}, process.stderr
    return lines


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", REPORTS)
def test_every_report_fits_the_terminal(home: Path, name: str, columns: int) -> None:
    lines = printed(home, ["stats", name], columns)
    assert len(lines) > 2
    assert [each for each in lines if cell_len(each) > columns] == []


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_table_fits_the_terminal_and_has_a_header(
    home: Path, command: str, columns: int
) -> None:
    arguments = command.replace("*FROM(", " * FROM ").replace(")", "")
    words = ["sql", arguments[4:]] if arguments.startswith("sql ") else arguments.split()
    lines = printed(home, words, columns)
    heads = [each.split()[:1] for each in lines]
    assert COMMANDS[command] is None or [COMMANDS[command]] in heads
    # Paths and commands are copied, so they are never cut.
    whole = (str(home), "projects/", "  cd ", "    '/")
    tables = [each for each in lines if not each.startswith(whole)]
    assert [each for each in tables if cell_len(each) > columns] == []


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_numbers_are_whole_in_every_width(home: Path, columns: int) -> None:
    lines = printed(home, ["cost", "last"], columns)
    assert any("$" in each for each in lines)
    assert all(re.fullmatch(r"\$[\d,.]+|\?", row.split()[-1]) for row in lines[1:4])
    assert f"{HUGE * 8:,}" in " ".join(lines) or columns == 40


def test_sql_says_how_many_columns_fit(turnlog: Run) -> None:
    wide = ", ".join(f"1234567890 AS column_{n}" for n in range(20))
    printed = turnlog("sql", f"SELECT {wide}")
    assert printed.out.splitlines()[1].split() == ["1234567890"] * 6
    assert printed.err == "6 of 20 columns fit; --json or --csv prints all\n"


NUMBERS = st.lists(st.integers(0, 10**12).map(str), min_size=2, max_size=2)
TEXTS = st.lists(st.text("ab 日本🎉é", max_size=60), min_size=2, max_size=2)


@given(
    st.lists(st.tuples(TEXTS | NUMBERS, st.integers(0, 3)), min_size=1, max_size=8),
    st.integers(20, 200),
)
def test_a_table_fits_if_its_whole_columns_do(
    cells: list[tuple[list[str], int]], room: int
) -> None:
    columns = [
        Column("x", each, is_number=each[0].isdigit(), expendable=rank) for each, rank in cells
    ]
    lines = draw_table(columns, room)
    kept = [each for each in columns if not each.expendable]
    least = sum(max(map(len, each.cells)) if each.is_number else NARROWEST for each in kept)
    assert len({cell_len(each) for each in lines}) == 1
    assert cell_len(lines[0]) <= max(room, least + 2 * (len(kept) - 1))


def test_the_most_expendable_columns_go_first_and_numbers_are_never_cut() -> None:
    columns = [
        Column("name", ["日本語日本語日本語"]),
        Column("many", ["1,234,567"], is_number=True, expendable=1),
        Column("more", ["7,654,321"], is_number=True, expendable=2),
    ]
    assert [Table(columns, room).left_out for room in (40, 30, 18)] == [0, 1, 2]
    assert draw_table(columns, 24)[1] == "日本語日本語…  1,234,567"
