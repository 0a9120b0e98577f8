"""Session stores fulfil the contracts of the Agent SDK, and store ordinary sessions."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from msgspec.structs import replace

from support.s3_server import s3_server
from turnlog.errors import Damaged, UsageError
from turnlog.format.regular_files import collect_skipped
from turnlog.sdk import ArchiveSessionStore, FilesystemSessionStore
from turnlog.sdk.pull import pull_sessions
from turnlog.store.archive.archive import Archive, ArchivedFile
from turnlog.store.archive.restore import restore_session
from turnlog.store.archive.update import archive_sessions
from turnlog.store.archive.verification import check_archive
from turnlog.store.paths import Store

ID = "11111111-0000-4000-8000-000000000000"
KEY: Any = {"project_key": "-home-ada", "session_id": ID}
AGENT: Any = {**KEY, "subpath": "subagents/agent-a1"}
PATH = f"projects/-home-ada/{ID}.jsonl"

PATIENCE = 60.0

AnyStore = ArchiveSessionStore | FilesystemSessionStore


def entry(number: int, **more: object) -> Any:
    return {
        "type": "user",
        "uuid": f"00000000-0000-4000-8000-{number:012}",
        "timestamp": "2026-11-01T10:00:00.000Z",
        "cwd": "/home/ada",
        "message": {"role": "user", "content": f"prompt {number}"},
        **more,
    }


def append(store: AnyStore, key: Any, *entries: Any) -> None:
    asyncio.run(store.append(key, list(entries)))


def load(store: AnyStore, key: Any = KEY) -> Any:
    return asyncio.run(store.load(key))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive")


@pytest.fixture
def mirror(archive: Archive) -> ArchiveSessionStore:
    return ArchiveSessionStore(archive.folder)


def stored_in(tmp_path: Path, kind: str) -> Callable[[], AnyStore]:
    """Return a function that makes an empty store."""
    if kind == "archive":
        return lambda: ArchiveSessionStore(tmp_path / uuid4().hex)
    roots = {"memory": f"memory://{uuid4()}", "file": f"file://{tmp_path}"}
    return lambda: FilesystemSessionStore(f"{roots[kind]}/{uuid4()}")


@contextmanager
def bucket(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with s3_server() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield f"s3://{server.new_bucket()}"


@pytest.mark.parametrize("kind", ["archive", "memory", "file"])
def test_the_contracts_of_the_sdk_hold(tmp_path: Path, kind: str) -> None:
    asyncio.run(run_session_store_conformance(stored_in(tmp_path, kind)))


def test_the_contracts_hold_on_s3(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bucket(monkeypatch) as url:
        stores = (FilesystemSessionStore(f"{url}/{number}") for number in range(100))
        asyncio.run(run_session_store_conformance(lambda: next(stores)))
        append(FilesystemSessionStore(f"{url}/shared"), KEY, entry(1))
        assert pull_sessions(f"{url}/shared", archive).changed == {ID}
    assert load(ArchiveSessionStore(archive.folder)) == [entry(1)]


@pytest.mark.parametrize("kind", ["archive", "memory", "file"])
def test_entries_come_back_as_they_were(tmp_path: Path, kind: str) -> None:
    store = stored_in(tmp_path, kind)()
    odd = {
        "type": "of-the-future",
        "big": 2**70,
        "float": 0.1,
        "null": None,
        "text": "é \u2028 \ud83d half, \x1b, \\ud800",
        "nested": {"b": [1, {"a": True}], "a": ""},
    }
    append(store, KEY, odd, {"type": "tag", "tag": ""}, {"type": "tag", "tag": ""})
    assert load(store) == [odd, {"type": "tag", "tag": ""}, {"type": "tag", "tag": ""}]


@pytest.mark.parametrize("kind", ["archive", "memory", "file"])
def test_an_entry_that_is_sent_again_is_stored_once(tmp_path: Path, kind: str) -> None:
    store = stored_in(tmp_path, kind)()
    append(store, KEY, entry(1), entry(2), entry(2))
    append(store, KEY, entry(2), entry(3))
    assert load(store) == [entry(1), entry(2), entry(3)]


@pytest.mark.parametrize("kind", ["archive", "memory"])
def test_appending_nothing_makes_no_session(tmp_path: Path, kind: str) -> None:
    store = stored_in(tmp_path, kind)()
    append(store, KEY)
    append(store, AGENT)
    assert load(store) is None
    assert asyncio.run(store.list_sessions("-home-ada")) == []


def test_objects_that_were_merged_meanwhile_are_looked_up_again(
    mirror: ArchiveSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(mirror, KEY, entry(1))
    current = mirror._mirror.files(ID)
    (file,) = current
    gone = [replace(file, pieces=[each._replace(hash="0" * 64) for each in file.pieces])]
    read = iter([gone])

    def files(session: str) -> list[ArchivedFile]:
        return next(read, current)

    monkeypatch.setattr(mirror._mirror, "files", files)
    assert load(mirror) == [entry(1)]


def test_an_object_that_stays_missing_is_damage(
    mirror: ArchiveSessionStore, archive: Archive
) -> None:
    append(mirror, KEY, entry(1))
    (file,) = mirror._mirror.files(ID)
    archive.objects.path(file.pieces[0].hash).unlink()
    with pytest.raises(Damaged):
        load(mirror)


@pytest.mark.parametrize("kind", ["archive", "memory", "file"])
def test_a_subagent_may_have_nothing_but_metadata(tmp_path: Path, kind: str) -> None:
    store = stored_in(tmp_path, kind)()
    append(store, AGENT, {"type": "agent_metadata", "agentType": "Explore"})
    assert load(store, AGENT) == [{"type": "agent_metadata", "agentType": "Explore"}]


def test_folders_that_are_no_transcripts_are_not_listed(tmp_path: Path) -> None:
    store = FilesystemSessionStore(f"file://{tmp_path}")
    append(store, AGENT, entry(1))
    (part,) = tmp_path.rglob("*.jsonl")
    (part.parent.parent / "subagents%2Fagent-empty").mkdir()
    shutil.copytree(part.parent, part.parent.parent / "..%2F..%2Felsewhere")
    assert asyncio.run(store.list_subkeys(KEY)) == ["subagents/agent-a1"]


def test_another_process_knows_which_entries_are_there(archive: Archive) -> None:
    for numbers in ((1, 2), (2, 3), (1, 4)):
        append(ArchiveSessionStore(archive.folder), KEY, *map(entry, numbers))
    assert load(ArchiveSessionStore(archive.folder)) == [entry(n) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("kind", ["archive", "file"])
@pytest.mark.parametrize(
    "key",
    [
        {"project_key": "..", "session_id": ID},
        {"project_key": "a/b", "session_id": ID},
        {"project_key": ".hidden", "session_id": ID},
        {"project_key": "p", "session_id": "../../x"},
        {"project_key": "p", "session_id": ""},
        {"project_key": "p", "session_id": "a\0b"},
        {"project_key": "p", "session_id": "memory", "subpath": "notes"},
        {"project_key": "p", "session_id": ID, "subpath": "../../../x"},
        {"project_key": "p", "session_id": ID, "subpath": "/etc/x"},
        {"project_key": "p", "session_id": ID, "subpath": "a//b"},
        {"project_key": "p", "session_id": ID, "subpath": "a\\..\\b"},
        {"project_key": "p", "session_id": ID, "subpath": "C:x"},
        {"project_key": "p", "session_id": ID, "subpath": "a/" * 400 + "b"},
    ],
)
def test_keys_that_lead_elsewhere_are_refused(tmp_path: Path, kind: str, key: Any) -> None:
    store = stored_in(tmp_path / "below", kind)()
    append(store, KEY, entry(1))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError):
        append(store, key, entry(1))
    assert load(store, key) is None
    asyncio.run(store.delete(key))
    assert asyncio.run(store.list_subkeys(key)) == []
    assert sorted(tmp_path.rglob("*")) == before
    assert asyncio.run(store.list_sessions("..")) == []


def test_a_mirrored_session_is_restored_as_the_client_writes_it(
    mirror: ArchiveSessionStore, archive: Archive, tmp_path: Path
) -> None:
    append(mirror, KEY, entry(1), {"type": "custom-title", "customTitle": "Mend", "sessionId": ID})
    append(mirror, AGENT, {"type": "agent_metadata", "agentType": "Explore"}, entry(2))
    manifest = archive.load(ID)
    assert (manifest.title, manifest.cwd) == ("Mend", "/home/ada")
    restore_session(archive, manifest, tmp_path / "new")
    lines = (tmp_path / "new" / PATH).read_bytes().splitlines()
    assert json.loads(lines[0]) == entry(1)
    folder = tmp_path / "new" / PATH.removesuffix(".jsonl") / "subagents"
    assert json.loads((folder / "agent-a1.meta.json").read_bytes()) == {"agentType": "Explore"}
    assert json.loads((folder / "agent-a1.jsonl").read_bytes()) == entry(2)
    assert load(mirror, AGENT) == [{"type": "agent_metadata", "agentType": "Explore"}, entry(2)]
    assert asyncio.run(mirror.list_subkeys(KEY)) == ["subagents/agent-a1"]
    assert check_archive(archive).damages == []


def test_many_batches_leave_few_objects(mirror: ArchiveSessionStore, archive: Archive) -> None:
    for number in range(60):
        append(mirror, KEY, entry(number))
    assert load(mirror) == [entry(number) for number in range(60)]
    checked = check_archive(archive)
    assert (checked.unused, checked.damages) == (0, [])
    assert checked.objects < 20


def test_half_a_line_does_not_swallow_the_next(
    store: Store, mirror: ArchiveSessionStore, archive: Archive
) -> None:
    path = store.root / PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(json.dumps(entry(1)).encode() + b'\n{"type":"us')
    archive_sessions(store, archive)
    append(mirror, KEY, entry(1), entry(2))
    assert load(mirror) == [entry(1), entry(2)]


def test_an_older_file_on_disk_does_not_replace_what_was_mirrored(
    store: Store, mirror: ArchiveSessionStore, archive: Archive
) -> None:
    path = store.root / PATH
    path.parent.mkdir(parents=True)
    local = {"type": "api-request", "params": "not mirrored" * 100}
    content = [json.dumps(each).encode() + b"\n" for each in (entry(1), local)]
    path.write_bytes(b"".join(content))
    archive_sessions(store, archive)
    append(mirror, KEY, entry(2))
    archive_sessions(store, archive)
    assert load(mirror) == [entry(1), local, entry(2)]
    with path.open("ab") as file:
        file.writelines(json.dumps(entry(number)).encode() + b"\n" for number in (2, 3))
    archive_sessions(store, archive)
    assert load(mirror) == [entry(1), local, entry(2), entry(3)]
    append(mirror, KEY, entry(3), entry(4))
    (summary,) = asyncio.run(mirror.list_session_summaries("-home-ada"))
    assert summary["data"]["first_prompt"] == "prompt 1"


def test_deleting_removes_objects_that_nothing_else_needs(
    mirror: ArchiveSessionStore, archive: Archive
) -> None:
    other = KEY | {"session_id": ID.replace("1", "2")}
    for key in (KEY, AGENT, other):
        append(mirror, key, entry(1))
    asyncio.run(mirror.delete(KEY))
    assert archive.names() == [other["session_id"]]
    assert load(mirror, other) == [entry(1)]
    assert check_archive(archive).unused == 0


def test_entries_that_are_not_json_are_refused(mirror: ArchiveSessionStore) -> None:
    for value in (float("nan"), object()):
        with pytest.raises(UsageError, match="cannot be stored as JSON"):
            append(mirror, KEY, entry(1, value=value))
    assert load(mirror) is None


def test_sessions_of_a_url_are_copied_to_the_archive(tmp_path: Path, archive: Archive) -> None:
    url = f"file://{tmp_path}/remote"
    remote, mirror = FilesystemSessionStore(url), ArchiveSessionStore(archive.folder)
    append(remote, KEY, entry(1), {"type": "tag", "tag": "x"})
    append(remote, AGENT, {"type": "agent_metadata", "agentType": "Explore"}, entry(2))
    assert pull_sessions(url, archive).changed == {ID}
    pulled = pull_sessions(url, archive)
    assert (pulled.sessions, pulled.changed) == ({ID}, set())
    append(remote, KEY, entry(1), entry(3))
    assert pull_sessions(url, archive).changed == {ID}
    assert load(mirror) == [entry(1), {"type": "tag", "tag": "x"}, entry(3)]
    assert load(mirror, AGENT) == load(remote, AGENT)
    saved = f"projects/-home-ada/{ID}/subagents/agent-a1.meta.json"
    assert saved in {file.path for file in mirror._mirror.files(ID)}


def run_in_process(folder: Path, program: str) -> "subprocess.Popen[bytes]":
    """Start a program that has a store as `store` and a function `append`."""
    head = (
        "import asyncio, sys; from turnlog.sdk import ArchiveSessionStore\n"
        f"store = ArchiveSessionStore({str(folder)!r})\n"
        "def append(n): asyncio.run(store.append("
        f"{KEY!r}, [{{'type': 'user', 'uuid': str(n), 'text': 'x' * 5000}}]))\n"
    )
    return subprocess.Popen([sys.executable, "-c", head + program], stdout=subprocess.PIPE)


def test_two_processes_append_at_once(mirror: ArchiveSessionStore, archive: Archive) -> None:
    program = "for n in range(12): append('{}-%s' % n); append('shared')"
    processes = [run_in_process(archive.folder, program.format(number)) for number in (1, 2)]
    for process in processes:
        with process:
            assert process.wait(PATIENCE) == 0
    found = [each["uuid"] for each in load(mirror)]
    assert sorted(found) == sorted({f"{p}-{n}" for p in (1, 2) for n in range(12)} | {"shared"})
    for number in (1, 2):
        own = [uuid for uuid in found if uuid.startswith(f"{number}-")]
        assert own == [f"{number}-{n}" for n in range(12)]
    assert check_archive(archive).damages == []


def test_a_session_is_loaded_whole_while_it_grows(archive: Archive) -> None:
    reader = ArchiveSessionStore(archive.folder)
    program = "for n in range(40): append(n)"
    with run_in_process(archive.folder, program) as process:
        counts = [0]
        while process.poll() is None:
            loaded: list[Any] = load(reader) or []
            found = [int(each["uuid"]) for each in loaded]
            assert found == list(range(len(found)))
            counts.append(len(found))
        assert process.returncode == 0
    assert counts == sorted(counts)
    assert len(load(reader)) == 40


def test_lines_that_no_reader_would_accept_are_refused(
    mirror: ArchiveSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlog.store.archive.mirror.LONGEST_LINE", 1000)
    with pytest.raises(UsageError, match="more than 1,000 bytes"):
        append(mirror, KEY, entry(1), entry(2, text="x" * 1000))
    assert load(mirror) is None


def test_a_killed_process_loses_at_most_its_last_batch(
    mirror: ArchiveSessionStore, archive: Archive
) -> None:
    program = "import itertools\nfor n in itertools.count(): append(n); print(n, flush=True)"
    for patience in (3, 9):
        with run_in_process(archive.folder, program) as process:
            assert process.stdout
            confirmed = [int(process.stdout.readline()) for _ in range(patience)]
            process.kill()
        found = [int(each["uuid"]) for each in load(mirror)]
        assert found == list(range(len(found)))
        assert len(found) >= len(confirmed)
        checked = check_archive(archive)
        assert checked.damages == []
    append(mirror, KEY, entry(1))
    assert load(mirror)[-1] == entry(1)


def test_a_part_that_was_not_written_to_the_end_is_read_up_to_there(tmp_path: Path) -> None:
    store = FilesystemSessionStore(f"file://{tmp_path}")
    append(store, KEY, entry(1), entry(2))
    (part,) = tmp_path.rglob("*.jsonl")
    part.write_bytes(part.read_bytes()[:-10])
    append(store, KEY, entry(2))
    assert load(store) == [entry(1), entry(2)]


def test_other_users_cannot_read_sessions_in_a_directory(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        append(FilesystemSessionStore(f"file://{tmp_path}/new/root"), KEY, entry(1))
    finally:
        os.umask(before)
    assert {path for path in (tmp_path / "new").rglob("*") if path.stat().st_mode & 0o077} == set()
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_links_in_a_directory_lead_nowhere(tmp_path: Path, depth: int) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    store = FilesystemSessionStore(f"file://{root}")
    append(store, KEY, entry(1))
    linked = root.joinpath(*["-home-ada", ID, "main"][:depth])
    linked.rename(outside)
    linked.symlink_to(outside)
    before = sorted(outside.rglob("*"))
    assert load(store) is None
    assert asyncio.run(store.list_sessions("-home-ada")) == []
    with pytest.raises(Damaged, match="symbolic link"):
        append(store, KEY, entry(2))
    with suppress(Damaged):  # a session is removed with the links in it
        asyncio.run(store.delete(KEY))
    assert sorted(outside.rglob("*")) == before


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_regular_files_are_parts(tmp_path: Path, archive: Archive, kind: str) -> None:
    url = f"file://{tmp_path}/root"
    store = FilesystemSessionStore(url)
    append(store, KEY, entry(1))
    (part,) = (tmp_path / "root").rglob("*.jsonl")
    odd = part.with_name(f"{1:020d}-x.jsonl")
    if kind == "link":
        (tmp_path / "private").write_text('{"type": "private"}\n')
        odd.symlink_to(tmp_path / "private")
    else:
        os.mkfifo(odd)
    with collect_skipped() as skipped:
        assert pull_sessions(url, archive).changed == {ID}
    assert list(skipped) == [str(odd)]
    assert load(store) == [entry(1)]


def test_a_transcript_that_is_too_large_is_not_read(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/root"
    append(FilesystemSessionStore(url), KEY, entry(1))
    (part,) = (tmp_path / "root").rglob("*.jsonl")
    os.truncate(part, 64 << 30)  # a sparse file
    with pytest.raises(Damaged, match="is larger than"):
        pull_sessions(url, archive)
    other = f"memory://{uuid4()}"
    append(FilesystemSessionStore(other), KEY, entry(1))
    append(FilesystemSessionStore(other), KEY, entry(2))
    monkeypatch.setattr("turnlog.sdk.filesystem_store.LARGEST", 300)
    with pytest.raises(UsageError, match="has more than 300 bytes"):
        pull_sessions(other, archive)


@pytest.mark.parametrize("url", ["memory://a*", "memory://a?b/c", "file:///tmp/[ab]"])
def test_a_url_that_reads_as_a_pattern_is_refused(url: str) -> None:
    """Deleting a session of `memory://a*` would delete those of `memory://ab`."""
    with pytest.raises(UsageError, match="it contains one of"):
        FilesystemSessionStore(url)
