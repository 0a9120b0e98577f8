"""Options mean the same everywhere; former spellings still work; misspellings get a suggestion."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, nth, result, session, text, user
from turnlog.cli.arguments import AliasedOption, Since, Until
from turnlog.cli.completions import (
    complete_change,
    complete_model,
    complete_project,
    complete_target,
    complete_tool,
)
from turnlog.cli.root import COMMANDS, command_paths, root
from turnlog.store.paths import Store

ID = SESSION
WITHOUT_JSON = {
    "agents attach": "shows a chat on the screen",
    "completion": "prints a shell script",
    "statusline": "prints one line for the client",
    "hook": "has subcommands",
    "lake": "has subcommands",
    "lake ddl": "prints SQL",
    "hook run": "prints nothing",
    "hook install": "prints a confirmation",
    "hook uninstall": "prints a confirmation",
    "hook on": "prints a confirmation",
    "hook off": "prints a confirmation",
    "plugin": "has subcommands",
    "plugin path": "prints a path for the client",
    "plugin run": "prints nothing",
    "web": "prints a URL",
    "mcp": "speaks JSON-RPC",
}
MEANINGS = {
    "--since": "when",
    "--until": "when",
    "--project": "text",
    "--limit": "integer range",
    "--output": "file",
}
OTHERWISE = {("export", "--output"): "path", ("git", "--output"): "path"}
"""Options that take more than the usual: `export` and `git` write a directory."""
SHORT = {
    "-n": "--limit",
    "-o": "--output",
    "-a": "--all",
    "-y": "--yes",
    "-q": "--quiet",
}


@pytest.fixture
def stored(project: Path) -> Path:
    """A session of two turns, with a second branch."""
    path = project / f"{ID}.jsonl"
    path.write_bytes(
        session(
            user("first"),
            assistant(call("Bash", {"command": "ls"}), message_id="m1"),
            result("toolu_1", "listing"),
            assistant(text("done"), message_id="m2"),
            user("second"),
            assistant(text("also done"), message_id="m3"),
        )
    )
    os.utime(path, (0, 0))  # a file that was just written may be in use
    return path


def options_of(path: list[str]) -> list[click.Option]:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name) or command
    return [each for each in command.params if isinstance(each, click.Option)]


@pytest.mark.parametrize("path", command_paths(), ids=" ".join)
def test_every_command_that_prints_data_has_json(path: list[str]) -> None:
    names = {name for option in options_of(path) for name in option.opts}
    assert ("--json" in names) != (" ".join(path) in WITHOUT_JSON)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("chat", "hook")])
def test_an_option_has_one_type_and_one_short_form(name: str) -> None:
    for option in options_of([name]):
        for each in option.opts:
            if each in MEANINGS:
                assert option.type.name == OTHERWISE.get((name, each), MEANINGS[each]), each
            if each in SHORT:
                assert SHORT[each] in option.opts


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "line",
    [
        "show last --json",
        "raw last --line 1 --json",
        "schema --list --json",
        "rename last name --json",
        "tag last name --json",
        "undo --json",
        "forget --all-changes --yes --json",
        "archive --json",
        "forget --archived last --yes --json",
        "archive --install --json",
        "archive --uninstall --json",
        "history --json",
        "stats --format json",
        "sql --tables --format json",
    ],
)
def test_json_is_one_document(turnlog: Run, stored: Path, line: str) -> None:
    words = [ID if word == "last" and "archived" in line else word for word in line.split()]
    if "undo" in words or "forget" in words:
        turnlog("rename", ID, "other")
        turnlog("archive")
        os.utime(stored, (0, 0))
    done = turnlog(*words)
    assert (done.code, done.err) == (0, "")
    json.loads(done.out)


@pytest.mark.usefixtures("stored")
def test_undo_and_forget_report_as_json_what_they_did(turnlog: Run, stored: Path) -> None:
    change = json.loads(turnlog("rename", ID, "other", "--json").out)["change"]
    os.utime(stored, (0, 0))
    undone = json.loads(turnlog("undo", "--json").out)
    assert (undone["id"], undone["restored"]) == (change, [str(stored)])
    assert [Path(path).name for path in undone["removed"]] == ["custom-title.json"]
    forgotten = json.loads(turnlog("forget", change, "-y", "--json").out)
    assert forgotten["changes"] == [change]
    assert forgotten["freed_bytes"] > 0
    assert json.loads(turnlog("forget", "--older-than", "0", "-y", "--json").out) == {
        "changes": [],
        "freed_bytes": 0,
    }


@pytest.mark.usefixtures("stored")
def test_a_trace_written_to_a_file_is_reported_as_json(turnlog: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "trace.json")
    (report,) = json.loads(turnlog("trace", ID, "--to", path, "--json").out)
    assert (report["file"], report["turns"]) == (path, 2)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"show {ID} --branch {nth(4)} --json", f"show {ID} --leaf {nth(4)} --json"),
        (f"turns {ID} --branch {nth(4)} --json", f"turns {ID} --leaf {nth(4)} --json"),
        (f"edit {ID} --until 1 --dry-run --json", f"edit {ID} --keep-until 1 --dry-run --json"),
        (f"edit {ID} --branch {nth(4)} --dry-run", f"edit {ID} --leaf {nth(4)} --dry-run"),
        (f"context {ID} --from-start --json", f"context {ID} --all-history --json"),
        ("mv --project /no/where .", "mv --whole-project /no/where ."),
        ("archive --to A --dry-run --json", "archive --into A --dry-run --json"),
        ("forget --all", "forget --all-changes"),
    ],
)
def test_a_former_spelling_does_the_same(
    turnlog: Run, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert turnlog(*old.split()) == turnlog(*new.split())


def test_a_former_spelling_is_in_no_help_or_completion(turnlog: Run) -> None:
    aliased = [
        (path, option)
        for path in command_paths()
        for option in options_of(path)
        if isinstance(option, AliasedOption)
    ]
    assert len(aliased) >= 9
    for path, option in aliased:
        text = turnlog(*path, "--help").out
        for alias in option.aliases:
            assert f"{alias} " not in text.partition("Options:")[2]
            assert alias not in option.opts


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("serach pool", "no such command 'serach' (try: turnlog search)"),
        ("sho last", "no such command 'sho' (try: turnlog show)"),
        ("grep pool", "no such command 'grep' (try: turnlog search)"),
        ("hook stauts", "no such command 'stauts' (try: turnlog hook status)"),
        ("ls --limt 5", "no such option '--limt' (try: turnlog ls --limit)"),
        ("stats --projekt x", "no such option '--projekt' (try: turnlog stats --project)"),
        ("edit x --strip-tool", "no such option '--strip-tool' (try: turnlog edit --strip-tools)"),
        ("zzzzzz", "no such command 'zzzzzz' (try: turnlog --help)"),
        ("bundle x --force", "no such option '--force' (try: turnlog bundle --yes)"),
        ("ls --force", "no such option '--force' (try: turnlog ls --help)"),
        ("ls --zzzzzz", "no such option '--zzzzzz' (try: turnlog ls --help)"),
        ("show last --leaf", "option '--leaf' requires an argument (try: turnlog show --help)"),
        ("--sampels ls", "no such option '--sampels' (try: turnlog --samples)"),
    ],
)
def test_a_misspelled_word_gets_the_nearest_match(turnlog: Run, line: str, hint: str) -> None:
    done = turnlog(*line.split())
    assert (done.code, done.out, done.err) == (2, "", f"turnlog: {hint}\n")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("stats mothly", "turnlog stats monthly"),
        ("show last --format mdd", "turnlog show --format md"),
        ("stats zzzzzz", "turnlog stats --help"),
    ],
)
def test_a_misspelled_choice_gets_the_nearest_match(turnlog: Run, line: str, hint: str) -> None:
    done = turnlog(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"(try: {hint})\n")


@pytest.mark.usefixtures("stored")
def test_a_search_that_finds_nothing_suggests_the_option_that_was_meant(turnlog: Run) -> None:
    done = turnlog("search", "listing", "--limt", "3")
    assert "(try: turnlog search --limit)" in done.err


@pytest.mark.usefixtures("stored")
def test_search_takes_short_options_and_still_excludes_words(turnlog: Run) -> None:
    assert len(json.loads(turnlog("search", "done", "-n", "1", "--json").out)) == 1
    assert turnlog("search", "done", "-nothing").code == 0
    assert turnlog("search", "listing", "-listing").code == 1


def test_yesterday_is_a_day_of_the_users_calendar() -> None:
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    since = Since().convert("yesterday", None, None)
    until = Until().convert("Yesterday", None, None)
    assert since == (midnight - timedelta(days=1)).astimezone(UTC)
    assert until == midnight.astimezone(UTC)
    assert Since().convert("today", None, None) == midnight.astimezone(UTC)
    assert Until().convert("today", None, None) == (midnight + timedelta(days=1)).astimezone(UTC)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--since", "yesterday"), 1),
        (("--since", "today"), 0),
        (("--until", "yesterday"), 1),
        (("--until", "3d"), 0),
        (("--since", "yesterday", "--until", "yesterday"), 1),
    ],
)
def test_ls_selects_a_session_of_yesterday(
    turnlog: Run, project: Path, arguments: tuple[str, ...], found: int
) -> None:
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    moment = (noon - timedelta(days=1)).isoformat().replace("+00:00", "Z")
    path = project / f"{ID}.jsonl"
    path.write_bytes(session(user("q", timestamp=moment)))
    stamp = (noon - timedelta(days=1)).timestamp()
    os.utime(path, (stamp, stamp))
    assert len(json.loads(turnlog("ls", "--json", *arguments).out)) == found


@pytest.mark.parametrize("value", ["soon", "99999999999999w", "3x", ""])
def test_a_wrong_moment_is_a_usage_error(turnlog: Run, value: str) -> None:
    done = turnlog("ls", "--since", value)
    assert done.code == 2
    assert "today or yesterday (try: turnlog ls --help)" in done.err


@pytest.mark.usefixtures("stored")
def test_output_goes_to_a_file_in_the_format_of_its_extension(turnlog: Run, outside: Path) -> None:
    printed = {
        ".md": turnlog("show", ID, "--format", "md").out,
        ".json": turnlog("show", ID, "--json").out,
        ".txt": turnlog("show", ID, "--no-pager").out,
    }
    for extension, expected in printed.items():
        path = outside / f"out{extension}"
        done = turnlog("show", ID, "-o", str(path))
        assert (done.code, done.out, done.err) == (0, "", "")
        assert path.read_text("utf-8") == expected


@pytest.mark.usefixtures("stored")
def test_a_failed_command_keeps_the_output_file(turnlog: Run, outside: Path) -> None:
    path = outside / "out.json"
    path.write_text("before", "utf-8")
    assert turnlog("show", "nosuch", "-o", str(path)).code == 1
    assert turnlog("ls", "--since", "soon", "-o", str(path)).code == 2
    assert path.read_text("utf-8") == "before"
    assert turnlog("show", ID, "-o", str(outside / "no" / "x.md")).code == 1


def test_a_report_that_exits_with_1_is_still_written(
    turnlog: Run, project: Path, outside: Path
) -> None:
    (project / f"{ID}.jsonl").write_bytes(session(user("q", parent_uuid=nth(99))) + b"{broken\n")
    printed = turnlog("check", ID, "--json")
    done = turnlog("check", ID, "--json", "-o", str(outside / "x.json"))
    assert done.code == printed.code
    assert (outside / "x.json").read_text("utf-8") == printed.out


def test_output_does_not_overwrite_a_session(turnlog: Run, stored: Path, tmp_path: Path) -> None:
    before = stored.read_bytes()
    (tmp_path / "link.md").symlink_to(stored)
    for path in (stored, tmp_path / "link.md"):
        assert turnlog("show", ID, "-o", str(path)).code == 2
    assert stored.read_bytes() == before


@pytest.mark.usefixtures("stored")
def test_output_to_a_pipe_or_a_dash_is_written_in_place(turnlog: Run, tmp_path: Path) -> None:
    assert turnlog("ls", "--json", "-o", "-").out == turnlog("ls", "--json").out
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert turnlog("ls", "--json", "-o", str(tmp_path / "pipe")).code == 0
    assert json.loads(os.read(reader, 65536))
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    "line", ["stats --json --csv", "sql x --format csv --json", "show last --json --format md"]
)
def test_two_output_formats_are_a_usage_error(turnlog: Run, line: str) -> None:
    assert turnlog(*line.split()).code == 2


@pytest.mark.usefixtures("stored")
def test_values_of_options_are_completed(turnlog: Run, project: Path) -> None:
    context = click.Context(root, obj=Store(project.parent.parent))
    parameter = click.Option(["--x"])
    turnlog("sync")
    turnlog("rename", ID, "other")
    assert complete_tool(context, parameter, "ba") == ["Bash"]
    assert complete_model(context, parameter, "claude") == ["claude-opus-5-5"]
    assert complete_model(context, parameter, "so") == ["sonnet"]
    assert complete_project(context, parameter, "SHOP") == ["/home/ada/shop"]
    assert complete_target(context, parameter, "p") == ["perfetto", "phoenix"]
    assert [each.help for each in complete_change(context, parameter, "20")]


def test_tools_are_completed_without_an_index(project: Path) -> None:
    context = click.Context(root, obj=Store(project.parent.parent))
    assert "Read" in complete_tool(context, click.Option(["--x"]), "R")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--project", "shop"], True),
        (["--project", "nowhere"], False),
        (["--until", "1999-01-01"], False),
        (["--since", "1999-01-01", "--until", "today"], True),
    ],
)
def test_trace_selects_sessions_like_ls(turnlog: Run, options: list[str], found: bool) -> None:
    listed = json.loads(turnlog("ls", "--json", *options).out)
    traced = json.loads(turnlog("trace", "--dry-run", "--json", *options).out)
    assert (bool(listed), bool(traced)) == (found, found)
