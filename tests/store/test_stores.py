"""Several stores: where they are named, which come first, and which one has a file."""

import os
from pathlib import Path

import pytest

from support.build import session, user
from turnlog.errors import Ambiguous, NotFound, UsageError
from turnlog.format.regular_files import collect_skipped
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.update import archive_sessions
from turnlog.store.catalog import list_sessions
from turnlog.store.configuration import store_directories
from turnlog.store.paths import Store, open_store
from turnlog.store.session_lookup import find_in_store, find_session
from turnlog.store.stores import distinct, find_holder, open_stores, store_at

ID = "5e551011-0000-4000-8000-000000000001"


def make_store(root: Path, *ids: str, prompt: str = "hi") -> Store:
    folder = root / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    for id_ in ids:
        (folder / f"{id_}.jsonl").write_bytes(session(user(prompt), session_id=id_))
    return Store(root)


def environment(home: Path, **variables: str) -> dict[str, str]:
    return {"TURNLOG_HOME": str(home), **variables}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_default_store_is_in_the_home_directory(home: Path) -> None:
    assert store_directories(environment(home)) == [str(home / ".claude")]
    assert [store.root for store in open_stores(environment(home))] == [home / ".claude"]


def test_the_variable_comes_before_the_configuration_and_that_before_the_default(
    home: Path,
) -> None:
    (home / "config.toml").write_text('stores = ["~/one", "/two"]\n')
    assert store_directories(environment(home)) == [str(home / "one"), "/two"]
    named = environment(home, CLAUDE_CONFIG_DIR="/three")
    assert store_directories(named) == ["/three"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("/a,/b", ["/a", "/b"]),
        ("/a, /b,", ["/a", "/b"]),
        ("~/a,~/b", ["{home}/a", "{home}/b"]),
        ("a,../b", ["{home}/a", "{parent}/b"]),
    ],
)
def test_the_variable_lists_directories(home: Path, value: str, found: list[str]) -> None:
    expected = [each.format(home=home, parent=home.parent) for each in found]
    assert store_directories(environment(home, CLAUDE_CONFIG_DIR=value)) == expected


def test_a_directory_may_have_a_comma_in_its_name(home: Path) -> None:
    make_store(home / "a,b")
    named = environment(home, CLAUDE_CONFIG_DIR=str(home / "a,b"))
    assert store_directories(named) == [str(home / "a,b")]


def test_relative_paths_of_the_configuration_are_relative_to_it(home: Path) -> None:
    (home / "own").mkdir()
    (home / "own" / "config.toml").write_text('stores = ["here"]\n')
    assert store_directories(environment(home / "own")) == [str(home / "own" / "here")]


@pytest.mark.parametrize(
    "text",
    [
        'stores = "x"',
        "stores = [1]",
        'stores = [""]',
        "stores = [",
        'stores = ["a\\u0000b"]',
        f"stores = {'[' * 5000}{']' * 5000}",
    ],
)
def test_a_configuration_that_is_not_valid_is_one_line_with_a_hint(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text)
    with pytest.raises(UsageError) as raised:
        store_directories(environment(home))
    assert str(home / "config.toml") in raised.value.message
    assert raised.value.hint == f"$EDITOR {home / 'config.toml'}"


def test_the_first_store_may_be_missing_and_others_are_left_out(home: Path) -> None:
    there = make_store(home / "there")
    named = environment(home, CLAUDE_CONFIG_DIR=f"{home / 'new'},{home / 'gone'},{there.root}")
    with collect_skipped() as skipped:
        assert open_stores(named) == (Store(home / "new"), there)
    assert list(skipped) == [str(home / "gone")]
    assert open_store(named) == Store(home / "new")


def test_a_store_is_read_once_whatever_links_lead_to_it(home: Path) -> None:
    store = make_store(home / "real")
    (home / "link").symlink_to("real")
    linked = Store(home / "link")
    assert distinct([store, linked, Store(home / "other"), store]) == (store, Store(home / "other"))
    assert distinct([linked, store]) == (linked,)


def test_a_store_is_named_by_any_path(home: Path) -> None:
    store = make_store(home / "real")
    for text in ("real", "~/real", "./real/", "real/projects", str(store.root), "x/../real"):
        assert store_at(text) == store, text


def test_a_folder_called_projects_may_be_a_store(home: Path) -> None:
    store = make_store(home / "projects")
    assert store_at(home / "projects") == store


@pytest.mark.parametrize(("name", "reason"), [("no", "no such directory"), ("", "no projects")])
def test_a_missing_store_is_one_line_with_a_hint(home: Path, name: str, reason: str) -> None:
    with pytest.raises(NotFound, match=reason) as raised:
        store_at(home / name)
    assert raised.value.hint == "turnlog where"


def test_the_innermost_of_nested_stores_has_a_file(home: Path) -> None:
    outer = make_store(home / "outer", ID)
    inner = make_store(outer.root / "projects" / "inner", ID.replace("1", "2"))
    for stores in ([outer, inner], [inner, outer]):
        paths = [session.path for session in list_sessions(stores)]
        assert len(paths) == 2
        assert {find_holder(stores, path) for path in paths} == {outer, inner}
        assert find_in_store(stores, ID).store == outer
        assert find_in_store(stores, ID.replace("1", "2")).store == inner
    assert find_holder([outer, inner], home / "elsewhere.jsonl") is None


def test_the_same_id_in_two_stores_is_ambiguous_and_both_files_are_named(home: Path) -> None:
    one, two = make_store(home / "one", ID), make_store(home / "two", ID)
    with pytest.raises(Ambiguous, match="is in 2 stores") as raised:
        find_session([one, two], ID[:8])
    paths = [str(next(store.session_files())) for store in (one, two)]
    assert sorted(raised.value.candidates) == paths
    assert raised.value.hint == f"turnlog show {ID} --store {one.root}"
    assert find_in_store([one, two], paths[1]) == (two, Path(paths[1]))


def test_the_archive_keeps_the_version_of_a_session_that_changed_last(home: Path) -> None:
    one = make_store(home / "one", ID, prompt="long and new")
    two = make_store(home / "two", ID, prompt="old")
    old = next(two.session_files())
    os.utime(old, (1e9, 1e9))
    archive = Archive(home / "archive")
    assert archive_sessions([two, one], archive).copies == 1
    assert archive.load(ID).store == str(one.root)
    # Nor does the older version replace it when it is all that is left.
    next(one.session_files()).unlink()
    archive_sessions([two, one], archive)
    assert archive.load(ID).store == str(one.root)


def test_a_pipe_in_place_of_the_configuration_does_not_block(home: Path) -> None:
    os.mkfifo(home / "config.toml")
    with pytest.raises(OSError, match="not a regular file"):
        store_directories(environment(home))
