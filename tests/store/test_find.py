"""From what a user types to a session file."""

from pathlib import Path

import pytest

from support.build import line, session, user
from turnlog.errors import Ambiguous, NotFound
from turnlog.store.paths import Store
from turnlog.store.session_lookup import find_session

SHOP = "3f2a9c1e-0000-4000-8000-00000000000a"
BLOG = "3f2b0000-0000-4000-8000-00000000000b"
AGENT = "a7835a333e000d752"


@pytest.fixture
def sessions(store: Store) -> dict[str, Path]:
    """Two sessions, of which the shop's is the later one, and a sub-agent in each layout."""
    shop, blog = store.project_of("/home/ada/shop"), store.project_of("/home/ada/blog")
    files = {
        SHOP: shop / f"{SHOP}.jsonl",
        BLOG: blog / f"{BLOG}.jsonl",
        AGENT: shop / SHOP / "subagents" / f"agent-{AGENT}.jsonl",
        "0a48f195": blog / "agent-0a48f195.jsonl",
    }
    content = {
        SHOP: session(user("Fix the till", timestamp="2026-11-15T10:00:00Z"), session_id=SHOP),
        BLOG: session(user("Feed of the Blog"), session_id=BLOG),
        AGENT: session(user("go"), session_id=SHOP, agent_id=AGENT),
        "0a48f195": session(user("go"), session_id=BLOG, agent_id="0a48f195"),
    }
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[name])
    return files


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (SHOP, SHOP),
        (SHOP.upper(), SHOP),
        ("3f2a", SHOP),
        ("3F2B", BLOG),
        ("last", SHOP),
        ("Fix the till", SHOP),
        ("fix THE till", SHOP),
        ("feed", BLOG),
        ("blog", BLOG),
        (AGENT, AGENT),
        (f"agent-{AGENT}", AGENT),
        (f"AGENT-{AGENT[:5].upper()}", AGENT),
        ("0a48", "0a48f195"),
    ],
)
def test_a_session_is_found_by_what_was_typed(
    store: Store, sessions: dict[str, Path], typed: str, found: str
) -> None:
    assert find_session(store, typed).path == sessions[found]


def test_a_path_is_taken_as_it_is(
    store: Store, sessions: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sessions[BLOG]
    assert find_session(store, str(path)).path == path
    monkeypatch.chdir(path.parent)
    assert find_session(store, path.name).path == Path(path.name)
    monkeypatch.setenv("HOME", str(path.parent))
    assert find_session(store, f"~/{path.name}").path == path


def test_a_path_need_not_be_in_the_store_nor_end_in_jsonl(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(session(user("hi")))
    assert find_session(store, str(path)).size == path.stat().st_size


def test_a_start_that_several_ids_have_lists_them(store: Store, sessions: dict[str, Path]) -> None:
    with pytest.raises(Ambiguous, match="'3f2' matches 2 sessions") as caught:
        find_session(store, "3f2")
    assert caught.value.candidates == [f"{SHOP}  Fix the till", f"{BLOG}  Feed of the Blog"]
    assert len(sessions) == 4


def test_a_part_that_several_titles_have_lists_them(
    store: Store, sessions: dict[str, Path]
) -> None:
    with pytest.raises(Ambiguous) as caught:
        find_session(store, "the")
    assert len(caught.value.candidates) == 2
    assert sessions[SHOP].exists()


def test_a_whole_title_counts_before_a_part_of_one(store: Store, sessions: dict[str, Path]) -> None:
    longer = sessions[SHOP].with_name("other.jsonl")
    longer.write_bytes(session(user("Fix the till again")))
    assert find_session(store, "fix the till").path == sessions[SHOP]


def test_a_whole_id_counts_before_the_start_of_one(store: Store, sessions: dict[str, Path]) -> None:
    short = sessions[SHOP].with_name("3f2.jsonl")
    short.write_bytes(session(user("hi")))
    assert find_session(store, "3f2").path == short


def test_an_id_counts_before_a_title(store: Store, sessions: dict[str, Path]) -> None:
    named = sessions[SHOP].with_name("other.jsonl")
    named.write_bytes(session(user("hi"), line("custom-title", custom_title="3f2a")))
    assert find_session(store, "3f2a").path == sessions[SHOP]


def test_a_session_without_title_is_a_candidate_by_its_id(store: Store) -> None:
    project = store.projects / "-shop"
    project.mkdir()
    for name in ("ab1", "ab2"):
        (project / f"{name}.jsonl").touch()
    with pytest.raises(Ambiguous) as caught:
        find_session(store, "ab")
    assert sorted(caught.value.candidates) == ["ab1", "ab2"]


@pytest.mark.parametrize("typed", ["nothing", "~nobody-of-that-name", "日" * 300, "a\0b"])
def test_what_matches_nothing_is_not_found(
    store: Store, sessions: dict[str, Path], typed: str
) -> None:
    with pytest.raises(NotFound, match="no session matches") as caught:
        find_session(store, typed)
    assert caught.value.hint == "turnlog ls"
    assert len(sessions) == 4


@pytest.mark.parametrize("typed", ["none.jsonl", "some/where", "/none"])
def test_a_path_without_a_file_is_not_found(store: Store, typed: str) -> None:
    with pytest.raises(NotFound, match=f"no such file: {typed}"):
        find_session(store, typed)


def test_a_title_longer_than_a_file_name_may_be_is_found(
    store: Store, sessions: dict[str, Path]
) -> None:
    long = sessions[SHOP].with_name("long.jsonl")
    long.write_bytes(session(user("日" * 200)))
    assert find_session(store, "日" * 200).path == long


def test_an_empty_store_has_no_last_session(store: Store) -> None:
    with pytest.raises(NotFound):
        find_session(store, "last")
