"""Background chats: one folder each, with its state, its socket and its lock.

The host process of a chat holds the lock as long as it lives, and a chat is running if and only if
its lock is held. After `kill -9`, a crash or a reboot the lock is free, whatever the state file
says. Process ids are not consulted, as another program may have reused one.
"""

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from turnlog.errors import Conflict, NotFound
from turnlog.format.atomic import write_atomic
from turnlog.format.locks import lock
from turnlog.format.private_files import open_private, secure_folder
from turnlog.format.regular_files import read_regular
from turnlog.store.directories import data_directory

STATE, LOCK, SOCKET = "state.json", "lock", "socket"
OUTPUT, PROBLEMS = "output.txt", "errors.txt"
LARGEST = 1 << 16
ID = re.compile(r"[0-9a-f]{8}")
RUNNING, ENDED, KILLED = "running", "ended", "killed"


class JobState(Struct, frozen=True):
    """The stored state of a background chat."""

    id: str
    session: str
    """Id of the session."""
    cwd: str
    name: str = ""
    started: float = 0.0
    """Seconds since 1970."""
    pid: int | None = None
    """The chat's process id, shown to the user; it is never used to send a signal."""
    ended: float | None = None
    exit_code: int | None = None


class Job(NamedTuple):
    """A background chat: its folder, its state, and whether it runs."""

    folder: Path
    state: JobState
    is_running: bool

    @property
    def status(self) -> str:
        """`running`, `ended`, or `killed` if its end was not recorded."""
        if self.is_running:
            return RUNNING
        return ENDED if self.state.ended else KILLED

    @property
    def fields(self) -> dict[str, object]:
        """The job as JSON."""
        return {"status": self.status} | msgspec.to_builtins(self.state)


def jobs_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all background chats."""
    return Path(data_directory(environment)) / "agents"


def create_job(session: str, cwd: Path, name: str) -> Job:
    """Create the folder of a background chat."""
    secure_folder(jobs_folder(), must_own=True)
    # The start of the session's id, as in the client. It may be taken: a session can run twice.
    short = session[:8] if ID.fullmatch(session[:8]) else secrets.token_hex(4)
    folder = jobs_folder() / short
    while not _made(folder):
        folder = jobs_folder() / secrets.token_hex(4)
    state = JobState(folder.name, session, str(cwd), name, time.time())
    write_state(folder, state)
    return Job(folder, state, is_running=False)


def _made(folder: Path) -> bool:
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        return False
    return True


def write_state(folder: Path, state: JobState) -> None:
    """Write the state of a background chat."""
    write_atomic(folder / STATE, msgspec.json.encode(state))


def list_jobs() -> list[Job]:
    """Return all background chats, the newest first; unreadable ones are left out."""
    try:
        names = [name for name in os.listdir(jobs_folder()) if ID.fullmatch(name)]
    except OSError:
        return []
    found = [job for job in map(read_job, names) if job]
    return sorted(found, key=lambda job: job.state.started, reverse=True)


def read_job(name: str) -> Job | None:
    """Return a background chat by its id; None if there is none, or its state is damaged."""
    folder = jobs_folder() / name
    try:
        state = msgspec.json.decode(read_regular(folder / STATE, LARGEST), type=JobState)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return Job(folder, state, is_locked(folder))


def find_job(text: str) -> Job:
    """Find a background chat by the start of its id, its session's id, or part of its name."""
    jobs = list_jobs()
    named = [job for job in jobs if job.state.id.startswith(text) or job.state.session == text]
    wanted = named or [job for job in jobs if text.casefold() in job.state.name.casefold()]
    if not wanted or not text:
        raise NotFound(f"no background chat is named {text!r}", "turnlog agents")
    if len(wanted) > 1:
        ids = ", ".join(job.state.id for job in wanted)
        raise NotFound(f"{text!r} matches several background chats: {ids}", "turnlog agents")
    return wanted[0]


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock of a background chat."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # A shared lock: two processes that check at once must not mistake each other for the chat.
        lock(descriptor, wait=False, is_shared=True)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def take_lock(folder: Path) -> int:
    """Lock the folder of a background chat; return the descriptor, which holds the lock.

    The lock belongs to the open file: a process that inherits the descriptor holds it, too.
    """
    descriptor = open_private(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        lock(descriptor, wait=False)
    except OSError as error:
        os.close(descriptor)
        raise Conflict(f"{folder} belongs to another process", "turnlog agents") from error
    return descriptor


def remove_job(job: Job) -> None:
    """Remove the folder of a background chat that has ended; its session stays."""
    if job.is_running:
        raise Conflict(f"{job.state.id} is running", f"turnlog agents stop {job.state.id}")
    shutil.rmtree(job.folder)


def describe_problem(job: Job) -> str:
    """Return the last line printed by a chat that could not start."""
    try:
        text = read_regular(job.folder / PROBLEMS, LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    return next(iter(text.strip().splitlines()[-1:]), "")


def encode_launch(arguments: list[str], columns: int, rows: int) -> bytes:
    """Return the input of a host process: the chat's arguments and its terminal size."""
    return json.dumps({"arguments": arguments, "columns": columns, "rows": rows}).encode()
