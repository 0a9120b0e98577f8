"""System calls that a sandbox refuses, and programs that work without them."""

import errno
import json
import os
import select
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.sandbox.bubblewrap import enclose
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.sandbox.seccomp import MACHINES, RULES, filtered, socket_filter

NOBODY = 65534
ATTEMPTS = Path(__file__).with_name("system_calls.py").read_text()
PYTHON = "/usr/bin/python3"
"""Unlike that of the tests, every user can run it."""
ALLOW, KILL, REFUSE, ABSENT = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
X86, ARM = MACHINES.values()


def numbers(machine: str) -> dict[str, int]:
    place = 1 + tuple(MACHINES).index(machine)
    return {each[0]: number for each in RULES if isinstance(number := each[place], int)}


class Box:
    """A working directory, and sockets outside that a command could talk to."""

    def __init__(self, folder: Path, user: int | None) -> None:
        self.user = user
        self.work = folder / "work"
        self.work.mkdir()
        # Elsewhere, the sandbox hides them: without the filter, nothing would be found.
        self.stream = self._listening(self.work / "stream", socket.SOCK_STREAM)
        self.stream.listen()
        self.datagram = self._listening(self.work / "datagram", socket.SOCK_DGRAM)
        for path in (folder, self.work, *self.work.iterdir()):
            path.chmod(0o777)

    def _listening(self, path: Path, kind: int) -> socket.socket:
        own = socket.socket(socket.AF_UNIX, kind)
        own.bind(str(path))
        return own

    def run(self, *command: str, is_filtered: bool = True) -> subprocess.CompletedProcess[str]:
        options = enclose(Profile(Basis.WRITE, (self.work,))).argv
        with filtered(options) as (wrapper, filters):
            return subprocess.run(
                [*(wrapper if is_filtered else options), *command],
                cwd=self.work,
                env={"PATH": os.environ["PATH"], "HOME": str(self.work)},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
                pass_fds=filters,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )

    def attempt(self, is_filtered: bool = True) -> dict[str, dict[str, int]]:
        known = json.dumps(numbers(os.uname().machine))
        sockets = (self.stream.getsockname(), self.datagram.getsockname())
        done = self.run(PYTHON, "-c", ATTEMPTS, known, *sockets, is_filtered=is_filtered)
        assert done.stderr == ""
        return json.loads(done.stdout)

    def was_reached(self) -> bool:
        return bool(select.select([self.stream, self.datagram], [], [], 0)[0])

    def has_set_ids(self) -> bool:
        return any(
            path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) for path in self.work.iterdir()
        )


@pytest.fixture(params=["own", "nobody"])
def box(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    # The profile is that of a user who cannot enter the home of whoever runs the tests.
    for prefix in ("prefix", "base_prefix"):
        monkeypatch.setattr(sys, prefix, "/usr")
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    monkeypatch.setenv("HOME", "/nonexistent")
    user = None if request.param == "own" else NOBODY
    if user and os.geteuid():
        pytest.skip("only root can become another user")
    if not Path(PYTHON).exists():
        pytest.skip(f"{PYTHON} is not installed")
    with ExitStack() as stack:
        box = Box(Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))), user)
        stack.callback(box.stream.close)
        stack.callback(box.datagram.close)
        yield box


@pytest.mark.needs_bwrap
def test_what_reaches_past_the_sandbox_is_refused(box: Box) -> None:
    found = box.attempt()
    assert found["refused"] == dict.fromkeys(found["refused"], errno.EPERM)
    assert found["absent"] == dict.fromkeys(found["absent"], errno.ENOSYS)
    assert found["usable"] == dict.fromkeys(found["usable"], 0)
    assert not box.was_reached()
    assert not box.has_set_ids()


@pytest.mark.needs_bwrap
def test_without_the_filter_the_same_attempts_succeed(box: Box) -> None:
    refused = box.attempt(is_filtered=False)["refused"]
    # Whether vsock, io_uring and keyrings can be used depends on the machine.
    reaching = {name: refused[name] for name in ("listener", "pair of datagrams", "raw pair")}
    with_mode = {name: done for name, done in refused.items() if name.endswith("755")}
    assert {*reaching.values(), *with_mode.values()} == {0}
    assert refused["ptrace"] == errno.ESRCH
    assert box.was_reached()
    assert box.has_set_ids()


@pytest.mark.needs_bwrap
@pytest.mark.parametrize(
    "command",
    [
        ("git", "init", "-q", "."),
        (
            "sh",
            "-c",
            "touch a; chmod 755 a; mkdir -m 1777 b; cp -a a c; tar cf - a | tar xf - -C b",
        ),
        (PYTHON, "-c", "import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))"),
        (PYTHON, "-c", "import asyncio as a; print(a.run(a.to_thread(print, 1)))"),
        ("node", "-e", "require('child_process').execFileSync('ls')"),
    ],
)
def test_everyday_programs_work(box: Box, command: tuple[str, ...]) -> None:
    if not shutil.which(command[0], path="/usr/bin:/bin"):
        pytest.skip(f"{command[0]} is not installed")
    done = box.run(*command)
    assert (done.returncode, done.stderr) == (0, "")


def outcome(program: bytes, number: int, arguments: Mapping[int, int], architecture: int) -> int:
    """Run a filter as the kernel does: return what becomes of a system call."""
    words = [arguments.get(place, 0) for place in range(6)]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *words)
    place = value = 0
    while True:
        code, if_true, if_false, constant = struct.unpack_from("<HBBI", program, 8 * place)
        place += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, constant)
            case 0x54:
                value &= constant
            case 0x06:
                return constant
            case _:
                tests = {0x15: value == constant, 0x35: value >= constant, 0x45: value & constant}
                place += if_true if tests[code] else if_false


CALLS: list[tuple[str, tuple[int, dict[int, int]], int]] = [
    # The numbers of include/uapi/asm-generic/unistd.h, which ARM64 has.
    ("aarch64", (198, {0: 2}), ALLOW),
    ("aarch64", (198, {0: 16}), ALLOW),
    ("aarch64", (198, {0: 1}), REFUSE),
    ("aarch64", (198, {0: 40}), REFUSE),
    ("aarch64", (199, {0: 1, 1: 0o2000001}), ALLOW),
    ("aarch64", (199, {0: 1, 1: 2}), REFUSE),
    *(("aarch64", (number, {}), REFUSE) for number in (117, 217, 218, 219, 425, 426, 427)),
    ("aarch64", (52, {1: 0o4755}), REFUSE),
    ("aarch64", (53, {2: 0o2755}), REFUSE),
    ("aarch64", (452, {2: 0o2755}), REFUSE),
    ("aarch64", (33, {2: 0o104755}), REFUSE),
    ("aarch64", (56, {2: 0o101, 3: 0o4644}), REFUSE),
    ("aarch64", (56, {2: 0o20040001, 3: 0o4644}), REFUSE),
    ("aarch64", (56, {2: 0o1, 3: 0o4644}), ALLOW),
    ("aarch64", (437, {}), ABSENT),
    # On x86-64, these are socket, chmod and open.
    *(("aarch64", (number, {0: 40, 1: 0o6777, 2: 0o6777}), ALLOW) for number in (41, 90, 2)),
    ("x86_64", (41, {0: 40}), REFUSE),
    ("x86_64", (41, {0: 10}), ALLOW),
    ("x86_64", (0x40000000 | 39, {}), REFUSE),
    ("x86_64", (39, {}), ALLOW),
]


@pytest.mark.parametrize(("machine", "call", "expected"), CALLS)
def test_each_architecture_has_numbers_of_its_own(
    machine: str, call: tuple[int, dict[int, int]], expected: int
) -> None:
    assert outcome(socket_filter(machine), *call, MACHINES[machine]) == expected


def test_programs_of_another_architecture_are_killed() -> None:
    assert outcome(socket_filter("aarch64"), 1, {}, X86) == KILL
    assert outcome(socket_filter("x86_64"), 1, {}, ARM) == KILL
    assert outcome(socket_filter("x86_64"), 1, {}, 0x40000003) == KILL


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(ValueError, match="does not support riscv64 processors"):
        socket_filter("riscv64")
