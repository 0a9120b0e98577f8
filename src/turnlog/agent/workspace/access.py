"""The basis of permission decisions: modes, accesses, protected files, resolved paths."""

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

# Programs take commands from these: `.git/hooks`, `.vscode/tasks.json`, `.bashrc`. Changing one
# always asks, whatever the mode.
PROTECTED_FOLDERS = frozenset(
    """
    .git .vscode .idea .husky .cargo .devcontainer .yarn .mvn .claude .ssh .gnupg .cursor .zed
    .emacs.d .doom.d .oh-my-zsh .vim .helix .hg .jj .amazonq .codex .gemini .kiro .opencode .qwen
    .roo .windsurf .mise .ipython .jupyter .bundle .lefthook .fleet
    """.split()
)
REPOSITORIES = frozenset((".git", ".hg", ".jj"))
"""Protected folders whose files change with each commit, except for a few."""
_CONFIG = """
    alacritty autostart awesome bspwm direnv emacs environment.d fish gh ghostty git helix hypr i3
    jj kitty mise nushell nvim openbox powershell qtile starship.toml sway systemd tmux wezterm
    xonsh zed zsh
    """
PROTECTED_PATHS = frozenset(
    (
        *(f".config/{name}" for name in _CONFIG.split()),
        *"""
        .aws/config .aws/credentials .docker/config.json .gradle/init.d .gradle/init.gradle
        .gradle/init.gradle.kts .kube/config .local/share/systemd library/launchagents
        """.split(),
    )
)
"""Protected files and directories whose name says so only together with the directories above."""
PROTECTED_FILES = frozenset(
    """
    .gitconfig .gitmodules .bashrc .bash_profile .bash_login .bash_aliases .bash_logout .zshrc
    .zprofile .zshenv .zlogin .zlogout .profile .cshrc .tcshrc .login .logout .kshrc .mkshrc .shrc
    .shinit .xonshrc .xprofile .xsession .xsessionrc .xinitrc .xserverrc .pam_environment .tmux.conf
    .screenrc .curlrc .wgetrc .mailcap .psqlrc .sqliterc .rprofile .gvimrc .envrc .direnvrc
    .hgrc
    .npmrc .yarnrc .yarnrc.yml .pnp.cjs
    .pnp.loader.mjs .pnpmfile.cjs bunfig.toml .bunfig.toml .bazelrc .bazelversion .bazeliskrc
    .pre-commit-config.yaml lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml
    gradle-wrapper.properties maven-wrapper.properties .devcontainer.json .ripgreprc
    pyrightconfig.json .mcp.json .claude.json .aider.conf.yml .crush.json crush.json opencode.json
    opencode.jsonc .vimrc .exrc .nvim.lua .emacs .dir-locals.el .gdbinit
    .lldbinit .pdbrc .irbrc .inputrc .mise.toml mise.toml .tool-versions pip.conf .pypirc .netrc
    mise.local.toml .mise.local.toml lefthook-local.yml lefthook-local.yaml .lefthook-local.yml
    .lefthook-local.yaml .bash_completion .nvimrc .gdbearlyinit .pryrc .ghci .ocamlinit .utoprc
    .latexmkrc .perldb .tclshrc .wishrc .octaverc .sbclrc .clisprc .guile .mongorc.js .mongoshrc.js
    .lessfilter .procmailrc .forward .selected_editor .xbindkeysrc .jq
    """.split()
)
AMBIGUOUS_NAMES = frozenset((".forward", ".jq", ".login", ".logout"))
"""Protected names that are also fields: `gh api user --jq .login` writes no file."""


class ApprovalMode(StrEnum):
    """Permission modes, named as in the client."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    BYPASS = "bypassPermissions"
    DONT_ASK = "dontAsk"
    """Calls that would need permission are denied without asking."""


class Basis(StrEnum):
    """The basis on which a call is allowed, from the narrowest to the widest.

    For a command, it decides about the sandbox (`sandbox.profile`).
    """

    LISTED = "listed"
    """A command on the short list that runs without a sandbox, because none works here."""
    READ = "read"
    """Nothing outside of a private `/tmp` can be written, and there is no network."""
    WRITE = "write"
    """The working directories can be written."""
    RULE = "rule"
    ANY_COMMAND = "any-command"
    """A rule allows all commands."""
    HOOK = "hook"
    USER = "user"
    """The user confirmed this call."""
    BYPASS = "bypass"


class Tier(StrEnum):
    """What commands may do unasked in the mode `default`, apart from what rules allow."""

    NONE = "none"
    """No sandbox works here: only the short list runs."""
    LISTED = "listed"
    """Only commands that the client runs unasked: a program decides about all others."""
    READ = "read"
    WRITE = "write"
    """The settings turn the sandbox on, and let sandboxed commands run unasked."""


class Runs(Struct, frozen=True, tag=True):
    """A shell command."""

    command: str
    in_background: bool = False
    is_bare: bool = False
    """True if it is to run without a sandbox."""


class Reads(Struct, frozen=True, tag=True):
    """A file or directory to read."""

    path: Path


class Writes(Struct, frozen=True, tag=True):
    """A file to create, change or remove."""

    path: Path


class Fetches(Struct, frozen=True, tag=True):
    """A URL to fetch."""

    url: str


class Uses(Struct, frozen=True, tag=True):
    """Use of a tool without files, commands or network."""

    what: str | None = None
    """The text that rules match, such as the name of an agent or skill."""
    server: str | None = None
    """The tool's MCP server, as spelled in tool names."""


Access = Runs | Reads | Writes | Fetches | Uses


def targets_of(accesses: Iterable[Access]) -> dict[Path, Path]:
    """Resolve the symlinks in the paths that a call names."""
    paths = [access.path for access in accesses if isinstance(access, Reads | Writes)]
    return {path: Path(os.path.realpath(path)) for path in paths}


def with_targets(accesses: Iterable[Access], targets: dict[Path, Path]) -> list[Access]:
    """Add the resolved paths of a call, so that the verdict covers them as well."""
    found: list[Access] = []
    for access in accesses:
        found.append(access)
        if isinstance(access, Reads | Writes) and targets[access.path] != access.path:
            found.append(type(access)(targets[access.path]))
    return found
