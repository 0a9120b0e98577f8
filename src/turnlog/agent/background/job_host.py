"""The process that runs a background chat in a terminal of its own.

The chat is a child of the host, so its process id cannot be reused before the host reaps it. Only
the host can therefore signal it safely: to stop a chat, ask its host. A chat whose host is killed
loses its terminal and exits cleanly.
"""

import fcntl
import json
import os
import pty
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from turnlog.agent.background.background_jobs import OUTPUT, JobState, read_job, write_state
from turnlog.agent.background.job_wire import (
    ATTACH,
    DETACH,
    ROWS,
    SIZE,
    SIZED,
    STOP,
    TYPED,
    FrameReader,
    is_same_user,
    listen_in,
)
from turnlog.agent.background.terminal_rows import TerminalRows
from turnlog.format.private_files import write_private

CHUNK = 1 << 16
PATIENCE = 10.0
"""Seconds for a chat to end on request before it is killed."""
TICK = 0.5
SAVED_EVERY = 5.0
"""Seconds between saves of the screen to disk, in case the host is killed."""
MOST_UNSENT = 8 << 20
"""Maximum bytes buffered for a terminal that does not read; beyond that it is disconnected."""


class LaunchedChat(NamedTuple):
    """The child process, and the host's side of its terminal."""

    pid: int
    terminal: int


class Viewer:
    """A connected terminal or command."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.frames = FrameReader()
        self.unsent = bytearray()
        self.is_attached = False


class JobHost:
    """Runs a chat, and lets terminals attach to it."""

    def __init__(self, folder: Path, state: JobState, chat: LaunchedChat) -> None:
        self._folder = folder
        self._state = state
        self._chat = chat
        self._rows = TerminalRows()
        self._listener = listen_in(folder)
        self._viewers: list[Viewer] = []
        self._selector = selectors.DefaultSelector()
        self._deadline: float | None = None
        self._status: int | None = None
        """The chat's exit status, as `waitpid` reports it."""
        self._saved = 0.0

    def run(self, columns: int, rows: int) -> int:
        """Serve until the chat has ended; return its exit code."""
        self._resize(columns, rows)
        self._selector.register(self._chat.terminal, selectors.EVENT_READ, None)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        write_state(self._folder, replace(self._state, pid=self._chat.pid))
        is_open = True
        # A program that the chat left behind may keep the terminal open.
        while is_open and not self._has_ended():
            for key, events in self._selector.select(TICK):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, Viewer):
                    self._serve(key.data, events)
                else:
                    is_open = self._forward()
            self._enforce_deadline()
            self._save()
        return self._finish()

    def stop(self) -> None:
        """Ask the chat to end."""
        if self._deadline is None:
            self._deadline = time.monotonic() + PATIENCE
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        # No other process gets the chat's id before `waitpid` has reaped the chat.
        if not self._has_ended():
            os.kill(self._chat.pid, number)

    def _has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self._chat.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def _enforce_deadline(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._signal(signal.SIGKILL)

    def _save(self, is_last: bool = False) -> None:
        now = time.monotonic()
        if is_last or now - self._saved > SAVED_EVERY:
            self._saved = now
            # The copy is for `agents logs` only: a full disk must not end the chat.
            with suppress(OSError):
                write_private(self._folder / OUTPUT, self._rows.plain())

    def _forward(self) -> bool:
        """Forward the chat's output; return whether its terminal is still open."""
        try:
            output = os.read(self._chat.terminal, CHUNK)
        except OSError:  # Linux reports EIO once no process has the terminal open
            output = b""
        self._rows.feed(output)
        for viewer in [each for each in self._viewers if each.is_attached]:
            self._send(viewer, output)
        return bool(output)

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            if not is_same_user(connection):
                connection.close()
                return
            connection.settimeout(0)
            viewer = Viewer(connection)
            self._viewers.append(viewer)
            self._selector.register(connection, selectors.EVENT_READ, viewer)

    def _serve(self, viewer: Viewer, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(viewer)
            if events & selectors.EVENT_READ:
                content = viewer.connection.recv(CHUNK)
                for kind, given in viewer.frames.feed(content):
                    self._obey(viewer, kind, given)
                if not content:
                    self._drop(viewer)
        except BlockingIOError:
            return
        except (OSError, ValueError, struct.error):
            self._drop(viewer)

    def _obey(self, viewer: Viewer, kind: bytes, given: bytes) -> None:
        if kind == TYPED:
            self._type(given)
        elif kind == SIZED:
            self._resize(*SIZE.unpack(given))
        elif kind == ATTACH:
            # Send the rows as they are, then set the size: the chat redraws as after any resize.
            self._send(viewer, self._rows.drawn())
            viewer.is_attached = True
            self._resize(*SIZE.unpack(given))
        elif kind == ROWS:
            self._send(viewer, self._rows.plain() + b"\0")
        elif kind == DETACH:
            viewer.is_attached = False
            self._send(viewer, self._rows.undone() + b"\0")
        elif kind == STOP:
            self.stop()

    def _type(self, keys: bytes) -> None:
        # A write would block while the chat reads nothing, and a blocked host serves no viewer.
        os.set_blocking(self._chat.terminal, False)
        try:
            while keys:
                keys = keys[os.write(self._chat.terminal, keys) :]
        except BlockingIOError:
            return
        finally:
            os.set_blocking(self._chat.terminal, True)

    def _resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", max(1, rows), max(1, columns), 0, 0)
        self._rows.resize(columns, rows)
        with suppress(OSError):
            fcntl.ioctl(self._chat.terminal, termios.TIOCSWINSZ, size)

    def _send(self, viewer: Viewer, content: bytes) -> None:
        viewer.unsent += content
        if len(viewer.unsent) > MOST_UNSENT:
            self._drop(viewer)
            return
        try:
            self._flush(viewer)
        except OSError:
            self._drop(viewer)

    def _flush(self, viewer: Viewer) -> None:
        with suppress(BlockingIOError):
            while viewer.unsent:
                del viewer.unsent[: viewer.connection.send(viewer.unsent)]
        # A socket is nearly always writable: watching for that with nothing to send is a busy loop.
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if viewer.unsent else 0)
        self._selector.modify(viewer.connection, events, viewer)

    def _drop(self, viewer: Viewer) -> None:
        if viewer in self._viewers:
            self._viewers.remove(viewer)
            self._selector.unregister(viewer.connection)
            viewer.connection.close()

    def _finish(self) -> int:
        """Wait for the chat, record its end, and disconnect everyone."""
        while not self._has_ended():
            # Its terminal is closed; a chat that runs on regardless is stopped like one that hangs.
            self.stop()
            self._enforce_deadline()
            time.sleep(TICK / 10)
        # The last output of the chat may still be in the terminal's buffer.
        os.set_blocking(self._chat.terminal, False)
        while self._forward():
            continue
        code = os.waitstatus_to_exitcode(self._status or 0)
        self._save(is_last=True)
        write_state(self._folder, replace(self._state, ended=time.time(), exit_code=code))
        for viewer in list(self._viewers):
            # A viewer that does not read must not keep the host alive.
            viewer.connection.settimeout(1.0)
            with suppress(OSError):
                viewer.connection.sendall(viewer.unsent)
            self._drop(viewer)
        return code


def launch_chat(cwd: str, arguments: list[str]) -> LaunchedChat:
    """Start a chat as a child process in a new terminal."""
    # -P: a `turnlog.py` in the project must not run in place of turnlog.
    argv = [sys.executable, "-P", "-m", "turnlog", "chat", *arguments]
    pid, terminal = pty.fork()
    if pid:
        return LaunchedChat(pid, terminal)
    try:
        os.chdir(cwd)
        os.execv(sys.executable, argv)
    finally:  # the child of a fork: it must not return into the host's code
        os._exit(127)


def main() -> None:
    """Run the chat of a job folder, whose lock this process inherits as a file descriptor."""
    folder, lock = Path(sys.argv[1]), int(sys.argv[2])
    # The chat must not inherit the lock, or it would still count as running without its host.
    os.set_inheritable(lock, False)  # noqa: FBT003
    launch = json.load(sys.stdin)
    job = read_job(folder.name)
    if job is None:
        raise SystemExit(f"{folder} has no state")
    host = JobHost(folder, job.state, launch_chat(job.state.cwd, launch["arguments"]))
    signal.signal(signal.SIGTERM, lambda number, frame: host.stop())
    host.run(launch["columns"], launch["rows"])


if __name__ == "__main__":
    main()
