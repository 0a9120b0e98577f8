"""Private directories (0700) and files (0600), regardless of the umask.

Imports only modules that Python has loaded anyway: the client waits for hooks that use this one.
"""

import os
import stat

EXISTS = 17  # errno.EEXIST, without importing errno
FOLDER = 0o700
FILE = 0o600
OTHERS = 0o077
PRIVATE_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
HAS_OWNERS = hasattr(os, "geteuid")
"""False on Windows, where access control lists inherited from the profile protect files."""

AnyPath = str | os.PathLike[str]


def create_private_folder(folder: AnyPath) -> None:
    """Create a directory and its missing parents, each 0700; leave existing ones alone."""
    # `Path.mkdir(mode=0o700, parents=True)` applies its mode to the last directory only: with the
    # usual umask, missing parents would be readable by everyone.
    missing: list[str] = []
    path: str = os.path.abspath(os.fspath(folder))
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        try:
            os.mkdir(path, FOLDER)
        except FileExistsError:  # another process was faster
            continue
        if stat.S_IMODE(os.lstat(path).st_mode) & FOLDER != FOLDER:
            os.chmod(path, FOLDER)  # a umask of 0777 removes the owner's bits as well
    if not os.path.isdir(folder):
        raise FileExistsError(EXISTS, os.strerror(EXISTS), os.fspath(folder))


def secure_folder(folder: AnyPath, *, must_own: bool = False) -> None:
    """Create one of turnlog's own directories, or make an existing one private.

    Leave a directory of another user unchanged; with `must_own`, raise `PermissionError` instead.
    """
    # Run as root, turnlog must not lock the owner out of a directory of theirs. But the owner
    # could read and replace whatever is written there, so `must_own` refuses it.
    create_private_folder(folder)
    found = os.stat(folder)
    if must_own and not _is_own(found):
        raise PermissionError(13, "belongs to another user", os.fspath(folder))
    if HAS_OWNERS and _is_own(found) and found.st_mode & OTHERS:
        _set_mode(folder, stat.S_IMODE(found.st_mode) & ~OTHERS)


def open_private(path: AnyPath, flags: int, *, must_own: bool = False) -> int:
    """Open a file, creating it as 0600; make an existing file of the user private.

    With `must_own`, raise `PermissionError` for a file of another user, who could read it.
    """
    descriptor = os.open(path, flags | PRIVATE_FLAGS, FILE)
    found = os.fstat(descriptor)
    if must_own and stat.S_ISREG(found.st_mode) and not _is_own(found):
        os.close(descriptor)
        raise PermissionError(13, "belongs to another user", os.fspath(path))
    if HAS_OWNERS and _is_own(found) and stat.S_IMODE(found.st_mode) != FILE:
        _set_mode(descriptor, FILE)
    return descriptor


def touch_private(path: AnyPath) -> None:
    """Create an empty private file, or set an existing file's time to now."""
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT))
    os.utime(path)


def write_private(path: AnyPath, content: bytes) -> None:
    """Write a private file in place; not atomic, for content that may be lost in a crash."""
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _is_own(found: os.stat_result) -> bool:
    return not HAS_OWNERS or found.st_uid == os.geteuid()


def _set_mode(target: AnyPath | int, mode: int) -> None:
    try:
        os.chmod(target, mode)
    except OSError:
        return  # a file system without modes, or one that is read-only
