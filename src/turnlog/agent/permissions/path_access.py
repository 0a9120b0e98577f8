"""Check paths against rules and protected places under all their names.

The names of a path are the path as written, and all paths that links turn it into.
"""

import os
import re
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from turnlog.agent.permissions.bash import UnknownValue
from turnlog.agent.permissions.git_repository import git_places, is_nested_git_place
from turnlog.agent.permissions.links import PROCESS, real_path, ways_of
from turnlog.agent.permissions.rules import Rule
from turnlog.agent.workspace.access import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
)
from turnlog.agent.workspace.project_directories import CONFIG, SERVERS, definition_directories
from turnlog.agent.workspace.shell.command_environment import search_path
from turnlog.store.directories import config_directory, data_directory
from turnlog.store.paths import BY_SESSION, is_there, open_store

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MOST_ENTRIES = 10_000
"""Maximum number of files to examine in a configuration directory."""
SESSION_DATA = frozenset(
    (*BY_SESSION, *"debug paste-cache plans projects shell-snapshots todos worktrees".split())
)
"""Directories of `.claude` with thousands of files that nothing runs."""
SPECIAL = "*?[]!#\\"
EVERYTHING = ("", "/", "**", "/**", "*", "/*")
"""Patterns that match everything below the directory that they are relative to."""
BETWEEN_STARS = re.compile(
    r"\[\^/\]\*((?:\\.|\[(?:\\.|[^\]\\])+\]|[^\[\]()/*+?\\|^$])+?)(?=\[\^/\]\*)"
)
"""In a translated pattern: a star and the fixed text behind it, up to the next star."""
SET = re.compile(r"\\.|(?P<set>\[(?:\\.|[^\]\\])+\])")
MOST_DEPTHS = 4
"""Maximum number of `**` in a pattern; each is tried at every depth."""
WORKTREES = ("worktrees",)
ENDS = tuple(f"/{path}" for path in PROTECTED_PATHS)
SETTINGS = frozenset(path.rpartition("/")[0] for path in PROTECTED_PATHS)
"""Directories of which some entries are protected."""
CODE = ("scripts", "purelib", "platlib", "stdlib", "platstdlib")
"""Kinds of directories in an installation of Python, as `sysconfig` names them."""


def names_of(path: Path) -> tuple[Path, ...]:
    """Return all names of a path: as written, at each link on the way, and resolved.

    Links count both as what they lead to now and as directories that may replace them. Raises
    `UnknownValue` if the links cannot be followed.
    """
    written = Path(os.path.normpath(path))
    ways = (*ways_of(path), *ways_of(written))
    return tuple(dict.fromkeys((written, *(name for way in ways for name in way.names))))


def names_below(folder: Path, entry: "os.DirEntry[str]") -> tuple[Path, ...]:
    """Return all names of an entry below a directory, reusing the names of the directory."""
    if entry.is_symlink():
        return names_of(Path(entry.path))
    below = Path(entry.path).relative_to(folder)
    return tuple(name / below for name in names_of(folder))


def leads_through_process(path: Path) -> bool:
    """Return whether a link on the way leads to `/proc` or `/dev/fd`.

    What lies there depends on the process that looks: `p -> /proc/self/cwd` is one directory for
    turnlog and another one for the program.
    """
    targets = (str(target) for way in ways_of(path) for target in way.targets)
    return any(target.startswith(PROCESS) for target in targets)


def is_inside(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a path is in one of the folders under each of its names."""
    roots = [root for folder in folders for root in _both(folder)]
    return all(any(name.is_relative_to(root) for root in roots) for name in names_of(path))


def is_protected(path: Path) -> bool:
    """Return whether the user is asked about every change to a path, whatever the mode and rules.

    Case is ignored, as on some file systems.
    """
    return any(has_protected_part(name) for name in names_of(path))


def is_guarded(path: Path, folders: Iterable[Path], added_path: str = "") -> bool:
    """Return whether a path is protected, or reached from configuration, or shadows a program."""
    places = tuple(folders)
    return (
        is_protected(path)
        or leads_from_config(path, places)
        or any(shadows_program(name, places, added_path) for name in names_of(path))
    )


def guarded_places(
    folders: tuple[Path, ...], added_path: str = ""
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return prefixes of paths, and single paths, that may be guarded despite harmless names.

    They narrow down thousands of files, for each of which `is_guarded` would take too long.
    """
    ends = config_targets(folders)
    starts = tuple(f"{each}/" for each in (*ends, *search_directories(folders, added_path)[0]))
    return starts, frozenset(str(each) for end in ends for each in (end, *end.parents))


def shadows_program(name: Path, folders: tuple[Path, ...], added_path: str = "") -> bool:
    """Return whether a file in a working directory may run in place of a program elsewhere.

    With an activated `.venv`, `.venv/bin/git` is what a rule for `git commit` runs. Git itself runs
    any `git-remote-x` and `git-merge-x` that it finds: `git fetch x::y`, `git merge -s x`.
    """
    inside, others = search_directories(folders, added_path)
    if name.parent not in inside:
        return False
    is_part_of_git = name.name.casefold().startswith("git-")
    return is_part_of_git or any(is_there(place / name.name) for place in others)


@lru_cache(maxsize=8)
def search_directories(
    folders: tuple[Path, ...], added_path: str
) -> tuple[frozenset[Path], tuple[Path, ...]]:
    """Return the directories of `PATH` in some folders, as written and resolved, and the others."""
    named = [*search_path().split(os.pathsep), *added_path.split(os.pathsep)]
    entries = [Path(os.path.normpath(entry)) for entry in named if Path(entry).is_absolute()]
    inside = [entry for entry in entries if any(_is_below(entry, each) for each in folders)]
    others = tuple(entry for entry in entries if entry not in inside)
    return frozenset(name for entry in inside for name in (entry, real_path(entry))), others


def _is_below(path: Path, folder: Path) -> bool:
    try:
        return real_path(path).is_relative_to(real_path(folder))
    except UnknownValue:
        return False


def leads_from_config(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a path contains, or lies in, the target of a link in the configuration.

    With `.claude/skills -> ../.agents/skills`, writing `.agents/skills/x/SKILL.md` adds hooks. The
    user's own configuration may lead into a project as well: `~/.claude/agents -> ~/dotfiles/a`.
    The hooks of nested repositories count, too.
    """
    places = tuple(folders)
    ends = config_targets(places)
    # `rm -r .agents && mv evil .agents` replaces `.agents/skills` as well.
    above = {each for end in ends for each in end.parents} - critical_paths(places)
    roots = frozenset(root for folder in places for root in _both(folder))
    return any(
        name in above or any(map(name.is_relative_to, ends)) or is_nested_git_place(name, roots)
        for name in names_of(path)
    )


@lru_cache(maxsize=8)
def config_targets(folders: tuple[Path, ...]) -> frozenset[Path]:
    """Return the targets of links in the configuration of some directories, and of the user.

    Also returns git's own directories, linked startup files in the home, turnlog's own code, and
    directories with the user's configuration that have no protected name. The cache is cleared
    before each verdict.
    """
    owners = {each for folder in folders for each in definition_directories(real_path(folder))}
    root = open_store().root
    places = {owner / CONFIG for owner in owners} | {root}
    links = [owner / SERVERS for owner in owners if (owner / SERVERS).is_symlink()]
    links += [link for place in places for link in _config_links(place)]
    # turnlog's own directories store which projects are trusted, and where traces go.
    own = (root, Path(data_directory(os.environ)), Path(config_directory(os.environ)))
    links += [place for place in own if not has_protected_part(place)]
    links += _startup_links(real_path(Path.home()))
    # With `core.hooksPath = .githooks`, git runs files of the work tree.
    own_git = [place for folder in folders for place in git_places(folder)]
    return frozenset(map(real_path, (*links, *own_git, *_own_code(folders))))


def _own_code(folders: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the places in some folders from which turnlog itself runs programs or imports modules.

    Installed in a project's `.venv`, it runs `.venv/bin/rg` for a search, and imports some
    packages only when it first needs them.
    """
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    named = {sysconfig.get_path(kind, scheme) for scheme in schemes for kind in CODE}
    beside = (Path(sys.executable).parent, Path(sys.prefix, "pyvenv.cfg"))
    for place in (*map(Path, named), *beside):
        if any(_is_below(place, folder) for folder in folders):
            yield place


def _startup_links(home: Path) -> Iterator[Path]:
    """Yield the protected files in the home that are symlinks, as dotfile managers create them.

    With `~/.bashrc -> ~/dotfiles/bashrc`, the file is in the project under a harmless name.
    """
    settings = [
        path
        for folder in SETTINGS
        for path in _listed(home / folder)
        if has_protected_name(path.name, folder)
    ]
    protected = [path for path in _listed(home) if has_protected_name(path.name)] + settings
    # Only one level of `~/.ssh` or `~/.config/fish`: deeper ones hold extensions of editors.
    inner = [path for folder in protected for path in _listed(folder) if path.is_symlink()]
    for path in (*protected, *inner):
        with suppress(UnknownValue):  # a circle of links leads to no file
            if real_path(path) != path:
                yield path


def _listed(folder: Path) -> list[Path]:
    try:
        return list(islice(folder.iterdir(), MOST_ENTRIES))
    except OSError:
        return []


def _config_links(folder: Path) -> Iterator[Path]:
    """Yield the symlinks in a configuration directory, or the directory if it is one itself.

    All files count, not only those that turnlog loads: hooks often run `.claude/hooks/x.sh`.
    """
    if folder.is_symlink():
        yield folder
        return
    parts = [
        Path(top, name) for top, *names in islice(os.walk(folder), 1) for name in chain(*names)
    ]
    for part in (each for each in parts if each.name not in SESSION_DATA):
        if part.is_symlink():
            yield part
        else:
            inner = (Path(top, name) for top, *names in os.walk(part) for name in chain(*names))
            yield from filter(Path.is_symlink, islice(inner, MOST_ENTRIES))


def has_protected_part(path: Path) -> bool:
    """Return whether a path is that of a protected file or directory, or of anything below one.

    A directory with the name of a file counts, too: it would take the place of the file.
    """
    parts = [part.casefold() for part in path.parts]
    for rank, part in enumerate(parts):
        if part == ".claude" and tuple(parts[rank + 1 : rank + 2]) == WORKTREES:
            continue
        if part in PROTECTED_FOLDERS or part in PROTECTED_FILES:
            return True
    whole = f"/{'/'.join(parts)}/"
    return any(f"{end}/" in whole for end in ENDS)


def has_protected_name(name: str, folder: str = "") -> bool:
    """Return whether `name` is protected in a directory whose path ends in `folder`."""
    folded = name.casefold()
    if folded in PROTECTED_FOLDERS or folded in PROTECTED_FILES:
        return True
    return f"/{folder}/{name}".casefold().endswith(ENDS)


def is_critical(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether removing a path is critical: a root, a home or a working directory."""
    kept = critical_paths(folders)
    return any(name in kept or len(name.parts) <= 2 for name in names_of(path))


def critical_paths(folders: Iterable[Path]) -> set[Path]:
    """Return the home, the given directories, and all their parents."""
    above = [each for folder in folders for root in _both(folder) for each in (root, *root.parents)]
    home = Path.home()
    return {*above, home, *home.parents, *_both(home)}


def permits(rule: Rule, path: Path, root: Path) -> bool:
    """Return whether an allow rule covers a path under each of its names."""
    if rule.about is None:
        return True
    base, pattern = _anchored(rule, root)
    if pattern.count("**") > MOST_DEPTHS:
        return False
    roots = tuple(map(str, _both(base)))
    return all(_is_listed(_narrow(pattern), roots, str(name)) for name in names_of(path))


def restricts(rule: Rule, names: Collection[Path], places: Sequence[Path]) -> bool:
    """Return whether a deny or ask rule covers a file under any of its names.

    Case and Unicode composition are ignored, as on some file systems.
    """
    if rule.about is None:
        return True
    # Settings in a repository's root apply to all of it: their `Read(app/.env)` means the same
    # file in a session that was started in `app`.
    written = dict.fromkeys(_anchored(rule, place) for place in (*places, rule.base))
    starts = [(base, _wide(pattern)) for base, pattern in written]
    starts += [linked for start in starts for linked in linked_starts(*start)]
    return any(_is_about(pattern, _both(base), names) for base, pattern in starts)


@lru_cache(maxsize=4_096)
def linked_starts(base: Path, pattern: str) -> tuple[tuple[Path, str], ...]:
    """Return the pattern relative to further directories, if its fixed part leads through a link.

    With `~/.ssh -> ~/dotfiles/ssh`, a rule about `~/.ssh` is also about `~/dotfiles/ssh`: the files
    are the same. The cache lives for one verdict and the search that follows.
    """
    parts = pattern.strip("/").split("/")
    fixed = list(takewhile(lambda part: part and not set(part) & set(SPECIAL), parts))
    place = base.joinpath(*fixed)
    try:
        names = _both(place) if fixed else ()
    except UnknownValue:  # a circle of links leads to no file
        return ()
    return tuple((name, f"/{'/'.join(parts[len(fixed) :])}") for name in names if name != place)


def _is_about(pattern: str, roots: tuple[Path, ...], names: Iterable[Path]) -> bool:
    """Return whether a pattern matches any of the names, ignoring case and Unicode composition."""
    texts, starts = tuple(map(str, names)), tuple(map(str, roots))
    folds = [fold for fold in FOLDS if _is_valid(fold(pattern))]
    if not folds:  # `[A-_]` is a range, `[a-_]` is none
        return any(_is_listed(pattern, starts, text) for text in texts)
    is_plain = pattern.isascii() and all(each.isascii() for each in (*texts, *starts))
    # A search compares thousands of files; for ASCII, all folds are the same.
    for fold in folds[:1] if is_plain else folds:
        wanted, folded = fold(pattern), tuple(map(fold, starts))
        if any(_is_listed(wanted, folded, fold(text)) for text in texts):
            return True
    return False


@lru_cache(maxsize=512)
def _is_valid(pattern: str) -> bool:
    if "[" not in pattern:
        return True
    try:
        _spec(pattern)
    except ValueError:
        return False
    return True


def escaped(path: Path) -> str:
    """Return a pattern that matches only this path.

    >>> escaped(Path("/home/ada/[new]"))
    '/home/ada/\\\\[new\\\\]'
    """
    return "".join(f"\\{char}" if char in SPECIAL else char for char in str(path))


def _anchored(rule: Rule, root: Path) -> tuple[Path, str]:
    """Return the directory that a pattern is relative to, and the pattern without it."""
    about = rule.about or ""
    if about.startswith("//"):
        return Path("/"), about[1:]
    if about == "~" or about.startswith("~/"):
        return Path.home(), f"/{about[2:]}"
    if about.startswith("/"):
        return rule.base, about
    return root, about


def _narrow(pattern: str) -> str:
    """Return the narrow reading of a pattern: `./x` and `x/**` match in one directory only."""
    if pattern.startswith("./"):
        pattern = pattern[1:]
    if pattern.endswith("/**"):
        folder = pattern[:-3]
        return folder if folder.startswith(("/", "**/")) or not folder else f"/{folder}"
    return pattern


def _wide(pattern: str) -> str:
    """Return the widest reading of a pattern: `./x` and `x/**` match at any depth."""
    pattern = pattern.removeprefix("./")
    pattern = pattern[:-3] if pattern.endswith("/**") else pattern
    if pattern.count("**") > MOST_DEPTHS:
        first, *_, last = pattern.split("**")
        return f"{first}**{last}"
    return pattern


def _is_listed(pattern: str, roots: tuple[str, ...], name: str) -> bool:
    """Return whether a pattern, relative to one of the roots, matches a name."""
    for root in roots:
        inner = _below(name, root)
        if inner is not None:
            return pattern in EVERYTHING or (bool(inner) and _spec(pattern).match_file(inner))
    return False


def _below(name: str, root: str) -> str | None:
    """Return a path relative to a root; None if it is not below. Both must be normalized.

    >>> _below("/a/b/c", "/a"), _below("/a", "/a"), _below("/ab", "/a"), _below("//a", "/")
    ('b/c', '', None, None)
    """
    if name == root:
        return ""
    start = root if root.endswith("/") else f"{root}/"
    # `//a` need not be `/a`.
    is_below = name.startswith(start) and name.startswith("//") == root.startswith("//")
    return name[len(start) :] if is_below else None


def is_match(pattern: str, name: str) -> bool:
    """Return whether a `.gitignore` pattern matches a relative path, without backtracking.

    Raises `ValueError` if the pattern is not valid.
    """
    wide = _wide(pattern)
    return wide in EVERYTHING or _spec(wide).match_file(name)


@lru_cache(maxsize=512)
def _spec(pattern: str) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    written = f"\\{pattern}" if pattern.startswith("#") else pattern
    try:
        found = GitIgnoreSpec.from_lines([written])
    except re.error as error:  # `[z-a]`
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
    for each in found.patterns:
        regex: re.Pattern[str] | None = getattr(each, "regex", None)
        if regex:
            # A name may contain newlines.
            quick = re.compile(_without_backtracking(regex.pattern), re.DOTALL)
            each.regex = quick  # pyright: ignore[reportAttributeAccessIssue]
    return found


def _without_backtracking(regex: str) -> str:
    """Return a translated pattern that does not backtrack between two stars.

    Otherwise `*a*a*a*a*b` takes seconds for a file named with 200 letters `a`.

    >>> _without_backtracking("[^/]*a[^/]*b")
    '(?>[^/]*?a)[^/]*b'
    """
    return BETWEEN_STARS.sub(lambda found: f"(?>[^/]*?{SET.sub(_kept_in_name, found[1])})", regex)


def _kept_in_name(found: re.Match[str]) -> str:
    """Keep a set such as `[!x]` from matching a slash, as git does."""
    return f"(?!/){found[0]}" if found["set"] else found[0]


FOLDS: tuple[Callable[[str], str], ...] = (
    lambda text: normalize("NFC", text).casefold(),
    lambda text: normalize("NFC", text).lower(),
)
"""Case foldings for comparing names; `casefold` turns `ß` into `ss`, which `?` does not match."""


def _both(folder: Path) -> tuple[Path, ...]:
    """Return the names of a folder: as written, at each link on the way, and resolved."""
    written = Path(os.path.normpath(folder))
    return tuple(dict.fromkeys((written, *ways_of(written)[0].names)))
