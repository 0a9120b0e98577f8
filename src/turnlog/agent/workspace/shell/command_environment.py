"""The environment and shell of commands.

A command that nobody confirmed must not be steered by variables that a project's settings or a hook
may have set, such as `BASH_ENV` or `GIT_EXTERNAL_DIFF`; in a sandbox that contains it, only secrets
are left out.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.programs import DEFAULT_PATH, STARTUP, find_program
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.secrets import mask_named

OWN = {"CLAUDECODE": "1", "GIT_EDITOR": "true"}
# `git status` must not wait for a lock on an index that it cannot write.
CONTAINED = {"TMPDIR": "/tmp", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
SHELL = re.compile(
    r"BASH_.*|BASHOPTS|SHELLOPTS|CDPATH|ENV|EXECIGNORE|FIGNORE|GLOBIGNORE|IFS|POSIXLY_CORRECT"
    r"|PROMPT_COMMAND|PS[0-4]|GREP_OPTIONS|LESSOPEN|LESSCLOSE|LESS"
)
"""Variables that change what bash, grep or a pager does; no command needs them."""
LOADING = re.compile(
    r"(LD|DYLD|GIT|PERL5?|PYTHON|RUBY|GEM|NODE|NPM_CONFIG|npm_config|LUA|JAVA|_JAVA|JDK_JAVA)_?.*"
    r"|GCONV_PATH|LOCPATH|RIPGREP_CONFIG_PATH|TREE_.*|.*PAGER|.*EDITOR|VISUAL|BROWSER|SSH_ASKPASS"
)
"""Variables that make programs load code; a command that a rule allows gets those of the user."""


def environment_of(
    profile: Profile, added: Mapping[str, str], startup: Mapping[str, str] = STARTUP
) -> dict[str, str]:
    """Return the variables for a command; `added` are those that hooks set for commands."""
    everything = dict(os.environ) | OWN | dict(added)
    if profile.basis in (Basis.RULE, Basis.ANY_COMMAND, Basis.LISTED):
        everything = _ruled(everything, added, startup)
    if profile.basis is Basis.LISTED or profile.is_unasked:
        everything = {n: v for n, v in everything.items() if mask_named(n, v) == v}
    if profile.is_unasked:
        everything |= CONTAINED
    if profile.basis is Basis.READ:
        # Without a cache that can be written, pytest warns in each run, and ruff fails.
        options = f"{everything.get('PYTEST_ADDOPTS', '')} -W ignore::pytest.PytestCacheWarning"
        everything |= {"PYTEST_ADDOPTS": options.strip(), "RUFF_NO_CACHE": "true"}
    hidden = profile.settings.variables if profile.is_needed else ()
    return {name: value for name, value in everything.items() if name not in hidden}


def shell_of(profile: Profile, folders: Iterable[Path]) -> tuple[str, ...]:
    """Return the command line of the shell, without the command."""
    bash = find_program("bash", folders)
    if bash is None:
        return ("/bin/sh",)
    # Privileged mode ignores BASH_ENV, SHELLOPTS and functions that the environment exports.
    is_confirmed = profile.basis in (Basis.USER, Basis.HOOK, Basis.BYPASS)
    return (bash,) if is_confirmed else (bash, "--noprofile", "--norc", "-p")


def _ruled(
    everything: Mapping[str, str], added: Mapping[str, str], startup: Mapping[str, str]
) -> dict[str, str]:
    """Drop variables that steer the shell, and variables of settings files that load code."""
    plain = {name: value for name, value in everything.items() if not LOADING.fullmatch(name)}
    loading = {name: value for name, value in startup.items() if LOADING.fullmatch(name)}
    found = plain | loading | OWN | dict(added)
    path = added.get("PATH") or startup.get("PATH", DEFAULT_PATH)
    absolute = (entry for entry in path.split(os.pathsep) if Path(entry).is_absolute())
    found["PATH"] = os.pathsep.join(absolute)
    return {name: value for name, value in found.items() if not SHELL.fullmatch(name)}
