"""The archive restores what was put in, whatever happened in between."""

import json
import multiprocessing
import os
import resource
import shutil
import stat
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from support.build import session, user
from turnlog.errors import Ambiguous, Conflict, Damaged, NotFound, Unavailable
from turnlog.format.jsonl import append_lines, read_lines
from turnlog.store.archive import update
from turnlog.store.archive.archive import Archive, ArchivedFile, open_archive
from turnlog.store.archive.object_writer import ObjectWriter
from turnlog.store.archive.objects import PIECE
from turnlog.store.archive.restore import find_archived, restore_session
from turnlog.store.archive.update import FEW, Archived, archive_sessions, preview
from turnlog.store.archive.verification import check_archive
from turnlog.store.paths import Store

FORK = multiprocessing.get_context("fork")
FIRST = "11111111-0000-4000-8000-000000000000"
OTHER = "22222222-0000-4000-8000-000000000000"

Tree = dict[str, tuple[bytes, int]]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive")


@pytest.fixture
def filled(store: Store) -> Store:
    """A session with all that may belong to one, and another one."""
    project = store.projects / "-home-ada"
    agent = session(user("look"), session_id=FIRST, agent_id="a1")
    put(project / f"{FIRST}.jsonl", session(user("hi"), session_id=FIRST), 0o600)
    put(project / FIRST / "subagents" / "agent-a1.jsonl", agent, 0o600)
    put(project / FIRST / "subagents" / "workflows" / "wf_1" / "journal.jsonl", b"{}\n")
    put(project / FIRST / "tool-results" / "b1.txt", b"large\0output", 0o640)
    put(project / FIRST / "custom-title.json", b'{"customTitle":"Greeting"}')
    put(project / "agent-1a2b3c4d.jsonl", agent + b"{}\n")
    put(store.file_history / FIRST / "0123456789abcdef@v1", b"")
    put(store.todos / f"{FIRST}-agent-{FIRST}.json", b"[]")
    put(project / f"{OTHER}.jsonl", session(user("bye"), session_id=OTHER))
    put(project / "memory" / "notes.md", b"not of a session")
    return store


def put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    os.utime(path, (1_700_000_000, 1_700_000_000))


def tree(folder: Path) -> Tree:
    """All files below a folder, with their contents and what their modes allow their owner."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes(),
            stat.S_IMODE(path.stat().st_mode) & 0o700,
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def transcript(store: Store, name: str = FIRST) -> Path:
    return store.projects / "-home-ada" / f"{name}.jsonl"


def delete(store: Store, name: str) -> None:
    """Delete a session as the client does."""
    for path in [*store.root.rglob("*")]:
        if name in str(path) and path.is_file():
            path.unlink()
    (store.projects / "-home-ada" / "agent-1a2b3c4d.jsonl").unlink(missing_ok=True)


def piece_sizes(archive: Archive, name: str = FIRST) -> list[int]:
    files = archive.load(name).files
    found = next(file for file in files if file.path.endswith(f"{name}.jsonl"))
    return [piece.size for piece in found.pieces]


# Archive, lose, restore


def test_a_deleted_session_comes_back_whole(filled: Store, archive: Archive) -> None:
    before = tree(filled.root)
    archive_sessions(filled, archive)
    delete(filled, FIRST)
    assert len(tree(filled.root)) == 2
    restored = restore_session(archive, find_archived(archive, FIRST), filled.root)
    assert tree(filled.root) == before
    assert len(restored.written) == 8
    assert transcript(filled).stat().st_mtime == 1_700_000_000


def test_what_started_a_subagent_next_to_a_session_comes_back(
    filled: Store, archive: Archive
) -> None:
    meta = filled.projects / "-home-ada" / "agent-1a2b3c4d.meta.json"
    put(meta, b'{"agentType":"Explore"}')
    assert archive_sessions(filled, archive).unread == []
    meta.unlink()
    restore_session(archive, archive.load(FIRST), filled.root)
    assert meta.read_bytes() == b'{"agentType":"Explore"}'


def test_subagents_whose_session_is_missing_come_back(tmp_path: Path, archive: Archive) -> None:
    store = Store(tmp_path / "orphans")
    project = store.projects / "-home-ada"
    line = session(user("look"), session_id=FIRST, agent_id="1a2b3c4d")
    put(project / "agent-1a2b3c4d.jsonl", line)
    put(project / FIRST / "subagents" / "agent-5e6f7a8b.jsonl", line)
    before = tree(store.root)
    assert archive_sessions(store, archive).unread == []
    shutil.rmtree(project)
    restore_session(archive, archive.load(FIRST), store.root)
    assert tree(store.root) == before


def test_a_subagent_that_names_no_session_is_reported(tmp_path: Path, archive: Archive) -> None:
    store = Store(tmp_path / "orphans")
    put(store.projects / "-home-ada" / "agent-1a2b3c4d.jsonl", b'{"type":"user"}\n')
    (told,) = archive_sessions(store, archive).unread
    assert (Path(told.path).name, told.reason) == ("agent-1a2b3c4d.jsonl", "it names no session")


PASTE, OTHER_PASTE = "0123456789abcdef", "fedcba9876543210"


def prompt(name: str, display: str, paste: str) -> bytes:
    """A line of the prompt history with a pasted text."""
    pasted = {"1": {"id": 1, "type": "text", "contentHash": paste}}
    fields = {"display": display, "pastedContents": pasted, "sessionId": name}
    return json.dumps(fields).encode() + b"\n"


@pytest.fixture
def shared(filled: Store) -> Store:
    """A store with plans, prompts and pasted texts of both sessions."""
    planned = session(user("hi", slug="calm-sea"), session_id=FIRST)
    put(transcript(filled), planned, 0o600)
    put(filled.plans / "calm-sea.md", b"# Plan")
    put(filled.plans / "calm-sea-agent-a1.md", b"# Part")
    put(filled.plans / "calm-seaside.md", b"# Of nobody")
    lines = [prompt(FIRST, "hi", PASTE), prompt(OTHER, "bye", OTHER_PASTE)]
    put(filled.history, b"".join([*lines, b'{"display":"old"}\n', prompt(FIRST, "so", PASTE)]))
    for name in (PASTE, OTHER_PASTE):
        put(filled.pastes / f"{name}.txt", name.encode())
    return filled


def test_plans_prompts_and_pasted_texts_of_a_session_come_back(
    shared: Store, archive: Archive, tmp_path: Path
) -> None:
    archive_sessions(shared, archive)
    restore_session(archive, archive.load(FIRST), tmp_path / "new")
    found = tree(tmp_path / "new")
    names = [name for name in found if name.split("/")[0] in ("plans", "paste-cache")]
    assert sorted(names) == [
        f"paste-cache/{PASTE}.txt", "plans/calm-sea-agent-a1.md", "plans/calm-sea.md"
    ]  # fmt: skip
    own = prompt(FIRST, "hi", PASTE) + prompt(FIRST, "so", PASTE)
    assert found["history.jsonl"] == (own, 0o600)


def test_restored_prompts_are_appended_once(shared: Store, archive: Archive) -> None:
    archive_sessions(shared, archive)
    kept = prompt(OTHER, "bye", OTHER_PASTE) + prompt(FIRST, "so", PASTE)
    shared.history.write_bytes(kept)
    shared.plans.joinpath("calm-sea.md").write_bytes(b"# Plan of a fork")
    for _ in range(2):
        restore_session(archive, archive.load(FIRST), shared.root)
        assert shared.history.read_bytes() == kept + prompt(FIRST, "hi", PASTE)
    assert shared.plans.joinpath("calm-sea.md").read_bytes() == b"# Plan of a fork"


def test_prompts_are_not_appended_through_a_link(
    shared: Store, archive: Archive, tmp_path: Path
) -> None:
    archive_sessions(shared, archive)
    new, outside = tmp_path / "new", tmp_path / "outside"
    new.mkdir()
    (new / "history.jsonl").symlink_to(outside)
    for is_there in (False, True):
        if is_there:
            outside.touch()
        with pytest.raises(Conflict, match="symbolic link"):
            restore_session(archive, archive.load(FIRST), new)
        assert not is_there or outside.read_bytes() == b""
        assert [path.name for path in new.iterdir()] == ["history.jsonl"]


def test_prompts_and_plans_are_archived_as_they_change(shared: Store, archive: Archive) -> None:
    archive_sessions(shared, archive)
    assert archive_sessions(shared, archive).sessions == 0
    with shared.history.open("ab") as file:
        file.write(prompt(OTHER, "again", OTHER_PASTE))
    assert archive_sessions(shared, archive).sessions == 1
    # The same length, as after a redaction.
    shared.history.write_bytes(shared.history.read_bytes().replace(b'"hi"', b'"ho"'))
    shared.plans.joinpath("calm-sea.md").write_bytes(b"# Done")
    assert archive_sessions(shared, archive).sessions == 1
    restore_session(archive, archive.load(FIRST), archive.folder / "new")
    found = tree(archive.folder / "new")
    assert found["plans/calm-sea.md"][0] == b"# Done"
    assert b'"ho"' in found["history.jsonl"][0]


def test_a_forgotten_session_leaves_no_prompt_in_the_archive(
    shared: Store, archive: Archive
) -> None:
    archive_sessions(shared, archive)
    archive.remove(FIRST, lambda deletion: None)
    kept = {piece.hash for file in archive.load(OTHER).files for piece in file.pieces}
    assert archive.objects.sizes().keys() == kept


def test_what_is_restored_for_the_client_is_of_today(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    delete(filled, FIRST)
    manifest = archive.load(FIRST)
    for path in restore_session(archive, manifest, filled.root, is_kept_fresh=True).written:
        assert path.stat().st_mtime > 1_700_000_000 + 86400


def test_a_session_is_found_by_id_by_its_start_and_by_title(
    filled: Store, archive: Archive
) -> None:
    archive_sessions(filled, archive)
    for name in (FIRST, "1111", "greeting", "GREET"):
        assert find_archived(archive, name).session == FIRST
    with pytest.raises(NotFound):
        find_archived(archive, "nosuch")
    put(transcript(filled, "11111111-1"), session(user("x")))
    archive_sessions(filled, archive)
    with pytest.raises(Ambiguous):
        find_archived(archive, "1111")


def test_an_exact_id_is_found_though_others_start_with_it(filled: Store, archive: Archive) -> None:
    short = FIRST[:12]
    put(transcript(filled, short), session(user("x")))
    archive_sessions(filled, archive)
    assert find_archived(archive, short).session == short


def test_restore_writes_over_nothing(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    delete(filled, FIRST)
    put(transcript(filled), b"another\n")
    before = tree(filled.root)
    with pytest.raises(Conflict):
        restore_session(archive, archive.load(FIRST), filled.root)
    assert tree(filled.root) == before
    assert not any(FIRST in path.name for path in filled.file_history.rglob("*") if path.is_file())


def test_restore_leaves_a_session_that_went_on_and_adds_what_it_lost(
    filled: Store, archive: Archive
) -> None:
    archive_sessions(filled, archive)
    append_lines(transcript(filled), [b"{}"])
    title = transcript(filled).with_suffix("") / "custom-title.json"
    title.unlink()
    before = transcript(filled).read_bytes()
    restored = restore_session(archive, archive.load(FIRST), filled.root)
    assert restored.written == [title]
    assert transcript(filled).read_bytes() == before


def test_a_path_that_leads_out_of_the_store_is_refused(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    manifest = archive.load(FIRST)
    for bad in ("../x", "/tmp/x", "projects/../../x"):
        manifest.files[0].path = bad
        with pytest.raises(Damaged):
            restore_session(archive, manifest, filled.root)


def test_a_file_in_the_place_of_a_directory_is_named(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    target = filled.root.parent / "elsewhere"
    put(target / "projects", b"in the way")
    with pytest.raises(Conflict, match="projects is not a directory"):
        restore_session(archive, archive.load(FIRST), target)
    assert list(tree(target)) == ["projects"]


# Only what is new


def test_a_second_run_reads_and_writes_nothing(filled: Store, archive: Archive) -> None:
    first = archive_sessions(filled, archive)
    assert (first.sessions, first.objects) == (2, 8)  # one of nine files is empty
    before = {path: path.stat().st_mtime_ns for path in archive.folder.rglob("*")}
    path = transcript(filled)
    put(path, path.read_bytes()[::-1], 0o600)  # a change that only reading would show
    again = archive_sessions(filled, archive)
    assert (again.sessions, again.bytes, again.objects) == (0, 0, 0)
    assert (again.all_sessions, again.all_written) == (2, first.all_written)
    assert {path: path.stat().st_mtime_ns for path in archive.folder.rglob("*")} == before


def test_a_file_changed_at_the_moment_it_is_read_is_read_again(
    filled: Store, archive: Archive
) -> None:
    path = transcript(filled)
    os.utime(path)
    archive_sessions(filled, archive)
    time = path.stat().st_mtime_ns
    content = path.read_bytes()[::-1]
    path.write_bytes(content)
    os.utime(path, ns=(time, time))
    assert archive_sessions(filled, archive).sessions == 1
    assert content_of(archive, path) == content


def test_a_line_more_is_one_small_piece_more(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    before = piece_sizes(archive)
    append_lines(transcript(filled), [b'{"type":"user"}'])
    done = archive_sessions(filled, archive)
    assert (done.sessions, done.objects, done.bytes) == (1, 1, 16)
    assert piece_sizes(archive) == [*before, 16]


def test_many_small_pieces_become_one_and_the_old_ones_go(filled: Store, archive: Archive) -> None:
    for number in range(FEW + 2):
        append_lines(transcript(filled), [b"%d" % number])
        archive_sessions(filled, archive)
    assert piece_sizes(archive) == [transcript(filled).stat().st_size]
    assert check_archive(archive).unused == 0
    assert content_of(archive, transcript(filled)) == transcript(filled).read_bytes()


def test_a_large_file_is_cut_where_lines_end(filled: Store, archive: Archive) -> None:
    content = b"".join(b"%07d %s\n" % (n, b"x" * (n % 90)) for n in range(50_000))
    put(transcript(filled), content + b"no end")
    archive_sessions(filled, archive)
    sizes = piece_sizes(archive)
    assert sum(sizes) == len(content) + 6
    assert all(PIECE - 100 < size <= PIECE for size in sizes[:-1])
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes) - 1)]
    assert {content[end - 1 : end] for end in ends} == {b"\n"}


def test_a_line_longer_than_a_piece_is_cut(filled: Store, archive: Archive) -> None:
    put(transcript(filled), b"x" * (2 * PIECE + 5))
    archive_sessions(filled, archive)
    assert piece_sizes(archive) == [PIECE, PIECE, 5]


def test_a_rewritten_file_keeps_the_pieces_before_the_change(
    filled: Store, archive: Archive
) -> None:
    content = b"".join(b"%07d\n" % n for n in range(300_000))
    put(transcript(filled), content)
    first = archive_sessions(filled, archive)
    put(transcript(filled), content[:-8] + b"changed\n")
    os.utime(transcript(filled))
    second = archive_sessions(filled, archive)
    assert (first.objects, second.objects) == (10, 1)
    assert check_archive(archive).unused == 0
    assert content_of(archive, transcript(filled)) == transcript(filled).read_bytes()


def test_a_piece_that_another_session_has_is_not_removed(filled: Store, archive: Archive) -> None:
    put(transcript(filled, OTHER), transcript(filled).read_bytes())
    archive_sessions(filled, archive)
    put(transcript(filled, OTHER), b"else\n")
    archive_sessions(filled, archive)
    assert check_archive(archive).damages == []


def test_a_dry_run_tells_what_a_run_would_do(filled: Store, archive: Archive) -> None:
    told = preview(filled, archive)
    assert not archive.folder.exists()
    done = archive_sessions(filled, archive)
    assert told.sessions == done.sessions
    assert told.bytes == done.all_bytes
    append_lines(transcript(filled), [b"{}"])
    assert preview(filled, archive) == Archived(sessions=1, bytes=3)


# What goes and what moves


def test_what_is_deleted_from_a_session_stays_in_the_archive(
    filled: Store, archive: Archive
) -> None:
    before = tree(filled.root)
    archive_sessions(filled, archive)
    shutil.rmtree(filled.file_history)
    append_lines(transcript(filled), [b"{}"])
    archive_sessions(filled, archive)
    manifest = archive.load(FIRST)
    assert [file.path.split("/")[0] for file in manifest.files if file.gone] == ["file-history"]
    restore_session(archive, manifest, filled.root)
    assert tree(filled.root).keys() == before.keys()


def test_a_session_that_moved_comes_back_where_it_was_last(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    filled.projects.joinpath("-home-ada").rename(filled.projects / "-home-bob")
    archive_sessions(filled, archive)
    before = tree(filled.root)
    shutil.rmtree(filled.root)
    for name in (FIRST, OTHER):
        restore_session(archive, archive.load(name), filled.root)
    assert tree(filled.root) == {
        path: content for path, content in before.items() if "memory" not in path
    }


def test_a_session_that_is_in_two_projects_is_archived_in_both(
    filled: Store, archive: Archive
) -> None:
    put(filled.projects / "-home-bob" / f"{FIRST}.jsonl", b"{}\n")
    archive_sessions(filled, archive)
    manifest = archive.load(FIRST)
    assert len([file for file in manifest.current if manifest.is_transcript(file)]) == 2


def test_a_link_is_not_followed_out_of_a_session(filled: Store, archive: Archive) -> None:
    secret = filled.root.parent / "secret"
    put(secret / "key", b"secret")
    (transcript(filled).with_suffix("") / "link").symlink_to(secret)
    (transcript(filled).with_suffix("") / "key").symlink_to(secret / "key")
    archive_sessions(filled, archive)
    assert len(archive.load(FIRST).files) == 8


def test_a_session_that_cannot_be_read_is_not_listed(tmp_path: Path, archive: Archive) -> None:
    store = Store(tmp_path / "odd")
    put(store.projects / os.fsdecode(b"\xff") / f"{FIRST}.jsonl", session(user("q")))
    done = archive_sessions(store, archive)
    assert [unread.reason for unread in done.unread] == ["its name is not UTF-8"]
    assert (done.all_sessions, list(archive.sessions.iterdir())) == (0, [])


def test_a_name_that_is_not_utf8_is_told_and_stops_nothing(filled: Store, archive: Archive) -> None:
    folder = os.fsencode(transcript(filled).with_suffix(""))
    os.close(os.open(folder + b"/\xff", os.O_CREAT))
    done = archive_sessions(filled, archive)
    assert [unread.reason for unread in done.unread] == ["its name is not UTF-8"]
    assert done.all_sessions == 2


# Damage


def test_a_flipped_bit_never_gives_other_bytes(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    file = archived(archive, transcript(filled))
    path = archive.objects.path(file.pieces[0].hash)
    sound, detected = path.read_bytes(), 0
    for place in range(8 * len(sound)):
        flipped = bytearray(sound)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            assert b"".join(archive.chunks(file)) == transcript(filled).read_bytes()
        except Damaged:
            detected += 1
    # The format leaves a bit or two without a meaning.
    assert detected >= 8 * len(sound) - 8


def test_damage_is_named_and_nothing_half_is_left(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    delete(filled, FIRST)
    shutil.rmtree(filled.todos)
    before = tree(filled.root)
    manifest = archive.load(FIRST)
    for file in filter(lambda file: file.pieces, manifest.files):
        path = archive.objects.path(file.pieces[0].hash)
        sound = path.read_bytes()
        path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        with pytest.raises(Damaged) as raised:
            restore_session(archive, manifest, filled.root)
        assert all(part in raised.value.message for part in (FIRST, file.path, path.name))
        assert tree(filled.root) == before
        assert not filled.todos.exists()
        told = check_archive(archive).damages
        assert {FIRST} == {damage.session for damage in told}
        assert file.path in {damage.path for damage in told}
        path.write_bytes(sound)
    assert check_archive(archive).damages == []


def test_an_object_that_is_missing_is_stored_again(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    path = archive.objects.path(archived(archive, transcript(filled)).pieces[0].hash)
    path.unlink()
    assert [damage.path for damage in check_archive(archive).damages] == [
        transcript(filled).relative_to(filled.root).as_posix()
    ]
    assert archive_sessions(filled, archive).objects == 1
    assert check_archive(archive).damages == []


def test_a_damaged_manifest_is_named_and_written_anew(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    path = archive.sessions / f"{FIRST}.json"
    for damaged in (path.read_bytes().replace(b"Greeting", b"Greetings"), b"{", b""):
        path.write_bytes(damaged)
        (damage,) = check_archive(archive).damages
        assert (damage.session, damage.path) == (FIRST, None)
        with pytest.raises(Damaged):
            find_archived(archive, FIRST)
        archive_sessions(filled, archive)
        assert check_archive(archive).damages == []


def test_an_archive_of_a_newer_turnlog_is_left_alone(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    path = archive.sessions / f"{FIRST}.json"
    newer = path.read_bytes().replace(b'"turnlog":1', b'"turnlog":2')
    path.write_bytes(newer)
    with pytest.raises(Unavailable, match="newer"):
        archive_sessions(filled, archive)
    assert path.read_bytes() == newer


def test_progress_ends_when_all_bytes_are_read(filled: Store, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    archive = Archive(tmp_path / "archive")
    archive_sessions(filled, archive, lambda done, total: steps.append((done, total)))
    done, total = steps[-1]
    assert done == total > 0


# Crashes, and others at the same time


@pytest.mark.parametrize("appended", [0, FEW + 1])
def test_a_crash_at_any_step_leaves_a_sound_archive(
    filled: Store, tmp_path: Path, appended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "AT_ONCE", 1)
    before, archive = Archive(tmp_path / "before"), Archive(tmp_path / "archive")
    for number in range(appended):
        archive_sessions(filled, before)
        append_lines(transcript(filled), [b"%d" % number])
    exits: list[int | None] = []
    while 0 not in exits:
        shutil.rmtree(archive.folder, ignore_errors=True)
        if appended:
            shutil.copytree(before.folder, archive.folder)
        child = FORK.Process(target=crash, args=(filled, archive, len(exits)))
        child.start()
        child.join()
        exits.append(child.exitcode)
        assert check_archive(archive).damages == []
        archive_sessions(filled, archive)
        assert check_archive(archive).damages == []
        assert content_of(archive, transcript(filled)) == transcript(filled).read_bytes()
        assert not list(archive.folder.rglob(".*"))
    assert len(exits) > FEW


def crash(store: Store, archive: Archive, steps: int) -> None:
    """Archive, but die at a step that changes something in the archive's folder."""
    left = steps
    folder = str(archive.folder)

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        is_change = event in ("os.rename", "os.remove", "os.mkdir") or (
            event == "open" and int(str(arguments[2])) & os.O_CREAT
        )
        if is_change and str(arguments[0]).startswith(folder):
            left -= 1
            if left < 0:
                os._exit(9)

    sys.addaudithook(count)
    archive_sessions(store, archive)


def test_no_room_is_one_clear_error_and_leaves_a_sound_archive(
    filled: Store, archive: Archive
) -> None:
    archive_sessions(filled, archive)
    put(transcript(filled), os.urandom(3 * PIECE))
    queue = FORK.Queue()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (PIECE // 2, PIECE // 2))
        try:
            archive_sessions(filled, archive)
        except Unavailable as error:
            queue.put(error.message)

    child = FORK.Process(target=limited)
    child.start()
    child.join()
    assert queue.get(timeout=5).startswith(f"no space left for {archive.folder}")
    assert check_archive(archive).damages == []
    assert not list(archive.folder.rglob(".*"))


def test_two_archivers_at_once_give_what_one_gives(filled: Store, archive: Archive) -> None:
    children = [FORK.Process(target=archive_sessions, args=(filled, archive)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    checked = check_archive(archive)
    assert (checked.sessions, checked.objects, checked.unused, checked.damages) == (2, 8, 0, [])


# Reading


@given(
    content=st.lists(st.sampled_from([b"a", b"\n", b"b\n", b"\r", b"xyz"])).map(b"".join),
    cuts=st.lists(st.integers(0, 60)),
    place=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
@settings(max_examples=60)
def test_an_archived_file_reads_like_the_file(
    scratch: Path, content: bytes, cuts: list[int], place: tuple[int, int]
) -> None:
    scratch.write_bytes(content)
    archive = Archive(scratch.parent / "archive")
    ends = sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})
    with ObjectWriter(archive.objects) as writer:
        parts = [content[a:b] for a, b in pairwise(ends)]
        pieces = [writer.put(part).result() for part in parts]
    file = ArchivedFile("x", 0, 0, len(content), 0, 0, pieces)
    offset, size = place
    assert archive.read_at(file, offset, size) == content[offset : offset + size]
    assert list(archive.lines(file)) == list(read_lines(scratch))
    start = content.find(b"\n") + 1
    assert list(archive.lines(file, start)) == list(read_lines(scratch, start))


def test_a_line_is_read_from_its_piece_alone(filled: Store, archive: Archive) -> None:
    content = b"".join(b"%07d\n" % n for n in range(200_000))
    put(transcript(filled), content)
    archive_sessions(filled, archive)
    file = archive.find(str(transcript(filled)))
    assert file
    for piece in file.pieces[1:]:
        archive.objects.path(piece.hash).unlink()
    assert archive.read_at(file, 800, 8) == b"0000100\n"
    with pytest.raises(Damaged):
        archive.read_at(file, 8 * 199_999, 8)


def test_a_file_is_found_by_the_path_that_it_had(filled: Store, archive: Archive) -> None:
    archive_sessions(filled, archive)
    for path in filled.projects.rglob("*.jsonl"):
        file = archive.find(str(path))
        assert file
        assert b"".join(archive.chunks(file)) == path.read_bytes()
    assert archive.find(str(transcript(filled, "nosuch"))) is None
    (archive.sessions / f"{FIRST}.json").write_bytes(b"{}")
    assert archive.find(str(transcript(filled))) is None


def test_the_archive_lies_where_the_user_says(tmp_path: Path) -> None:
    named = {"TURNLOG_ARCHIVE": "/a", "TURNLOG_HOME": "/h", "XDG_DATA_HOME": "/d"}
    assert open_archive(tmp_path, named).folder == tmp_path
    assert open_archive(None, named).folder == Path("/a")
    del named["TURNLOG_ARCHIVE"]
    assert open_archive(None, named).folder == Path("/h/archive")
    del named["TURNLOG_HOME"]
    assert open_archive(None, named).folder == Path("/d/turnlog/archive")
    assert open_archive(None, {}).folder == Path.home() / ".local/share/turnlog/archive"


def archived(archive: Archive, path: Path) -> ArchivedFile:
    files = archive.load(path.stem).files
    return next(file for file in files if file.path.endswith(path.name))


def content_of(archive: Archive, path: Path) -> bytes:
    return b"".join(archive.chunks(archived(archive, path)))


# Any history


class Histories(RuleBasedStateMachine):
    """Files appear, grow, change, shrink and disappear; the last archived state is restored."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder / "store")
        self.archive = Archive(self.folder / "archive")
        self.archived: Tree = {}

    def teardown(self) -> None:
        self.archive_all()
        for name in self.archive.names():
            for left in self.files:
                if name in str(left):
                    left.unlink()
            restore_session(self.archive, self.archive.load(name), self.store.root)
        restored = {path: held for path, held in tree(self.store.root).items() if ".json" in path}
        assert {path: restored[path] for path in self.archived} == self.archived
        assert check_archive(self.archive).damages == []
        assert check_archive(self.archive).unused == 0
        shutil.rmtree(self.folder)

    @property
    def files(self) -> list[Path]:
        return [path for path in self.store.root.rglob("*") if path.is_file()]

    @rule(
        name=st.sampled_from([FIRST, OTHER]),
        part=st.sampled_from(["", "/custom-title.json", "/tool-results/a.json"]),
        content=st.binary(max_size=40) | st.binary(min_size=1, max_size=3).map(lambda b: b * 9999),
        is_new_file=st.booleans(),
    )
    def write(self, name: str, part: str, content: bytes, is_new_file: bool) -> None:
        path = self.store.projects / "-p" / (name + (part or ".jsonl"))
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_new_file:
            path.unlink(missing_ok=True)
        path.write_bytes(content)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), content=st.binary(min_size=1, max_size=20))
    def append(self, data: st.DataObject, content: bytes) -> None:
        path = data.draw(st.sampled_from(self.files))
        path.write_bytes(path.read_bytes() + content)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), size=st.integers(0, 30))
    def truncate(self, data: st.DataObject, size: int) -> None:
        os.truncate(data.draw(st.sampled_from(self.files)), size)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.files)).unlink()

    @rule()
    def archive_all(self) -> None:
        archive_sessions(self.store, self.archive)
        present = {path.stem for path in self.store.session_files()}
        # A session's files are kept although the session itself is gone.
        folders = self.store.projects.glob("*/*/")
        present |= {folder.name for folder in folders if any(map(Path.is_file, folder.rglob("*")))}
        self.archived |= {
            path: held
            for path, held in tree(self.store.root).items()
            if any(name in path for name in present)
        }


Histories.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
TestHistories = Histories.TestCase
