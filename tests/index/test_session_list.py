"""Lists of sessions: the filters, and figures that agree with the reports."""

from pathlib import Path

import pytest

from data.files import session_files
from support.build import assistant, call, compaction, line, result, session, text, user
from turnlog.format.jsonl import FileState
from turnlog.index import service
from turnlog.index.database import index_path, open_index
from turnlog.index.ingest.sync import sync
from turnlog.index.known_files import keep_check
from turnlog.index.reports.session_list import ListFilters
from turnlog.index.sync_policy import deferred_sync, refresh_index
from turnlog.store.paths import Store

A, B, C = (f"{name * 8}-0000-4000-8000-000000000000" for name in "abc")


def write(store: Store, id_: str, *lines: bytes, project: str = "-home-ada-shop") -> Path:
    path = store.projects / project / f"{id_}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(session(*lines, session_id=id_))
    return path


@pytest.fixture
def three(store: Store) -> Store:
    """Three sessions that differ in everything that filters look at."""
    write(
        store,
        A,
        user("one", cwd="/home/ada/shop", timestamp="2026-11-01T10:00:00.000Z"),
        assistant(
            call("Read", {"file_path": "/home/ada/shop/src/a.py"}),
            message={"model": "claude-opus-4-5", "usage": {"input_tokens": 10**6}},
            message_id="m1",
            timestamp="2026-11-01T10:00:01.000Z",
        ),
        result("toolu_1", timestamp="2026-11-01T10:00:02.000Z"),
    )
    write(
        store,
        B,
        user("two", cwd="/home/ada/blog", git_branch="topic", timestamp="2026-11-05T10:00:00.000Z"),
        assistant(
            call("Bash", {"command": "ls"}, "toolu_2"),
            message={"model": "claude-haiku-4-5"},
            message_id="m2",
            timestamp="2026-11-05T10:00:01.000Z",
        ),
    )
    write(
        store,
        C,
        user("three", cwd="/home/ada/blog", timestamp="2026-11-09T10:00:00.000Z"),
        line("tag", tag="Release"),
    )
    return store


def found(store: Store, **filters: object) -> list[str]:
    matches = service.match_sessions(store, ListFilters(**filters))  # pyright: ignore[reportArgumentType]
    listed = service.describe_sessions(store, [id_ for _, id_ in matches.rows])
    return [listed[id_].id[0] for _, id_ in matches.rows]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, "cba"),
        ({"project": "BLOG"}, "cb"),
        ({"branch": "topic"}, "b"),
        ({"model": "opus"}, "a"),
        ({"tag": "release"}, "c"),
        ({"tag": "rel"}, ""),
        ({"tool": "read"}, "a"),
        ({"file": "src/a.py"}, "a"),
        ({"file": "src\\a.py"}, "a"),
        ({"file": "rc/a.py"}, ""),
        ({"since": 1793872800.0}, "cb"),
        ({"until": 1793872800.0}, "a"),
        ({"min_cost": 1.0}, "a"),
        ({"max_cost": 1.0}, "cb"),
        ({"health": "unchecked"}, "cba"),
        ({"health": "broken"}, ""),
        ({"ids": (A, C)}, "ca"),
        ({"ids": ()}, ""),
        ({"project": "blog", "tool": "Bash"}, "b"),
        ({"project": "%"}, ""),
        ({"project": "' OR 1 --"}, ""),
    ],
)
def test_filters_select_sessions(three: Store, filters: dict[str, object], expected: str) -> None:
    assert found(three, **filters) == list(expected)


def test_health_counts_while_the_file_is_unchanged(three: Store) -> None:
    path = next(three.projects.rglob(f"{A}.jsonl"))
    with open_index(index_path(three)) as index:
        sync(index, three)
        keep_check(index.db, path, FileState.of(path), "it is broken")
    assert found(three, health="broken") == ["a"]
    with path.open("ab") as file:
        file.write(b"\n")
    assert found(three, health="broken") == []
    assert found(three, health="unchecked") == ["c", "b", "a"]


def test_the_figures_are_those_of_the_report(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number, source in enumerate(session_files()):
        folder = store.projects / f"-p{number}"
        folder.mkdir(parents=True)
        (folder / source.name).write_bytes(source.read_bytes())
    reported = {str(row["session"]): row for row in service.report(store, "session").rows}
    matches = service.match_sessions(store, ListFilters())
    listed = service.describe_sessions(store, [id_ for _, id_ in matches.rows])
    compared = 0
    for session_ in listed.values():
        row = reported.get(session_.id)
        if row is None or session_.is_ambiguous:
            continue
        compared += 1
        assert (session_.turns, session_.calls) == (row["turns"], row["calls"])
        assert (session_.errors, session_.tokens) == (row["errors"], row["tokens"])
        assert session_.cost_usd == pytest.approx(row["cost_usd"])
    assert compared > 5


def test_subagents_count_for_their_session(store: Store) -> None:
    path = write(store, A, user("one"), assistant(text("x"), message_id="m1"))
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    lines = [user("go"), assistant(call("Grep", {}), message_id="m2")]
    agent.write_bytes(session(*lines, session_id=A, agent_id="a1"))
    assert found(store, tool="Grep") == ["a"]
    ((_, number),) = service.match_sessions(store, ListFilters()).rows
    listed = service.describe_sessions(store, [number])[number]
    assert (listed.subagents, listed.calls, listed.tokens) == (1, 1, 60)
    assert service.call_summary(store, path).tools == {"Grep": 1}
    assert service.find_paths(store, "a1") == [agent]


def test_the_start_of_an_id_is_enough_if_only_one_has_it(three: Store) -> None:
    assert [path.stem for path in service.find_paths(three, "aaaa")] == [A]
    write(three, f"aaaa{B[4:]}", *compaction("x"))
    assert service.find_paths(three, "aaaa") == []
    assert service.find_paths(three, "") == []


def test_values_of_filters_are_the_most_frequent_first(three: Store) -> None:
    facets = service.facets(three)
    assert facets.projects == ["/home/ada/blog", "/home/ada/shop"]
    assert set(facets.models) == {"claude-opus-4-5", "claude-haiku-4-5"}
    assert set(facets.tools) == {"Read", "Bash"}
    assert "topic" in facets.branches


def test_a_deferred_query_reads_the_index_as_it_is(three: Store) -> None:
    before = service.index_generation(three)
    write(three, f"dddd{A[4:]}", user("four"))
    with deferred_sync():
        assert service.index_generation(three) == before
        assert len(found(three)) == 3
    assert refresh_index(three)
    with deferred_sync():
        assert len(found(three)) == 4
        hits = list(service.search_sessions(three, service.SearchRequest("four")))
        assert len(hits) == 1
    assert not refresh_index(three)


def test_a_pooled_index_that_was_rebuilt_is_opened_anew(three: Store) -> None:
    refresh_index(three)
    with deferred_sync():
        assert len(found(three)) == 3
        index_path(three).unlink()
        refresh_index(three)
        assert len(found(three)) == 3
