"""Split tasks between this process and a forked child; yield results in the order of the tasks.

The child inherits its parent's memory at the fork, so a task only has to name its input. Without a
child, or once it is killed, the parent runs all tasks itself, with the same results.
"""

import gc
import marshal
import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from select import select
from signal import SIGKILL
from typing import Any

from turnlog.format.regular_files import collect_skipped, note_skipped

AHEAD = 2
"""Tasks assigned to the child at a time: it starts the second one while its parent is busy."""
SIZE = 4
"""Bytes of a message's length prefix."""
PIPE_SIZE = 1 << 20
"""Bytes of results that the child can write while its parent is busy."""
SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ of Linux, which Python 3.11 does not name on every platform."""
AT_ONCE = 1 << 20

Task = tuple[Any, ...]
"""Numbers, strings and tuples of them: `marshal` must be able to encode tasks and results."""
Work = Callable[[Task], Any]
Mapper = Callable[[Sequence[Task]], Iterator[Any]]
"""Yields the results of tasks, in their order."""


@contextmanager
def sharing(work: Work, is_worth_it: bool) -> Generator[Mapper]:
    """Provide a mapper that shares tasks with a forked process, or else runs all of them here."""
    helper = HelperProcess.start(work) if is_worth_it and can_fork() else None
    try:
        yield helper.map if helper else lambda tasks: map(work, tasks)
    finally:
        if helper:
            helper.close()


def can_fork() -> bool:
    """Return whether forking is safe here and a second CPU is available."""
    # A fork copies the locks that other threads hold, but not the threads that would release them:
    # the child could wait forever.
    is_alone = threading.active_count() == 1 and multiprocessing.parent_process() is None
    return sys.platform == "linux" and is_alone and len(os.sched_getaffinity(0)) > 1


class HelperProcess:
    """A forked child process and the tasks assigned to it."""

    def __init__(self, work: Work, child: int, asking: int, answering: int) -> None:
        self._work, self._child = work, child
        self._asking, self._answering = asking, answering
        self._given: deque[int] = deque()
        """Indexes of the tasks assigned to the child, in the order in which results arrive."""
        self._received = bytearray()
        self._is_dead = False

    @classmethod
    def start(cls, work: Work) -> "HelperProcess | None":
        """Fork a child; return None if the process limit is reached."""
        from fcntl import fcntl  # not on Windows

        (task_end, asking), (answering, result_end) = os.pipe(), os.pipe()
        with suppress(OSError):  # above the user's limit: the child has to wait sooner
            fcntl(result_end, SET_PIPE_SIZE, PIPE_SIZE)
        try:
            child = os.fork()
        except OSError:
            for end in (task_end, asking, answering, result_end):
                os.close(end)
            return None
        if child == 0:
            os.close(asking)
            os.close(answering)
            _serve(work, task_end, result_end)
        os.close(task_end)
        os.close(result_end)
        return cls(work, child, asking, answering)

    def map(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """Yield the results of tasks, in their order; the child does about half of them."""
        waiting = deque(range(len(tasks)))
        results: dict[int, Any] = {}
        for number in range(len(tasks)):
            while number not in results:
                self._give(tasks, waiting)
                if waiting:
                    own = waiting.popleft()
                    results[own] = self._work(tasks[own])
                # With no task left to run here, wait for the child.
                results |= self._receive(tasks, is_waiting=not waiting and number not in results)
            yield results.pop(number)

    def close(self) -> None:
        """Kill the child, even in the middle of a task: its results are no longer wanted."""
        os.close(self._asking)
        os.close(self._answering)
        with suppress(ProcessLookupError):
            os.kill(self._child, SIGKILL)
        os.waitpid(self._child, 0)

    def _give(self, tasks: Sequence[Task], waiting: deque[int]) -> None:
        while len(self._given) < AHEAD and waiting and not self._is_dead:
            number = waiting.popleft()
            self._given.append(number)
            try:
                write_message(self._asking, tasks[number])
            except BrokenPipeError:
                self._is_dead = True

    def _receive(self, tasks: Sequence[Task], is_waiting: bool) -> dict[int, Any]:
        """Return the results that have arrived, at least one if `is_waiting`."""
        found: dict[int, Any] = {}
        while self._given and not self._is_dead:
            if (message := _take_message(self._received)) is not None:
                result, skipped = message
                for path, reason in skipped.items():
                    note_skipped(path, reason)
                found[self._given.popleft()] = result
                continue
            patience = None if is_waiting and not found else 0
            if not select([self._answering], [], [], patience)[0]:
                return found
            read = os.read(self._answering, AT_ONCE)
            self._is_dead = not read
            self._received += read
        # Run the tasks of a dead child here; one that made the child fail now raises its error.
        while self._is_dead and self._given:
            number = self._given.popleft()
            found[number] = self._work(tasks[number])
        return found


def _serve(work: Work, task_end: int, result_end: int) -> None:
    """Run tasks until the parent closes its end of the pipe or exits."""
    try:
        # Exclude objects from before the fork from garbage collection: examining them would copy
        # their memory pages.
        gc.freeze()
        with os.fdopen(task_end, "rb") as tasks:
            while size := tasks.read(SIZE):
                task = marshal.loads(tasks.read(int.from_bytes(size, "little")))
                with collect_skipped() as skipped:
                    result = work(task)
                write_message(result_end, (result, skipped))
    finally:
        # Skip the parent's exit handlers: they would flush its buffers a second time. An error is
        # not reported here either, as the parent repeats the task.
        os._exit(0)


def write_message(pipe: int, value: Any) -> None:
    """Write a value with a length prefix."""
    raw = marshal.dumps(value)
    view = memoryview(len(raw).to_bytes(SIZE, "little") + raw)
    while view:
        view = view[os.write(pipe, view) :]


def _take_message(received: bytearray) -> Any:
    """Remove the first message and return it; None if it is not complete."""
    end = SIZE + int.from_bytes(received[:SIZE], "little")
    if len(received) < max(SIZE, end):
        return None
    value = marshal.loads(memoryview(received)[SIZE:end])
    del received[:end]
    return value
