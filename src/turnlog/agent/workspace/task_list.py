"""The task list of a session: one file per task, in the client's layout.

Every change reads the files again under a lock, because sub-agents and other processes share the
list. Fields that turnlog does not know are kept.
"""

import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep

from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import Fields, is_array, is_object, parse_json
from turnlog.format.locks import lock
from turnlog.format.private_files import create_private_folder, open_private
from turnlog.format.regular_files import entries_of, read_regular
from turnlog.store.paths import Store
from turnlog.store.symlinks import find_link, is_link

SHARED = "CLAUDE_CODE_TASK_LIST_ID"
"""Environment variable with the name of a task list that several sessions share."""
NUMBER = re.compile(r"[1-9][0-9]{0,8}")
UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
LOCK = ".lock"
HIGHEST = ".highwatermark"
"""File with the highest number of a removed task: no number is used twice."""
LINKS = ("blocks", "blockedBy")
PATIENCE, STEP = 5.0, 0.02
"""Seconds to wait for the lock, and between two attempts."""
LARGEST = 1 << 20
"""Maximum size of a task's file in bytes."""
MOST = 1_000
"""Maximum number of tasks in a list."""


class TaskListError(Exception):
    """A list that cannot be read or changed; the message says why."""


def task_folder(store: Store, session_id: str, environment: Mapping[str, str]) -> Path:
    """Return the folder of a session's task list, or of the list that it shares with others.

    >>> task_folder(Store(Path("/s")), "id", {SHARED: "../x"}).as_posix()
    '/s/tasks/---x'
    """
    name = environment.get(SHARED) or session_id
    return store.root / "tasks" / UNSAFE.sub("-", name)


class TaskList:
    """The tasks of a session; kept in memory if there is no folder."""

    def __init__(self, folder: Path | None = None, root: Path | None = None) -> None:
        self._folder = folder
        self._root = root or folder
        """No link below it is followed: it could lead to any of the user's files."""
        self._kept: dict[str, Fields] = {}
        self._removed = 0
        """The highest number of a removed task, if there is no folder."""
        self._lock = Lock()

    def all(self) -> list[Fields]:
        """Return the tasks by number."""
        return list(self._read().values())

    def get(self, task_id: str) -> Fields | None:
        """Return a task; None if there is none with that number."""
        return self._read().get(task_id)

    def create(self, fields: Fields) -> Fields:
        """Add a task; return it with its number."""
        with self._locked(creates=True):
            tasks = self._read()
            if len(tasks) >= MOST:
                raise TaskListError(f"the list is full: it has {MOST:,} tasks")
            number = 1 + max([self._highest(), *map(int, tasks)])
            # A client that shares the list ignores turnlog's lock, and may take the number first.
            while not self._add({"id": str(number), **fields}):
                number += 1
            return {"id": str(number), **fields}

    def update(self, task_id: str, changes: Fields) -> None:
        """Set fields of a task."""
        with self._locked():
            tasks = self._read()
            if task_id in tasks:
                self._write(tasks[task_id] | changes)

    def link(self, blocking: str, blocked: str) -> bool:
        """Make a task wait for another one; return False if it already does, or one is missing."""
        with self._locked():
            tasks = self._read()
            if blocking not in tasks or blocked not in tasks:
                return False
            is_new = self._extend(tasks[blocking], "blocks", blocked)
            return self._extend(tasks[blocked], "blockedBy", blocking) or is_new

    def remove(self, task_id: str) -> None:
        """Remove a task, and its number from all tasks that it blocks or waits for."""
        with self._locked():
            tasks = self._read()
            if task_id not in tasks:
                return
            # Before the file is deleted: a crash in between must not free the number.
            self._raise_highest(int(task_id))
            self._delete(task_id)
            for task in tasks.values():
                links = {name: numbers_in(task, name) for name in LINKS}
                without = {name: [n for n in each if n != task_id] for name, each in links.items()}
                if task["id"] != task_id and without != links:
                    self._write(task | without)

    def _extend(self, task: Fields, name: str, number: str) -> bool:
        if number in numbers_in(task, name):
            return False
        # Changed in place, as a task may wait for itself.
        task[name] = [*numbers_in(task, name), number]
        self._write(task)
        return True

    @contextmanager
    def _locked(self, creates: bool = False) -> Generator[None]:
        """Lock the list against other threads and other processes."""
        with self._lock, ExitStack() as held:
            if self._folder and (creates or self._folder.is_dir()):
                try:
                    self._require_no_link(self._folder / LOCK)
                    create_private_folder(self._folder)
                    descriptor = open_private(self._folder / LOCK, os.O_RDWR | os.O_CREAT)
                    held.callback(os.close, descriptor)
                    _lock(descriptor)
                except OSError as error:
                    raise TaskListError(f"{self._folder}: {error.strerror}") from error
            yield

    def _require_no_link(self, path: Path) -> None:
        if self._root and (link := find_link(self._root, path)):
            raise TaskListError(f"{link} is a link")

    def _read(self) -> dict[str, Fields]:
        """Return the tasks by number; ignore files that are not tasks."""
        if not self._folder:
            return {number: dict(task) for number, task in self._kept.items()}
        try:
            names = [entry.name for entry in entries_of(self._folder)]
        except OSError:
            return {}
        numbers = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        known = sorted(filter(NUMBER.fullmatch, numbers), key=int)[:MOST]
        # The name of the file counts, not the number inside: the client looks tasks up by name.
        tasks = {number: self._task(self._folder / f"{number}.json") for number in known}
        return {number: task | {"id": number} for number, task in tasks.items() if task}

    def _task(self, path: Path) -> Fields | None:
        if is_link(path):
            return None
        try:
            task = parse_json(read_regular(path, LARGEST))
        except (OSError, ValueError):
            return None
        return task if is_object(task) and isinstance(task.get("subject"), str) else None

    def _add(self, task: Fields) -> bool:
        """Write a new task; return False if its number is taken."""
        if self._folder:
            _encoded(task)  # raises if the task is too long, before its number is reserved
            path = self._folder / f"{task['id']}.json"
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                return False
        self._write(task)
        return True

    def _write(self, task: Fields) -> None:
        if not self._folder:
            self._kept[task["id"]] = task
            return
        # An atomic rename replaces a link at this path, and never writes through it.
        write_atomic(self._folder / f"{task['id']}.json", _encoded(task))

    def _delete(self, number: str) -> None:
        if self._folder:
            with suppress(FileNotFoundError):
                (self._folder / f"{number}.json").unlink()
        else:
            self._kept.pop(number)

    def _highest(self) -> int:
        if not self._folder:
            return self._removed
        try:
            self._require_no_link(self._folder / HIGHEST)
            text = read_regular(self._folder / HIGHEST, LARGEST).decode("ascii", "replace").strip()
        except OSError:
            return 0
        return int(text) if NUMBER.fullmatch(text) else 0

    def _raise_highest(self, number: int) -> None:
        highest = max(self._highest(), number)
        if self._folder:
            write_atomic(self._folder / HIGHEST, str(highest).encode())
        else:
            self._removed = highest


def _encoded(task: Fields) -> bytes:
    content = json.dumps(task, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    if len(content) > LARGEST:
        raise TaskListError("the task is too long")
    return content


def _lock(descriptor: int) -> None:
    """Lock the list; give up after a while, so that a hanging process does not hang this one."""
    end = monotonic() + PATIENCE
    while True:
        try:
            lock(descriptor, wait=False)
            return
        except BlockingIOError:
            if monotonic() > end:
                raise
            sleep(STEP)


def numbers_in(task: Fields, name: str) -> list[str]:
    """Return the numbers of other tasks in a field."""
    listed = task.get(name)
    return [each for each in listed if isinstance(each, str)] if is_array(listed) else []


def is_open(task: Fields) -> bool:
    """Return whether a task is not completed."""
    return task.get("status") != "completed"
