"""The seccomp filter of sandboxed commands: no system calls that reach past namespaces and mounts.

A read-only file system does not stop `connect()` to a socket of the host, AF_VSOCK and unix
datagrams ignore network namespaces, and io_uring opens sockets without a call of `socket`.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from struct import pack

# Classic BPF, as in linux/filter.h, on a `struct seccomp_data`.
LOAD, AND, RETURN = 0x20, 0x54, 0x06
EQUAL, AT_LEAST, ANY_BIT = 0x15, 0x35, 0x45
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
KILL, ALLOW, FAIL = 0x80000000, 0x7FFF0000, 0x00050000

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
EPERM, ENOSYS = 1, 38
X32 = 0x40000000
"""The bit of x32 system calls, whose numbers no other rule would recognize."""
FAMILIES = (2, 10, 16)
"""AF_INET, AF_INET6 and AF_NETLINK: the families that a network namespace separates."""
UNIX = 1
CONNECTED = (1, 5)
"""SOCK_STREAM and SOCK_SEQPACKET; one end of a datagram pair can send to any socket by its path."""
TYPE = 0xF
"""The bits of a socket's type; the others are flags."""
SET_IDS = 0o6000
CREATING = 0o20000100
"""O_CREAT and O_TMPFILE; without one of them, the mode is whatever was in the register."""

Code = list[bytes]


def socket_filter(machine: str) -> bytes:
    """Return the filter for bubblewrap's `--seccomp`; raise `ValueError` for an unknown machine.

    `machine` is a name of `os.uname()`. Programs of another architecture, such as 32-bit ones, are
    killed, because their system calls have other numbers.
    """
    if machine not in MACHINES:
        raise ValueError(f"the sandbox does not support {machine} processors")
    place = tuple(MACHINES).index(machine)
    code = [_load(ARCHITECTURE), *_unless(EQUAL, MACHINES[machine], [_return(KILL)]), _load(NUMBER)]
    if machine == "x86_64":
        code += _when(AT_LEAST, X32, _fail())
    for _name, *numbers, body in RULES:
        number = numbers[place]
        code += [] if number is None else _when(EQUAL, number, body)
    return b"".join([*code, _return(ALLOW)])


@contextmanager
def filtered(wrapper: Sequence[str]) -> Generator[tuple[list[str], list[int]]]:
    """Yield bubblewrap's command line with the filter, and the descriptors to pass to it.

    A command line serves one process. An empty one, which is no sandbox, stays empty.
    """
    if not wrapper:
        yield [], []
        return
    program = socket_filter(os.uname().machine)
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:  # its buffer in the kernel holds the whole filter
            pipe.write(program)
        yield [wrapper[0], "--seccomp", str(reading), *wrapper[1:]], [reading]
    finally:
        os.close(reading)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return pack("<HBBI", code, if_true, if_false, value)


def _load(offset: int) -> bytes:
    return _instruction(LOAD, offset)


def _argument(position: int) -> bytes:
    # Only the lower half: families, modes and flags are 32-bit integers for the kernel, too.
    return _load(ARGUMENTS + 8 * position)


def _return(action: int) -> bytes:
    return _instruction(RETURN, action)


def _fail(error: int = EPERM) -> Code:
    return [_return(FAIL | error)]


def _when(test: int, value: int, body: Code) -> Code:
    return [_instruction(test, value, 0, len(body)), *body]


def _unless(test: int, value: int, body: Code) -> Code:
    return [_instruction(test, value, len(body), 0), *body]


def _require(position: int, mask: int, values: tuple[int, ...]) -> Code:
    """Fail unless the masked argument is one of the values."""
    accepted = [each for value in values for each in _when(EQUAL, value, [_return(ALLOW)])]
    return [_argument(position), _instruction(AND, mask), *accepted, *_fail()]


def _refuse_set_ids(position: int) -> Code:
    """Fail if the argument is a mode that lets a program run with the rights of its owner."""
    return [_argument(position), *_when(ANY_BIT, SET_IDS, _fail()), _return(ALLOW)]


def _refuse_creating(position: int) -> Code:
    """Check the mode behind an argument with the flags of `open`, if the call uses it."""
    body = _refuse_set_ids(position + 1)
    return [_argument(position), *_when(ANY_BIT, CREATING, body), _return(ALLOW)]


_PAIR = [_argument(0), *_unless(EQUAL, UNIX, _fail()), *_require(1, TYPE, CONNECTED)]
RULES: tuple[tuple[str, int | None, int | None, Code], ...] = (
    ("socket", 41, 198, _require(0, 0xFFFFFFFF, FAMILIES)),
    ("socketpair", 53, 199, _PAIR),
    ("ptrace", 101, 117, _fail()),
    ("io_uring_setup", 425, 425, _fail()),
    ("io_uring_enter", 426, 426, _fail()),
    ("io_uring_register", 427, 427, _fail()),
    ("add_key", 248, 217, _fail()),
    ("request_key", 249, 218, _fail()),
    ("keyctl", 250, 219, _fail()),
    ("chmod", 90, None, _refuse_set_ids(1)),
    ("fchmod", 91, 52, _refuse_set_ids(1)),
    ("fchmodat", 268, 53, _refuse_set_ids(2)),
    ("fchmodat2", 452, 452, _refuse_set_ids(2)),
    ("creat", 85, None, _refuse_set_ids(1)),
    ("mknod", 133, None, _refuse_set_ids(1)),
    ("mknodat", 259, 33, _refuse_set_ids(2)),
    ("open", 2, None, _refuse_creating(1)),
    ("openat", 257, 56, _refuse_creating(2)),
    # Its mode is behind a pointer. Programs fall back to openat.
    ("openat2", 437, 437, _fail(ENOSYS)),
)
"""System calls by their numbers on x86-64 and ARM64."""
