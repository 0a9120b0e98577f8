"""Start background chats, and attach a terminal to one."""

import os
import select
import signal
import socket
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from turnlog.agent.background.background_jobs import (
    OUTPUT,
    PROBLEMS,
    STATE,
    Job,
    create_job,
    describe_problem,
    encode_launch,
    is_locked,
    read_job,
    take_lock,
)
from turnlog.agent.background.job_wire import (
    ATTACH,
    DETACH,
    ROWS,
    SIZE,
    SIZED,
    STOP,
    TYPED,
    connect_to,
    encode_frame,
)
from turnlog.errors import Conflict, Unavailable
from turnlog.format.private_files import open_private

HOST = "turnlog.agent.background.job_host"
CHUNK = 1 << 16
DETACH_KEY = b"\x1c"
"""Ctrl-\\, which no chat uses."""
STARTING, ENDING = 30.0, 20.0
"""Seconds that a chat may take to start, and to end."""
STEP = 0.05
CALM = 0.6
"""Seconds without a key press before the chat is shown."""
USUAL = os.terminal_size((80, 24))


def start_job(session: str, cwd: Path, name: str, arguments: list[str]) -> Job:
    """Start a chat in the background; return it once terminals can attach to it."""
    job = create_job(session, cwd, name)
    lock = take_lock(job.folder)
    errors = open_private(job.folder / PROBLEMS, os.O_WRONLY | os.O_CREAT)
    size = _size()
    try:
        host = subprocess.Popen(
            [sys.executable, "-P", "-m", HOST, str(job.folder), str(lock)],
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            cwd="/",
            pass_fds=[lock],
            # Closing this terminal must not end the chat.
            start_new_session=True,
        )
    finally:
        # The host has inherited the lock; this copy would hold it until this process exits.
        os.close(lock)
        os.close(errors)
    assert host.stdin
    with suppress(BrokenPipeError), host.stdin:
        host.stdin.write(encode_launch(arguments, size.columns, size.lines))
    return _wait_until_open(job, host)


def _wait_until_open(job: Job, host: "subprocess.Popen[bytes]") -> Job:
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline and host.poll() is None:
        found = read_job(job.state.id)
        if found and (found.state.pid or found.state.ended):
            return found
        time.sleep(STEP)
    why = describe_problem(job) or "it did not start in time"
    raise Unavailable(f"the chat could not be started in the background: {why}", "turnlog chat")


def stop_job(job: Job) -> Job:
    """Stop a background chat through its host; return its final state."""
    if not job.is_running:
        return job
    with _connected(job) as connection:
        connection.sendall(encode_frame(STOP))
        deadline = time.monotonic() + ENDING
        # The lock is free when the host has exited, which is after it recorded the chat's end.
        while is_locked(job.folder) and time.monotonic() < deadline:
            time.sleep(STEP)
    ended = read_job(job.state.id) or job
    if is_locked(job.folder):
        raise Unavailable(f"{job.state.id} did not stop", f"turnlog agents logs {job.state.id}")
    return ended


def output_of(job: Job) -> str:
    """Return the screen and scrollback of a background chat as text."""
    if not job.is_running:
        with suppress(OSError):
            return (job.folder / OUTPUT).read_text("utf-8", "replace")
        return ""
    with _connected(job) as connection:
        connection.sendall(encode_frame(ROWS))
        received = bytearray()
        while not received.endswith(b"\0") and (more := connection.recv(CHUNK)):
            received += more
    return received.removesuffix(b"\0").decode("utf-8", "replace")


def attach_to(job: Job) -> bool:
    """Show a background chat in this terminal; return True if it still runs, False if it ended."""
    if not job.is_running:
        hint = f"turnlog chat --resume {job.state.session}"
        raise Conflict(f"{job.state.id} has ended", hint)
    with _connected(job) as connection, _raw_terminal(), _watched_size(connection):
        connection.settimeout(None)
        _drop_typed()
        connection.sendall(encode_frame(ATTACH, _encoded_size()))
        is_left = _relay(connection)
        if is_left:
            connection.sendall(encode_frame(DETACH))
            connection.settimeout(ENDING)
            _show_rest(connection)
    return is_left


def _drop_typed() -> None:
    """Discard keys until none has been pressed for `CALM` seconds.

    The chat may have been waiting for an answer for a while. An Enter key that is held down, or was
    typed ahead, must not answer before the question is on this screen.
    """
    keyboard = sys.stdin.fileno()
    while select.select([keyboard], [], [], CALM)[0] and os.read(keyboard, CHUNK):
        continue


def _relay(connection: socket.socket) -> bool:
    """Relay keys and output; return True if the user detaches, False if the chat ends."""
    keyboard = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([keyboard, connection], [], [])
        if connection in ready:
            output = connection.recv(CHUNK)
            if not output:
                return False
            _show(output)
        if keyboard in ready:
            keys = os.read(keyboard, CHUNK)
            before, key, _ = keys.partition(DETACH_KEY)
            if before:
                connection.sendall(encode_frame(TYPED, before))
            if key or not keys:
                return True


def _show(output: bytes) -> None:
    while output:
        output = output[os.write(sys.stdout.fileno(), output) :]


def _show_rest(connection: socket.socket) -> None:
    with suppress(OSError):
        while output := connection.recv(CHUNK):
            text, end, _ = output.partition(b"\0")
            _show(text)
            if end:
                return


@contextmanager
def _connected(job: Job) -> Generator[socket.socket]:
    try:
        connection = connect_to(job.folder)
    except OSError as error:
        raise Unavailable(
            f"{job.state.id} does not answer: {error.strerror or error}",
            f"cat {job.folder / STATE}",
        ) from error
    try:
        with connection:
            yield connection
    except TimeoutError as error:
        hint = f"cat {job.folder / STATE}"
        raise Unavailable(f"{job.state.id} does not answer", hint) from error


@contextmanager
def _raw_terminal() -> Generator[None]:
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setraw(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _watched_size(connection: socket.socket) -> Generator[None]:
    """Tell the chat when the window is resized."""

    def resized(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            connection.sendall(encode_frame(SIZED, _encoded_size()))

    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _size() -> os.terminal_size:
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return USUAL


def _encoded_size() -> bytes:
    size = _size()
    return SIZE.pack(size.columns, size.lines)
