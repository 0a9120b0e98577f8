"""Private directories (0700) and files (0600), whatever the umask.

`Path.mkdir(mode=0o700, parents=True)` applies its mode to the last directory only: the parents get
the umask's. Imports only what Python has loaded anyway: the client waits for hooks that use it.
"""

import os
import stat

EXISTS = 17  # errno.EEXIST: hooks load no module that they can do without
FOLDER = 0o700
FILE = 0o600
OTHERS = 0o077
PRIVATE_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
HAS_OWNERS = hasattr(os, "geteuid")
"""On Windows, access control lists inherited from the user's profile keep others out."""

AnyPath = str | os.PathLike[str]


def create_private_folder(folder: AnyPath) -> None:
    """Create a directory and its missing parents, each 0700; leave existing ones alone."""
    missing: list[str] = []
    place: str = os.path.abspath(os.fspath(folder))
    while not os.path.lexists(place):
        missing.append(place)
        place = os.path.dirname(place)
    for each in reversed(missing):
        try:
            os.mkdir(each, FOLDER)
        except FileExistsError:  # another process was faster
            continue
        if stat.S_IMODE(os.lstat(each).st_mode) & FOLDER != FOLDER:
            os.chmod(each, FOLDER)  # a umask of 0777 takes the owner's bits as well
    if not os.path.isdir(folder):
        raise FileExistsError(EXISTS, os.strerror(EXISTS), os.fspath(folder))


def secure_folder(folder: AnyPath, *, must_own: bool = False) -> None:
    """Create a directory of turnlog's own, or make an existing one private.

    A directory of another user stays as it is: root must not take it away from its owner. With
    `must_own` it is refused, because its owner could read and replace what is written there.
    """
    create_private_folder(folder)
    found = os.stat(folder)
    if must_own and not _is_own(found):
        raise PermissionError(13, "belongs to another user", os.fspath(folder))
    if HAS_OWNERS and _is_own(found) and found.st_mode & OTHERS:
        _set_mode(folder, stat.S_IMODE(found.st_mode) & ~OTHERS)


def open_private(path: AnyPath, flags: int) -> int:
    """Open a file, creating it as 0600; make one of the user's private that is not."""
    descriptor = os.open(path, flags | PRIVATE_FLAGS, FILE)
    found = os.fstat(descriptor)
    if HAS_OWNERS and _is_own(found) and stat.S_IMODE(found.st_mode) != FILE:
        _set_mode(descriptor, FILE)
    return descriptor


def touch_private(path: AnyPath) -> None:
    """Create an empty private file, or set the time of the one that is there to now."""
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT))
    os.utime(path)


def write_private(path: AnyPath, content: bytes) -> None:
    """Write a private file in place, for content that may be lost in a crash."""
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _is_own(found: os.stat_result) -> bool:
    return not HAS_OWNERS or found.st_uid == os.geteuid()


def _set_mode(place: AnyPath | int, mode: int) -> None:
    try:
        os.chmod(place, mode)
    except OSError:
        return  # a file system without modes, or one that is read-only
