"""The environment and shell of commands: the narrower the basis of a call, the less it inherits.

A command that nobody confirmed must not be steered by variables: a project's settings, a hook or a
shell's startup file may have set `BASH_ENV`, `PATH` or `GIT_EXTERNAL_DIFF`.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from turnlog.agent.workspace.access import Basis

STARTUP: Mapping[str, str] = MappingProxyType(dict(os.environ))
"""Variables as the user's shell set them, before any settings file was read."""
OWN = {"CLAUDECODE": "1", "GIT_EDITOR": "true"}
SEARCHING = {"RIPGREP_CONFIG_PATH": str(Path(__file__).with_name("ripgreprc"))}
"""Keeps ripgrep from reporting malformed lines of ignore files: a project can link `.ignore` to a
file elsewhere, and the reports would contain its lines."""
UNCONFIRMED = (Basis.UNDERSTOOD, Basis.EDITS, Basis.RULE)
"""Bases of calls that nobody confirmed."""
CONFINED = (Basis.UNDERSTOOD, Basis.EDITS)
"""Bases of calls that the analysis alone allowed."""
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
MODERN_BASH = (4, 4)
"""The first version that parses `$(…)` as turnlog's parser does; macOS has 3.2."""
VERSION_WAIT = 30.0
"""Maximum seconds for bash to print its version, once per program; a busy machine takes long."""

# An allowlist, because no list of harmful variables is complete: GCONV_PATH loads libraries,
# POSIXLY_CORRECT changes which words are options, EXECIGNORE which programs are found.
BASIC = re.compile(
    r"HOME|USER|LOGNAME|SHELL|HOSTNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLORTERM|NO_COLOR|COLUMNS"
    r"|LINES|LS_COLORS|TMPDIR|XDG_CONFIG_HOME|GIT_CEILING_DIRECTORIES"
)
CURRENT = ("HOME", "GIT_CEILING_DIRECTORIES")
"""Variables that the analysis reads too: it must see the same values as the command."""

SHELL = re.compile(
    r"BASH_.*|BASHOPTS|SHELLOPTS|CDPATH|ENV|EXECIGNORE|FIGNORE|GLOBIGNORE|IFS|POSIXLY_CORRECT"
    r"|PROMPT_COMMAND|PS[0-4]|GREP_OPTIONS|LESSOPEN|LESSCLOSE|LESS"
)
"""Variables that change what bash, grep or a pager does; no command needs them."""
LOADING = re.compile(
    r"(LD|DYLD|GIT|PERL5?|PYTHON|RUBY|GEM|NODE|NPM_CONFIG|npm_config|LUA|JAVA|_JAVA|JDK_JAVA)_?.*"
    r"|GCONV_PATH|LOCPATH|RIPGREP_CONFIG_PATH|TREE_.*|.*PAGER|.*EDITOR|VISUAL|BROWSER|SSH_ASKPASS"
)
"""Variables that make programs load code; only those set by the user's shell are kept."""

FIXED = "PATH CDPATH ENV BASH_ENV GLOBIGNORE EXECIGNORE PROMPT_COMMAND PS4 LD_PRELOAD".split()


def environment_of(
    basis: Basis,
    added: Mapping[str, str],
    folders: Iterable[Path],
    startup: Mapping[str, str] = STARTUP,
) -> dict[str, str]:
    """Return the variables for a command; `added` are those that hooks set for commands."""
    if basis in CONFINED:
        return _basic(startup) | {"PATH": search_path(folders, startup)} | OWN | SEARCHING
    everything = dict(os.environ) | OWN | dict(added)
    return _ruled(everything, added, startup) if basis is Basis.RULE else everything


def search_path(folders: Iterable[Path] = (), startup: Mapping[str, str] = STARTUP) -> str:
    """Return the `PATH` from startup without relative entries and entries in the given folders."""
    return _absolute_path(startup.get("PATH", DEFAULT_PATH), folders)


def find_program(name: str, folders: Iterable[Path] = ()) -> str | None:
    """Return the absolute path of a program, never one that a project may have planted."""
    return shutil.which(name, path=search_path(folders))


def shell_of(basis: Basis, folders: Iterable[Path]) -> tuple[str, ...]:
    """Return the command line of the shell, without the command."""
    bash = find_program("bash", folders)
    if bash is None:
        return ("/bin/sh",)
    # Privileged mode ignores BASH_ENV, SHELLOPTS and functions that the environment exports.
    return (bash, "--noprofile", "--norc", "-p") if basis in UNCONFIRMED else (bash,)


def shell_setup(basis: Basis, shell: tuple[str, ...]) -> str:
    """Return the shell code that runs before a command, in case the analysis missed something.

    A readonly `PATH` prevents assignments, even those by `printf %n PATH`. The analysis replaces
    patterns by the names that they match; with `set -f`, a pattern that it missed is not
    expanded.
    """
    is_bash = Path(shell[0]).name == "bash"
    if basis not in CONFINED:
        return ""
    return f"set -f; readonly {' '.join(FIXED)}; " if is_bash else "set -f; "


def _basic(startup: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in startup.items() if BASIC.fullmatch(name)}
    found |= {name: os.environ[name] for name in CURRENT if name in os.environ}
    if found.get("HOME") != startup.get("HOME") and "HOME" in startup:
        # Settings changed HOME: git must not read its configuration there.
        found["GIT_CONFIG_GLOBAL"] = str(Path(startup["HOME"], ".gitconfig"))
    return found


def _ruled(
    everything: Mapping[str, str], added: Mapping[str, str], startup: Mapping[str, str]
) -> dict[str, str]:
    """Drop variables that steer the shell, and variables of settings files that load code."""
    plain = {name: value for name, value in everything.items() if not LOADING.fullmatch(name)}
    loading = {name: value for name, value in startup.items() if LOADING.fullmatch(name)}
    found = plain | loading | OWN | dict(added)
    found["PATH"] = _absolute_path(added.get("PATH") or startup.get("PATH", DEFAULT_PATH), ())
    return {name: value for name, value in found.items() if not SHELL.fullmatch(name)}


def _absolute_path(path: str, folders: Iterable[Path]) -> str:
    inside = [Path(os.path.realpath(folder)) for folder in folders]
    entries = [entry for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    return os.pathsep.join(
        entry
        for entry in entries
        if not any(Path(os.path.realpath(entry)).is_relative_to(folder) for folder in inside)
    )


def bash_version(program: str) -> tuple[int, int] | None:
    """Return the major and minor version of a bash; None if it is unknown."""
    try:
        shown = _show_version(program)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"version ([0-9]+)\.([0-9]+)", shown)
    return (int(found[1]), int(found[2])) if found else None


@lru_cache(maxsize=8)
def _show_version(program: str) -> str:
    command = [program, "--norc", "--noprofile", "--version"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=VERSION_WAIT, check=False, env={}
    ).stdout


def is_modern_bash() -> bool:
    """Return whether bash is 4.4 or newer; False if its version is unknown."""
    version = bash_version(find_program("bash") or "bash")
    return version is not None and version >= MODERN_BASH
