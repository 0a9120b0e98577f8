"""Check that git can read a repository without running a program that the repository names.

A repository's own configuration can name programs that even `git status` runs: a file system
monitor, filters, diff drivers, a pager. A directory inside of a project can pose as a bare
repository with such a configuration. So its keys are checked against an allowlist:
if one is not known to be harmless, git does not run unprompted.
"""

import os
import re
import subprocess
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import is_folder, is_there
from turnlog.agent.permissions.git_index import may_have_submodules
from turnlog.agent.permissions.links import real_path
from turnlog.agent.workspace.shell.command_environment import STARTUP, search_path
from turnlog.agent.workspace.shell.git_environment import is_overridden
from turnlog.format.regular_files import read_regular

LARGEST_CONFIG = 1 << 20
PATIENCE = 5.0
"""Maximum seconds for a call of git; it usually takes 3 ms."""
SECTION = re.compile(r"\[\s*([A-Za-z0-9.-]+)(?:\s+\"((?:[^\"\\]|\\.)*)\")?\s*\]\s*(?:[#;].*)?")
KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?")
HARMLESS_SECTIONS = frozenset(
    """
    advice alias branch color column commit fetch gc gui http i18n index init maintenance notes
    pack pull push rebase receive tag transfer user versionsort
    """.split()
)
"""Sections in which no key makes a read-only command run a program."""
RUNNING_SECTIONS = frozenset("alias gc http init maintenance rebase receive".split())
"""Those HARMLESS_SECTIONS that can make other commands run a program, or write any file.

`git cherry-pick --strategy=x` runs the alias `merge-x`; `rebase.instructionFormat` may contain a
line `exec x`, which `git pull` runs; with `http.saveCookies`, `git fetch` writes `http.cookieFile`.
With `receive.denyCurrentBranch = updateInstead`, `git push . topic:main` checks out `topic`.
"""
RUNNING_KEYS = frozenset(
    (
        *(("branch", "mergeoptions"), ("pull", "octopus"), ("pull", "twohead")),
        *(("core", "protecthfs"), ("core", "protectntfs")),
    )
)
"""Other harmless keys that are dangerous unless a command only reads.

With `branch.main.mergeOptions = -F /x`, `git pull` copies any file into a commit message; with
`pull.twohead = x/y`, `git cherry-pick` runs `git-merge-x/y` from the work tree. Without
`core.protectHFS`, it writes names that macOS takes for `.git`.
"""
INTERRUPTED = {
    "sequencer/opts": re.compile(r"strategy(?!-)", re.I),
    "rebase-merge/strategy": re.compile(r""),
    "rebase-merge/git-rebase-todo": re.compile(r"^\s*(?:x|exec)\b", re.M),
}
"""Files of an interrupted operation, and the text in them that names a program to run.

`git cherry-pick --skip` runs the strategy `x/y` as `git-merge-x/y` from the work tree.
"""
HARMLESS_KEYS = {
    "core": """
        abbrev autocrlf bare bigfilethreshold checkstat commentchar compression eol filemode
        fscache ignorecase logallrefupdates longpaths packedgitlimit precomposeunicode preloadindex
        protecthfs protectntfs quotepath repositoryformatversion safecrlf sharedrepository
        splitindex symlinks trustctime untrackedcache whitespace
        """,
    "diff": """
        algorithm colormoved colormovedws context ignoresubmodules indentheuristic interhunkcontext
        mnemonicprefix noprefix relative renamelimit renames suppressblankempty wordregex
        wserrorhighlight xfuncname binary
        """,
    "extensions": "objectformat refstorage worktreeconfig",
    "grep": "column extendedregexp linenumber patterntype",
    "lfs": "access locksverify repositoryformatversion url",
    "log": "abbrevcommit date decorate excludedecoration follow initialdecorationset mailmap",
    "merge": "conflictstyle ff log renamelimit renames",
    "remote": "fetch mirror prune prunetags push pushurl tagopt url",
    "status": "aheadbehind branch relativepaths renames short showstash showuntrackedfiles",
    "submodule": "active url",
}
UNUSED_SECTIONS = frozenset("credential difftool gpg mergetool pager protocol sequence url".split())
"""Sections that have no effect on a read-only command whose settings are overridden."""
PLAIN_PATH = re.compile(r"[\w./-]+")
"""A path without characters that git would unquote."""
HOOKS_PATH = ("core", "hookspath")
TEMPLATE = ("commit", "template")
HEAD = re.compile(r"ref: refs/\S+\n?|[0-9a-f]{40}\n?|[0-9a-f]{64}\n?")
UNREAD = ("hooks", "lfs", "annex")
"""Directories that read-only commands do not open, except to run `HOOKS`."""
BARE_ENTRIES = tuple(
    """
    HEAD branches commondir config config.worktree hooks index info logs modules objects packed-refs
    refs worktrees
    """.split()
)
"""Names that git uses in a git directory, and so in a bare repository."""
MOST_ENTRIES = 200_000
"""Maximum number of entries of a git directory to examine; with more, the user is asked."""
HOOKS = ("post-index-change",)
"""Hooks that read-only commands run, because they refresh the index."""


class Repository(Struct, frozen=True):
    """A work tree and its git directory."""

    top: Path
    directory: Path


class RepositoryProblem(Struct, frozen=True):
    """A reason not to run git unprompted in a repository."""

    reason: str
    is_confinable: bool = False
    """True if a read-only command is safe once `guard_git` has overridden the settings."""


class GitCall(Struct, frozen=True):
    """The traits of a call that decide which settings matter."""

    reads: bool = True
    """True if it only reads."""
    enters_submodules: bool = False
    covers_hooks: bool = False
    """True if the rule that allows the call also covers the repository's hooks."""
    top: Path | None = None
    """The work tree that `core.worktree` of a submodule may lie in."""


class Setting(Struct, frozen=True):
    """A line of a configuration file."""

    section: str
    subsection: str | None
    key: str
    value: str


def find_repository(place: Path) -> Repository | None:
    """Find the repository that git would use in a directory; raise ValueError if in doubt."""
    found = _find_repository(real_path(place))
    if found and real_path(found.directory) != found.top / ".git":
        # The repository of a linked work tree points back to it; others may be somebody else's.
        back = _named_in(found.directory / "gitdir")
        if real_path(found.directory / back) != found.top / ".git":
            raise ValueError(f"{found.top / '.git'} leads to a repository elsewhere")
    return found


@lru_cache(maxsize=256)
def git_places(place: Path) -> tuple[Path, ...]:
    """Return the git directory that git uses in a directory, and its hook directories.

    A `.git` file may name a directory with any name, such as `.bare`. Git itself is asked for
    `core.hooksPath`: `~/.gitconfig` or an included file may set it. The cache is cleared before
    each verdict.
    """
    start = real_path(place)
    try:
        repository = _find_repository(start)
        own = _own_directories(repository.directory) if repository else []
    except (OSError, ValueError):
        # In a bare repository, other directories may be work trees.
        bare = next(filter(_looks_bare, (start, *start.parents)), None)
        own = [bare / name for name in BARE_ENTRIES] if bare else []
        repository = Repository(bare, bare) if bare else None
    if repository is None:
        return ()
    named = [repository.top / name for name in _hooks_paths(repository.top)]
    return tuple(dict.fromkeys(map(real_path, (*own, *(each / "hooks" for each in own), *named))))


def is_nested_git_place(path: Path, roots: Collection[Path]) -> bool:
    """Return whether a path leads into, or holds, the git places of a repository below the roots.

    If `vendor` is a repository with `core.hooksPath = tools/hooks`, that holds for
    `vendor/tools/hooks/x` and `vendor/tools`, but not for `vendor`.
    """
    for top in (path, *path.parents):
        if top in roots or not any(map(top.is_relative_to, roots)):
            return False
        if is_there(top / ".git") or _looks_bare(top):
            places = git_places(top)
            is_above = path != top and any(place.is_relative_to(path) for place in places)
            if is_above or any(map(path.is_relative_to, places)):
                return True
    return False


def _own_directories(directory: Path) -> list[Path]:
    """Return a git directory, and the one that it shares with other work trees."""
    pointer = directory / "commondir"
    return [directory, *([directory / _named_in(pointer)] if is_there(pointer) else [])]


def _hooks_paths(top: Path) -> list[str]:
    # With the variables of the user's shell, as calls that a rule allows have them.
    environment = {**STARTUP, "HOME": str(Path.home()), "PATH": search_path([top])}
    argv = ["git", "config", "-z", "--includes", "--type=path", "--get-all", "core.hooksPath"]
    try:
        done = subprocess.run(
            argv, cwd=top, env=environment, capture_output=True, check=False, timeout=PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return []  # without git, no hook runs either
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def message_templates(repository: Repository) -> list[Path]:
    """Return the files that `git commit` copies into messages; raise ValueError if in doubt."""
    common = common_directory(repository.directory)
    configs = filter(is_there, (common / "config", repository.directory / "config.worktree"))
    settings = [each for config in configs for each in _settings_in(config)]
    values = [each.value for each in settings if (each.section, each.key) == TEMPLATE]
    if not all(map(PLAIN_PATH.fullmatch, values)):
        raise ValueError("commit.template is not a plain path")
    return [repository.top / value for value in values]


def find_problem(repository: Repository, call: GitCall) -> RepositoryProblem | None:
    """Return why git must not run unprompted in a repository; None if it may.

    Of several problems, one that confinement does not solve comes first.
    """
    first = None
    try:
        for problem in _problems_in(repository.directory, call):
            if not problem.is_confinable:
                return problem
            first = first or problem
    except (OSError, ValueError) as error:
        return RepositoryProblem(f"its repository cannot be checked: {error}")
    return first


def _find_repository(place: Path) -> Repository | None:
    """Look for a git directory as git does, upwards from a directory."""
    for folder in (place, *place.parents):
        dot_git = folder / ".git"
        if is_folder(dot_git):
            return Repository(folder, dot_git)
        if dot_git.is_file():
            return Repository(folder, folder / named_directory(dot_git))
        if is_there(dot_git):
            raise ValueError(f"{dot_git} is neither a file nor a directory")
        if _looks_bare(folder):
            raise ValueError(f"{folder} looks like a bare repository")
    return None


def _looks_bare(folder: Path) -> bool:
    """Return whether git may treat a directory as a bare repository."""
    return is_there(folder / "HEAD") and any(
        is_there(folder / name) for name in ("objects", "refs", "commondir")
    )


def named_directory(dot_git: Path) -> str:
    """Return the git directory that a `.git` file names."""
    return _named_in(dot_git, "gitdir: ")


def _named_in(file: Path, prefix: str = "") -> str:
    # Git keeps blanks as a part of the path: `gitdir:  x` names the directory " x".
    text = read_regular(file, LARGEST_CONFIG).decode().rstrip("\r\n")
    path = text.removeprefix(prefix)
    if not text.startswith(prefix) or path != path.strip() or not path or "\n" in path:
        raise ValueError(f"{file} is malformed")
    return path


def _problems_in(directory: Path, call: GitCall) -> Iterator[RepositoryProblem]:
    common = common_directory(directory)
    if odd := next(_odd_entries(common), None):
        yield RepositoryProblem(f"{odd} is neither a file nor a directory")
    if is_there(common / "objects" / "info" / "alternates"):
        yield RepositoryProblem(f"{common} borrows objects from another repository")
    # Git skips an incomplete `.git`, and looks for a bare repository next to it and above. It also
    # does so if it may not enter one of the directories, as with `chmod 444 .git/refs`.
    head = read_regular(directory / "HEAD", LARGEST_CONFIG).decode()
    is_complete = HEAD.fullmatch(head) and all(
        is_folder(common / name) and os.access(common / name, os.X_OK)
        for name in ("objects", "refs")
    )
    if not is_complete:
        yield RepositoryProblem(f"{directory} is not a complete repository")
    for config in (common / "config", directory / "config.worktree"):
        if is_there(config):
            yield from _unknown_settings(config, call)
    yield from () if call.reads else _interrupted_programs(directory)
    for hook in () if call.covers_hooks else HOOKS:
        if is_there(common / "hooks" / hook):
            yield RepositoryProblem(f"{common / 'hooks' / hook} would run", is_confinable=True)
    if call.enters_submodules and any(map(may_have_submodules, _index_files(directory))):
        reason = "git would run in its submodules, under their own configuration"
        yield RepositoryProblem(reason, is_confinable=True)


def _interrupted_programs(directory: Path) -> Iterator[RepositoryProblem]:
    """Yield a problem for each program that continuing an interrupted operation would run."""
    for name, running in INTERRUPTED.items():
        file = directory / name
        if is_there(file) and running.search(read_regular(file, LARGEST_CONFIG).decode()):
            yield RepositoryProblem(f"{file} names a program")


def _odd_entries(directory: Path) -> Iterator[str]:
    """Yield the entries of a git directory that are neither files nor directories.

    Git shows what it reads: with `info/grafts` linked to a file elsewhere, `git log` prints that
    file line by line as malformed; with `objects/pack` linked, it shows another repository.
    """
    unread = {str(directory / name) for name in UNREAD}
    folders, count = [str(directory)], 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                count += 1
                if count > MOST_ENTRIES:
                    raise ValueError(f"{directory} has more than {MOST_ENTRIES:,} entries")
                if entry.path in unread:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    yield entry.path


def common_directory(directory: Path) -> Path:
    """Return the directory that the work trees of a repository share."""
    pointer = directory / "commondir"
    if not is_there(pointer):
        return directory
    # A project controls its own `.git` and the files it points to, so it can name any repository.
    # Only the repository itself can have created `worktrees/x` in its own directory.
    common = real_path(directory / _named_in(pointer))
    if directory.name == ".git" or real_path(directory).parent != common / "worktrees":
        raise ValueError(f"{pointer} leads to another repository")
    return common


def _index_files(directory: Path) -> list[Path]:
    return [
        path for path in (directory / "index", *directory.glob("sharedindex.*")) if is_there(path)
    ]


def _unknown_settings(config: Path, call: GitCall) -> Iterator[RepositoryProblem]:
    """Yield a problem for each setting that is not known to be harmless."""
    for each in _settings_in(config):
        is_hooks_path = (each.section, each.key) == HOOKS_PATH
        if is_hooks_path and call.covers_hooks:
            continue
        is_running = not call.reads and (
            each.section in RUNNING_SECTIONS or (each.section, each.key) in RUNNING_KEYS
        )
        if is_running or not (_is_harmless(each) or _is_own_worktree(each, config, call.top)):
            # Others stay harmful: git quotes the file in `blame.ignoreRevsFile` in its errors.
            is_confinable = each.section in UNUSED_SECTIONS or is_overridden(
                each.section, each.subsection, each.key
            )
            yield RepositoryProblem(f"{config} sets {each.section}.{each.key}", is_confinable)


def _settings_in(config: Path) -> Iterator[Setting]:
    """Yield the settings of a file; raise ValueError for a line that git may read differently."""
    section, subsection = "", None
    text = read_regular(config, LARGEST_CONFIG).decode()
    if re.search(r"\r(?!\n)", text):
        raise ValueError(f"{config} has a carriage return inside of a line")
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if found := SECTION.fullmatch(stripped):
            section, subsection = found[1].lower(), found[2]
        elif (found := KEY.fullmatch(stripped)) and not stripped.endswith("\\"):
            yield Setting(section, subsection, found[1].lower(), found[2] or "")
        else:
            raise ValueError(f"{config} has a line that cannot be read: {stripped[:60]!r}")


def _is_harmless(setting: Setting) -> bool:
    section, key = setting.section, setting.key
    if section == "core" and key == "bare":
        return setting.value.strip().lower() == "false"
    if key == "sort" and "signature" in setting.value:
        return False
    return section in HARMLESS_SECTIONS or key in HARMLESS_KEYS.get(section, "").split()


def _is_own_worktree(setting: Setting, config: Path, top: Path | None) -> bool:
    """Return whether a setting is the `core.worktree` that git writes for each submodule."""
    if top is None or (setting.section, setting.key) != ("core", "worktree"):
        return False
    if not PLAIN_PATH.fullmatch(setting.value):
        return False
    place = real_path(config.parent / setting.value)
    return place.is_relative_to(top) and ".git" not in place.relative_to(top).parts
