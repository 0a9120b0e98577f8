"""List the directories whose `.claude` settings may reach a hook.

The client, like `turnlog chat`, loads settings of the directory it was started in, of the
repository's root and of the main checkout of a worktree. Every directory from a start upwards
counts, so that no way of finding the root can miss one: more directories only withhold more.
Imports only what Python has loaded anyway: the client waits.
"""

import os
import stat

from turnlog.trace.switch import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 1 << 20
"""Bytes that are read of a file of a project."""


class SettingsFolders:
    """The directories above some others, and the main checkouts of worktrees among them."""

    def __init__(self, starts: "Iterable[str]") -> None:
        self.is_complete = True
        """Whether it was clear which worktree belongs to which checkout."""
        found: dict[str, None] = {}
        for start in starts:
            for folder in ancestors(start):
                if folder in found:  # and so is everything above
                    break
                found[folder] = None
        checkouts = [each for each in map(self._main_checkout, found) if each]
        self.folders = list(dict.fromkeys([*found, *checkouts]))

    def _main_checkout(self, folder: str) -> str:
        # Fail closed: a `.git` that cannot be read may lead to a checkout whose settings count.
        try:
            return main_checkout(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, ValueError):
            self.is_complete = False
            return ""


def main_checkout(folder: str) -> str:
    """Return the directory that holds the git directory of a checkout; "" if it is none.

    Raises OSError or ValueError if that cannot be told. Whether the git directory names the
    worktree in return is not checked: a wrong answer here withholds a key, and sends none.
    """
    git = os.path.join(folder, ".git")
    if not stat.S_ISDIR(os.stat(git).st_mode):
        named = _line(git).partition("gitdir:")[2].removeprefix(" ")
        if named != named.strip():  # git takes blanks for a part of the path, others do not
            raise ValueError(f"{git} names a directory in an odd way")
        if not named:
            return ""
        git = os.path.join(folder, named)
    try:
        git = os.path.join(git, _line(os.path.join(git, "commondir")))
    except (FileNotFoundError, NotADirectoryError):
        pass
    return os.path.dirname(os.path.realpath(git))


def read_small(path: str) -> bytes:
    """Return a whole file; raise OSError or ValueError if it is no regular file, or too large."""
    # Without O_NONBLOCK, a FIFO in place of a project's file would block the client.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    content = b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is not a file")
        while len(content) <= LIMIT and (part := os.read(descriptor, LIMIT + 1)):
            content += part
    finally:
        os.close(descriptor)
    if len(content) > LIMIT:
        raise ValueError(f"{path} is too large")
    return content


def _line(path: str) -> str:
    return os.fsdecode(read_small(path)).rstrip("\r\n")
