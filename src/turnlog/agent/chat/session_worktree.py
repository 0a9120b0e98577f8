"""A git worktree for one session: created at its start, removed at its end if unchanged.

Places and names follow the client (2.1.325, observed): `.claude/worktrees/NAME` on a new branch
`worktree-NAME`. A WorktreeCreate hook replaces git.
"""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.chat_configuration import starting_settings
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.agent.permissions.trust import is_trusted
from turnlog.agent.session.entry_builders import new_slug
from turnlog.agent.workspace.programs import search_path
from turnlog.agent.workspace.project_directories import CONFIG, ConfigDirectory, local_folder
from turnlog.agent.workspace.repository import branch_of, repository_of
from turnlog.agent.workspace.sandbox.quarantine import has_plain_config
from turnlog.errors import Conflict, TurnlogError, UsageError
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store
from turnlog.store.symlinks import find_link
from turnlog.store.worktrees import worktrees_of

NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
RESERVED = (".", "..", ".git")
LONGEST_NAME = 64
FOLDER = Path(CONFIG, "worktrees")
CREATE, REMOVE = "WorktreeCreate", "WorktreeRemove"
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
ELSEWHERE = frozenset(
    "GIT_COMMON_DIR GIT_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_WORK_TREE".split()
)
"""Variables that make git use another repository."""
LONGEST = 4_096


class SessionWorktree(Struct, frozen=True):
    """The worktree of a session."""

    path: Path
    origin: Path
    """The directory in which turnlog was started."""
    name: str
    branch: str = ""
    """The branch created for it; empty if a hook created the worktree, or it existed before."""
    base: str = ""
    """The commit that it started at."""
    git: Path | None = None
    """Its git directory, inside that of the repository; None if a hook created the worktree."""
    is_trusted: bool = False
    """True if git may run hooks of the repository."""
    is_hooked: bool = False
    """True if a hook created it."""

    @property
    def state(self) -> Fields:
        """The line that the client writes about it (2.1.325, observed)."""
        about = {
            "originalCwd": str(self.origin),
            "worktreePath": str(self.path),
            "worktreeName": self.name,
        }
        if self.branch:
            about |= {"worktreeBranch": self.branch, "originalBranch": branch_of(self.origin)}
            about["originalHeadCommit"] = self.base
        return {"type": "worktree-state", "worktreeSession": about}


class EnteredWorktree(Struct, frozen=True):
    """The worktree of a session, with the hooks and trust needed to enter and leave it."""

    worktree: SessionWorktree
    hooks: Hooks
    carries_trust: bool
    """True if the user trusts the configuration of the directory that turnlog was started in, and
    git has just created the worktree from its commit.

    turnlog asks about all others: an existing worktree may have been switched to a stranger's
    branch, and a hook may print any directory.
    """


async def enter_worktree(
    store: Store, options: ChatOptions, name: str, session_id: str | None
) -> EnteredWorktree:
    """Create a worktree for a chat."""
    settings, trust = await starting_settings(store, options)
    transcript = store.project_of(str(options.cwd)) / f"{session_id}.jsonl"
    facts = SessionFacts(session_id or "", transcript, options.cwd, options.cwd)
    facts.variables, facts.entrypoint = settings.command_env, options.entrypoint
    hooks = Hooks(settings.hooks, facts)
    top = repository_of(options.cwd) or options.cwd
    runs_programs = options.trusts_project or is_trusted(store, ConfigDirectory(top, ()))
    made = await make_worktree(options.cwd, name, hooks, runs_programs)
    is_same = bool(made.branch) and bool(trust.trusted) and not trust.untrusted
    return EnteredWorktree(made, hooks, is_same)


async def leave_worktree(entered: EnteredWorktree, ask: Callable[[Path], bool]) -> str:
    """Remove an unchanged worktree; ask the user about a changed one; return what happened."""
    worktree, path = entered.worktree, entered.worktree.path
    # A worktree that existed before this session is not removed.
    is_own = worktree.git is not None or (worktree.is_hooked and entered.hooks.groups(REMOVE))
    has_changes = not is_clean(worktree)
    if not is_own or (has_changes and not ask(path)):
        return f"the worktree stays: {path}"
    await remove_worktree(worktree, entered.hooks, is_forced=has_changes)
    await entered.hooks.close()
    return f"the worktree is removed: {path}"


def worktree_name(given: str) -> str:
    """Return the name of a worktree: the given one, or a new one."""
    name = given or new_slug()
    is_reserved = any(part.lower() in RESERVED for part in name.split("/"))
    if not NAME.fullmatch(name) or is_reserved or len(name) > LONGEST_NAME:
        why = f"letters, digits, . _ - and at most {LONGEST_NAME} of them"
        raise UsageError(f"{name!r} is not a valid worktree name: {why}", "--worktree fix-login")
    return name.replace("/", "+")


async def make_worktree(origin: Path, name: str, hooks: Hooks, is_trusted: bool) -> SessionWorktree:
    """Create a worktree for a session started in a directory, or reuse the one of that name.

    Without trust, git runs neither hooks nor programs that the repository names.
    """
    if hooks.groups(CREATE):
        return SessionWorktree(await _made_by_hook(name, hooks), origin, name, is_hooked=True)
    top = _repository(origin, is_trusted)
    path = top / FOLDER / name
    if link := find_link(top, path):
        raise UsageError(f"{link} is a link, and could lead anywhere", "--worktree NAME")
    # A worktree deleted with `rm` is still listed; `git worktree add` then says how to prune it.
    if path in worktrees_of(top) and path.is_dir():
        return SessionWorktree(path, origin, name)
    if os.path.lexists(path):
        raise Conflict(f"{path} exists, but is not a worktree of this repository", f"rm -r {path}")
    branch = f"worktree-{name}"
    base = _git(top, is_trusted, "rev-parse", "--verify", "HEAD^{commit}")
    _git(top, is_trusted, "worktree", "add", "-b", branch, str(path), base)
    git = Path(_git(path, is_trusted, "rev-parse", "--absolute-git-dir"))
    return SessionWorktree(path, origin, name, branch, base, git, is_trusted)


def is_clean(worktree: SessionWorktree) -> bool:
    """Return whether removing a worktree loses nothing: no changes, no new files, no commits."""
    if worktree.git is None or not worktree.path.is_dir():
        return False
    # Name the git directory: the file `.git` in the worktree may have been replaced meanwhile.
    there = (f"--git-dir={worktree.git}", f"--work-tree={worktree.path}")
    try:
        head = _git(worktree.path, worktree.is_trusted, *there, "rev-parse", "HEAD")
        changes = _git(worktree.path, worktree.is_trusted, *there, "status", "--porcelain", "-uall")
    except TurnlogError:
        return False
    return head == worktree.base and not changes


async def remove_worktree(worktree: SessionWorktree, hooks: Hooks, is_forced: bool = False) -> None:
    """Remove a worktree and its branch; with `is_forced`, also one with changes."""
    if worktree.is_hooked:
        await hooks.fire(REMOVE, None, {"worktree_path": str(worktree.path)})
        return
    top = local_folder(worktree.origin)
    force = ["--force"] if is_forced else []
    _git(top, worktree.is_trusted, "worktree", "remove", *force, str(worktree.path))
    _git(top, worktree.is_trusted, "branch", "-D", worktree.branch)


async def _made_by_hook(name: str, hooks: Hooks) -> Path:
    """Return the directory that a WorktreeCreate hook prints."""
    outcome = await hooks.fire(CREATE, None, {"name": name})
    for run in outcome.runs:
        if run.exit_code != 0:
            why = run.stderr.strip() or f"exit code {run.exit_code}"
            raise TurnlogError(f"a {CREATE} hook failed: {why[:LONGEST]}", "/hooks in a chat")
    printed = [line.strip() for run in outcome.runs for line in run.stdout.splitlines()]
    path = Path(next(iter([line for line in printed if line][-1:]), ""))
    if not path.is_absolute() or not path.is_dir():
        raise TurnlogError(f"a {CREATE} hook printed no directory", "echo /path/to/worktree")
    return path


def _repository(origin: Path, is_trusted: bool) -> Path:
    """Return the main checkout of a directory; raise if git must not run there."""
    repository = repository_of(origin)
    if repository is None:
        raise UsageError(
            f"--worktree needs a git repository, and {origin} is not in one", "git init"
        )
    # A checkout runs filters and monitors of the configuration; hooks are switched off.
    top = local_folder(repository)
    if not is_trusted and not has_plain_config(top / ".git"):
        raise UsageError("--worktree would run programs that the repository names", "--trust")
    return top


def _git(place: Path, is_trusted: bool, *arguments: str) -> str:
    """Run git in a directory; return what it prints."""
    options: Sequence[str] = () if is_trusted else NO_HOOKS
    # If a git hook started turnlog, variables such as GIT_DIR point to that hook's repository.
    environment = {name: each for name, each in os.environ.items() if name not in ELSEWHERE}
    # Neither git nor the programs it runs may come from the project.
    environment["PATH"] = search_path([local_folder(place)])
    try:
        done = subprocess.run(
            ["git", *options, *arguments],
            cwd=place,
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise TurnlogError(f"git cannot be run: {error.strerror}", "git --version") from error
    if done.returncode != 0:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it failed"]
        raise TurnlogError(f"git {arguments[0]}: {why[0][:LONGEST]}", "git worktree list")
    return done.stdout.decode("utf-8", "replace").strip()
