"""Whenever a crash happens, files are old or new, or can be restored.

Each round forks a process that has all modules loaded, and kills it in the middle of a change.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.build import SESSION, assistant, call, result, session, text, user
from turnlog.conversation.session import open_session
from turnlog.edit.apply import Change, apply_changes, replace_session
from turnlog.edit.journal import STAGE, Journal
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import EditOptions, build_plan
from turnlog.format.jsonl import FileState
from turnlog.store.deletion_consent import agreed

ROUNDS = 200
MEMORY = Path("/dev/shm")
LONG = "x" * 20_000
OLD = session(
    user("first"),
    *(assistant(text(LONG), message_id=f"m{n}") for n in range(9)),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m10"),
    result("A", LONG),
    assistant(text("done"), message_id="m11"),
)

State = dict[Path, bytes | None]


@dataclass(frozen=True)
class Stage:
    """A change to be interrupted: how it is made, and its files before and after it."""

    folder: Path
    journal: Journal
    make: Callable[[], object]
    before: State
    after: State

    def now(self) -> State:
        return {path: path.read_bytes() if path.exists() else None for path in self.before}

    def undo(self) -> None:
        """Restore the previous content, and forget the change."""
        for record in self.journal.records():
            self.journal.forget([self.journal.undo(record.id)], agreed)
        assert self.now() == self.before

    def check(self) -> None:
        """Check that nothing is lost after a crash, and that leftovers are removed later."""
        now = self.now()
        assert all(now[path] in (self.before[path], self.after[path]) for path in now)
        if not self.journal.records():
            assert now == self.before
        self.undo()
        others = set(self.folder.iterdir()) - set(self.before)
        assert all(path.name.startswith(STAGE) for path in others)


def one_session(folder: Path, journal: Journal) -> Stage:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(OLD)

    def make() -> None:
        opened = open_session(path)
        replace_session(journal, "strip", opened, carry_out(build_plan(opened, wanted)))

    wanted = EditOptions(["strip_tools"])
    new = b"".join(carry_out(build_plan(open_session(path), wanted)))
    return Stage(folder, journal, make, {path: OLD}, {path: new})


def three_files(folder: Path, journal: Journal) -> Stage:
    changed, added, removed = folder / "changed", folder / "added", folder / "removed"
    changed.write_bytes(b"old\n")
    removed.write_bytes(b"old\n")

    def make() -> None:
        changes = [
            Change(changed, [b"new\n"], FileState.of(changed)),
            Change(added, [b"new\n"], None),
            Change(removed, None, FileState.of(removed)),
        ]
        apply_changes(journal, "three", changes)

    before: State = {changed: b"old\n", added: None, removed: b"old\n"}
    after: State = {changed: b"new\n", added: b"new\n", removed: None}
    return Stage(folder, journal, make, before, after)


@pytest.fixture(params=[one_session, three_files])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """In memory where there is such a place: a process that dies loses nothing of a disk."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as home:
        folder = Path(home, "projects", "-home-ada-shop")
        folder.mkdir(parents=True)
        yield request.param(folder, Journal(Path(home, "journal")))


def forked(work: Callable[[], object]) -> int:
    """The id of a process that does some work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def duration(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    assert os.waitpid(forked(work), 0)[1] == 0
    return time.perf_counter() - start


def test_killed_at_any_moment_a_change_leaves_nothing_that_cannot_be_undone(stage: Stage) -> None:
    times: list[float] = []
    for _ in range(5):
        times.append(duration(stage.make))
        assert stage.now() == stage.after
        stage.undo()
    for _ in range(ROUNDS):
        pid = forked(stage.make)
        time.sleep(random.uniform(0, 1.2 * min(times)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        stage.check()
    stage.make()
    assert stage.now() == stage.after


def test_so_it_is_when_killed_before_any_of_its_file_operations(stage: Stage) -> None:
    rounds = 0
    code = signal.SIGKILL
    while code:
        rounds += 1
        code = os.waitpid(forked(lambda n=rounds: _make_with_an_end(stage, n)), 0)[1]
        stage.check()
    assert rounds > 10


def _make_with_an_end(stage: Stage, operations: int) -> None:
    """Make a change, but die before one of its file operations."""
    left = operations

    def watch(event: str, _: object) -> None:
        nonlocal left
        left -= event.startswith(("open", "os.", "shutil.", "tempfile."))
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    stage.make()


def test_without_room_on_the_disk_an_edit_leaves_the_old_file_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-home-ada-shop"
    folder.mkdir(parents=True)
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(OLD)
    os.utime(path, (0, 0))
    home = {"TURNLOG_HOME": str(tmp_path / "turnlog"), "CLAUDE_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "edit", str(path), "--strip-tools"],
        env=os.environ | home,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"turnlog: edit of {SESSION} (strip_tools): File too large; nothing was changed"
        f" (try: df -h {folder})\n"
    )
    assert path.read_bytes() == OLD
    assert list(folder.iterdir()) == [path]
