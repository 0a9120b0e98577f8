"""Documents: backups, tool results and to-do lists, of which each machine has whole versions.

No content that a machine has is replaced by that of another one, unless that knows it as an older
version; and what cannot be replaced is next to it on every machine.
"""

import math
import os
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from support.build import SESSION, assistant, nth, session, text, user
from support.machines import SyncedMachine, all_sync, machines, memory_folder
from turnlog.exchange import run
from turnlog.exchange.application import Applier
from turnlog.store.deletion_consent import Deletion

HISTORIES = int(os.environ.get("TURNLOG_HISTORIES", "12"))
START = session(user("start"), assistant(text("hello")))
EDITED = START.replace(b"hello", b"HELLO")
BACKUP = "0123456789abcdef@v2"


class Killed(BaseException):
    """A sync that ends in the midst."""


@pytest.fixture
def three(tmp_path: Path) -> list[SyncedMachine]:
    return machines(tmp_path)


def agree(deletion: Deletion) -> None:
    """Say yes."""


def branch(name: str) -> bytes:
    """A prompt after the first message, as after a rewind."""
    return session(user(name, uuid=f"{name}-1", parentUuid=nth(2)))


def backup(machine: SyncedMachine, name: str = BACKUP, of: str = SESSION) -> Path:
    path = machine.store.file_history / of / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def todo(machine: SyncedMachine) -> Path:
    path = machine.store.todos / f"{SESSION}-agent-{SESSION}.json"
    path.parent.mkdir(exist_ok=True)
    return path


def result(machine: SyncedMachine) -> Path:
    path = machine.path().with_suffix("") / "tool-results" / "abc123def.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def contents(path: Path) -> list[str]:
    """The contents of all files in a folder: ours first, then those of other machines."""
    ours = [each for each in path.parent.iterdir() if "theirs" not in each.name]
    theirs = [each for each in path.parent.iterdir() if "theirs" in each.name]
    return [each.read_text() for each in (*ours, *sorted(theirs))]


def reuse_backup(three: list[SyncedMachine]) -> None:
    """Let A and B have a backup, which the client of A overwrites after a rewind."""
    a, b, _ = three
    a.write(START)
    a.append(branch("x"))
    backup(a).write_text("X")
    all_sync([a, b])
    a.append(branch("y"))
    backup(a).write_text("Y")
    b.append(branch("z"))


def settle(these: list[SyncedMachine], rounds: int = 3) -> None:
    """Sync until all machines have everything; then nothing may change any more."""
    all_sync(these, rounds)
    before = [machine.snapshot() for machine in these]
    for report in all_sync(these):
        assert not report.changes
        assert not report.problems
    assert before == [machine.snapshot() for machine in these]


@pytest.mark.parametrize("order", ["ab", "ba", "bab", "aab"])
def test_a_backup_that_a_live_branch_uses_is_not_replaced(
    three: list[SyncedMachine], order: str
) -> None:
    a, b, _ = three
    reuse_backup(three)
    for who in order:
        (a if who == "a" else b).sync()
    settle([a, b])
    assert contents(backup(a)) == ["Y"]
    assert contents(backup(b)) == ["X", "Y"]
    (aside,) = backup(b).parent.glob("*.theirs")
    assert aside.name.startswith(f"{BACKUP}.")
    assert a.lines() == b.lines()


@pytest.mark.parametrize("is_known", [True, False], ids=["had one", "is new"])
def test_a_third_machine_has_both_contents_of_a_backup(
    three: list[SyncedMachine], is_known: bool
) -> None:
    a, b, c = three
    reuse_backup(three)
    if is_known:
        c.sync()
    all_sync([a, b])
    settle(three)
    assert sorted(contents(backup(c))) == ["X", "Y"]


def test_backups_of_one_name_are_next_to_each_other_on_all_machines(
    three: list[SyncedMachine],
) -> None:
    a, b, c = three
    a.write(START)
    all_sync([a, b])
    backup(a).write_text("from a")
    backup(b).write_text("from b")
    settle(three)
    assert contents(backup(a)) == ["from a", "from b"]
    assert contents(backup(b)) == ["from b", "from a"]
    assert sorted(contents(backup(c))) == ["from a", "from b"]


def test_backups_that_came_through_two_places_stay(tmp_path: Path) -> None:
    a, b, c = three = machines(tmp_path)
    places = [str(tmp_path / "one"), str(tmp_path / "two")]

    def everywhere() -> None:
        for machine in three:
            for machine.dest in places:
                assert not machine.sync().problems

    a.write(START)
    backup(a).write_text("X")
    for each in (a, b):
        for each.dest in places:
            each.sync()
    backup(a).write_text("Y")
    a.append(branch("y"))
    everywhere()
    everywhere()
    before = [machine.snapshot() for machine in three]
    everywhere()
    assert before == [machine.snapshot() for machine in three]
    assert contents(backup(a)) == ["Y"]
    assert contents(backup(b)) == ["X", "Y"]
    assert sorted(contents(backup(c))) == ["X", "Y"]


def test_a_backup_of_a_fork_is_not_replaced(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    backup(a).write_text("X")
    all_sync([a, b])
    a.write(EDITED)
    settle([a, b])
    (fork,) = {path.stem for path in a.logs()} - {SESSION}
    # B overwrites the backup of what is a fork on A.
    backup(b).write_text("Y")
    b.append(branch("y"))
    settle([a, b])
    assert contents(backup(a, of=fork)) == ["X", "Y"]
    assert contents(backup(a)) == ["X"]


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "two machines"])
def test_the_fork_of_an_edited_session_has_its_documents_as_they_were(
    three: list[SyncedMachine], is_alone: bool
) -> None:
    a, b, _ = three
    both = [a] if is_alone else [a, b]
    a.write(START)
    for path in (backup(a), result(a), todo(a)):
        path.write_text("original")
    all_sync(both, 2)
    a.write(EDITED)
    for path in (backup(a), result(a)):
        path.write_text("masked")
    settle(both)
    (fork,) = {path.stem for path in a.logs()} - {SESSION}
    assert a.path(fork).read_bytes() == START
    assert contents(backup(a, of=fork)) == ["original"]
    of_fork = a.path(fork).with_suffix("") / "tool-results" / result(a).name
    assert contents(of_fork) == ["original"]
    assert contents(backup(a)) == contents(result(a)) == ["masked"]
    if not is_alone:
        assert contents(backup(b)) == contents(result(b)) == ["original"]
        (theirs,) = {path.stem for path in b.logs()} - {SESSION}
        assert contents(backup(b, of=theirs)) == ["masked"]


def test_an_undone_edit_has_its_documents_again(three: list[SyncedMachine]) -> None:
    a, b, _ = three
    a.write(START)
    result(a).write_text("original")
    all_sync([a, b])
    for log, document in ((EDITED, "masked"), (START, "original")):
        a.write(log)
        result(a).write_text(document)
        settle([a, b])
    assert a.path().read_bytes() == b.path().read_bytes() == START
    assert contents(result(a)) == contents(result(b)) == ["original"]


def test_a_removed_document_comes_back_next_to_that_of_another_machine(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    a.write(START)
    all_sync([a, b])
    todo(a).write_text("[1]")
    a.sync()
    todo(b).write_text("[2]")
    b.sync(settle=math.inf)
    todo(a).unlink()
    settle([a, b])
    assert contents(todo(a)) == ["[1]", "[2]"]
    assert contents(todo(b)) == ["[2]", "[1]"]


def test_a_document_that_stays_removed_arrives_when_it_is_restored(
    three: list[SyncedMachine],
) -> None:
    a, b, _ = three
    a.write(START)
    todo(a).write_text("[1]")
    a.sync()
    todo(a).unlink()
    b.write(START)
    todo(b).write_text("[2]")
    b.sync()
    a.sync(leave_removed=True)
    assert not list(a.store.todos.iterdir())
    settle([a, b])
    assert contents(todo(a)) == ["[1]", "[2]"]


@pytest.mark.parametrize("make", [result, backup, todo])
def test_a_session_with_a_document_that_the_other_machine_never_had_is_not_deleted(
    three: list[SyncedMachine], make: Callable[[SyncedMachine], Path]
) -> None:
    a, b, _ = three
    a.write(START)
    all_sync([a, b])
    make(b).write_text("precious")
    a.path().unlink()
    a.sync(is_deleting=True, consent=agree)
    for _ in range(3):
        b.sync(is_deleting=True, consent=agree)
        assert make(b).read_text() == "precious"
        a.sync()
    assert a.path().exists()
    assert make(a).read_text() == "precious"


def test_a_session_with_a_file_that_is_not_exchanged_is_not_deleted(
    three: list[SyncedMachine], tmp_path: Path
) -> None:
    a, b, _ = three
    a.write(START)
    all_sync([a, b])
    unsent = result(b).with_name("bad\x01name.txt")
    unsent.write_text("precious")
    a.path().unlink()
    a.sync(is_deleting=True, consent=agree)
    assert b.sync(is_deleting=True, consent=agree).problems
    assert unsent.read_text() == "precious"


def test_a_version_that_could_not_be_set_aside_is_set_aside_later(
    three: list[SyncedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = three
    reuse_backup(three)
    a.sync()
    folder = backup(b).parent
    with monkeypatch.context() as patch:
        patch.setattr(Applier, "_write_asides", fail_to_write)
        b.sync()
    assert [each.name for each in folder.iterdir()] == [BACKUP]
    settle([a, b])
    assert contents(backup(b)) == ["X", "Y"]


def fail_to_write(applier: Applier, asides: dict[Path, tuple[object, object]]) -> None:
    applier.incomplete += [own for own, _ in asides.values()]  # type: ignore[misc]


def documents(machine: SyncedMachine) -> dict[str, str]:
    """The backups of a machine by path, without those of other machines next to them."""
    found = sorted(machine.store.file_history.rglob("*@v?"))
    return {str(path): path.read_text() for path in found}


def everything(machine: SyncedMachine) -> set[str]:
    return {path.read_text() for path in machine.store.file_history.rglob("*") if path.is_file()}


def test_backups_survive_random_histories() -> None:
    for seed in range(HISTORIES):
        _random_history(Path(memory_folder() or "/tmp"), random.Random(seed))


def _random_history(parent: Path, chance: random.Random) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(dir=parent) as folder:
        three = machines(Path(folder))
        replaced: dict[Path, set[str]] = defaultdict(set)
        three[0].write(START)
        all_sync(three)
        for number in range(30):
            machine = chance.choice(three)
            if chance.random() < 0.5:
                _rewind(machine, chance, number, replaced[machine.home])
            else:
                _sync(machine, chance)
        held = set[str]().union(*(documents(machine).values() for machine in three))
        settle(three, rounds=4)
        for machine in three:
            assert held - replaced[machine.home] <= everything(machine)


def _rewind(machine: SyncedMachine, chance: random.Random, number: int, replaced: set[str]) -> None:
    """Continue or edit a session, and write a backup under a name that may be in use."""
    path = chance.choice([path for path in machine.logs() if path.parent.name.startswith("-")])
    if chance.random() < 0.2:
        path.write_bytes(path.read_bytes().replace(b"hello", b"hello %d" % number))
    else:
        with path.open("ab") as file:
            file.write(branch(f"n{number}"))
    saved = backup(machine, f"0123456789abcdef@v{chance.randrange(3)}", path.stem)
    replaced |= {saved.read_text()} if saved.exists() else set()
    saved.write_text(f"content {number}")


def _sync(machine: SyncedMachine, chance: random.Random) -> None:
    """Sync somehow: no backup that a machine has may change."""
    before = documents(machine)
    ending = chance.choice(["end", "end", "open", "crash", "forget"])
    with pytest.MonkeyPatch.context() as patch:
        if ending == "crash":
            patch.setattr(run, "publish", kill)
        if ending == "forget":
            machine.lose_state()
        with suppress(Killed):
            machine.sync(settle=math.inf if ending == "open" else 0)
    after = documents(machine)
    assert before == {path: after.get(path) for path in before}


def kill(*_: object) -> None:
    raise Killed
