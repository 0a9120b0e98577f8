"""Run code as on Windows, as far as Linux can show it: `python without_posix.py MODULE|COMMAND …`.

Modules that Windows lacks cannot be imported by turnlog, `os` has none of the functions and flags
that Windows lacks, directories cannot be opened, and files that are open can neither be replaced
nor removed. Locks are those of a `msvcrt` that is made of `fcntl`, which nobody else can import.
"""

import builtins
import errno
import fcntl
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = "fcntl termios tty pty pwd grp resource readline syslog posix".split()
FUNCTIONS = """fork forkpty setsid nice getuid geteuid getgid getegid fchmod fchown chown lchown
pread pwrite posix_spawn posix_spawnp killpg getpgid setpgid mkfifo mknod sendfile
fchdir getpgrp tcgetpgrp ttyname wait3 wait4 openpty initgroups""".split()
FLAGS = "O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_CLOEXEC O_PATH O_SYNC O_NOCTTY".split()

_import, _open, _kill = builtins.__import__, os.open, os.kill


def import_as_windows(name: str, *rest: Any, **named: Any) -> Any:
    variables: dict[str, Any] = (rest[0] if rest else None) or {}
    importer = str(variables.get("__name__"))
    if importer.startswith("turnlog") and name.partition(".")[0] in MODULES:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, *rest, **named)


def open_as_windows(path: Any, flags: int, *rest: Any, dir_fd: int | None = None) -> int:
    refuse_descriptors(dir_fd)
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, "Permission denied", path)
    return _open(path, flags, *rest)


def kill_as_windows(pid: int, number: int) -> None:
    raise AssertionError("os.kill ends a process on Windows, or sends Ctrl-C")


def refuse_descriptors(*descriptors: int | None) -> None:
    if any(each is not None for each in descriptors):
        raise NotImplementedError("dir_fd unavailable on this platform")


def refuse_open(*paths: Any) -> None:
    """Fail as Windows does if a file is open in this process."""
    wanted = {os.path.realpath(path) for path in paths}
    for each in Path("/proc/self/fd").iterdir():
        try:
            if str(each.readlink()) in wanted:
                raise PermissionError(errno.EACCES, "in use by another process", *map(str, paths))
        except FileNotFoundError:
            continue


def restricted(function: Any) -> Any:
    """Return a function of `os` that refuses descriptors of directories, and open files."""

    def call(*paths: Any, **named: Any) -> Any:
        refuse_descriptors(*(named.get(name) for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")))
        refuse_open(*paths)
        return function(*paths)

    return call


def fake_msvcrt() -> ModuleType:
    module: Any = ModuleType("msvcrt")
    module.LK_NBLCK, module.LK_LOCK, module.LK_UNLCK = 2, 1, 0

    def locking(descriptor: int, mode: int, size: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if mode else fcntl.LOCK_UN)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    module.locking = locking
    return module


def fake_winapi() -> ModuleType:
    module: Any = ModuleType("_winapi")
    module.STILL_ACTIVE = 259

    def open_process(access: int, inherited: int, pid: int) -> int:
        try:
            _kill(pid, 0)
        except ProcessLookupError as error:
            raise OSError(errno.EINVAL, "The parameter is incorrect") from error
        return pid

    def exit_code_of(handle: int) -> int:
        return module.STILL_ACTIVE

    module.OpenProcess, module.GetExitCodeProcess = open_process, exit_code_of
    module.CloseHandle = exit_code_of
    return module


def hide_posix() -> None:
    """Take away from this process what Windows does not have."""
    import shutil
    import subprocess

    os.replace, os.rename = restricted(os.replace), restricted(os.rename)
    os.unlink = os.remove = restricted(os.unlink)
    for name in (*FUNCTIONS, *FLAGS):
        if hasattr(os, name):
            delattr(os, name)
    os.supports_dir_fd, os.supports_fd = set(), set()
    os.open, os.kill = open_as_windows, kill_as_windows
    shutil._use_fd_functions = False  # pyright: ignore
    shutil.rmtree.avoids_symlink_attacks = False  # pyright: ignore
    subprocess._USE_POSIX_SPAWN = False  # pyright: ignore
    sys.modules |= {"msvcrt": fake_msvcrt(), "_winapi": fake_winapi()}
    builtins.__import__ = import_as_windows


def main() -> None:
    hide_posix()
    words = sys.argv[1:]
    if words[:1] == ["import"]:
        from importlib import import_module

        for name in words[1:]:
            import_module(name)
        return
    from turnlog.cli.main import run

    sys.exit(run(words))


if __name__ == "__main__":
    main()
