"""The picker in a real terminal: search, preview, keys and output."""

import json
import os
import signal
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from picker.conftest import FIRST, SECOND, THIRD, Put
from support.build import moment, user
from support.live_store import running_sessions
from support.tmux import Pane, needs_tmux, terminal
from turnlog.cli.main import run
from turnlog.picker.cells import width_of
from turnlog.picker.help_text import HELP
from turnlog.store.paths import Store

pytestmark = needs_tmux
SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50)])


@pytest.fixture
def three(put: Put) -> None:
    put(FIRST, "Fix the rounding bug in invoices", "The total was rounded twice, by zeppelins.")
    put(SECOND, "日本語の請求書を直してください", "直しました。")
    put(THIRD, "Rename the shop", "Renamed.")


def printing(turnlog: list[str], project: Path) -> AbstractContextManager[Pane]:
    """A picker whose exit code and stdout are shown when it ends."""
    words = " ".join([*turnlog, "pick", "--print"])
    shown = f'id=$({words}); echo "code $? <$id>"; read x'
    return terminal(["sh", "-c", shown], project, 80, 24)


def test_enter_resumes_the_selected_session_in_its_directory(
    three: None, turnlog: list[str], project: Path, client: Path
) -> None:
    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        pane.see("3 sessions")
        pane.type("zeppel")
        # The word is only in the answer, and not typed to its end.
        pane.see("1 session", "rounded twice, by zeppelins", "▶ model")
        pane.keys("Enter")
        wanted = f"CLIENT {project} --resume {FIRST}"
        pane.wait(lambda screen: wanted in screen.replace("\n", ""))


def test_filters_and_words_narrow_the_list(
    three: None, turnlog: list[str], project: Path, put: Put, tmp_path: Path
) -> None:
    other = tmp_path / "depot"
    other.mkdir()
    put("dddddddd-0000-4000-8000-000000000004", "Fix the depot", cwd=other)
    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        pane.see("3 sessions", "shop")
        pane.keys("Tab")
        pane.see("4 sessions", "all projects")
        pane.type("fix project:depot")
        pane.see("1 session", "Fix the depot")
        pane.keys("C-u")
        pane.type("cost:>1000")
        pane.see("0 sessions", "No session of any project matches")
        assert "Tab searches" not in pane.screen()
        pane.keys("C-u")
        pane.type("cost:cheap")
        pane.see("4 sessions", "'cheap' is not an amount")


def test_print_writes_only_the_id_to_stdout(
    three: None, turnlog: list[str], project: Path, tmp_path: Path
) -> None:
    with printing(turnlog, project) as pane:
        pane.see("3 sessions", "Enter print")
        pane.type("invoices")
        pane.see("1 session")
        pane.keys("Enter")
        pane.see(f"code 0 <{FIRST}>")


def test_sigterm_leaves_the_terminal_as_it_was(
    three: None, turnlog: list[str], project: Path, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    inner = f"echo $$ > {pid}; exec {' '.join([*turnlog, 'pick', '--print'])}"
    outer = 'sh -c "$1"; echo "ended $?"; stty -a | grep -o ".icanon"; read x'
    with terminal(["sh", "-c", outer, "sh", inner], project, 80, 24) as pane:
        pane.see("3 sessions")
        os.kill(int(pid.read_text()), signal.SIGTERM)
        pane.see("ended 130", " icanon")
        assert "3 sessions" not in pane.screen()


def test_json_names_the_command_that_resumes(
    three: None, turnlog: list[str], project: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    words = " ".join([*turnlog, "pick", "--json", "invoices"])
    with terminal(["sh", "-c", f"{words} > {out}; echo ended; read x"], project, 80, 24) as pane:
        pane.see("1 session")
        pane.keys("Enter")
        pane.see("ended")
    found = json.loads(out.read_text())
    assert found["id"] == FIRST
    assert found["resume"] == f"cd {project} && claude --resume {FIRST}"


def test_esc_leaves_without_a_choice(three: None, turnlog: list[str], project: Path) -> None:
    with printing(turnlog, project) as pane:
        pane.see("3 sessions")
        pane.keys("Escape")
        pane.see("c chat")
        pane.keys("Escape")
        pane.see("code 130 <>")


def test_a_command_without_a_session_lets_pick_one(
    three: None, turnlog: list[str], project: Path
) -> None:
    with terminal([*turnlog, "show", "--no-pager"], project, 80, 24) as pane:
        pane.see("3 sessions", "Enter show")
        pane.type("invoices")
        pane.see("1 session")
        pane.keys("Enter")
        pane.wait(lambda screen: f"claude --resume {FIRST}" in screen.replace("\n", ""))
        pane.see("The total was rounded twice, by zeppelins.")


@pytest.mark.parametrize("command", ["show", "cost", "clone", "rm", "check", "resume", "mv", "tag"])
def test_without_a_terminal_the_session_is_required(
    three: None, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command]) == 2
    assert "SESSION" in (error := capsys.readouterr().err) or "name a session" in error


def test_rename_delete_and_fork_can_be_undone(
    three: None, turnlog: list[str], project: Path, store: Store
) -> None:
    files = {path: path.read_bytes() for path in store.session_files()}
    with terminal([*turnlog, "pick", "invoices"], project, 80, 24) as pane:
        pane.see("1 session", "rounding bug")
        pane.keys("M-r")
        pane.see("New title: Fix the rounding bug in invoices")
        pane.type(" again")
        pane.keys("Enter")
        pane.see("renamed to Fix the rounding bug in invoices again", "u undoes it")
        pane.keys("u")
        pane.see("undone: rename")
        pane.keys("d")
        pane.see("Delete Fix the rounding bug", "y yes")
        pane.keys("n")
        pane.wait(lambda screen: "y yes" not in screen)
        assert {path: path.read_bytes() for path in store.session_files()} == files
        pane.keys("d")
        pane.see("y yes")
        pane.keys("y")
        pane.see("deleted aaaaaaaa", "0 sessions")
        pane.keys("u")
        pane.see("undone: removal", "1 session")
        pane.keys("f")
        pane.see("forked as", "2 sessions")
        pane.keys("u")
        pane.see("undone: clone", "1 session")
        pane.keys("q")
        pane.wait(lambda _: pane.is_dead())
    assert {path: path.read_bytes() for path in store.session_files()} == files


def test_export_view_and_copy(
    three: None, turnlog: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "cat; read line")
    with terminal([*turnlog, "pick", "zeppelins"], project, 100, 30) as pane:
        pane.see("1 session", "▶ model")
        pane.keys("Escape")
        pane.keys("e")
        pane.see("Export to: session-aaaaaaaa.html")
        pane.keys("C-u")
        pane.type("notes.md")
        pane.keys("Enter")
        pane.see(f"exported to {project}")
        assert "zeppelins" in (project / "notes.md").read_text()
        pane.keys("e")
        pane.keys("C-u")
        pane.type("notes.md")
        pane.keys("Enter")
        pane.see("notes.md exists")
        pane.keys("y")
        pane.see(f"copied: cd {project}")
        pane.keys("?")
        pane.see("Type to search all texts")
        pane.keys("x")
        pane.see("1 session")


def test_secrets_and_control_characters_never_reach_the_screen(
    put: Put, turnlog: list[str], project: Path
) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    put(FIRST, f"Use {token} \x1b]0;owned\x07 now", f"It is {token}.")
    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        screen = pane.see("1 session", "you")
        pane.type("use")
        screen += pane.see("▶ you")
        assert token[:12] not in screen
        assert pane.run("display-message", "-p", "#{pane_title}").strip() != "owned"


def test_the_selection_stays_on_its_session_when_others_arrive(
    three: None, turnlog: list[str], project: Path, put: Put
) -> None:
    def selected(pane: Pane) -> str:
        return next(line for line in pane.screen().split("\n") if line.startswith("▸"))

    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        pane.see("3 sessions", "Rename the shop")
        pane.keys("Down")
        pane.wait(lambda _: "▸" in pane.screen().split("\n")[3])
        before = selected(pane).split()[-1], selected(pane)[8:40]
        put("eeeeeeee-0000-4000-8000-000000000005", "A newer session", "x")
        pane.keys("C-r")
        pane.see("4 sessions")
        assert (selected(pane).split()[-1], selected(pane)[8:40]) == before


def test_live_states_and_health_are_in_the_rows(
    put: Put, turnlog: list[str], project: Path, store: Store
) -> None:
    broken = put(FIRST, "Fix it")
    # Without a time at its end, the client refuses a session.
    broken.write_bytes(broken.read_bytes().replace(f'"timestamp":"{moment(2)}",'.encode(), b""))
    with running_sessions(store.root, 1) as (running,):
        running.register()
        running.report("waiting", "permission prompt")
        running.write(user("Ship it"))
        with terminal([*turnlog, "pick", "--all"], project, 200, 50) as pane:
            screen = pane.see("◆ permission", "Ship it", "✗")
            assert "✗" in next(line for line in screen.split("\n") if "Fix it" in line)
            pane.type("live:perm")
            pane.see("1 session", "Ship it")


@SIZES
def test_wide_characters_keep_the_columns_aligned(
    put: Put, turnlog: list[str], project: Path, columns: int, rows: int
) -> None:
    titles = [
        "plain title",
        "日本語の請求書を直してください" * 4,
        "emoji 🎉👩‍👩‍👧 title " * 3,
        "ﬁn̈e mixed 한국어 " * 5,
    ]
    for number, title in enumerate(titles):
        put(f"aaaaaaaa-0000-4000-8000-00000000000{number}", title)
    with terminal([*turnlog, "pick"], project, columns, rows) as pane:
        screen = pane.see("4 sessions", "<$0.01", "plain title")
        time.sleep(0.3)
        screen = pane.screen()
    listed = [line for line in screen.split("\n") if "<$0.01" in line and "──" not in line][:4]
    assert len(listed) == 4
    assert len({_cells(line[: line.index("<$0.01")]) for line in listed}) == 1


def _cells(text: str) -> int:
    from wcwidth import wcswidth

    return wcswidth(text)


def test_several_stores_are_one_list(
    three: None, turnlog: list[str], project: Path, tmp_path: Path, put: Put, store: Store
) -> None:
    other = Store(tmp_path / "other")
    fourth = put("dddddddd-0000-4000-8000-000000000004", "Only in the other zeppelin store")
    moved = other.projects / fourth.parent.name / fourth.name
    moved.parent.mkdir(parents=True)
    fourth.rename(moved)
    command = [*turnlog, "pick", "--store", str(store.root), "--store", str(other.root)]
    with terminal([*command, "--print"], project, 80, 24) as pane:
        pane.see("4 sessions", "Only in the other", "Rename the shop")
        pane.type("zeppelin")
        pane.see("2 sessions", "Only in the other")
        pane.type(" only")
        pane.see("1 session ", "▶ you")
        pane.keys("M-r")
        pane.see("New title:")
        pane.type(" renamed")
        pane.keys("Enter")
        pane.see("renamed to Only in the other zeppelin store renamed")
    assert b"renamed" in moved.read_bytes()


def test_alt_with_a_letter_acts_again_and_again(
    three: None, turnlog: list[str], project: Path
) -> None:
    with terminal([*turnlog, "pick", "invoices"], project, 80, 24) as pane:
        pane.see("1 session", "rounding bug")
        pane.keys("M-y")
        pane.see("copied: cd ")
        pane.keys("M-r")
        pane.see("New title: Fix the rounding bug")
        pane.keys("Escape")
        pane.see("c chat")
        pane.keys("M-x")
        pane.keys("M-d")
        pane.see("Delete Fix the rounding bug")


def test_after_the_help_the_query_goes_on(three: None, turnlog: list[str], project: Path) -> None:
    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        pane.see("3 sessions")
        pane.keys("F1")
        pane.see("Type to search all texts", "lower bound")
        assert max(map(width_of, HELP.splitlines())) <= 80
        pane.keys("q")
        pane.see("❯")
        pane.type("invoices")
        pane.see("1 session", "❯ invoices")


def test_a_query_in_a_directory_without_sessions_searches_all(
    three: None, turnlog: list[str], tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)  # not in the repository around it
    with terminal([*turnlog, "pick", "invoices"], elsewhere, 80, 24) as pane:
        pane.see("1 session · all projects", "rounding bug")


def test_a_query_is_shown_in_full_again_when_the_terminal_is_widened(
    three: None, turnlog: list[str], project: Path
) -> None:
    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        pane.see("3 sessions")
        pane.type("project:shop rounding")
        pane.see("❯ project:shop rounding", "1 session")
        pane.resize(40, 12)
        pane.wait(lambda screen: "❯ project" not in screen and "rounding" in screen)
        pane.resize(80, 24)
        pane.see("❯ project:shop rounding")


def test_a_fork_can_be_renamed_at_once(three: None, turnlog: list[str], project: Path) -> None:
    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        pane.see("3 sessions")
        pane.keys("M-f")
        pane.see("4 sessions", "forked as")
        pane.keys("M-r")
        pane.see("New title:")
        pane.keys("C-u")
        pane.type("The copy of it")
        pane.keys("Enter")
        pane.see("The copy of it", "renamed")


def test_mv_and_tag_ask_for_what_is_not_named(
    three: None, turnlog: list[str], project: Path, tmp_path: Path
) -> None:
    new = tmp_path / "depot"
    new.mkdir()
    with terminal([*turnlog, "mv", str(new)], project, 80, 24) as pane:
        pane.see("3 sessions", "Enter mv")
        pane.type("invoices")
        pane.see("1 session")
        pane.keys("Enter")
        pane.wait(lambda screen: f"{FIRST}  {project}" in screen.replace("\n", ""))
    with terminal([*turnlog, "mv", FIRST], project, 80, 24) as pane:
        pane.see("Move the session to which directory?")
        pane.keys("Enter")
        pane.wait(lambda screen: f"{FIRST}  {new}" in screen.replace("\n", ""))
    with terminal([*turnlog, "tag"], project, 80, 24) as pane:
        pane.see("3 sessions", "Enter tag")
        pane.keys("Enter")
        pane.see("Tag:")
        pane.type("release")
        pane.keys("Enter")
        pane.see("Tagged", "release")


def test_a_store_without_sessions_suggests_the_samples(turnlog: list[str], project: Path) -> None:
    with terminal([*turnlog, "pick"], project, 80, 24) as pane:
        pane.see("0 sessions", "There are no sessions yet", "turnlog --samples pick")
    with terminal([*turnlog, "--samples", "pick"], project, 80, 24) as pane:
        pane.see("5 sessions", "Fix the rounding bug")
