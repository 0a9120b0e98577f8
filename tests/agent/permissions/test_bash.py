"""Commands are split as bash splits them, or are said to be unclear."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from turnlog.agent.permissions.bash import HOLE, Word, parse_script

PROGRAM = '#!/bin/bash\nprintf \'%s\\0\' "${0##*/}" "$@" > "$CALLS/$$"\n'
WORDS = """
    a 'a_b' "a_b" a\\ b a''b '*' "?" \\* ~ '~' a~ -n -- $'a\\tb' # a#b \\# = a=b
    '' {} {a} a,b %n ! ^ @ + ]
    a] 1 2 - "a'b" 'a"b'
    "a\\"b" "\\$x" \\\\ '$(two)' \\$\\(two\\) "#" x\\;y 'x;two' "x|two" 3>&1 2>/dev/null
    >/dev/null <<<x
    """.split()
JOINTS = [
    " && ",
    " || ",
    "; ",
    " | ",
    " & ",
    "\n",
    "\n\n",
    " \\\n && ",
    " # c\n",
    ";",
    "|",
    "&&",
    " |& ",
]
FRAMES = (
    *("{}", "({})", "{{ {}; }}", "if {}; then two; fi", "! {}", "for i in 1; do {}; done"),
    *("one $({})", 'one "$({})"', "one <({})", "case a in a) {};; esac", "f() {{ {}; }}; f"),
    *(
        "while {}; do break; done",
        "x=1 {}",
        "cat <<'E'\n$(two)\nE\n{}",
        "[[ -n a ]] && {}",
        "time {}",
    ),
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with programs that record how they are called."""
    for name in ("one", "two"):
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(PROGRAM)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def recorded(place: Path, command: str) -> set[tuple[str, ...]]:
    """Return the calls that bash makes."""
    calls = place / "calls"
    shutil.rmtree(calls, ignore_errors=True)
    calls.mkdir()
    variables = {"PATH": f"{place}/bin:/usr/bin:/bin", "CALLS": str(calls), "HOME": str(place)}
    subprocess.run(
        ["timeout", "5", "bash", "--norc", "-c", f"{command}\nwait"],
        cwd=place,
        env=variables | {"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    texts = (os.fsdecode(path.read_bytes()).split("\0")[:-1] for path in calls.iterdir())
    return {tuple(text) for text in texts}


def test_words_are_those_that_bash_passes_to_programs(place: Path) -> None:
    """Each call that bash makes is among the simple commands that were found."""
    random, checked = Random(7), 0
    while checked < 120:
        parts = [
            " ".join([random.choice(("one", "two")), *random.choices(WORDS, k=random.randrange(4))])
            for _ in range(random.randrange(1, 4))
        ]
        text = parts[0] + "".join(random.choice(JOINTS) + part for part in parts[1:])
        command = random.choice(FRAMES).format(text)
        script = parse_script(command)
        if script.problem:
            continue
        checked += 1
        for call in recorded(place, command):
            assert any(_fits(part.words, call, place) for part in script.parts), command


def _fits(words: tuple[Word, ...], call: tuple[str, ...], home: Path) -> bool:
    if any(HOLE in word.text for word in words):  # it may become several words, or none
        return words[0].text == call[0]
    return [str(home) if word.has_tilde else word.text for word in words] == [*call]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat <<A <<B\n1\nA\n2\nB\none", [["cat"], ["one"]]),
        ("cat <<-'E'\n\tone\n\tE\ntwo", [["cat"], ["two"]]),
        ("cat <<E\n$(one)\nE", [["cat"], ["one"]]),
        ("one 2>(two)", [["two"], ["one", "2\0"]]),
        ("one $'\\x61'", [["one", "\0"]]),
        ("case a in (b|c) one;; *) two;; esac", [["one"], ["two"]]),
        ("one 3>&1 >&2 2>&- <&0", [["one"]]),
        ("one 2>/dev/null push", [["one", "push"]]),
        (
            "sort x | head -5\nrm -rf src >/dev/null",
            [["sort", "x"], ["head", "-5"], ["rm", "-rf", "src"]],
        ),
        ("one \"$(two ')')\"", [["two", ")"], ["one", "\0"]]),
        ("one `two \\`three\\``", [["three"], ["two", "\0"], ["one", "\0"]]),
        ("one ${x:-$(two)}", [["two"], ["one", "\0"]]),
        ("((a[$(one)]))", [["one"]]),
        ("one $((a[$(two)]))", [["two"], ["one", "\0"]]),
        ("[[ -v a[$(one)] ]]", [["one"], ["-v", "a[\0]"]]),
        ("npm {a,b}", [["npm", "\0"]]),
        ("one &> x & two", [["one"], ["two"]]),
        ("f() { one; }; f", [["one"], ["f"]]),
        ("a=(b $(one)) two", [["one"], ["two"]]),
        ("select x in a; do one; done", [[], ["one"]]),
        ("for ((i=0;;)); do one; done", [["one"]]),
        ("cat <(one) >(two)", [["one"], ["two"], ["cat", "\0", "\0"]]),
    ],
)
def test_simple_commands_are_found_wherever_they_are(command: str, words: list[list[str]]) -> None:
    script = parse_script(command)
    assert [[word.text for word in part.words] for part in script.parts] == words
    assert not script.problem


@pytest.mark.parametrize(
    "command",
    [
        *(
            "echo 'a",
            "ls )",
            "{ls; }",
            "ls &&",
            "if ls",
            "[[ a",
            "case x in y",
            "echo {a,b} (",
            "ls;;",
        ),
        *("echo <<E\nx", "l\\\ns", "ls\r", "ls \u00a0", "echo \u202e", "echo \ud800", "echo \x07"),
        *("coproc X { :; }", "$(" * 3_000, "a" * 100_001),
    ],
    ids=lambda command: ascii(command[:12]),
)
def test_what_is_not_certain_is_unclear(command: str) -> None:
    assert parse_script(command).problem


def test_a_long_command_is_split_in_time() -> None:
    for text in (
        "echo " + "{," * 4_900,
        "cat *;" * 1_500,
        "cat" + " a" * 40_000,
        "(" * 4_000,
        "`" * 9_999,
    ):
        parse_script(text)
