"""The effect of a sync on the files of each machine."""

import os
from itertools import permutations
from pathlib import Path

import pytest

from support.build import SESSION, assistant, nth, session, text, user
from support.machines import SyncedMachine, all_sync, machines
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.journal import Journal, open_journal
from turnlog.errors import Conflict, UsageError
from turnlog.exchange import ExchangeOptions, application, local_scan, run
from turnlog.exchange.editions import fork_id
from turnlog.store.deletion_consent import agreed
from turnlog.store.paths import folder_name

START = session(user("hi"), assistant(text("hello")))


def tail(name: str, parent: str = nth(2), **fields: str) -> bytes:
    """A prompt that continues the session."""
    return session(user(name, uuid=name, parent=parent, **fields))


def answer(name: str) -> bytes:
    return session(assistant(text("ok"), message_id=f"msg_{name}", uuid=f"{name}x", parent=name))


def resumed(machine: SyncedMachine) -> str | None:
    """The uuid of the entry that the client would continue."""
    found = open_session(machine.path())
    rank = found.tree.active_leaf
    return None if rank is None else found.tree.chain[rank].uuid


@pytest.fixture
def three(tmp_path: Path) -> list[SyncedMachine]:
    return machines(tmp_path)


@pytest.fixture
def shared(three: list[SyncedMachine]) -> list[SyncedMachine]:
    """Machines that all have the same session."""
    three[0].write(START)
    all_sync(three)
    return three


def test_a_session_arrives_byte_for_byte_below_the_other_home(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    content = session(user("hi", cwd=f"{a.home}/shop"))
    a.write(content, directory=f"{a.home}/shop")
    all_sync([a, b])
    arrived = b.path(directory=f"{b.home}/shop")
    assert arrived.read_bytes() == content
    assert arrived.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("more", [tail("on"), b'{"type":"mode"}\n'], ids=["prompt", "mode"])
@pytest.mark.parametrize("is_known", [True, False], ids=["state kept", "state lost"])
def test_a_session_continued_on_another_machine_stays_in_its_project(
    three: list[SyncedMachine], more: bytes, is_known: bool
) -> None:
    a, b, c = three
    a.write(session(user("hi", cwd=f"{a.home}/shop")), directory=f"{a.home}/shop")
    all_sync([a, b])
    # The first lines name the directory of another machine.
    path = b.path(directory=f"{b.home}/shop")
    path.write_bytes(path.read_bytes() + more)
    if not is_known:
        b.lose_state()
    all_sync([b, c, a])
    for machine in three:
        assert machine.logs() == [machine.path(directory=f"{machine.home}/shop")]
        assert machine.logs()[0].read_bytes() == path.read_bytes()


@pytest.mark.parametrize("is_known", [True, False], ids=["synced before", "first sync"])
def test_a_session_that_has_just_begun_is_in_the_project_of_its_folder(
    three: list[SyncedMachine], is_known: bool
) -> None:
    a, b, _ = three
    a.write(session(user("hi", cwd=f"{a.home}/shop")), directory=f"{a.home}/shop")
    if is_known:
        a.sync()
    a.write(b'{"type":"mode"}\n', f"{SESSION[:-1]}b", directory=f"{a.home}/shop")
    all_sync([a, b])
    assert {path.parent.name for path in b.logs()} == {folder_name(f"{b.home}/shop")}
    assert len(b.logs()) == 2


def test_the_fork_of_an_edited_session_is_in_the_same_project(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    content = session(user("hi", cwd=f"{a.home}/shop"))
    a.write(content, directory=f"{a.home}/shop")
    all_sync([a, b])
    b.write(content.replace(b"hi", b"HI"), directory=f"{b.home}/shop")
    all_sync([b, a])
    assert len(a.logs()) == 2
    assert {path.parent.name for path in a.logs()} == {folder_name(f"{a.home}/shop")}


def test_a_session_outside_of_home_keeps_its_directory(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(session(user("hi", cwd="/srv/shop")), directory="/srv/shop")
    all_sync([a, b])
    assert b.path(directory="/srv/shop").exists()


def test_mapped_directories_are_found_on_both_machines(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(session(user("hi", cwd="/work/shop")), directory="/work/shop")
    a.sync(mapped={"/work": "~/src"})
    a.sync()
    b.sync()
    assert b.path(directory=f"{b.home}/src/shop").exists()


def test_all_files_of_a_session_arrive_but_none_that_the_client_runs(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    main = a.write(START)
    sent = {
        main.with_suffix("") / "subagents" / "agent-a1.jsonl": START,
        main.with_suffix("") / "subagents" / "agent-a1.meta.json": b"{}",
        main.with_suffix("") / "tool-results" / "x.txt": b"output",
        a.store.file_history / SESSION / "0123@v1": b"backup",
        a.store.todos / f"{SESSION}-agent-{SESSION}.json": b"[]",
        a.store.plans / "calm-sea.md": b"# Plan",
        a.store.history: b'{"display":"hi"}\n',
        a.store.pastes / "0123456789abcdef.txt": b"pasted",
    }
    kept = {
        a.store.root / "session-env" / SESSION / "hook.sh": b"rm -rf /",
        main.with_suffix("") / "workflows" / "scripts" / "x.js": b"evil()",
        a.store.settings: b'{"hooks":{}}',
        a.store.root / ".credentials.json": b'{"token":"x"}',
        a.store.root / "CLAUDE.md": b"memory",
        main.parent / "memory" / "MEMORY.md": b"notes",
        main.with_suffix("") / "subagents" / ".turnlog-x" / "1" / "agent-a1.jsonl": b"staged\n",
        a.store.logs / f"{SESSION}.txt": b"debug",
    }
    for path, content in (sent | kept).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
    all_sync([a, b])
    found = set(b.snapshot().values())
    assert found == {main.read_bytes(), *sent.values()}
    assert all(
        path.stat().st_mode & 0o111 == 0 for path in b.store.root.rglob("*.*") if path.is_file()
    )


def test_appended_lines_fast_forward(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.append(tail("a"))
    report = all_sync([a, b])[1]
    assert b.path().read_bytes() == START + tail("a")
    assert (report.extended, report.merged, report.lines) == ([SESSION], [], 1)


def test_each_machine_resumes_its_own_branch(shared: list[SyncedMachine]) -> None:
    a, b, c = shared
    a.append(tail("a"))
    b.append(tail("b"))
    all_sync(shared, rounds=2)
    assert a.path().read_bytes() == START + tail("b") + tail("a")
    assert b.path().read_bytes() == START + tail("a") + tail("b")
    assert c.lines() == a.lines() == b.lines()
    assert [resumed(machine) for machine in (a, b)] == ["a", "b"]


def test_a_line_written_after_the_exchange_is_resumed_everywhere(
    shared: list[SyncedMachine],
) -> None:
    a, b, _ = shared
    a.append(tail("a"))
    b.append(tail("b"))
    all_sync(shared, rounds=2)
    b.append(tail("b2", "b"))
    all_sync(shared, rounds=2)
    assert [resumed(machine) for machine in shared] == ["b2", "b2", "b2"]


def test_check_finds_nothing_new_after_an_exchange(shared: list[SyncedMachine]) -> None:
    for number, machine in enumerate(shared):
        name = f"m{number}"
        machine.append(tail(name) + answer(name))
    before = {finding.kind for finding in check_session(open_session(shared[0].path()))}
    all_sync(shared, rounds=2)
    for machine in shared:
        found = {finding.kind for finding in check_session(open_session(machine.path()))}
        assert found - {"late-time"} <= before


def test_an_edited_session_and_its_original_are_on_both_machines(
    shared: list[SyncedMachine],
) -> None:
    a, b, _ = shared
    edited = START.replace(b"hello", b"HELLO")
    a.write(edited)
    all_sync([a, b, a])
    assert a.path().read_bytes() == edited
    assert a.path(fork_id(SESSION, "")).read_bytes() == START
    assert b.path().read_bytes() == START
    assert b.lines() == a.lines()
    assert len(b.logs()) == 2


def test_the_original_of_an_edited_session_reaches_machines_that_never_had_it(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    a.write(START)
    a.sync()
    a.write(START.replace(b"hello", b"HELLO"))
    a.sync(leave_removed=True)
    b.sync()
    assert set(START.splitlines(keepends=True)) | a.lines() == b.lines()


def test_lines_appended_to_a_fork_reach_the_edited_session(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.write(START.replace(b"hello", b"HELLO"))
    all_sync([a, b])
    (fork,) = [path for path in b.logs() if path != b.path()]
    b.append(tail("x"), fork.stem)
    all_sync([b, a])
    assert a.path().read_bytes().endswith(tail("x"))


def test_an_undone_edit_returns_to_its_edition(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.write(START.replace(b"hello", b"HELLO"))
    all_sync([a, b])
    a.write(START)
    all_sync([a, b, a])
    a.append(tail("a"))
    all_sync([a, b])
    assert b.path().read_bytes() == START + tail("a")
    assert len(b.logs()) == 2


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_syncs_does_not_matter(tmp_path: Path, order: tuple[int, ...]) -> None:
    these = machines(tmp_path)
    for number, machine in enumerate(these):
        machine.write(START + tail(f"m{number}"))
    chosen = [these[number] for number in order]
    all_sync(chosen)
    all_sync(chosen)
    assert these[0].lines() == these[1].lines() == these[2].lines()
    before = [machine.snapshot() for machine in these]
    assert not any(report.changes or report.sent for report in all_sync(chosen))
    assert before == [machine.snapshot() for machine in these]


def test_a_second_sync_reads_no_file(
    shared: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine in shared:
        os.utime(machine.path(), (1, 1))
        machine.sync()

    def refuse(path: Path = Path("/proc")) -> None:
        pytest.fail(f"{path} was read")

    monkeypatch.setattr(local_scan, "open_regular", refuse)
    monkeypatch.setattr(run, "open_files", refuse)
    assert not any(report.sent for report in all_sync(shared))


def test_removed_sessions_come_back_unless_they_are_left(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    b.path().unlink()
    assert b.sync(leave_removed=True).created == []
    a.append(tail("a"))
    all_sync([a])
    b.sync(leave_removed=True)
    assert not b.path().exists()
    report = b.sync()
    assert report.returned == [SESSION]
    assert b.path().read_bytes() == START + tail("a")


def test_removed_lines_come_back_unless_they_are_left(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    kept = START.splitlines(keepends=True)[0]
    b.write(kept)
    a.append(tail("a"))
    a.sync()
    b.sync(leave_removed=True)
    assert b.path().read_bytes() == kept + tail("a")
    b.sync()
    assert b.lines() == a.lines()


def test_an_edited_session_stays_alone_if_removed_lines_are_left(
    shared: list[SyncedMachine],
) -> None:
    a, b, c = shared
    a.write(START.replace(b"hello", b"HELLO"))
    a.sync(leave_removed=True)
    all_sync([b, c])
    a.sync(leave_removed=True)
    assert len(a.logs()) == 1
    assert len(b.logs()) == len(c.logs()) == 2


def test_deletions_are_passed_on_only_if_asked(shared: list[SyncedMachine]) -> None:
    a, b, c = shared
    a.path().unlink()
    with pytest.raises(UsageError, match="1 session would be deleted"):
        a.sync(is_deleting=True)
    assert a.sync(is_deleting=True, consent=agreed).deleted == [SESSION]
    c.sync()
    assert c.path().exists()
    assert b.sync(is_deleting=True, is_dry_run=True).removed == [SESSION]
    assert b.path().exists()
    assert b.sync(is_deleting=True, consent=agreed).removed == [SESSION]
    assert not b.path().exists()
    with b.environment():
        open_journal().undo()
    assert b.path().read_bytes() == START


def test_a_deleted_session_with_newer_lines_stays_and_returns(
    shared: list[SyncedMachine],
) -> None:
    a, b, _ = shared
    b.append(tail("b"))
    a.path().unlink()
    a.sync(is_deleting=True, consent=agreed)
    assert b.sync(is_deleting=True, consent=agreed).removed == []
    a.sync()
    assert a.path().read_bytes() == b.path().read_bytes() == START + tail("b")


def test_a_newer_document_replaces_an_older_one(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    plan = Path("plans", "calm-sea.md")
    for content in (b"one", b"two", b"three"):
        (a.store.plans).mkdir(exist_ok=True)
        (a.store.root / plan).write_bytes(content)
        all_sync([a, b])
        assert (b.store.root / plan).read_bytes() == content
    (b.store.root / plan).write_bytes(b"four")
    all_sync([b, a])
    assert (a.store.root / plan).read_bytes() == b"four"


def test_two_versions_of_a_document_are_both_kept(shared: list[SyncedMachine]) -> None:
    for machine in shared[:2]:
        machine.store.plans.mkdir()
        (machine.store.plans / "calm-sea.md").write_text(machine.home.name)
    all_sync(shared, rounds=2)
    for machine, other in (("a", "b"), ("b", "a")):
        plans = shared[0 if machine == "a" else 1].store.plans
        assert (plans / "calm-sea.md").read_text() == machine
        (aside,) = plans.glob("*.theirs.md")
        assert aside.read_text() == other


def test_a_torn_line_stays_at_the_end_and_is_not_sent(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.append(b'{"type":"us')
    b.append(tail("b"))
    all_sync([b, a, b])
    assert a.path().read_bytes() == START + tail("b") + b'{"type":"us'
    assert b.path().read_bytes() == START + tail("b")


def test_a_last_line_without_a_newline_is_exchanged(shared: list[SyncedMachine]) -> None:
    a, b, c = shared
    a.append(tail("a").rstrip(b"\n"))
    all_sync([a, b])
    assert a.path().read_bytes() == START + tail("a").rstrip(b"\n")
    assert b.path().read_bytes() == START + tail("a")
    assert not a.sync().sent
    b.append(tail("b", "a"))
    c.append(tail("c"))
    all_sync([b, c, a])
    assert a.path().read_bytes() == START + tail("c") + tail("a") + tail("b", "a")


def test_a_fast_forward_adds_the_missing_newline(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.append(tail("a").rstrip(b"\n"))
    all_sync([a, b])
    b.append(tail("b", "a"))
    all_sync([b, a])
    assert a.path().read_bytes() == START + tail("a") + tail("b", "a")


def test_a_session_open_in_a_client_is_sent_but_not_changed(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.store.registry.mkdir()
    claim = a.store.registry / f"{os.getpid()}.json"
    claim.write_text(f'{{"sessionId":"{SESSION}","cwd":"/"}}')
    a.append(tail("a"))
    b.append(tail("b"))
    b.sync()
    report = a.sync()
    assert [each.reason for each in report.skipped] == ["it is open in a running client"]
    assert a.path().read_bytes() == START + tail("a")
    b.sync()
    assert b.path().read_bytes() == START + tail("a") + tail("b")
    claim.unlink()
    assert a.sync().merged == [SESSION]


def test_a_session_written_to_a_moment_ago_is_left_alone(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    b.append(tail("b"))
    b.sync()
    a.append(tail("a"))
    (skipped,) = a.sync(settle=60).skipped
    assert skipped.reason.startswith("it was written to a moment ago")
    future = 4_000_000_000
    os.utime(a.path(), (future, future))
    assert a.sync(settle=60).merged == [SESSION]


def test_a_dry_run_changes_nothing_anywhere(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.append(tail("a"))
    a.sync()
    b.append(tail("b"))
    dest = Path(a.dest)
    before = b.snapshot(), sorted(dest.rglob("*")), (b.state_folder / "state").read_bytes()
    report = b.sync(is_dry_run=True)
    assert report.merged == [SESSION]
    after = b.snapshot(), sorted(dest.rglob("*")), (b.state_folder / "state").read_bytes()
    assert before == after


def test_a_sync_can_be_undone(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    a.append(tail("a"))
    a.sync()
    report = b.sync()
    with b.environment():
        journal: Journal = open_journal()
        assert next(record.title for record in journal.records()) == f"sync with {b.dest}"
        journal.undo(report.changes[0])
    assert b.path().read_bytes() == START


@pytest.mark.parametrize(("name", "most"), [("MOST_FILES", 2), ("MOST_BYTES", 2 * len(START))])
def test_many_sessions_are_written_as_several_changes(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(application, name, most)
    a, b, _ = three
    for number in range(3):
        id_ = f"{number}{SESSION[1:]}"
        a.write(START.replace(SESSION.encode(), id_.encode()), id_)
    a.sync()
    assert len(b.sync().changes) == 2
    assert b.snapshot() == a.snapshot()


def test_only_one_sync_of_a_machine_runs_at_a_time(shared: list[SyncedMachine]) -> None:
    machine = shared[0]

    def again(step: str, done: int, total: int) -> None:
        with pytest.raises(Conflict, match="another sync"):
            machine.sync()

    machine.sync(progress=again)


def test_a_copied_data_directory_gets_an_id_of_its_own(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    (b.state_folder / "state").write_bytes((a.state_folder / "state").read_bytes())
    a.append(tail("a"))
    first, second = all_sync([a, b])
    assert first.machine != second.machine
    b.append(tail("b"))
    all_sync([b, a, b])
    assert a.lines() == b.lines()


def test_a_lost_destination_is_filled_again(shared: list[SyncedMachine]) -> None:
    a, b, _ = shared
    for path in sorted(Path(a.dest).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    a.append(tail("a"))
    all_sync([a, b])
    assert b.path().read_bytes() == START + tail("a")


def test_everything_at_an_encrypted_destination_is_encrypted(three: list[SyncedMachine]) -> None:
    a, b, c = three
    a.write(session(user("PLAINTEXT")))
    all_sync([a, b], password="correct horse")
    assert b.lines() == a.lines()
    found = b"".join(path.read_bytes() for path in Path(a.dest).rglob("*") if path.is_file())
    assert found.count(b"age-encryption.org") == len(list(Path(a.dest).glob("*/*")))
    with pytest.raises(UsageError, match="is encrypted"):
        c.sync()
    with pytest.raises(Exception, match="the password does not open"):
        c.sync(password="wrong")


def test_options_are_immutable() -> None:
    assert ExchangeOptions() == ExchangeOptions()
