"""List the directories whose `.claude` settings may reach a hook.

The client, like `turnlog chat`, loads settings from its start directory, the repository's root and
the main checkout of a worktree. To miss none, this module lists every parent directory: listing too
many only withholds more credentials. The client waits for the hook, so only modules that Python has
already loaded are imported.
"""

import os
import stat

from turnlog.trace.switch import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 1 << 20
"""Maximum size of a project's file that is read."""


class SettingsFolders:
    """Some directories, their parents, and the main checkouts of worktrees among them."""

    def __init__(self, starts: "Iterable[str]") -> None:
        self.is_complete = True
        """True if the main checkout of every worktree could be determined."""
        found: dict[str, None] = {}
        for start in starts:
            for folder in ancestors(start):
                if folder in found:  # its parents are listed as well
                    break
                found[folder] = None
        checkouts = [folder for folder in map(self._main_checkout, found) if folder]
        self.folders = list(dict.fromkeys([*found, *checkouts]))

    def _main_checkout(self, folder: str) -> str:
        # Fail closed: an unreadable `.git` may point to a checkout whose settings the client loads.
        try:
            return main_checkout(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, ValueError):
            self.is_complete = False
            return ""


def main_checkout(folder: str) -> str:
    """Return the main checkout of a worktree or checkout; "" if the folder is neither.

    Raise OSError or ValueError if `.git` cannot be read. Whether the git directory refers back to
    the worktree is not checked: a wrong result can only withhold a key, never send one.
    """
    git = os.path.join(folder, ".git")
    if not stat.S_ISDIR(os.stat(git).st_mode):
        named = _line(git).partition("gitdir:")[2].removeprefix(" ")
        if named != named.strip():  # git treats blanks as part of the path, other tools strip them
            raise ValueError(f"{git} contains a path with blanks around it")
        if not named:
            return ""
        git = os.path.join(folder, named)
    try:
        git = os.path.join(git, _line(os.path.join(git, "commondir")))
    except (FileNotFoundError, NotADirectoryError):
        pass
    return os.path.dirname(os.path.realpath(git))


def read_small(path: str) -> bytes:
    """Return a file's content; raise OSError or ValueError if it is not regular or too large."""
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
