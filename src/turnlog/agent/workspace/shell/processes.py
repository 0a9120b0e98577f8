"""Run commands as processes: output goes to a file, and children end with the command."""

import asyncio
import codecs
import json
import os
import select
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from msgspec import Struct

from turnlog.agent.workspace.sandbox.bubblewrap import Enclosure
from turnlog.agent.workspace.sandbox.seccomp import filtered

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
STEP = 0.05
TICK = 0.1
"""Seconds between two polls of the output."""
SHOWN = 10_000
"""Maximum bytes of output reported per poll."""
MOVED = "The command was not run: its working directory was moved"
DESCRIPTORS = "/proc/self/fd"
"""Only Linux has it; there, a path below it leads to the open file itself."""
LONGEST_PATH = 4096
"""Maximum bytes of a path (`PATH_MAX`)."""
MAX_OUTPUT = 1 << 30
"""Maximum bytes of output."""
MAX_PROCESSES = 8_192
CHUNK = 1 << 16
START_TICK = 0.005
COPY_GRACE = 0.2
"""Seconds to wait for the rest of the output of a command that left processes behind."""


class Flood(Exception):
    """A command printed more than the limit."""


class Launch(Struct, frozen=True):
    """A command to start."""

    command: str
    cwd: Path
    printed: Path
    """The file for its output."""
    environment: Mapping[str, str]
    shell: tuple[str, ...] = ("/bin/sh",)
    """The command line of the shell, without the command."""
    enclosure: Enclosure = Enclosure()
    """The sandbox that the shell runs in, if any."""

    @property
    def checks_directory(self) -> bool:
        """True if the shell can compare its directory with an open descriptor, and close that."""
        return Path(self.shell[0]).name == "bash" and Path(DESCRIPTORS).is_dir()

    def argv(self, descriptor: int, directory: int) -> list[str]:
        """Return the command line; the shell records that it has started, and its last directory.

        A sandbox enters the directory by its path. So the shell compares it with the open
        directory, and does nothing if another directory has taken its place. It closes the
        descriptor before the command starts, because a command could leave the sandbox through it.
        """
        notes = f"echo >&{descriptor}; trap '{{ pwd -P >&{descriptor}; }} 2>/dev/null' EXIT; "
        if self.checks_directory:
            notes += f"[ . -ef {DESCRIPTORS}/{directory} ] || {{ echo '{MOVED}'; exit 1; }}; "
            notes += f"exec {directory}<&-; "
        if self.enclosure.argv:
            notes += f"ulimit -u {MAX_PROCESSES} 2>/dev/null; "
        return [*self.shell, "-c", f"{notes}{self.command}"]


@dataclass
class RunningCommand:
    """A command that was started."""

    process: asyncio.subprocess.Process
    printed: Path
    left_in: IO[bytes]
    """The shell writes a line here when it starts, and its directory when it ends."""
    copying: asyncio.Task[None] = field(init=False)
    """Copies the output from a pipe to the file: the command gets no descriptor of a file."""
    watch: asyncio.Task[None] | None = None
    """Ends the command if it loses what its sandbox covers."""
    unsaved: str = ""
    """Why its output could not be written to the file."""
    lost: str = ""
    """The file that was uncovered, which ended the command."""

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self.process.returncode

    @property
    def has_started(self) -> bool:
        """True if the shell started; a sandbox may fail before that."""
        self.left_in.seek(0)
        return self.left_in.read(1) != b""

    def directory(self) -> Path | None:
        """Return the directory that the command ended in; None if that is not known.

        The command may have written anything to the descriptor itself, of any length.
        """
        self.left_in.seek(1)
        name = self.left_in.read(LONGEST_PATH + 1).removesuffix(b"\n")
        if not name.startswith(b"/"):
            return None
        place = Path(os.fsdecode(name))
        with suppress(OSError):  # the name is too long
            return place if place.is_dir() else None
        return None


async def launch(wanted: Launch) -> RunningCommand:
    """Start a command in a process group of its own, without input."""
    left_in = tempfile.TemporaryFile()  # noqa: SIM115 (is read when the command has ended)
    reading, writing = os.pipe()
    directory, informing, informed = -1, -1, -1
    try:
        os.close(os.open(wanted.printed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        directory = os.open(wanted.cwd, os.O_RDONLY | os.O_DIRECTORY)
        passed = [left_in.fileno(), *([directory] if wanted.checks_directory else [])]
        enclosure, about = wanted.enclosure, list[str]()
        if enclosure.covered:
            informed, informing = os.pipe()
            about = ["--info-fd", str(informing)]
            passed.append(informing)
        given = enclosure.argv[:1] + tuple(about) + enclosure.argv[1:]
        with filtered(given, has_sockets=enclosure.has_sockets) as (wrapper, filters):
            process = await asyncio.create_subprocess_exec(
                *wrapper,
                *wanted.argv(left_in.fileno(), directory),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                cwd=wanted.cwd,
                env=dict(wanted.environment),
                start_new_session=True,
                pass_fds=[*passed, *filters],
            )
    except BaseException:
        left_in.close()
        os.close(reading)
        wanted.printed.unlink(missing_ok=True)
        raise
    finally:
        for descriptor in (writing, directory, informing):
            if descriptor >= 0:
                os.close(descriptor)
    running = RunningCommand(process, wanted.printed, left_in)
    running.copying = asyncio.create_task(_copy(reading, running))
    if informed >= 0:
        running.watch = asyncio.create_task(_guard(running, informed, enclosure.covered))
    return running


async def _copy(descriptor: int, running: RunningCommand) -> None:
    """Copy what a command prints to a file, until all processes have closed the pipe."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        with running.printed.open("ab", buffering=0) as file:
            while chunk := await reader.read(CHUNK):
                if file.tell() <= MAX_OUTPUT:
                    file.write(chunk)
            if running.lost:  # it may have printed the file before it was killed
                file.truncate(0)
    except OSError as error:  # the disk is full; closing the pipe ends what still prints
        running.unsaved = error.strerror or str(error)
    finally:
        transport.close()


async def _guard(running: RunningCommand, informed: int, covered: tuple[Path, ...]) -> None:
    """Kill a command if a file that its sandbox covers is replaced from outside.

    A mount vanishes with the file that it covers: an editor that saves `.env` by renaming a new
    file would uncover it.
    """
    pid = await asyncio.to_thread(_child_of, informed)
    while not running.has_started and running.code is None:
        await asyncio.sleep(START_TICK)
    try:
        table = Path(f"/proc/{pid}/mountinfo").open("rb", buffering=0)  # noqa: SIM115
    except OSError:  # it has ended
        return
    events, changed = select.epoll(), asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        events.register(table, select.EPOLLPRI | select.EPOLLERR)
        loop.add_reader(events.fileno(), changed.set)
        while running.code is None:
            mounted = _mount_points(table)
            if mounted and (lost := next((p for p in covered if p not in mounted), None)):
                running.lost = str(lost)
                _signal([running.process.pid, *_descendants(running.process.pid)], signal.SIGKILL)
                return
            # A mount moves along with a file that is renamed, and the kernel reports nothing.
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), STEP)
            changed.clear()
            events.poll(0)
    finally:
        loop.remove_reader(events.fileno())
        events.close()
        table.close()


def _child_of(informed: int) -> int:
    """Return the process in the sandbox, from what bubblewrap writes about it."""
    text = b""
    with os.fdopen(informed, "rb", buffering=0) as pipe:
        while b"}" not in text and (chunk := pipe.read(CHUNK)):
            text += chunk
    return int(json.loads(text)["child-pid"]) if b"}" in text else -1


def _mount_points(table: IO[bytes]) -> set[Path]:
    table.seek(0)
    try:
        lines = table.read().splitlines()
    except OSError:
        return set()
    found = (line.split()[4].decode("unicode_escape").encode("latin-1") for line in lines)
    return {Path(os.fsdecode(name)) for name in found}


def exit_status(code: int | None) -> int:
    """Return an exit code as a shell reports it: 128 plus the number of a signal."""
    return 128 - code if code is not None and code < 0 else code or 0


async def end(running: RunningCommand) -> None:
    """Stop a command and its children: SIGTERM first, then SIGKILL."""
    await end_process(running.process)


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Stop a process that leads a group of its own, and its children."""
    # Collected first: once a parent is gone, its children belong to init and cannot be found.
    pids = [process.pid, *_descendants(process.pid)]
    _signal(pids, signal.SIGTERM)
    try:
        for _ in range(int(GRACE / STEP)):
            if not any(map(_runs, pids)):
                break
            await asyncio.sleep(STEP)
    finally:  # also when cancelled; after SIGKILL the wait is short
        _signal(pids, signal.SIGKILL)
        await process.wait()


def _signal(pids: Sequence[int], number: int) -> None:
    """Send a signal to a command's process group and to children that left it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pids[0], number)
    for pid in pids[1:]:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _runs(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        os.kill(pid, 0)
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except ProcessLookupError:
        return False
    except OSError:
        return True


def _descendants(pid: int) -> Iterator[int]:
    """Yield the descendants of a process, on systems with /proc."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _descendants(child)


class Tail:
    """Reads what was appended to a file since the last read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def more(self, most: int) -> str:
        """Return the new text, at most the last `most` bytes."""
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            # Some output is skipped, so the decoder must forget an incomplete character before it.
            if size - self.offset > most:
                self._decoder.reset()
            file.seek(max(self.offset, size - most))
            raw = file.read(most)
            self.offset = file.tell()
        return self._decoder.decode(raw)


async def follow(running: RunningCommand, report: Callable[[str], None]) -> None:
    """Wait for a command and report its output meanwhile; raise `Flood` if it prints too much."""
    ended = asyncio.ensure_future(running.process.wait())
    tail = Tail(running.printed)
    try:
        while not ended.done():
            await asyncio.wait({ended}, timeout=TICK)
            if text := tail.more(SHOWN):
                report(text)
            if tail.offset > MAX_OUTPUT:
                raise Flood
        await settle(running)
        if text := tail.more(SHOWN):
            report(text)
    finally:
        ended.cancel()


async def settle(running: RunningCommand) -> None:
    """Wait for the last output of a command that has ended, unless it left processes behind."""
    await asyncio.wait({running.copying}, timeout=COPY_GRACE)
    if running.watch is not None:
        running.watch.cancel()
