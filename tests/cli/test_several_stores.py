"""Commands over several stores: everything counts once; changes go where a session was found."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import assistant, call, result, session, text, user
from turnlog.index.database import index_path
from turnlog.index.service import report
from turnlog.index.sync_policy import run_sync
from turnlog.store.catalog import list_sessions
from turnlog.store.paths import Store, open_store
from turnlog.web.session_cache import SessionCache

ID, OTHER = "5e551011-0000-4000-8000-000000000001", "07e40000-0000-4000-8000-000000000002"
USAGE = {"model": "claude-opus-5", "usage": {"input_tokens": 10, "output_tokens": 1000}}
TOTALS = ("daily", "session", "project", "model", "tool", "file", "branch", "errors", "latency")
LONG_AGO = 1_700_000_000


def add_session(root: Path, id_: str, prompt: str, message: str = "msg_1") -> Path:
    path = root / "projects" / "-home-ada-shop" / f"{id_}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = assistant(
        text("done"), call("Bash", {"command": "ls"}, f"{message}_use"), message_id=message,
        message=USAGE,
    )  # fmt: skip
    answer = result(f"{message}_use", "x")
    asked = user(prompt, uuid=f"{message}_prompt")
    path.write_bytes(session(asked, said, answer, session_id=id_))
    os.utime(path, (LONG_AGO, LONG_AGO))  # a session written to just now is not changed
    return path


@pytest.fixture
def two(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two stores with a session each, which the variable lists."""
    one, other = tmp_path / "one", tmp_path / "other"
    add_session(one, ID, "in the first store")
    add_session(other, OTHER, "in the second store", "msg_2")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{one},{other}")
    return one, other


def test_lists_cover_all_stores_and_name_them(
    turnlog: Run, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = json.loads(turnlog("ls", "--json").out)
    assert {row["id"]: row["store"] for row in rows} == {ID: str(two[0]), OTHER: str(two[1])}
    assert all(len(line) <= 80 for line in turnlog("ls").out.splitlines())
    monkeypatch.setenv("COLUMNS", "240")
    shown = turnlog("ls").out
    assert all(f"/home/ada/shop  {root}" in shown for root in two)
    overview = turnlog()
    assert (overview.code, overview.err) == (0, "")
    assert ID[:8] in overview.out
    assert OTHER[:8] in overview.out
    checked = json.loads(turnlog("check", "--all", "--json").out)
    assert {row["store"] for row in checked} == set(map(str, two))


def test_sub_agents_belong_to_the_session_of_their_own_store(
    turnlog: Run, two: tuple[Path, Path]
) -> None:
    for root, word in zip(two, ("walrus", "ibis"), strict=True):
        path = add_session(root, ID, f"about a {word}", f"msg_{word}")
        agent = path.with_suffix("") / "subagents" / "agent-a1b2c3d4e5f6a7b8c.jsonl"
        agent.parent.mkdir(parents=True)
        write = call("Write", {"file_path": f"/home/ada/{word}.py", "content": "x"}, f"w_{word}")
        lines = (user(f"look for the {word}s"), assistant(write), result(f"w_{word}", "done"))
        agent.write_bytes(session(*lines, session_id=ID, agent_id="a1b2"))
    for root, word in zip(two, ("walrus", "ibis"), strict=True):
        rows = json.loads(turnlog("search", f"{word}s", "--json").out)
        assert [row["store"] for row in rows] == [str(root)]
        # Ranking takes another path through the code, and so do files.
        titles = [f"about a {each}" for each in ("walrus", "ibis")]
        for command in (("search", f"{word}s"), ("history-of", f"/home/ada/{word}.py")):
            found = turnlog(*command).out
            assert [each in found for each in titles] == [each.endswith(word) for each in titles]


def test_search_covers_all_stores(turnlog: Run, two: tuple[Path, Path]) -> None:
    for words in (["store"], ["--regex", "st.re"]):
        hits = json.loads(turnlog("search", *words, "--json").out)
        assert {row["id"]: row["store"] for row in hits} == {ID: str(two[0]), OTHER: str(two[1])}
    # The simple line takes another path through the code.
    found = turnlog("search", "store").out
    assert "first" in found
    assert "second" in found


def test_sessions_of_every_store_are_shown(turnlog: Run, two: tuple[Path, Path]) -> None:
    assert "second store" in (shown := turnlog("show", OTHER[:8]).out)
    command = f"CLAUDE_CONFIG_DIR={two[1]} claude --resume {OTHER}"
    assert command in shown
    store = Store(two[1])
    with SessionCache().use(store, next(store.session_files())) as opened:
        assert command in opened.pages(None).facts()["resume"]
    assert "first store" in turnlog("show", ID[:8]).out
    assert turnlog("cost", OTHER).code == 0


@pytest.mark.parametrize("name", TOTALS)
def test_a_copy_of_a_store_leaves_totals_unchanged(
    turnlog: Run, two: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    before = json.loads(turnlog("stats", name, "--json").out)
    copy = tmp_path / "copy"
    copy.mkdir()
    for number, root in enumerate(two):
        shutil.copytree(root / "projects", copy / "projects", dirs_exist_ok=bool(number))
    options = [word for root in (*two, copy) for word in ("--store", str(root))]
    after = json.loads(turnlog("stats", name, "--json", *options).out)
    assert after == before
    # In whatever order they are named, it is the same index.
    swapped = [word for root in (copy, *two[::-1]) for word in ("--store", str(root))]
    assert json.loads(turnlog("stats", name, "--json", *swapped).out) == before


def test_carrying_costs_count_once(turnlog: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    before = json.loads(turnlog("stats", "carrying", "--json").out)["total"]
    shutil.copytree(two[0], tmp_path / "copy")
    options = [word for root in (*two, tmp_path / "copy") for word in ("--store", str(root))]
    after = json.loads(turnlog("stats", "carrying", "--json", *options).out)["total"]
    assert after["cost_usd"] == before["cost_usd"]
    by_store = json.loads(turnlog("stats", "carrying", "--by", "store", "--json").out)["rows"]
    assert {row["store"] for row in by_store} == set(map(str, two))


def test_reports_are_grouped_by_store(turnlog: Run, two: tuple[Path, Path]) -> None:
    rows = json.loads(turnlog("stats", "monthly", "--by", "store", "--json").out)["rows"]
    assert {row["store"]: row["output"] for row in rows} == dict.fromkeys(map(str, two), 1000)
    # Paths are cut at their start, where all are the same.
    for name in ("monthly", "carrying"):
        table = turnlog("stats", name, "--by", "store")
        assert table.code == 0
        assert "store" in table.out.splitlines()[0]
        assert "/one " in table.out
        assert "/other " in table.out


def test_the_same_id_in_both_stores_is_ambiguous(turnlog: Run, two: tuple[Path, Path]) -> None:
    copy = add_session(two[1], ID, "a copy that went on", "msg_3")
    outcome = turnlog("show", ID[:8])
    assert outcome.code == 1
    head, *files = outcome.err.splitlines()
    assert f"session {ID} is in 2 stores: name one (try: turnlog show {ID} --store " in head
    hinted = head.partition("--store ")[2].rstrip(")")
    assert turnlog("show", ID, "--store", hinted).code == 0
    original = two[0] / "projects" / "-home-ada-shop" / f"{ID}.jsonl"
    assert sorted(line.strip() for line in files) == sorted([str(original), str(copy)])
    assert "went on" in turnlog("show", str(copy)).out
    # Both are listed and found, each with its own store.
    rows = json.loads(turnlog("ls", "--json").out)
    assert [row["store"] for row in rows if row["id"] == ID].count(str(two[1])) == 1
    hits = json.loads(turnlog("search", "store OR copy", "--session", str(copy), "--json").out)
    assert [(row["path"], row["store"]) for row in hits] == [(str(copy), str(two[1]))]
    assert len(json.loads(turnlog("stats", "session", "--json").out)["rows"]) == 2


def test_a_change_is_made_in_the_store_that_has_the_session(
    turnlog: Run, two: tuple[Path, Path]
) -> None:
    history = two[1] / "history.jsonl"
    line = {"display": "in the second store", "sessionId": OTHER, "project": "/home/ada/shop"}
    history.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    assert turnlog("rename", OTHER, "Renamed").code == 0
    assert "Renamed" in turnlog("--store", str(two[1]), "ls").out
    # The client knows no lists: also a session of the first store is resumed with the variable.
    for id_, root in zip((ID, OTHER), two, strict=True):
        cloned = turnlog("clone", id_)
        assert f"CLAUDE_CONFIG_DIR={root} claude --resume " in cloned.out
    path = two[1] / "projects" / "-home-ada-shop" / f"{OTHER}.jsonl"
    os.utime(path, (LONG_AGO, LONG_AGO))
    removed = turnlog("rm", OTHER, "--history")
    assert (removed.code, path.exists(), history.read_text()) == (0, False, "")
    assert turnlog("undo").code == 0
    assert path.exists()


def test_sessions_of_two_stores_are_not_changed_at_once(
    turnlog: Run, two: tuple[Path, Path]
) -> None:
    for words in (["rm", ID, OTHER], ["redact", "--all"], ["redact", ID, OTHER]):
        outcome = turnlog(*words)
        assert outcome.code == 2
        assert f"changes one store at a time, not {two[0]} and {two[1]}" in outcome.err
        assert f"(try: turnlog --store {two[0]} {words[0]}" in outcome.err
    assert turnlog("redact", "--all", "--store", str(two[1])).code == 0


def test_redaction_discards_every_index_with_the_store(
    turnlog: Run, two: tuple[Path, Path]
) -> None:
    secret = "sk-ant-api03-" + "aB3dE5fG7h" * 9 + "AA"
    path = add_session(two[1], ID.replace("1", "3"), f"my key is {secret}", "msg_4")
    both = index_path([Store(root) for root in two])
    turnlog("search", "key")
    with sqlite3.connect(both) as db:
        assert db.execute("SELECT count(*) FROM docs").fetchone()[0] > 0
    assert turnlog("redact", str(path)).code == 0
    assert not both.exists()


@pytest.mark.parametrize("words", [["--store", "{}", "ls"], ["ls", "--store", "{}"]])
def test_a_missing_store_is_one_line(turnlog: Run, tmp_path: Path, words: list[str]) -> None:
    outcome = turnlog(*(word.format(tmp_path / "gone") for word in words))
    reason = f"there is no store in {tmp_path / 'gone'}: no such directory"
    assert (outcome.code, outcome.err) == (1, f"turnlog: {reason} (try: turnlog where)\n")


def test_a_missing_store_of_a_list_is_one_line_and_the_rest_is_shown(
    turnlog: Run, two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{two[0]},{gone},{two[1]}")
    outcome = turnlog("ls", "--json")
    assert len(json.loads(outcome.out)) == 2
    reason = "it has no projects folder (try: turnlog where)"
    assert outcome.err == f"turnlog: skipped {gone}: {reason}\n"


def test_the_index_is_built_apart_while_the_first_store_is_missing(
    turnlog: Run, two: tuple[Path, Path], tmp_path: Path
) -> None:
    stores = [Store(tmp_path / "new"), *map(Store, two)]
    run_sync(stores)
    assert index_path(stores).exists()
    assert report(stores, "model").total["output"] == 2000


def test_who_uses_one_store_does_not_hear_about_another(
    turnlog: Run, two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{two[0]},{tmp_path / 'gone'}")
    for words in (["archive", "--install"], ["hook", "status"], ["history"]):
        outcome = turnlog(*words)
        assert (outcome.code, outcome.err) == (0, ""), words


def test_the_option_comes_before_the_variable_and_that_before_the_configuration(
    turnlog: Run, two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = tmp_path / "third"
    add_session(third, ID.replace("1", "3"), "third", "msg_5")
    (tmp_path / "turnlog").mkdir(exist_ok=True)
    (tmp_path / "turnlog" / "config.toml").write_text('stores = ["../third", "../one"]\n')
    assert _roots(turnlog) == list(map(str, two))
    assert _roots(turnlog, "--store", str(third)) == [str(third)]
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert _roots(turnlog) == [str(tmp_path / "turnlog" / ".." / name) for name in ("third", "one")]


def _roots(turnlog: Run, *options: str) -> list[str]:
    places = json.loads(turnlog(*options, "where", "--json").out)
    return [store["config"]["path"] for store in places["stores"]]


def test_options_before_and_after_the_command_add_up(
    turnlog: Run, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.chdir(two[0].parent)
    rows = json.loads(turnlog("--store", "one", "ls", "--store", "./other", "--json").out)
    assert {row["id"] for row in rows} == {ID, OTHER}


def test_where_lists_the_paths_of_each_store(turnlog: Run, two: tuple[Path, Path]) -> None:
    shown = turnlog("where").out
    assert all(str(root / "projects") in shown for root in two)
    assert str(index_path([Store(root) for root in two])) in shown


def test_output_never_overwrites_a_session_of_any_store(
    turnlog: Run, two: tuple[Path, Path]
) -> None:
    path = next(Store(two[1]).session_files())
    before = path.read_bytes()
    for words in (["ls"], ["--store", str(two[0]), "ls", "--store", str(two[1])]):
        outcome = turnlog(*words, "-o", str(path))
        assert (outcome.code, path.read_bytes()) == (2, before)


def test_a_session_is_restored_to_the_store_it_came_from(
    turnlog: Run, two: tuple[Path, Path]
) -> None:
    assert turnlog("archive").code == 0
    path = next(Store(two[1]).session_files())
    content = path.read_bytes()
    path.unlink()
    # The index keeps covering it.
    assert json.loads(turnlog("stats", "model", "--json").out)["total"]["output"] == 2000
    assert turnlog("restore", OTHER).code == 0
    assert path.read_bytes() == content


def test_sessions_of_nested_stores_count_once(turnlog: Run, two: tuple[Path, Path]) -> None:
    inner = two[0] / "projects" / "inner"
    add_session(inner, ID.replace("1", "4"), "nested", "msg_6")
    (inner / "history.jsonl").write_text("{}\n")  # no session of the outer store
    stores = [Store(two[0]), Store(inner)]
    assert len(list_sessions(stores)) == 2
    rows = report(stores, "session", by=("store",)).rows
    assert {row["store"]: row["session"] for row in rows} == {
        str(two[0]): ID,
        str(inner): ID.replace("1", "4"),
    }


def test_chat_makes_one_store_the_only_one(
    turnlog: Run, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    explain = ("chat", "--explain-permission", "ls")
    assert turnlog(*explain).code == 0
    assert os.environ["CLAUDE_CONFIG_DIR"] == str(two[0])
    assert turnlog("--store", str(two[1]), *explain).code == 0
    assert (os.environ["CLAUDE_CONFIG_DIR"], open_store().root) == (str(two[1]), two[1])
    # The client keeps its state elsewhere if the variable is set, even to its default.
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.setenv("HOME", str(two[0].parent))
    (two[0].parent / ".claude" / "projects").mkdir(parents=True)
    assert turnlog(*explain).code == 0
    assert "CLAUDE_CONFIG_DIR" not in os.environ


def test_chat_and_hooks_use_the_first_store(turnlog: Run, two: tuple[Path, Path]) -> None:
    assert turnlog("archive", "--install").code == 0
    assert [(root / "settings.json").exists() for root in two] == [True, False]


def test_relative_stores_of_the_library_are_indexed(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(two[0])
    assert report(Store(Path()), "model").total["output"] == 1000
    assert report([Store(Path()), Store(two[1])], "model").total["output"] == 2000


def test_tail_follows_all_stores(two: tuple[Path, Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnlog", "tail", "--json", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.terminate()
    assert len(lines) == 2
