"""search, and show --line: these files, this command, this output."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import (
    SESSION,
    assistant,
    attachment,
    call,
    line,
    nth,
    result,
    session,
    text,
    user,
)
from turnlog.cli.hits import lines_of
from turnlog.index.service import SearchRequest, search_sessions
from turnlog.render.text_layout import cells_of
from turnlog.store.stores import open_stores
from turnlog.text import SGR

ID = SESSION[:8]
AGENT = "a1b2c3d4e5f60718"
SECRET = "tr0ub4dor&3"
EVIL = "\x1b]0;owned\x07\x9b2J\u202egnp\x1b[31m"
HARM = set("\x00\x07\x08\x1b\x7f\x9b\u202e")
TALK = (
    user("Fix the total of the cart"),
    assistant(call("Bash", {"command": "pytest -x"}, "A"), message_id="m1"),
    result("A", "1 failed\nbadly", is_error=True),
    assistant(text("Fixed the cart."), message_id="m2"),
    user("Try it again"),
    assistant(text("An abandoned walrus."), message_id="m3"),
    user("Try it otherwise", parent=nth(4)),
    assistant(text("Another answer."), message_id="m4"),
    line("custom-title", custom_title="Cart totals"),
)
RESUME = f"cd /home/ada/shop && claude --resume {SESSION}"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))


def write(project: Path, *lines: bytes) -> Path:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*lines))
    return path


def write_agent(project: Path) -> None:
    folder = project / SESSION / "subagents"
    folder.mkdir(parents=True)
    lines = (user("Count the penguins"), assistant(text("Seven penguins"), message_id="p1"))
    content = session(*lines, agent_id=AGENT)
    (folder / f"agent-{AGENT}.jsonl").write_bytes(
        content.replace(b"00000000-0000", b"a9e47000-0000")
    )


def test_search_shows_hits_and_how_to_open_them(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    outcome = turnlog("search", "failed OR walrus")
    assert (outcome.code, outcome.err) == (0, "")
    heading, *rest = outcome.out.splitlines()
    assert heading.split() == [ID, heading.split()[1], "Cart", "totals", "/home/ada/shop"]
    assert rest == [
        "  ❯ Try it again",
        "    answer    An abandoned walrus.",
        f"    turnlog show {ID} --line 6",
        "  ❯ Fix the total of the cart",
        "    → Bash    1 failed badly",
        f"    turnlog show {ID} --line 3",
        f"  {RESUME}",
    ]


def test_a_prompt_that_is_found_is_shown_once(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    assert (
        turnlog("search", "total").out.splitlines()[1:]
        == [
            "    title     Cart totals",
            f"    turnlog show {ID}",
            "  ❯ Fix the total of the cart",
            f"    turnlog show {ID} --line 1",
            f"  {RESUME}",
        ][2:]
    )


@pytest.mark.parametrize("query", ["failed", "walrus", "penguins seven", "totals", "otherwise"])
def test_every_command_that_is_shown_shows_the_hit(project: Path, turnlog: Run, query: str) -> None:
    write(project, *TALK)
    write_agent(project)
    lines = turnlog("search", query).out.splitlines()
    commands = [line_ for line_ in lines if line_.startswith("    turnlog show")]
    outcome = turnlog(*shlex.split(commands[0])[1:])
    assert outcome.code == 0
    assert query.split(maxsplit=1)[0] in outcome.out.lower() or query == "totals"


def test_show_line_shows_one_turn_of_the_branch_that_holds_it(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    out = turnlog("show", ID, "--line", "6").out
    assert out.splitlines()[5:8] == ["  2 ❯ Try it again", "", "An abandoned walrus."]
    assert "otherwise" not in out
    assert "Try it otherwise" in turnlog("show", ID, "--line", "8").out


def test_show_takes_a_line_as_models_cite_it(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    for cited in (f"{ID}:6", f"{ID[:8]}:6", "last:6"):
        assert turnlog("show", cited).out == turnlog("show", ID, "--line", "6").out
    assert "has 9 lines, no line 600" in turnlog("show", f"{ID[:8]}:600").err
    assert turnlog("show", f"{ID[:8]}:6", "--turn", "2").code == 2


def test_show_line_unfolds_what_is_in_the_line(project: Path, turnlog: Run) -> None:
    output = "\n".join(f"row {n}" for n in range(60))
    command = call("Bash", {"command": "seq 60"}, "A")
    write(project, user("Count"), assistant(command), result("A", output))
    assert "row 59" not in turnlog("show", ID).out
    assert "row 59" in turnlog("show", ID, "--line", "3").out
    assert "row 59" in turnlog("show", ID, "--line", "3", "--format", "md").out


def test_show_line_unfolds_long_prompts_and_notes(project: Path, turnlog: Run) -> None:
    many = "\n".join(f"row {n}" for n in range(60))
    write(
        project, user(many), user(f"Caveat\n{many} of a note", is_meta=True), assistant(text("a"))
    )
    assert "row 59" not in turnlog("show", ID).out
    assert "row 59\n" in turnlog("show", ID, "--line", "1").out
    assert "row 59 of a note" in turnlog("show", ID, "--line", "2").out


def test_show_line_finds_a_sidechain_in_the_file(project: Path, turnlog: Run) -> None:
    write(
        project,
        user("Ask an agent"),
        assistant(call("Task", {"prompt": "Count penguins"}, "T")),
        user("Count penguins", parent=None, is_sidechain=True),
        assistant(text("Seven penguins"), is_sidechain=True),
        result("T", "seven", parent=nth(2)),
    )
    out = turnlog("show", ID, "--line", "4").out
    assert out.splitlines()[5:8] == ["  1 ❯ (new session) Count penguins", "", "Seven penguins"]


def test_show_line_of_a_line_that_stands_twice(project: Path, turnlog: Run) -> None:
    twice = assistant(text("Twice"), uuid=nth(2), parent=nth(1), message_id="m")
    write(project, user("Say it"), twice, twice)
    assert "Twice" in turnlog("show", ID, "--line", "2").out


def test_show_line_of_no_turn_is_an_error(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    outcome = turnlog("show", ID, "--line", "9")
    assert (outcome.code, outcome.out) == (1, "")
    assert f"turnlog raw {SESSION} --line 9" in outcome.err
    assert turnlog("show", ID, "--line", "99").code == 1
    assert turnlog("show", ID, "--line", "6", "--turn", "2").code == 2


def test_a_queued_prompt_is_found_and_shown(project: Path, turnlog: Run) -> None:
    queued = attachment("queued_command", {"prompt": "also the walrus"})
    write(project, user("Go"), assistant(text("a")), queued, assistant(text("b")))
    assert "❯ also the walrus" in turnlog("search", "walrus").out
    assert turnlog("show", ID, "--line", "3").code == 0


def test_search_prints_json(project: Path, turnlog: Run) -> None:
    path = write(project, *TALK)
    [found] = json.loads(turnlog("search", "failed", "--json").out)
    assert {key: value for key, value in found.items() if key != "turns"} == {
        "id": SESSION,
        "path": str(path),
        "project": "/home/ada/shop",
        "title": "Cart totals",
        "last_active": "2026-11-15T06:00:08+00:00",
        "more": 0,
        "store": str(path.parents[2]),
        "resume": RESUME,
        "score": None,
    }
    assert found["turns"] == [
        {
            "id": ID,
            "is_subagent": False,
            "prompt": "Fix the total of the cart",
            "hits": [
                {
                    "kind": "result",
                    "tool": "Bash",
                    "is_error": True,
                    "line": 3,
                    "time": "2026-11-15T06:00:03+00:00",
                    "text": "1 failed\nbadly",
                    "marks": [[2, 8]],
                }
            ],
        }
    ]
    assert json.loads(turnlog("search", "nosuchword", "--json").out) == []


def test_what_starts_with_a_dash_is_part_of_the_query(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # click keeps the help option of a command's first context, which another test may have made.
    monkeypatch.setattr("turnlog.cli.search.command._help_option", None)
    write(project, *TALK)
    assert "pytest -x" in turnlog("search", "pytest", "-x").out
    assert "pytest -x" in turnlog("search", "-x").out
    assert "walrus" in turnlog("search", "an*", "-another", "-andere").out
    assert turnlog("search", "--nosuchflag").code == 1


def test_help_is_help(turnlog: Run) -> None:
    assert turnlog("search", "-h").out == turnlog("search", "--help").out != ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nosuchword"], 1),
        ([], 2),
        ([" "], 2),
        (["-word"], 2),
        (["--regex", "("], 2),
        (["x", "--role", "tool", "--kind", "prompt"], 2),
        (["x", "--session", "nosuch"], 1),
        (["x", "--since", "never"], 2),
    ],
)
def test_what_finds_nothing_or_makes_no_sense_is_said_on_one_line(
    project: Path, turnlog: Run, arguments: list[str], code: int
) -> None:
    write(project, *TALK)
    outcome = turnlog("search", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith("turnlog: ")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("nosuchword", "turnlog search --regex nosuchword"),
        ("'no such words'", "turnlog search --like 'no such words'"),
        ("cart --since 2030-01-01", "turnlog search cart"),
        ("'the cart' --tool Write", "turnlog search 'the cart'"),
        ("--regex 'c[a]rt' --errors", "turnlog search --regex 'c[a]rt'"),
        ("--regex 'z[z]z'", "turnlog search --help"),
    ],
)
def test_what_finds_nothing_names_a_wider_search(
    project: Path, turnlog: Run, arguments: str, hint: str
) -> None:
    write(project, *TALK)
    told = turnlog("search", *shlex.split(arguments))
    assert (told.code, told.err.endswith(f" (try: {hint})\n")) == (1, True), told.err
    if "--since" in arguments or "--tool" in arguments:
        assert turnlog(*shlex.split(hint)[1:]).code == 0


@pytest.mark.parametrize("query", ["word", "--like word", "word --since 2d", "'two words'"])
def test_a_search_without_any_session_says_so(project: Path, turnlog: Run, query: str) -> None:
    done = turnlog("search", *shlex.split(query))
    words = query.removesuffix(" --since 2d")
    hint = f"turnlog --samples search {words}"
    assert (done.code, done.out) == (1, "")
    assert done.err == f"turnlog: no sessions in {project.parent} (try: {hint})\n"


def test_a_line_after_the_last_one_is_in_no_turn(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    done = turnlog("show", ID, "--line", "10")
    assert (done.code, done.out) == (1, "")
    message = f"{SESSION}.jsonl has 9 lines, no line 10"
    assert done.err == f"turnlog: {message} (try: turnlog entries {SESSION})\n"
    assert "is in no turn" in turnlog("show", ID, "--line", "9").err


def test_commands_that_do_not_fit_a_terminal_are_continued(project: Path, turnlog: Run) -> None:
    write(project, *TALK)
    (found,) = search_sessions(open_stores(), SearchRequest("walrus"))
    lines = list(lines_of(found, 40, wraps=True))
    assert max(cells_of(re.sub(SGR, "", line)) for line in lines) <= 40
    shown = [re.sub(SGR, "", line) for line in lines[-3:]]
    assert shown == [
        "  cd /home/ada/shop &&",
        "    claude --resume \\",
        f"    {SESSION}",
    ]


SELECTED = [
    (["fixed", "--project", "SHOP"], True),
    (["fixed", "--project", "nowhere"], False),
    (["failed", "--tool", "bash", "--errors", "--role", "tool"], True),
    (["fixed", "--errors"], False),
    (["fixed", "--kind", "answer", "--kind", "title"], True),
    (["fixed", "--since", "2026-11-15", "--until", "2026-11-15"], True),
    (["fixed", "--until", "2026-11-14"], False),
    (["fixed", "--model", "opus", "--branch", "main"], True),
    (["fixed", "--model", "haiku"], False),
    (["fixed", "--session", ID], True),
    (["penguins", "--session", ID], True),
    (["fixed", "--session", AGENT], False),
    (["penguins", "--session", AGENT], True),
    (["penguins", "--no-subagents"], False),
    (["--regex", r"Fix\w+ the"], True),
    (["--regex", r"fix\w+ the"], False),
]


@pytest.mark.parametrize(("arguments", "is_found"), SELECTED)
def test_options_select(project: Path, turnlog: Run, arguments: list[str], is_found: bool) -> None:
    write(project, *TALK)
    write_agent(project)
    assert turnlog("search", *arguments).code == (0 if is_found else 1)


def test_a_directory_is_the_project_of_it(
    project: Path, turnlog: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, *TALK)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert turnlog("search", "fixed", "--project", ".").code == 1


def test_output_is_masked_and_harmless(project: Path, turnlog: Run) -> None:
    said = text(f"walrus {EVIL} password = '{SECRET}' {EVIL} walrus")
    write(project, user(f"{EVIL} password = '{SECRET}'"), assistant(said))
    for arguments in (["walrus"], ["walrus", "--json"], ["password"], [SECRET]):
        out = turnlog("search", *arguments).out
        assert out
        assert not HARM & set(out)
        assert SECRET not in out
    assert SECRET in turnlog("search", "walrus", "--reveal").out


@pytest.mark.parametrize("columns", ["20", "80", "160"])
def test_lines_fit_the_terminal(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    long = "word " * 100 + "walrus 検索の結果 " + "word " * 100
    write(project, user(long), assistant(text(long)), line("ai-title", ai_title=long))
    lines = turnlog("search", "walrus").out.splitlines()
    from rich.cells import cell_len

    commands = ("turnlog show", "claude --resume")
    texts = [each for each in lines if not any(command in each for command in commands)]
    assert all(cell_len(each) <= int(columns) for each in texts)


def test_the_command_for_a_sample_finds_the_sample(turnlog: Run) -> None:
    out = turnlog("--samples", "search", "invoice").out
    commands = [each for each in out.splitlines() if each.startswith("    turnlog ")]
    assert turnlog(*shlex.split(commands[0])[1:]).code == 0


def test_search_says_when_there_is_more(project: Path, turnlog: Run) -> None:
    for number in range(3):
        name = f"0000000{number}-1111-4000-8000-000000000000"
        content = session(*[user("not")] * number, user("a walrus"), session_id=name)
        (project / f"{name}.jsonl").write_bytes(content)
    outcome = turnlog("search", "walrus", "--limit", "2")
    assert outcome.out.count("❯") == 2
    assert "--limit 0" in outcome.err
    assert turnlog("search", "walrus", "--limit", "0").out.count("❯") == 3


def test_what_was_appended_is_found_at_once(project: Path, turnlog: Run) -> None:
    path = write(project, *TALK)
    assert turnlog("search", "capybara").code == 1
    path.write_bytes(session(*TALK, user("A capybara")))
    assert "capybara" in turnlog("search", "capybara").out
    path.unlink()
    assert turnlog("search", "capybara").code == 1


def loaded_by_search() -> tuple[int, set[str]]:
    """The exit code of a search in a process of its own, and the modules that it loaded."""
    code = (
        "import sys; from turnlog.cli.main import run; code = run(['search', 'fixed'])\n"
        "print(code, *sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    exit_code, *modules = outcome.stderr.split()
    return int(exit_code), {*modules, *(name.partition(".")[0] for name in modules)}


def test_a_search_of_an_unchanged_store_loads_no_more_than_it_needs(project: Path) -> None:
    write(project, *TALK)
    assert "turnlog.index.ingest.figure_writer" in loaded_by_search()[1]
    exit_code, modules = loaded_by_search()
    assert exit_code == 0
    assert not {"rich", "multiprocessing", "concurrent", "hashlib", "tempfile"} & modules
    assert not {"turnlog.index.ingest.sync", "turnlog.index.ingest.figure_writer"} & modules
