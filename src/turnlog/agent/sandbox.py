"""Shell commands in a sandbox: bubblewrap lets them write only where work may be done."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from turnlog.agent.permissions.paths import PROTECTED_FILES, PROTECTED_FOLDERS
from turnlog.agent.settings import Sandbox
from turnlog.errors import UsageError

PROGRAM = "bwrap"
KEPT_IN_GIT = (Path(".git", "hooks"), Path(".git", "config"))
"""What of a repository stays as it is; the rest of it changes with each commit."""
ANYWHERE = "*"


def in_sandbox(
    argv: Sequence[str], options: Sandbox, folders: Iterable[Path], temporary: Path
) -> Sequence[str]:
    """The command line that runs another in a sandbox, if the settings ask for one.

    Where bubblewrap is missing, the command runs without it, unless the settings forbid that.
    """
    if not options.enabled:
        return argv
    program = shutil.which(PROGRAM)
    if program:
        return [program, *_options(options, folders, temporary), "--", *argv]
    if options.fail_if_unavailable:
        raise UsageError(
            "the settings ask for a sandbox, and bwrap is missing", "install bubblewrap"
        )
    return argv


def _options(options: Sandbox, folders: Iterable[Path], temporary: Path) -> list[str]:
    """All can be read, little be written, and there is no network unless all of it is allowed."""
    further = (options.filesystem.allow_write if options.filesystem else None) or []
    writable = [*folders, temporary, *map(Path, further)]
    domains = (options.network.allowed_domains if options.network else None) or []
    network = [] if ANYWHERE in domains else ["--unshare-net"]
    return [
        *"--die-with-parent --new-session --unshare-pid --unshare-ipc --unshare-uts".split(),
        *network,
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(part for path in writable for part in ("--bind-try", str(path), str(path))),
        *(part for path in _kept(writable) for part in ("--ro-bind", str(path), str(path))),
        *("--setenv", "TMPDIR", str(temporary)),
    ]


def _kept(folders: Iterable[Path]) -> list[Path]:
    """What is there in writable folders and must not change: settings, and what git runs."""
    names = [Path(name) for name in sorted(PROTECTED_FILES | PROTECTED_FOLDERS - {".git"})]
    places = [folder / name for folder in folders for name in (*KEPT_IN_GIT, *names)]
    return [place for place in places if place.exists()]
