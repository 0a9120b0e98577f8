"""Variables that keep git from running programs that a repository names.

Commands that only read run git without asking, but a repository's configuration may name programs
for git to run: fsmonitor, hooks, pagers, external diffs, text conversions, filters, signature
checks. Configuration in the environment takes precedence over it. Only the repository knows the
names of its drivers, so they are listed first and then overridden one by one.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from turnlog.agent.workspace.repository import repository_of

PATIENCE = 5.0
# Its arguments are path, old file, hash, mode, new file, hash and mode, as for any external diff.
PLAIN_DIFF = (
    'sh -c \'printf "diff --git a/%s b/%s\\n" "$1" "$1"; '
    'diff -u --label "a/$1" --label "b/$1" -- "$2" "$5"; :\' -'
)
NOTHING = "false"
"""Replaces a program that a repository names."""
STEADY = {
    "am.threeWay": "false",
    "commit.verbose": "0",
    "merge.directoryRenames": "false",
}
"""Settings with which git would change or show other files than those that a rule was judged by."""
ALWAYS = STEADY | {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "true",
    "core.sshCommand": NOTHING,
    "core.askPass": NOTHING,
    "credential.helper": "",
    "protocol.allow": "never",
    "log.showSignature": "false",
    "gpg.program": NOTHING,
    "gpg.openpgp.program": NOTHING,
    "gpg.x509.program": NOTHING,
    "gpg.ssh.program": NOTHING,
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
UNREPLACED = {"GIT_NO_REPLACE_OBJECTS": "1"}
"""Keeps git from showing an object in place of another one, as `refs/replace` can say."""
VARIABLES = UNREPLACED | {
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SSH_COMMAND": NOTHING,
    "GIT_ASKPASS": NOTHING,
    "GIT_TERMINAL_PROMPT": "0",
    # `git status` must not write the index. `git diff` and `git describe --dirty` still refresh
    # its timestamps (2.39). That stays on: without `diff.autoRefreshIndex`, `git diff --quiet`
    # would report a file as changed that was only touched.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    # Unlike protocol.allow, no `protocol.ext.allow` of the repository overrides this.
    "GIT_ALLOW_PROTOCOL": "none",
}
DRIVERS = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "diff": {"textconv": "cat", "cachetextconv": "false"},
    "merge": {"driver": NOTHING},
    # A submodule is read by another git, which gets none of these variables.
    "submodule": {"ignore": "all"},
}
"""Keys of a driver by section, and their safe values."""
MODULES = (("--file", ".gitmodules"), ("--blob", ":.gitmodules"), ("--blob", "HEAD:.gitmodules"))
"""Sources of submodule names."""
Name = tuple[str, str | None, str]
"""Section, subsection and key; a subsection may be empty, as in `[filter ""]`."""


class UnguardedError(Exception):
    """A repository's programs could not be listed, so git must not run."""


def steady_git() -> dict[str, str]:
    """Return variables for git calls that a rule allows: they affect the files that they name."""
    return _counted(STEADY.items()) | UNREPLACED


def guard_git(command: str, cwd: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make git safe in a directory, if a command may run it."""
    given = VARIABLES | _counted(ALWAYS.items())
    repository = repository_of(cwd, environment)
    if repository is None or not _may_run_git(command):
        return given
    listing = dict(environment) | given
    named = list(_names(cwd, listing))
    for source in MODULES:
        named += _names(repository, listing, *source)
    given |= _counted([*ALWAYS.items(), *_overrides(named)])
    if ("core", None, "worktree") in named:
        # core.worktree may be any folder: `git diff` would show files from there.
        given["GIT_WORK_TREE"] = str(repository)
    return given


def is_overridden(section: str, subsection: str | None, key: str) -> bool:
    """Return whether `guard_git` overrides a setting; names are in lower case.

    >>> is_overridden("core", None, "fsmonitor"), is_overridden("filter", "lfs", "clean")
    (True, True)
    >>> is_overridden("core", None, "excludesfile")
    False
    """
    if subsection is None and f"{section}.{key}" in (name.lower() for name in ALWAYS):
        return True
    if section == "diff" and key in ("command", "external"):
        return True
    if subsection is None:
        return (section, key) == ("core", "worktree")
    return key in DRIVERS.get(section, {})


def _may_run_git(command: str) -> bool:
    """Return whether a command may run git: by name, or by a word that the shell expands to it.

    >>> [_may_run_git(command) for command in ("git log", "g'i't log", "ls src")]
    [True, True, False]
    """
    return "git" in command or re.search(r"['\"\\$`*?\[{]", command) is not None


def _overrides(names: Iterable[Name]) -> Iterator[tuple[str, str]]:
    for section, driver, key in dict.fromkeys(names):
        name = f"{section}.{key}" if driver is None else f"{section}.{driver}.{key}"
        if section == "diff" and key in ("command", "external"):
            yield name, PLAIN_DIFF
        if section == "alias":
            yield name, f"!{NOTHING}"
        if driver is not None and section in DRIVERS:
            for each, value in DRIVERS[section].items():
                # Override textconv only if the repository sets it: textconv turns off word diffs.
                if each != "textconv" or key == "textconv":
                    yield f"{section}.{driver}.{each}", value


def _names(cwd: Path, environment: Mapping[str, str], *source: str) -> Iterator[Name]:
    """Yield section, subsection and key of each setting; listing them runs no program."""
    argv = ["git", "config", *source, "--list", "--name-only", "-z"]
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=dict(environment), capture_output=True, check=False, timeout=PATIENCE
        )
    except FileNotFoundError:
        return  # without git, there is nothing to guard
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnguardedError(f"git cannot list its configuration: {error}") from error
    for name in done.stdout.decode("utf-8", "surrogateescape").split("\0"):
        section, _, rest = name.partition(".")
        driver, dot, key = rest.rpartition(".")
        if key:
            yield section.lower(), driver if dot else None, key.lower()


def _counted(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return settings as `GIT_CONFIG_*` variables."""
    pairs = list(settings)
    found = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (name, value) in enumerate(pairs):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found
