"""Run in a sandbox: attempt system calls; print each with its error number, 0 for success.

Arguments: the numbers of the system calls of this machine as JSON, and the paths of a stream
socket and a datagram socket that listen outside.
"""

import ctypes
import json
import os
import socket
import stat
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

HERE, CREATE = -100, os.O_CREAT | os.O_WRONLY
TEMPORARY = 0o20000000 | os.O_DIRECTORY | os.O_WRONLY
IGNORED = 1 << 32
"""A bit that the kernel ignores in an argument of 32 bits."""
X32 = 1 << 30
NUMBERED = count()

Argument = int | bytes | ctypes.Array[ctypes.c_char]
Attempts = dict[str, Callable[[], int]]


class System:
    """The kernel, called by number."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers = numbers
        self._library = ctypes.CDLL(None, use_errno=True)

    def call(self, name: str, *arguments: Argument, abi: int = 0) -> int:
        wide = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
        done = self._library.syscall(ctypes.c_long(self.numbers[name] | abi), *wide)
        return ctypes.get_errno() if done < 0 else 0


def connect(path: str) -> int:
    try:
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(path)
    except OSError as error:
        return error.errno or -1
    return 0


def send(path: str, kind: int) -> int:
    try:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        with one, other:
            one.sendto(b"out", path)
    except OSError as error:
        return error.errno or -1
    return 0


def new() -> bytes:
    return f"f{next(NUMBERED)}".encode()


def file() -> bytes:
    path = new()
    Path(os.fsdecode(path)).touch()
    return path


def opened() -> int:
    return os.open(file(), os.O_RDWR)


def with_mode(system: System, mode: int) -> Attempts:
    call, node = system.call, stat.S_IFREG | mode
    attempts: Attempts = {
        "open": lambda: call("open", new(), CREATE, mode),
        "open temporary": lambda: call("open", b".", TEMPORARY, mode),
        "creat": lambda: call("creat", new(), mode),
        "chmod": lambda: call("chmod", file(), mode),
        "mknod": lambda: call("mknod", new(), node, 0),
        "openat": lambda: call("openat", HERE, new(), CREATE, mode),
        "openat temporary": lambda: call("openat", HERE, b".", TEMPORARY, mode),
        "fchmod": lambda: call("fchmod", opened(), mode),
        "fchmodat": lambda: call("fchmodat", HERE, file(), mode),
        "fchmodat2": lambda: call("fchmodat2", HERE, file(), mode, 0),
        "mknodat": lambda: call("mknodat", HERE, new(), node, 0),
    }
    known = {name: each for name, each in attempts.items() if name.split()[0] in system.numbers}
    return {f"{name} {mode:o}": each for name, each in known.items()}


def refused(system: System, stream: str, datagram: str) -> Attempts:
    call, buffer = system.call, ctypes.create_string_buffer(1024)
    attempts: Attempts = {
        "vsock": lambda: call("socket", 40, 1, 0),
        "vsock with an ignored bit": lambda: call("socket", IGNORED | 40, 1, 0),
        "unix stream": lambda: call("socket", 1, 1, 0),
        "unix datagram": lambda: call("socket", 1, 2, 0),
        "crypto": lambda: call("socket", 38, 5, 0),
        "listener": lambda: connect(stream),
        "pair of datagrams": lambda: send(datagram, socket.SOCK_DGRAM),
        "pair with a flag": lambda: send(datagram, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK),
        "raw pair": lambda: send(datagram, socket.SOCK_RAW),
        "pair of another family": lambda: call("socketpair", 30, 1, 0, buffer),
        "x32": lambda: call("socket", 2, 1, 0, abi=X32),
        "ptrace": lambda: call("ptrace", 7, 99_999, 0, 0),
        "io_uring_setup": lambda: call("io_uring_setup", 1, buffer),
        "io_uring_enter": lambda: call("io_uring_enter", -1, 0, 0, 0, 0, 0),
        "io_uring_register": lambda: call("io_uring_register", -1, 0, 0, 0),
        "add_key": lambda: call("add_key", b"user", b"name", b"value", 5, -2),
        "request_key": lambda: call("request_key", b"user", b"name", 0, 0),
        "keyctl": lambda: call("keyctl", 0, -2, 1),
    }
    if "open" not in system.numbers:  # only x86-64 has a second table of numbers
        del attempts["x32"]
    return attempts | with_mode(system, 0o4755) | with_mode(system, 0o2755)


def usable(system: System) -> Attempts:
    call, buffer = system.call, ctypes.create_string_buffer(8)
    attempts: Attempts = {
        "internet": lambda: call("socket", 2, 1 | socket.SOCK_CLOEXEC, 0),
        "internet with an ignored bit": lambda: call("socket", IGNORED | 2, 1, 0),
        "internet 6": lambda: call("socket", 10, 2, 0),
        "netlink": lambda: call("socket", 16, 3, 0),
        "pair of streams": lambda: call("socketpair", 1, 1 | socket.SOCK_CLOEXEC, 0, buffer),
        "pair of packets": lambda: call("socketpair", 1, 5, 0, buffer),
        "open with an unused mode": lambda: call("openat", HERE, b".", os.O_RDONLY, 0o4755),
    }
    return attempts | with_mode(system, 0o755) | with_mode(system, 0o1777)


def main() -> None:
    numbers, stream, datagram = sys.argv[1:]
    system = System(json.loads(numbers))
    groups: dict[str, Attempts] = {
        "refused": refused(system, stream, datagram),
        "absent": {"openat2": lambda: system.call("openat2", HERE, b".", b"\0" * 24, 24)},
        "usable": usable(system),
    }
    print(json.dumps({name: {k: each() for k, each in g.items()} for name, g in groups.items()}))


if __name__ == "__main__":
    main()
