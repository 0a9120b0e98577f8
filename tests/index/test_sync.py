"""The index after any history of its files equals an index rebuilt from them."""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from support.build import assistant, call, line, result, session, text, user
from support.index_dump import dump, found
from turnlog.index.database import Index, open_index
from turnlog.index.ingest import workers
from turnlog.index.ingest.change_check import is_current
from turnlog.index.ingest.file_states import scan_store
from turnlog.index.ingest.sync import sync
from turnlog.index.ingest.workers import BatchLimits
from turnlog.store.paths import Store

WORDS = ("apple", "banana", "検索", "error")
IDS = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(4)]
USAGE = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 100}


def blocks(draw_number: int, name: str) -> list[bytes]:
    """A turn whose ids other files may have as well."""
    message, use = f"msg_{draw_number}", f"toolu_{draw_number}"
    word = WORDS[draw_number % len(WORDS)]
    return [
        user(f"{word} please", uuid=f"u{draw_number}"),
        assistant(text(f"about {word}"), message_id=message, usage=USAGE),
        assistant(
            call("Bash", {"command": f"grep {word}"}, use),
            message_id=message,
            usage=USAGE | {"output_tokens": 50 + draw_number},
        ),
        result(use, f"no {word}", is_error=draw_number % 3 == 0),
        line("custom-title", custom_title=f"{word} of {name}"),
        line("pr-link", pr_number=draw_number, pr_url="https://example.org/1"),
    ]


def figures(db: sqlite3.Connection) -> dict[str, Any]:
    """Return all of an index except its words, of which an older one may have more."""
    words = {"docs"}
    return {name: rows for name, rows in dump(db).items() if name not in words}


class Histories(RuleBasedStateMachine):
    """Files come, grow, change, move and go; the index is synced now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder / "store")
        self.clock = 1_700_000_000_000_000_000

    def teardown(self) -> None:
        self.compare()
        shutil.rmtree(self.folder)

    def stamp(self, path: Path) -> None:
        """A time of its own for each change, as a clock of nanoseconds would give it."""
        self.clock += 1_000_000
        os.utime(path, ns=(self.clock, self.clock))

    @property
    def files(self) -> list[Path]:
        return sorted(self.store.projects.rglob("*.jsonl"))

    @rule(
        name=st.sampled_from(IDS),
        project=st.sampled_from(["-a", "-b"]),
        numbers=st.lists(st.integers(0, 5), min_size=1, max_size=3),
        agent=st.booleans(),
    )
    def write(self, name: str, project: str, numbers: list[int], agent: bool) -> None:
        folder = self.store.projects / project
        path = folder / name / "subagents" / "agent-a1.jsonl" if agent else folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        turns = [each for number in numbers for each in blocks(number, name)]
        beside.write_bytes(session(*turns, session_id=name))
        beside.replace(path)
        self.stamp(path)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), number=st.integers(0, 9), cut=st.integers(0, 40))
    def append(self, data: st.DataObject, number: int, cut: int) -> None:
        path = data.draw(st.sampled_from(self.files))
        content = session(*blocks(number, path.stem), session_id=path.stem)
        with path.open("ab") as file:
            file.write(content[:-cut] if cut > 20 else content)
        self.stamp(path)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), share=st.floats(0, 1))
    def truncate(self, data: st.DataObject, share: float) -> None:
        path = data.draw(st.sampled_from(self.files))
        os.truncate(path, int(path.stat().st_size * share))
        self.stamp(path)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.files)).unlink()

    @precondition(lambda self: self.files)
    @rule(data=st.data(), project=st.sampled_from(["-a", "-b", "-c"]))
    def move(self, data: st.DataObject, project: str) -> None:
        path = data.draw(st.sampled_from(self.files))
        _, *rest = path.relative_to(self.store.projects).parts
        target = self.store.projects.joinpath(project, *rest)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)

    @rule(part=st.sampled_from([1, 600, 1 << 20]), transaction=st.sampled_from([1, 2000, 1 << 20]))
    def sync_now(self, part: int, transaction: int) -> None:
        with open_index(self.folder / "index.db") as index:
            sync(index, self.store, limits=BatchLimits(part, transaction))

    @rule(part=st.sampled_from([1, 600, 1 << 20]))
    def sync_figures(self, part: int) -> None:
        with open_index(self.folder / "index.db") as index:
            sync(index, self.store, limits=BatchLimits(part, 2000), words=False)
            with (
                tempfile.TemporaryDirectory() as fresh,
                open_index(Path(fresh, "index.db")) as anew,
            ):
                sync(anew, self.store, words=False)
                assert figures(index.db) == figures(anew.db)

    @rule()
    def compare(self) -> None:
        self.sync_now(600, 1 << 20)
        with (
            tempfile.TemporaryDirectory() as fresh,
            open_index(Path(fresh, "index.db")) as anew,
            open_index(self.folder / "index.db") as index,
        ):
            sync(anew, self.store)
            assert dump(index.db) == dump(anew.db)
            for word in WORDS:
                assert found(index.db, word) == found(anew.db, word)


Histories.TestCase.settings = settings(
    max_examples=int(os.environ.get("TURNLOG_EXAMPLES", "20")),
    stateful_step_count=12,
    deadline=None,
)
TestHistories = Histories.TestCase


def test_a_large_file_is_counted_whole(tmp_path: Path) -> None:
    """Files of more than one part, several of which are written in one transaction."""
    store = Store(tmp_path / "store")
    path = store.projects / "-a" / f"{IDS[0]}.jsonl"
    path.parent.mkdir(parents=True)
    large = "x" * (1 << 20)
    turns = [
        (user(f"{number} {large}"), assistant(text("a"), message_id=f"m{number}", usage=USAGE))
        for number in range(30)
    ]
    path.write_bytes(session(*(each for turn in turns for each in turn), session_id=IDS[0]))
    with open_index(tmp_path / "index.db") as index:
        sync(index, store)
        counted = "SELECT count(*), sum(input), max(line) FROM messages WHERE counts"
        assert index.db.execute(counted).fetchone() == (30, 300, 60)
        assert index.db.execute("SELECT count(*) FROM prompts").fetchone() == (30,)
        assert len(found(index.db, "a")) == 30


def test_words_are_read_after_the_figures(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    path = store.projects / "-a" / f"{IDS[0]}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(*blocks(0, "a"), *blocks(1, "a"), session_id=IDS[0]))
    with open_index(tmp_path / "index.db") as index:
        sync(index, store, words=False)
        assert index.db.execute("SELECT count(*) FROM messages").fetchone() == (2,)
        assert index.db.execute("SELECT count(*) FROM docs").fetchone() == (0,)
        assert is_current(index.db, scan_store(store), words=False)
        assert not is_current(index.db, scan_store(store))
        sync(index, store)
        assert is_current(index.db, scan_store(store))
        assert len(found(index.db, "apple")) == 5


def test_words_of_both_phases_are_those_of_one_sync(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for name in IDS:
        path = store.projects / "-a" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(session(*blocks(3, name), *blocks(4, name), session_id=name))
    with open_index(tmp_path / "index.db") as index, open_index(tmp_path / "one.db") as one:
        sync(index, store, words=False, limits=BatchLimits(part=300))
        sync(index, store, limits=BatchLimits(part=700, transaction=1))
        sync(one, store)
        assert dump(index.db) == dump(one.db)


def test_a_file_that_another_process_left_behind_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process was faster, so this one's parts were dropped; then it was killed."""
    store = Store(tmp_path / "store")
    path = store.projects / "-a" / f"{IDS[0]}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(*blocks(0, "a"), session_id=IDS[0]))
    calls: list[int] = []

    def ingest(index: Index, phase: Any, jobs: list[Any], *options: Any) -> int:
        calls.append(len(jobs))
        return 0 if len(calls) == 1 else workers.ingest(index, phase, jobs, *options)

    monkeypatch.setattr("turnlog.index.ingest.sync.ingest", ingest)
    with open_index(tmp_path / "index.db") as index:
        assert sync(index, store, words=False).bytes == path.stat().st_size
        assert index.db.execute("SELECT count(*) FROM messages").fetchone() == (1,)
        assert calls == [1, 1]
        with path.open("ab") as file:
            file.write(session(*blocks(1, "a"), session_id=IDS[0]))
        sync(index, store, words=False)
        assert calls == [1, 1, 1]
