"""Chats: how soon one can type, whether many turns slow them down, how soon long ones go on."""

import fcntl
import json
import os
import pty
import shlex
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import NamedTuple

from chat_model import model, write_compacted, write_long
from measure import Job

from turnlog.store.paths import folder_name

TURNS = 2000
WINDOW = 200
"""Turns at the start and at the end that are compared; the context fills up about once in them."""
SHORT_CONTEXT = {"CLAUDE_CODE_DISABLE_1M_CONTEXT": "1"}
"""A longer one takes more turns to fill, and all of it is sent with each request."""
WARM = 5
"""Turns before the first that counts."""
RESUMED_SIZE = 200_000_000
SESSION = "3f2a9c1e-0000-4000-8000-00000000000a"
PROMPT_MARK = "❯".encode()
LAST_WORD = b"answer"
LONG_CONTEXT = 900_000
"""Tokens before the turns that are compared with those of a new session."""
LONG_TURNS = 60
"""Enough for a clock that ticks every 10 ms."""
SCREEN = struct.pack("HHHH", 40, 120, 0, 0)
TEXT = "The quick brown fox jumps over the lazy dog. " * 80
STREAM = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")
PROMPT = {"type": "user", "message": {"role": "user", "content": f"Go on: {TEXT[:500]}"}}


class Mark(NamedTuple):
    """What a process has used by a moment."""

    time: float
    busy: float
    memory: int


class Chats:
    """Runs chats in a folder of their own."""

    def __init__(self, folder: Path, turnlog: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "a.txt").write_text(TEXT)
        self.store = folder / "claude"
        self._turnlog = turnlog
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(self.store),
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }

    def starts(self, rounds: int) -> list[Job]:
        """From the start to the first character on the screen, to the prompt, and the client."""
        first = self.job("turnlog chat, first character on the screen")
        ready = self.job("turnlog chat, prompt on the screen")
        client = Job("the client, first character on the screen", (), self._environment)
        client.command = shlex.split(os.environ.get("BENCH_CLIENT", ""))
        jobs = [first, ready, *([client] if client.command else [])]
        for _ in range(rounds):
            for job in jobs:
                self._measure_screen(job, PROMPT_MARK if job is ready else b"")
        return jobs

    def turns(self) -> tuple[Job, Job]:
        """The first and the last turns of a very long chat."""
        first = self.job(f"turnlog chat, the first {WINDOW} of {TURNS:,} turns")
        last = self.job(f"turnlog chat, the last {WINDOW} of {TURNS:,} turns")
        marks = list(self._run_turns(TURNS, SHORT_CONTEXT))
        for job, start in ((first, WARM), (last, TURNS - WINDOW)):
            before, after = marks[start], marks[start + WINDOW]
            job.times.append(after.time - before.time)
            job.busy.append(after.busy - before.busy)
            job.peak = after.memory
        return first, last

    def contexts(self) -> tuple[Job, Job]:
        """Turns at the start of a context of a million tokens, and near its end.

        Their time is the processor's: the scripted model takes much longer to read a request.
        """
        new = self.job(f"turnlog chat, {LONG_TURNS} turns of a new session (CPU)")
        full = self.job(f"turnlog chat, {LONG_TURNS} turns after {LONG_CONTEXT:,} tokens (CPU)")
        path = self.store / "projects" / folder_name(str(self.work)) / f"{SESSION}.jsonl"
        write_long(path, LONG_CONTEXT)
        for job, options in ((new, ()), (full, ("--resume", SESSION))):
            marks = list(self._run_turns(WARM + LONG_TURNS, {}, *options))
            before, after = marks[WARM], marks[-1]
            job.busy.append(after.busy - before.busy)
            job.times.append(job.busy[-1])
            job.peak = after.memory
        path.unlink()
        return new, full

    def resumes(self, rounds: int) -> tuple[Job, Job, Job]:
        """A very long session: from the start to its end on the screen, and to the request, which
        also a new session is measured for."""
        path = self.store / "projects" / folder_name(str(self.work)) / f"{SESSION}.jsonl"
        write_compacted(path, RESUMED_SIZE)
        size = path.stat().st_size
        shown = self.job("turnlog chat --resume, 200 MB, to the screen", "--resume", SESSION)
        old = self.job("turnlog chat -p --resume, 200 MB", "-p", "hello", "--resume", SESSION)
        new = self.job("turnlog chat -p, a new session", "-p", "hello")
        for _ in range(rounds):
            self._measure_screen(shown, LAST_WORD)
            self.measure_request(old)
            self.measure_request(new)
            os.truncate(path, size)
        path.unlink()
        return shown, old, new

    def hosted(self, rounds: int) -> Job:
        """A program that drives a chat: from the start to the request for its first prompt."""
        job = self.job("turnlog-chat, the first prompt of a program", *STREAM[1:])
        begin = {"type": "control_request", "request_id": "1"}
        hello = begin | {"request": {"subtype": "initialize", "hooks": None}}
        lines = "".join(f"{json.dumps(each)}\n" for each in (hello, PROMPT)).encode()
        for _ in range(rounds):
            self.measure_request(job, lines)
        return job

    def job(self, name: str, *arguments: str) -> Job:
        return Job(name, (self._turnlog, "chat", *arguments), self._environment)

    def _measure_screen(self, job: Job, wanted: bytes) -> None:
        """Start a program in a terminal, until something stands on the screen."""
        screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, SCREEN)
        start = time.perf_counter()
        process = subprocess.Popen(
            job.command,
            env=job.environment,
            cwd=self.work,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        seen = b""
        while not seen or wanted not in seen:
            select([screen], [], [])
            seen += os.read(screen, 65536)
        _note(job, start, process)
        os.close(screen)

    def measure_request(self, job: Job, given: bytes = b"") -> None:
        """Start a program, until it has sent a request."""
        with model() as asked, tempfile.TemporaryFile() as typed:
            typed.write(given)
            typed.seek(0)
            start = time.perf_counter()
            process = subprocess.Popen(
                job.command,
                env=job.environment | {"ANTHROPIC_BASE_URL": asked.url},
                cwd=self.work,
                stdin=typed,
                stdout=subprocess.DEVNULL,
            )
            asked.times.get()
            _note(job, start, process)

    def _run_turns(self, count: int, variables: dict[str, str], *options: str) -> Iterator[Mark]:
        """What a chat has used before its first turn, and after each."""
        with (
            model() as asked,
            subprocess.Popen(
                (self._turnlog, "chat", *STREAM, *options),
                env=self._environment | variables | {"ANTHROPIC_BASE_URL": asked.url},
                cwd=self.work,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as running,
        ):
            assert running.stdin
            assert running.stdout
            for _ in range(count):
                yield _mark(running.pid)
                running.stdin.write(json.dumps(PROMPT).encode() + b"\n")
                running.stdin.flush()
                while b'"type":"result"' not in (line := running.stdout.readline()):
                    assert line, "the chat has ended"
            yield _mark(running.pid)


def _note(job: Job, start: float, process: "subprocess.Popen[bytes]") -> None:
    """Note what a program took so far, and end it."""
    job.times.append(time.perf_counter() - start)
    process.kill()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = -9
    job.busy.append(used.ru_utime + used.ru_stime)


def _mark(pid: int) -> Mark:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    busy = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    memory = int(words[21]) * os.sysconf("SC_PAGE_SIZE")
    return Mark(time.perf_counter(), busy, memory)
