"""Edited sessions whose sync fails or is killed: every edition stays listed, and arrives later."""

import errno
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from support.build import SESSION, assistant, session, text, user
from support.machines import SyncedMachine, all_sync, machines
from turnlog.edit import apply
from turnlog.errors import Unavailable
from turnlog.exchange import run
from turnlog.exchange.directory_transport import DirectoryTransport
from turnlog.exchange.editions import MAIN, fork_id, split_editions
from turnlog.exchange.machine_manifest import FileVersion, Piece, SessionVersion
from turnlog.exchange.packs import PieceReader
from turnlog.store.deletion_consent import agreed

OTHER = "5e551011-0000-4000-8000-00000000000b"
START = session(user("hi"), assistant(text("hello")))
SUBAGENT = session(user("task"), assistant(text("done")))
EDITED = START.replace(b"hello", b"HELLO")
SHORTENED = b"".join(START.splitlines(keepends=True)[:-1])


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture
def three(tmp_path: Path) -> list[SyncedMachine]:
    return machines(tmp_path)


def failing(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def lines(*contents: bytes) -> set[bytes]:
    return {line for content in contents for line in content.splitlines(keepends=True)}


def require_everywhere(these: list[SyncedMachine], *contents: bytes) -> None:
    """Let all machines sync twice: all have all lines, and nothing changes any more."""
    all_sync(these, rounds=2)
    assert [machine.lines() for machine in these] == [lines(*contents)] * len(these)
    reports = all_sync(these)
    assert not any(report.problems or report.changes or report.sent for report in reports)


@pytest.mark.parametrize("place", ["{id}/subagents/agent-a1.jsonl", "agent-a1.jsonl"])
@pytest.mark.parametrize("is_known", [True, False], ids=["state kept", "state lost"])
def test_an_edit_of_nothing_but_a_subagent_is_an_edition(
    three: list[SyncedMachine], place: str, is_known: bool
) -> None:
    a, _, _ = three
    subagent = a.write(START).parent / place.format(id=SESSION)
    subagent.parent.mkdir(parents=True, exist_ok=True)
    subagent.write_bytes(SUBAGENT)
    all_sync(three, rounds=2)
    edited = SUBAGENT.replace(b"done", b"DONE")
    subagent.write_bytes(edited)
    if not is_known:
        a.lose_state()
    require_everywhere(three, START, SUBAGENT, edited)
    assert subagent.read_bytes() == edited


def test_a_subagent_next_to_an_edited_session_is_kept_with_the_fork(
    three: list[SyncedMachine],
) -> None:
    a, _, _ = three
    a.write(START).with_name("agent-a1.jsonl").write_bytes(SUBAGENT)
    a.sync()
    a.write(EDITED)
    assert not a.sync().problems
    fork = a.path(fork_id(SESSION, ""))
    assert fork.read_bytes() == START
    assert (fork.with_suffix("") / "subagents/agent-a1.jsonl").read_bytes() == SUBAGENT
    require_everywhere(three, START, SUBAGENT, EDITED)


def test_a_subagent_next_to_its_session_reaches_forks_that_have_it_in_a_folder(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    a.write(START).with_name("agent-a1.jsonl").write_bytes(SUBAGENT)
    all_sync(three, rounds=2)
    a.write(EDITED)
    all_sync(three, rounds=2)
    longer = session(user("task"), assistant(text("done")), user("more"))
    assert longer.startswith(SUBAGENT)
    b.path().with_name("agent-a1.jsonl").write_bytes(longer)
    require_everywhere(three, START, EDITED, longer)


def subagents(machine: SyncedMachine) -> dict[str, bytes]:
    """The logs of sub-agents, by their paths in the project's folder."""
    folder = machine.path().parent
    found = (path for path in machine.logs() if path.name.startswith("agent-"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_subagent_next_to_its_session_is_there_once(three: list[SyncedMachine]) -> None:
    a, b, c = three
    a.write(START).with_name("agent-a1.jsonl").write_bytes(SUBAGENT)
    all_sync([a, b], rounds=2)
    a.write(EDITED)
    # The fork that a machine has of another one's edition has the sub-agent in its folder.
    require_everywhere(three, START, SUBAGENT, EDITED)
    for machine in (a, b, c):
        owners = {path.rpartition("/subagents/")[0] for path in subagents(machine)}
        (main,) = {"", SESSION} & owners
        assert len(owners) == len(subagents(machine)) == 2, main
    longer = SUBAGENT + session(user("more"))
    a.path().with_name("agent-a1.jsonl").write_bytes(longer)
    all_sync(three, rounds=2)
    assert [len(subagents(machine)) for machine in three] == [2, 2, 2]


def test_a_subagent_that_differs_next_to_the_session_and_in_its_folder_is_two_editions(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    main = a.write(START)
    main.with_name("agent-a1.jsonl").write_bytes(SUBAGENT)
    folder = main.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    edited = SUBAGENT.replace(b"done", b"DONE")
    (folder / "agent-a1.jsonl").write_bytes(edited)
    # In the fork that other machines have of this session, both sub-agents get the same path.
    b.write(EDITED)
    require_everywhere(three, START, EDITED, SUBAGENT, edited)


def test_a_subagent_in_three_places_is_three_editions(three: list[SyncedMachine]) -> None:
    main = three[0].write(START)
    versions = [SUBAGENT, SUBAGENT.replace(b"done", b"DONE"), SUBAGENT.replace(b"done", b"Done")]
    folders = [main.parent, main.parent / "subagents", main.with_suffix("") / "subagents"]
    for folder, content in zip(folders, versions, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent-a1.jsonl").write_bytes(content)
    require_everywhere(three, START, *versions)


def test_a_subagent_of_a_fork_may_be_next_to_it(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    all_sync(three)
    b.write(EDITED)
    all_sync(three, rounds=2)
    fork = fork_of(a)
    # A client up to 2.0 that resumes the fork writes its sub-agents there.
    content = session(user("task"), assistant(text("done")), session_id=fork.stem)
    fork.with_name("agent-a1.jsonl").write_bytes(content)
    require_everywhere(three, START, EDITED, content)
    assert list(subagents(a)) == ["agent-a1.jsonl"]


def test_a_line_added_to_one_of_two_places_of_a_subagent_reaches_the_fork_below_another_home(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    content = session(user("hi", cwd=f"{a.home}/shop"))
    main = a.write(content, directory=f"{a.home}/shop")
    nested = main.with_suffix("") / "subagents/agent-a1.jsonl"
    nested.parent.mkdir(parents=True)
    nested.write_bytes(SUBAGENT)
    all_sync([a, b])
    path = b.path(directory=f"{b.home}/shop")
    subagent = path.with_name("agent-a1.jsonl")
    subagent.write_bytes(SUBAGENT)
    b.sync()
    edited = content.replace(b"hi", b"HI")
    path.write_bytes(edited)
    b.sync()
    longer = session(user("task"), assistant(text("done")), user("more"))
    subagent.write_bytes(longer)
    require_everywhere([b, a], content, edited, longer)


def test_a_subagent_is_kept_in_a_folder_if_that_of_an_edited_fork_has_its_place(
    three: list[SyncedMachine],
) -> None:
    _, b, _ = three
    b.write(START)
    b.sync()
    b.write(EDITED)
    b.sync()
    fork = fork_of(b)
    b.write(START)  # undone: the session and the fork are one edition now
    b.sync()
    content = session(user("task"), assistant(text("done")), session_id=fork.stem)
    subagent = fork.with_name("agent-a1.jsonl")
    subagent.write_bytes(content)
    b.sync()
    edited, changed = START.replace(b"hi", b"HI"), content.replace(b"done", b"DONE")
    fork.write_bytes(edited)
    subagent.write_bytes(changed)
    require_everywhere(three, START, EDITED, content, edited, changed)


def fork_of(machine: SyncedMachine) -> Path:
    (found,) = set(machine.path().parent.glob("*.jsonl")) - {machine.path()}
    return found


def test_former_versions_that_conflict_with_each_other_are_editions() -> None:
    contents = [SHORTENED, START, EDITED, START.replace(b"hello", b"hey")]
    pieces = [Piece(hashlib.sha256(raw).digest(), len(raw)) for raw in contents]
    stored = dict(zip(pieces, contents, strict=True))
    current, *former = ([piece] for piece in pieces)
    version = SessionVersion(SESSION, "", [FileVersion(MAIN, "/srv/shop", current, former)])
    found = split_editions(version, lambda digest, size: stored[Piece(digest, size)])
    assert [[(file.pieces, file.former) for file in each.files] for each in found] == [
        [(former[1], [])],
        [(former[2], [])],
        [(current, [former[0]])],
    ]
    assert found[-1].label == ""
    assert len({each.label for each in found}) == 3


@pytest.mark.parametrize(
    "taken", [b"", b'{"torn', session(user("x"), session_id=OTHER)], ids=["empty", "torn", "other"]
)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "new"])
def test_a_file_that_is_in_the_way_of_a_subagent_blocks_no_session(
    three: list[SyncedMachine], taken: bytes, is_known: bool
) -> None:
    a, b, _ = three
    a.write(START)
    if is_known:
        all_sync(three)
    a.path().with_name("agent-a1.jsonl").write_bytes(SUBAGENT)
    a.sync()
    b.path().parent.mkdir(parents=True, exist_ok=True)
    b.path().with_name("agent-a1.jsonl").write_bytes(taken)
    assert not b.sync().problems
    assert subagents(b) == {
        "agent-a1.jsonl": taken,
        f"{SESSION}/subagents/agent-a1.jsonl": SUBAGENT,
    }
    others = [taken] if taken.endswith(b"\n") else []
    require_everywhere(three, START, SUBAGENT, *others)
    assert b.path().with_name("agent-a1.jsonl").read_bytes() == taken


def test_a_session_is_deleted_though_its_subagent_is_elsewhere(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START).with_name("agent-a1.jsonl").write_bytes(SUBAGENT)
    b.path().parent.mkdir(parents=True)
    b.path().with_name("agent-a1.jsonl").write_bytes(b"")
    all_sync([a, b], rounds=2)
    a.path().unlink()
    a.path().with_name("agent-a1.jsonl").unlink()
    a.sync(is_deleting=True, consent=agreed)
    assert b.sync(is_deleting=True, consent=agreed).removed == [SESSION]
    assert subagents(b) == {"agent-a1.jsonl": b""}


def test_a_fork_that_was_edited_after_its_sync_was_killed_is_an_edition(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    other = START.replace(SESSION.encode(), OTHER.encode())
    a.write(START)
    b.write(other, OTHER)
    all_sync(three, rounds=2)
    # A fork that is known already: from then on, new forks are recognized by their ids.
    b.write(other.replace(b"hello", b"other"), OTHER)
    all_sync(three, rounds=2)
    a.write(EDITED)
    with monkeypatch.context() as patch:
        patch.setattr(run, "publish", failing(Killed()))
        with pytest.raises(Killed):
            a.sync()
    fork = a.path(fork_id(SESSION, ""))
    assert fork.read_bytes() == START
    twice = START.replace(b"hello", b"twice")
    fork.write_bytes(twice)
    require_everywhere(three, START, EDITED, twice, other, other.replace(b"hello", b"other"))


@pytest.mark.parametrize("content", [EDITED, SHORTENED], ids=["edited", "shortened"])
@pytest.mark.parametrize("reason", ["written a moment ago", "no space left", "DEST unreadable"])
def test_what_was_published_stays_listed_if_a_sync_cannot_bring_it_back(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    a, _, _ = three
    a.write(START)
    a.sync()
    a.write(content)
    with monkeypatch.context() as patch:
        if reason == "no space left":
            patch.setattr(apply, "apply_changes", failing(OSError(errno.ENOSPC, reason)))
        if reason == "DEST unreadable":
            patch.setattr(PieceReader, "read", failing(Unavailable("ssh failed")))
        report = a.sync(settle=1000 if reason == "written a moment ago" else 0)
    assert report.problems or report.skipped
    assert a.path().read_bytes() == content
    require_everywhere(three, START, content)


def test_an_edition_that_could_not_be_read_is_found_by_others(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _, _ = three
    a.write(START)
    a.sync()
    a.write(EDITED)
    with monkeypatch.context() as patch:
        patch.setattr(PieceReader, "read", failing(Unavailable("ssh failed")))
        assert a.sync().problems
    # So nobody replaces the manifest that lists START as a former version of EDITED.
    a.lose_state()
    require_everywhere(three, START, EDITED)


def test_an_edition_that_could_not_be_written_does_not_count_as_removed(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    a.write(START)
    all_sync([a, b])
    a.write(EDITED)
    with monkeypatch.context() as patch:
        patch.setattr(apply, "apply_changes", failing(OSError(errno.ENOSPC, "full")))
        assert a.sync().problems
    assert a.sync(is_deleting=True, consent=agreed).deleted == []
    b.sync(is_deleting=True, consent=agreed)
    require_everywhere(three, START, EDITED)


def test_uploads_that_fail_leave_the_last_manifest_at_the_destination(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    a.write(START)
    a.sync()
    write = DirectoryTransport.write

    def fail(self: DirectoryTransport, name: str, content: bytes) -> None:
        if name.startswith("manifests/"):
            raise Unavailable("no space left")
        write(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryTransport, "write", fail)
        for number in range(1, 4):
            a.write(START, f"{OTHER[:-1]}{number}")
            with pytest.raises(Unavailable):
                a.sync()
    b.sync()
    assert b.path().read_bytes() == START


def test_a_sync_killed_before_it_removes_old_manifests_keeps_its_machine_id(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _, _ = three
    a.write(START)
    first = a.sync().machine
    for number in range(1, 4):
        a.write(START, f"{OTHER[:-1]}{number}")
        with monkeypatch.context() as patch:
            patch.setattr(DirectoryTransport, "remove", failing(Killed()))
            with pytest.raises(Killed):
                a.sync()
    assert {a.sync().machine for _ in range(3)} == {first}
    a.write(START, OTHER)
    assert {a.sync().machine for _ in range(2)} == {first}
    assert len(list(Path(a.dest, "manifests").iterdir())) == 2
