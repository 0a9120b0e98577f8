"""The parser against bash itself: what it reads as words is what programs receive."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from agent.permissions.grammar import GROUPS
from turnlog.agent.permissions.bash import HOLE, UnknownValue, expand, parse_script

PROGRAM = '#!/bin/bash\nprintf \'%s\\0\' "${0##*/}" "$@" > "$CALLS/$$"\n'
FILES = ("a.py", "b.py", ".env", "sub/c.py", "sub/.d", "x y", "a*b", "[z]")
WORDS = [
    *(
        "a",
        "'a b'",
        '"a b"',
        "a\\ b",
        "a''b",
        "'*'",
        '"?"',
        "\\*",
        "*",
        "*.py",
        "?.py",
        "*/*",
        "*/",
    ),
    *(
        "sub/*",
        "./*",
        "s?b",
        "./*/",
        ".e*",
        "n*x",
        "~",
        "~/x",
        "'~'",
        "~'/x'",
        "a~",
        "-n",
        "--",
    ),
    *(
        "$'a\\tb'",
        "$'it\\'s'",
        "#",
        "a#b",
        "\\#",
        "=",
        "a=b",
        "''",
        "{}",
        "{a}",
        "a,b",
        "%n",
        "!",
        "^",
    ),
    *(
        "?.txt",
        "??.txt",
        "a\\*b",
        "'a*'*",
        "*'*'*",
        "x\\ *",
        "@",
        "+",
        "]",
        "a]",
        "1",
        "2",
        "-",
    ),
]
LAUNCHERS = {"/bin/sh", "sh", "bash", "eval", "trap", "."}
JOINTS = [" && ", " || ", "; ", " | ", " & ", "\n", "\n\n", " \\\n && ", " # c\n", ";", "|", "&&"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files, next to programs that record how they are called."""
    for name in FILES:
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text("")
    for name in ("one", "two"):
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(PROGRAM)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def recorded(place: Path, command: str) -> set[tuple[str, ...]]:
    """The calls that bash makes."""
    calls = place / "calls"
    shutil.rmtree(calls, ignore_errors=True)
    calls.mkdir()
    subprocess.run(
        ["timeout", "5", "bash", "--norc", "-c", f"{command}\nwait"],
        cwd=place / "work",
        env={
            "PATH": f"{place}/bin:/usr/bin:/bin",
            "CALLS": str(calls),
            "LC_ALL": "C.UTF-8",
            "HOME": os.environ["HOME"],
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    found = [path.read_text("utf-8", "surrogateescape") for path in calls.iterdir()]
    return {tuple(call.split("\0")[:-1]) for call in found}


def predicted(place: Path, command: str) -> set[tuple[str, ...]] | None:
    """The calls that the parser finds; None where it is not certain."""
    script = parse_script(command)
    if script.unclear:
        return None
    try:
        return {
            tuple(text for word in part.words for text in expand(word, place / "work"))
            for part in script.parts
            if part.words
        }
    except UnknownValue:
        return None


def generated(seed: int) -> str:
    random = Random(seed)
    commands = [
        " ".join(
            [
                random.choice(["one", "two", "'one'", "t\\wo"]),
                *(random.choice(WORDS) for _ in range(random.randrange(5))),
            ]
        )
        for _ in range(random.randrange(1, 4))
    ]
    shape = random.choice(["{}", "({})", "{{ {}; }}", "if true; then {}; fi", "! {}", "time {}"])
    return shape.format(random.choice(JOINTS).join(commands))


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_programs_receive_the_arguments_that_were_predicted(start: int, place: Path) -> None:
    certain = 0
    for seed in range(start, start + 100):
        command = generated(seed)
        expected = predicted(place, command)
        if expected is not None:
            certain += 1
            assert recorded(place, command) <= expected, command
    assert certain > 50


def test_nothing_runs_that_the_parser_does_not_see(place: Path) -> None:
    certain = 0
    for seed in range(400):
        random = Random(seed)
        command = GROUPS[random.choice(["quotes", "frames", "expansions"])](random)
        command = command.replace("evil", "one").replace("ok", "two")
        expected = predicted(place, command)
        names = {call[0] for call in expected or ()}
        if names & {"one", "two"} and not names & LAUNCHERS:
            certain += 1
            assert {call[0] for call in recorded(place, command)} <= names, command
    assert certain > 10


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat <<A <<B\n1\nA\n2\nB\none", [["cat"], ["one"]]),
        ("cat <<-'E'\n\tone\n\tE\ntwo", [["cat"], ["two"]]),
        ("one 2>(two)", [["two"], ["one", f"2{HOLE}"]]),
        ("one $'\\x61'", [["one", HOLE]]),
        ("one a \\\n b", [["one", "a", "b"]]),
        ("one \"$(two ')')\"", [["two", ")"], ["one", HOLE]]),
        ("case a in (b|c) one;; *) two;; esac", [["one"], ["two"]]),
        ("one 3>&1 >&2 2>&- <&0", [["one"]]),
        ("one 3>&1 1>&2 2>&3 3>&-; two 4>x >&4", [["one"], ["two"]]),
    ],
)
def test_words_are_read_as_bash_reads_them(command: str, words: list[list[str]]) -> None:
    script = parse_script(command)
    assert [[word.text for word in part.words] for part in script.parts] == words
    assert not script.unclear


@pytest.mark.parametrize(
    "command",
    ["echo x >&6", "echo x >& 3", "cat <&06", "one 3>x; echo y >&3", "one >&3-", "one >&3 3>x"],
)
def test_a_descriptor_that_the_command_did_not_open_is_unclear(command: str) -> None:
    assert "it uses a file descriptor that it did not open" in str(parse_script(command).unclear)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "echo ${x:=y}",
            "echo ${x[0]}",
            "echo $((1))",
            "echo $[1]",
            "((x=1))",
            "f() { :; }",
            "a=(b)",
        ),
        *(
            "x[0]=1",
            "echo 'a",
            "ls )",
            "{ls; }",
            "echo {a,b} (",
            "coproc ls",
            "echo <<E\nx",
            "ls &&",
        ),
        *(
            "echo `a \\`b\\``",
            'echo $"a"',
            "exec {fd}>x",
            "l\\\ns",
            "echo \x07",
            "echo \u202e",
            "if ls",
        ),
        *(
            "function f { :; }",
            "echo ${!x}",
            "echo ${x@P}",
            "for ((;;)); do :; done",
            "ls\r",
            "ls \u00a0",
        ),
        *(
            "cat <<E\n$(x)\nE",
            "ls <&$x",
            "select x",
            "[[ a",
            "case x in y",
            "echo \ud800",
            "a" * 10_001,
        ),
    ],
)
def test_what_is_not_certain_is_unclear(command: str) -> None:
    assert parse_script(command).unclear
