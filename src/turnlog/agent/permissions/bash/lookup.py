"""Look up files on disk without mistaking an error for absence.

`os.path.exists`, `islink` and `realpath` say "no" where they cannot look: below a directory without
permission, or where the absolute path is too long. A program that runs in a deep directory can open
the same file by a short relative path, so a path that is too long is unknown, not absent.
"""

import errno
import os
import stat
from pathlib import Path

from turnlog.agent.permissions.bash.budget import UnknownValue

LONGEST_PATH = 4_096
"""The system rejects paths of this many bytes or more."""
ABSENT = (errno.ENOENT, errno.ENOTDIR)


class NoPath(UnknownValue):
    """A string that is not a valid path in any directory, for example because it is too long."""


def mode_of(path: Path, *, follow: bool = False) -> int | None:
    """Return the mode of a file; None if it does not exist; raise `UnknownValue` if unknown."""
    try:
        if len(os.fsencode(path)) >= LONGEST_PATH:
            raise UnknownValue(str(path))
        return path.stat(follow_symlinks=follow).st_mode
    except OSError as error:
        if error.errno in ABSENT:
            return None
        # The path is short enough, so a name in it is too long for the file system.
        kind = NoPath if error.errno == errno.ENAMETOOLONG else UnknownValue
        raise kind(str(path)) from error
    except ValueError as error:
        raise UnknownValue(str(path)) from error


def is_there(path: Path) -> bool:
    """Return whether a file, directory or link exists; raise `UnknownValue` if unknown."""
    return mode_of(path) is not None


def is_folder(path: Path) -> bool:
    """Return whether a path leads to a directory; raise `UnknownValue` if unknown."""
    mode = mode_of(path, follow=True)
    return mode is not None and stat.S_ISDIR(mode)


def is_link(path: Path) -> bool:
    """Return whether a path is a symbolic link; raise `UnknownValue` if unknown."""
    mode = mode_of(path)
    return mode is not None and stat.S_ISLNK(mode)
