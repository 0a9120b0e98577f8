"""Paths of sessions and of their files."""

import ctypes
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.store.paths import (
    Store,
    adjacent_subagents,
    folder_name,
    is_session_name,
    nested_subagents,
    open_store,
    subagent_meta,
    subagents_folder,
    title_file,
    tool_results,
)


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/home/w/with.dot", "-home-w-with-dot"),
        ("/home/w/under_score", "-home-w-under-score"),
        ("/home/w/sp ace", "-home-w-sp-ace"),
        ("/home/w/ünïcødé", "-home-w--n-c-d-"),
        ("/home/w/日本語", "-home-w----"),
        ("/home/w/emoji😀x", "-home-w-emoji--x"),
        ("/home/w/a+b@c#d", "-home-w-a-b-c-d"),
        ("E:\\work\\x", "E--work-x"),
        ("/", "-"),
        ("", ""),
        ("/Home/Ada/9Lives", "-Home-Ada-9Lives"),
        ("/٣/Ⅳ/ß", "------"),
    ],
)
def test_a_folder_is_named_after_its_directory(cwd: str, name: str) -> None:
    assert folder_name(cwd) == name


@pytest.mark.parametrize("length", [199, 200])
def test_a_name_of_up_to_200_characters_is_kept_whole(length: int) -> None:
    cwd = "/" + "a" * (length - 1)
    assert folder_name(cwd) == "-" + "a" * (length - 1)


def test_a_longer_name_is_cut_and_ends_in_a_hash_of_the_path() -> None:
    name = folder_name("/" + "a" * 200)
    assert name == "-" + "a" * 199 + "-" + name[201:]
    assert int(name[201:], 36) == abs(java_hash("/" + "a" * 200))


def test_paths_that_differ_only_in_what_becomes_a_dash_have_different_hashes() -> None:
    first, second = (folder_name("/" + "a" * 200 + end) for end in ("/b", ".b"))
    assert first[:201] == second[:201]
    assert first != second


def java_hash(text: str) -> int:
    """The hash as the client computes it: 32 bits that overflow."""
    value = ctypes.c_int32(0)
    for unit in memoryview(text.encode("utf-16", "surrogatepass")[2:]).cast("H"):
        value = ctypes.c_int32((value.value << 5) - value.value + unit)
    return value.value


def dash(found: re.Match[str]) -> str:
    return "--" if ord(found[0]) > 0xFFFF else "-"


paths = st.text(max_size=60) | st.text("aZ9/._ é日😀", min_size=180, max_size=260)


@given(paths)
def test_folder_names_are_those_of_an_independent_computation(cwd: str) -> None:
    plain = re.sub("[^0-9A-Za-z]", dash, cwd)
    name = folder_name(cwd)
    if len(plain) <= 200:
        assert name == plain
        return
    kept, _, suffix = name.rpartition("-")
    assert kept == plain[:200]
    assert re.fullmatch("0|[1-9a-z][0-9a-z]*", suffix)
    assert int(suffix, 36) == abs(java_hash(cwd))


@given(paths)
def test_folder_names_are_safe_on_every_file_system(cwd: str) -> None:
    assert re.fullmatch("[0-9A-Za-z-]{0,208}", folder_name(cwd))


def test_the_store_is_where_the_environment_says() -> None:
    assert open_store({"CLAUDE_CONFIG_DIR": "/x"}) == Store(Path("/x"))
    assert open_store({}) == open_store({"CLAUDE_CONFIG_DIR": ""})
    assert open_store({}).root == Path.home() / ".claude"


def test_every_place_is_below_the_root(store: Store) -> None:
    assert open_store() == store
    places = [store.projects, store.history, store.registry, store.file_history]
    places += [store.todos, store.plans, store.settings, store.project_of("/home/ada")]
    assert all(place.is_relative_to(store.root) for place in places)
    assert len(set(places)) == len(places)


def test_the_project_of_a_directory_is_its_folder(store: Store) -> None:
    assert store.project_of("/home/ada/my.shop") == store.projects / "-home-ada-my-shop"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("3f2a.jsonl", True),
        ("agent-a1b2.jsonl", False),
        (".3f2a.jsonl", False),
        (".3f2a.jsonl.x.new", False),
        ("3f2a.json", False),
        ("memory", False),
    ],
)
def test_sessions_are_told_from_other_files_by_name(name: str, expected: bool) -> None:
    assert is_session_name(name) == expected


def test_only_session_files_of_projects_are_sessions(store: Store) -> None:
    shop, blog = store.projects / "-shop", store.projects / "-blog"
    for path in (shop / "a.jsonl", shop / "agent-b.jsonl", blog / "c.jsonl", blog / "notes.md"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (store.projects / "stray.jsonl").touch()
    (shop / "folder.jsonl").mkdir()
    (shop / "gone.jsonl").symlink_to("nowhere.jsonl")
    (blog / "link.jsonl").symlink_to(shop / "a.jsonl")
    nested = shop / "a" / "subagents"
    nested.mkdir(parents=True)
    (nested / "agent-d.jsonl").touch()
    found = sorted(path.relative_to(store.projects).as_posix() for path in store.session_files())
    assert found == ["-blog/c.jsonl", "-blog/link.jsonl", "-shop/a.jsonl"]


def test_a_store_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    assert list(Store(tmp_path / "none").session_files()) == []
    (tmp_path / "projects").touch()
    assert list(Store(tmp_path).session_files()) == []


def test_what_belongs_to_a_session_lies_in_a_folder_of_its_name() -> None:
    session = Path("/p/3f2a.b.jsonl")
    assert title_file(session) == Path("/p/3f2a.b/custom-title.json")
    assert tool_results(session) == Path("/p/3f2a.b/tool-results")
    assert subagents_folder(session) == Path("/p/3f2a.b/subagents")
    assert subagent_meta(Path("/p/agent-a1.jsonl")) == Path("/p/agent-a1.meta.json")


def test_subagents_lie_in_the_sessions_folder_or_among_the_sessions(tmp_path: Path) -> None:
    session = tmp_path / "s.jsonl"
    folder = subagents_folder(session)
    files = [folder / "agent-b.jsonl", folder / "workflows" / "w1" / "agent-a.jsonl"]
    for path in (*files, folder / "agent-b.meta.json", tmp_path / "agent-c.jsonl", session):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert nested_subagents(session) == files
    assert adjacent_subagents(tmp_path) == [tmp_path / "agent-c.jsonl"]
    assert nested_subagents(tmp_path / "other.jsonl") == []
