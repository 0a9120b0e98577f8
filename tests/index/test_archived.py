"""Sessions that are gone from the store, but in the archive, stay in the index."""

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from support.build import assistant, session, text, user
from support.index_dump import dump, found
from turnlog.format.jsonl import append_lines
from turnlog.index.database import open_index
from turnlog.index.ingest.file_states import scan_store
from turnlog.index.ingest.sync import StoreScan, Synced, plan_first_build, sync
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.restore import restore_session
from turnlog.store.archive.update import archive_sessions
from turnlog.store.paths import Store

FIRST = "11111111-0000-4000-8000-000000000000"
OTHER = "22222222-0000-4000-8000-000000000000"


def said(name: str, word: str, number: int = 1) -> bytes:
    return session(
        user(f"about {word}", uuid=f"{name}-{number}"),
        assistant(text(f"this is {word}"), message_id=f"{name}-{number}"),
        session_id=name,
    )


class ArchivedStore:
    """A store, an archive and an index of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / "store")
        self.archive = Archive(folder / "archive")

    def write(self, project: str, name: str, content: bytes) -> Path:
        path = self.store.projects / project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def keep(self) -> None:
        archive_sessions(self.store, self.archive)

    def sync(self, name: str = "index.db", words: bool = True) -> Synced:
        with open_index(self.folder / name) as index:
            return sync(index, self.store, archive=self.archive, words=words)

    def dump(self, name: str = "index.db") -> object:
        with open_index(self.folder / name) as index:
            return dump(index.db)

    def gone(self) -> list[str]:
        with open_index(self.folder / "index.db") as index:
            rows = index.db.execute("SELECT path FROM files WHERE is_gone ORDER BY path")
            return [path for (path,) in rows]

    def found(self, word: str) -> list[str]:
        with open_index(self.folder / "index.db") as index:
            return sorted({path for path, _, _ in found(index.db, word)})

    def rebuilt(self) -> object:
        (self.folder / "anew.db").unlink(missing_ok=True)
        self.sync("anew.db")
        return self.dump("anew.db")


@pytest.fixture
def place(tmp_path: Path) -> ArchivedStore:
    return ArchivedStore(tmp_path)


def test_a_deleted_session_is_still_found(place: ArchivedStore) -> None:
    path = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    agent = place.write("-p", f"{FIRST}/subagents/agent-a1.jsonl", said(FIRST, "pear", 2))
    place.keep()
    place.sync()
    shutil.rmtree(place.store.projects)
    assert place.sync() == Synced(read=2, removed=0, bytes=0)
    assert place.gone() == [str(path), str(agent)]
    assert place.found("apple") == [str(path)]
    assert place.found("pear") == [str(agent)]
    assert place.rebuilt() == place.dump()


def test_a_line_of_a_deleted_session_can_be_read(place: ArchivedStore) -> None:
    path = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    lines = path.read_bytes().splitlines(keepends=True)
    place.keep()
    path.unlink()
    place.sync()
    file = place.archive.find(str(path))
    assert file
    with open_index(place.folder / "index.db") as index:
        rows = index.db.execute("SELECT line, offset, size FROM docs").fetchall()
    assert rows
    for line, offset, size in rows:
        assert place.archive.read_at(file, offset, size) == lines[line - 1]


def test_words_of_a_deleted_session_can_follow_its_figures(place: ArchivedStore) -> None:
    path = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    place.keep()
    path.unlink()
    os.utime(place.archive.sessions, (0, 0))  # long ago: later syncs do not list it again
    place.sync(words=False)
    assert (place.gone(), place.found("apple")) == ([str(path)], [])
    place.sync()
    assert place.found("apple") == [str(path)]


def test_the_first_build_reads_deleted_sessions_too(place: ArchivedStore) -> None:
    gone = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    stays = place.write("-p", f"{OTHER}.jsonl", said(OTHER, "pear"))
    place.keep()
    gone.unlink()
    scan = StoreScan(place.store, scan_store(place.store))
    with open_index(place.folder / "index.db") as index:
        planned = plan_first_build(index.db, scan, place.archive)
    assert {job.source.name for job in planned} == {str(gone), str(stays)}


def test_what_was_never_archived_goes_with_its_file(place: ArchivedStore) -> None:
    path = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    place.keep()
    append_lines(path, said(FIRST, "pear", 2).splitlines())
    place.write("-p", f"{OTHER}.jsonl", said(OTHER, "plum"))
    place.sync()
    shutil.rmtree(place.store.projects)
    assert place.sync().removed == 1
    assert (place.found("apple"), place.found("pear"), place.found("plum")) == ([str(path)], [], [])
    assert place.rebuilt() == place.dump()


def test_a_restored_session_is_there_once(place: ArchivedStore) -> None:
    path = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    place.keep()
    place.sync()
    before = place.dump()
    path.unlink()
    place.sync()
    restore_session(place.archive, place.archive.load(FIRST), place.store.root)
    place.sync()
    assert place.gone() == []
    assert place.dump() == before


def test_a_session_that_moved_is_there_once(place: ArchivedStore) -> None:
    path = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    place.keep()
    place.sync()
    moved = place.store.projects / "-q" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    place.sync()
    assert place.found("apple") == [str(moved)]
    place.keep()
    moved.unlink()
    place.sync()
    assert place.found("apple") == [str(moved)]
    assert place.rebuilt() == place.dump()


def test_a_subagent_that_went_before_its_session_stays(place: ArchivedStore) -> None:
    place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    agent = place.write("-p", "agent-1a2b3c4d.jsonl", said(FIRST, "pear", 2))
    place.keep()
    place.sync()
    agent.unlink()
    place.sync()
    assert place.gone() == place.found("pear") == [str(agent)]
    assert place.rebuilt() == place.dump()


def test_what_the_archive_no_longer_has_goes(place: ArchivedStore) -> None:
    path = place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    place.keep()
    path.unlink()
    place.sync()
    (place.archive.sessions / f"{FIRST}.json").unlink()
    assert place.sync().removed == 1
    assert place.found("apple") == []


def test_damage_in_the_archive_stops_no_sync(place: ArchivedStore) -> None:
    for name in (FIRST, OTHER):
        place.write("-p", f"{name}.jsonl", said(name, f"fruit {name}"))
    place.keep()
    shutil.rmtree(place.store.projects)
    piece = place.archive.load(FIRST).files[0].pieces[0]
    place.archive.objects.path(piece.hash).write_bytes(b"broken")
    place.sync()
    assert [Path(path).stem for path in place.gone()] == [OTHER]


def test_a_session_of_another_store_is_not_taken_in(place: ArchivedStore) -> None:
    place.write("-p", f"{FIRST}.jsonl", said(FIRST, "apple"))
    archive_sessions(Store(place.folder / "store"), place.archive)
    with open_index(place.folder / "index.db") as index:
        sync(index, Store(place.folder / "elsewhere"), archive=place.archive)
        assert index.db.execute("SELECT count(*) FROM files").fetchone() == (0,)


class Histories(RuleBasedStateMachine):
    """Sessions come, grow, are archived, deleted and restored; the index is synced now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.place = ArchivedStore(Path(tempfile.mkdtemp()))
        self.number = 0

    def teardown(self) -> None:
        self.sync()
        assert self.place.rebuilt() == self.place.dump()
        shutil.rmtree(self.place.folder)

    @property
    def files(self) -> list[Path]:
        return sorted(self.place.store.projects.rglob("*.jsonl"))

    @rule(
        name=st.sampled_from([FIRST, OTHER]),
        part=st.sampled_from([".jsonl", ".jsonl", "/subagents/agent-a1.jsonl"]),
    )
    def write(self, name: str, part: str) -> None:
        self.number += 1
        path = self.place.write("-p", name + part, said(name, "apple", self.number))
        os.utime(path, ns=(self.number, self.number))

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        self.number += 1
        path = data.draw(st.sampled_from(self.files))
        append_lines(path, said(path.stem, "pear", self.number).splitlines())

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.files)).unlink()

    @rule()
    def keep(self) -> None:
        self.place.keep()

    @rule()
    def restore(self) -> None:
        for name in self.place.archive.names():
            manifest = self.place.archive.load(name)
            if not manifest.is_in_store:
                shutil.rmtree(self.place.store.projects / "-p" / name, ignore_errors=True)
                restore_session(self.place.archive, manifest, self.place.store.root)

    @rule()
    def sync(self) -> None:
        self.place.sync()


Histories.TestCase.settings = settings(max_examples=25, stateful_step_count=20)
TestHistories = Histories.TestCase
