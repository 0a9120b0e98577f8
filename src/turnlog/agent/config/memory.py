"""Load memory files (CLAUDE.md and rules) of the user, the project and the organisation.

They are read from every directory between the root and the working directory, the nearest last.
Imported files come before the file that imports them.
"""

import os
import stat
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path

from msgspec import Struct

from turnlog.agent.config.definition_directories import TOO_LONG, markdown_files, read_text
from turnlog.agent.config.frontmatter import (
    LARGEST_HEAD,
    MOST_TOGETHER,
    HeadError,
    head_of,
    names_of,
    split_head,
)
from turnlog.agent.config.memory_text import PUNCTUATION, imports_of, without_comments
from turnlog.agent.workspace.project_directories import (
    CONFIG,
    LARGEST,
    is_within,
    memory_directories,
    project_root,
)
from turnlog.agent.workspace.sandbox.patterns import is_match
from turnlog.format.regular_files import open_regular, why_unreadable
from turnlog.store.paths import expand_user, is_there, real_path

MANAGED = Path("/etc/claude-code")
MOST_HOPS = 4
MOST_PATTERNS = 1_000
MOST_IMPORTS = 10_000
"""Maximum number of `@` imports in all files, whether or not they exist."""
MOST_TEXT = 1 << 20
"""Maximum total bytes of a project's memory files, and separately of the user's. In a repository,
thirty files of 4 MiB may compress to 200 KiB, but loading them would take a minute."""

START = 5 * LARGEST_HEAD
"""Bytes enough for any frontmatter, as a character takes up to four."""
FileState = tuple[int, ...]


class MemoryKind(StrEnum):
    """Kinds of memory files, as the client records them."""

    MANAGED = "Managed"
    USER = "User"
    PROJECT = "Project"
    LOCAL = "Local"


SHARED = (MemoryKind.PROJECT, MemoryKind.LOCAL)
"""Kinds of memory that belong to a project."""


class Loaded(Struct, frozen=True):
    """The reason to load a memory file, in the client's words."""

    reason: str = "session_start"
    trigger: Path | None = None
    """The file whose access triggered it."""
    globs: tuple[str, ...] = ()
    """The patterns that the file matches."""
    parent: Path | None = None
    """The importing memory file."""


AT_START = Loaded()


class Memory(Struct, frozen=True):
    """A memory file as sent to the model."""

    path: Path
    kind: MemoryKind
    text: str
    needs_approval: bool = False
    """True if the project imports this file from outside. The model must not see it before the user
    agrees, as anyone who can change the project could have added the import."""
    loaded: Loaded = AT_START


class MemoryLimits(Struct, frozen=True):
    """Restrictions on loading memory files."""

    is_approved: Callable[[Path], bool] = lambda path: False
    """Checks whether the user approved a file that the project imports from outside."""
    may_read: Callable[[Path], bool] = lambda path: True
    """Returns False for a file that a rule denies reading."""
    uses_user: bool = True
    uses_project: bool = True
    excluded: tuple[str, ...] = ()
    """Patterns of files that are not loaded, except those of the organisation."""

    def excludes(self, path: Path) -> bool:
        """Return whether a pattern of `claudeMdExcludes` matches a file's absolute path."""
        return any(_matches_path(pattern, path) for pattern in self.excluded)


UNLIMITED = MemoryLimits()


class MemoryFiles:
    """The memory files of a conversation, each loaded once."""

    def __init__(
        self,
        cwd: Path,
        home: Path,
        managed: Path = MANAGED,
        limits: MemoryLimits = UNLIMITED,
    ) -> None:
        """`home` is the client's configuration directory."""
        self.cwd = cwd.resolve()
        self.home = home
        self.managed = managed
        self.problems: list[str] = []
        """Files that are not loaded, and why."""
        self._limits = limits
        self._project = project_root(self.cwd)
        self._loaded: set[Path] = set()
        self._room = MOST_IMPORTS
        # Counted separately, or a project's texts would displace the user's rules.
        self._text_room = dict.fromkeys((True, False), MOST_TEXT)
        self._is_cut = False
        self._head_room = MOST_TOGETHER
        self._heads: dict[Path, tuple[FileState, list[str] | None]] = {}
        """Parsed frontmatter of rules: their patterns, and the state of the file."""

    def at_start(self) -> list[Memory]:
        """Return the memory loaded at the start of a conversation."""
        found = [*self._read(self.managed / "CLAUDE.md", MemoryKind.MANAGED)]
        if self._limits.uses_user:
            found += self._read(self.home / "CLAUDE.md", MemoryKind.USER)
            found += self._rules(self.home / "rules", MemoryKind.USER)
        for folder in memory_directories(self.cwd) if self._limits.uses_project else ():
            found += self._in_folder(folder)
        return found

    def for_file(self, path: Path) -> list[Memory]:
        """Return the memory for a file: that of the directories above it, and matching rules."""
        path = path.resolve()
        found: list[Memory] = []
        uses_project = self._limits.uses_project
        # Those of the working directory and above were loaded at the start.
        if path.is_relative_to(self.cwd) and uses_project:
            below = [each for each in path.parents if each.is_relative_to(self.cwd)]
            # The outermost directory first: the nearest comes last, where it has most weight.
            for folder in reversed(below[:-1]):
                found += self._in_folder(folder, Loaded("nested_traversal", path))
        if self._limits.uses_user:
            found += self._rules_for(path, self.home / "rules", MemoryKind.USER, self.cwd)
        for folder in filter(self._is_ours, reversed(path.parents)) if uses_project else ():
            place = folder / CONFIG
            # The store may lie above the project; its rules were already read as the user's.
            if place != self.home:
                found += self._rules_for(path, place / "rules", MemoryKind.PROJECT, folder)
        return found

    def _is_ours(self, folder: Path) -> bool:
        """Return whether a directory is in the project or above it.

        Reading a file elsewhere must not load instructions that somebody wrote there.
        """
        return folder.is_relative_to(self._project) or self._project.is_relative_to(folder)

    def _in_folder(self, folder: Path, why: Loaded = AT_START) -> Iterator[Memory]:
        yield from self._read(folder / "CLAUDE.md", MemoryKind.PROJECT, why)
        if folder / CONFIG != self.home:  # the user's own directory
            yield from self._read(folder / CONFIG / "CLAUDE.md", MemoryKind.PROJECT, why)
            yield from self._rules(folder / CONFIG / "rules", MemoryKind.PROJECT, why)
        yield from self._read(folder / "CLAUDE.local.md", MemoryKind.LOCAL, why)

    def _rules(self, folder: Path, kind: MemoryKind, why: Loaded = AT_START) -> Iterator[Memory]:
        """Yield the rules of a directory that apply to all files."""
        for path in self._loadable(folder, kind):
            patterns = self._patterns_of(path)
            if patterns is None:
                yield from self._read(path, kind, why)

    def _rules_for(
        self, target: Path, folder: Path, kind: MemoryKind, root: Path
    ) -> Iterator[Memory]:
        """Yield the rules of a directory that apply to a file."""
        for path in self._loadable(folder, kind):
            patterns = self._patterns_of(path)
            if patterns and self._fits(path, target, patterns, root):
                why = Loaded("path_glob_match", target, tuple(patterns))
                yield from self._read(path, kind, why)

    def _read(
        self, path: Path, kind: MemoryKind, why: Loaded = AT_START, hops: int = 0
    ) -> Iterator[Memory]:
        """Yield a file's imports, then the file."""
        real = real_path(path)
        if real in self._loaded or not self._is_there(path, hops):
            return
        if kind is not MemoryKind.MANAGED and self._limits.excludes(path):
            return
        if not self._may_load(path, kind, hops):
            return
        if reason := why_unreadable(path, LARGEST):
            self._report(f"{path} is not loaded: {reason}")
            return
        if not self._has_room(path, kind):
            return
        raw = read_text(path)
        if raw is None or "\0" in raw:
            return
        # Mark it before reading its imports, so that two files importing each other do not loop.
        self._loaded.add(real)
        try:
            _, body = split_head(raw)
        except HeadError as error:
            self._report(f"{path} is not loaded: {error}")
            return
        text = without_comments(body).strip()
        for named in self._imports_of(path, body) if hops < MOST_HOPS else ():
            by_import = Loaded("include", why.trigger, parent=path)
            yield from self._read(_import_path(named, path), kind, by_import, hops + 1)
        if text:
            yield Memory(path, kind, text, bool(hops) and self._is_outside(real, kind), why)

    def _has_room(self, path: Path, kind: MemoryKind) -> bool:
        """Return whether a file fits into the size limit, and subtract its size if so."""
        size, is_shared = path.stat().st_size, kind in SHARED
        if size > self._text_room[is_shared]:
            if not self._is_cut:  # one line, as thousands of files may follow
                why = f"memory files have more than {MOST_TEXT >> 20} MiB together"
                self._report(f"{path} is not loaded: {why}, and further ones are skipped")
            self._is_cut = True
            return False
        self._text_room[is_shared] -= size
        return True

    def _imports_of(self, path: Path, body: str) -> list[str]:
        found = imports_of(body)
        taken = found[: self._room]
        self._room -= len(taken)
        if len(taken) < len(found):
            self._report(f"{path}: some imports are not loaded, as there are too many")
        return taken

    def _patterns_of(self, path: Path) -> list[str] | None:
        """Return the patterns of the files that a rule applies to; None if it applies to all.

        A rule with invalid frontmatter applies to no file.
        """
        # Called for each file that the model reads, so a rule is parsed again only if it changed.
        state = _state_of(path)
        if path not in self._heads or self._heads[path][0] != state:
            self._heads[path] = (state, self._read_patterns(path, _read_start(path)))
        return self._heads[path][1]

    def _read_patterns(self, path: Path, text: str) -> list[str] | None:
        self._head_room -= len(head_of(text))
        try:
            if self._head_room < 0:
                raise HeadError(TOO_LONG)
            fields, _ = split_head(text)
        except HeadError as error:
            self._report(f"{path} is not loaded: {error}")
            return []
        return names_of(fields.get("paths"))

    def _fits(self, rule: Path, target: Path, patterns: list[str], root: Path) -> bool:
        """Return whether a file matches a pattern, relative to the project's directory."""
        if not target.is_relative_to(root):
            return False
        inner = str(target.relative_to(root))
        # Expanded lazily, as `{a,b}{a,b}…` stands for very many patterns.
        each = (one for pattern in patterns for one in _expand(pattern))
        try:
            anchored = [f"/{one.lstrip('/')}" for one in islice(each, MOST_PATTERNS)]
            return any(is_match(pattern, inner) for pattern in anchored)
        except ValueError as error:
            self._report(f"{rule} is not loaded: {error}")
            return False

    def _loadable(self, folder: Path, kind: MemoryKind) -> Iterator[Path]:
        """Yield the Markdown files of a folder that may be loaded, if the folder may be."""
        if not folder.is_dir() or not self._may_load(folder, kind):
            return
        for path in markdown_files(folder, self._report):
            if self._may_load(path, kind):
                yield path

    def _is_there(self, path: Path, hops: int) -> bool:
        """Return whether a memory file exists; an `@` mention of a directory does not count."""
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):  # a name that no file can have
            return False
        return not (stat.S_ISDIR(mode) and hops)

    def _may_load(self, path: Path, kind: MemoryKind, hops: int = 0) -> bool:
        """Return whether a file may be sent to the model; record why not."""
        problem = ""
        if not self._limits.may_read(path):
            problem = f"{path} is not loaded: a rule denies reading it"
        elif kind in SHARED and self._escapes(path, hops):
            problem = f"{path} is not loaded: it links to {real_path(path)}, outside of the project"
        if problem:
            self._report(problem)
        return not problem

    def _report(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _escapes(self, path: Path, hops: int) -> bool:
        """Return whether a path of the project links to a file outside.

        `CLAUDE.md -> ~/.ssh/id_ed25519` would be sent to the model without asking.
        """
        place = Path(os.path.normpath(path))
        if place.is_relative_to(self._project):
            return not is_within(place, [self._project])
        if hops:  # an import that names a file outside is asked about
            return False
        above = next((each for each in place.parents if self.cwd.is_relative_to(each)), None)
        return above is None or not is_within(place, [above])

    def _is_outside(self, path: Path, kind: MemoryKind) -> bool:
        """Return whether a real path is outside the project and not approved."""
        if kind not in SHARED or path.is_relative_to(self._project):
            return False
        return not self._limits.is_approved(path)


def _state_of(path: Path) -> FileState:
    """Return values that change whenever the file does."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_start(path: Path) -> str:
    """Return the start of a file, long enough for any frontmatter within its limit."""
    try:
        with open_regular(path) as file:
            return file.read(START).decode("utf-8", "replace")
    except OSError:
        return ""


def _import_path(named: str, importer: Path) -> Path:
    """Return the file that an import names, without punctuation that ends a sentence."""
    path = _located(named, importer)
    return path if is_there(path) else _located(named.rstrip(PUNCTUATION), importer)


def _located(named: str, importer: Path) -> Path:
    return importer.parent / expand_user(named)


def _expand(pattern: str) -> list[str]:
    """Expand the braces of a pattern; leave a pattern with very many choices unchanged.

    >>> _expand("src/*.{ts,tsx}")
    ['src/*.ts', 'src/*.tsx']
    """
    done: list[str] = []
    pending = [pattern]
    while pending and len(done) + len(pending) <= MOST_PATTERNS:
        head, brace, rest = pending.pop().partition("{")
        inner, close, tail = rest.partition("}")
        if not brace or not close:
            done.append(head + brace + rest)
        else:
            pending += [f"{head}{each}{tail}" for each in reversed(inner.split(","))]
    return [pattern] if pending else done


def _matches_path(pattern: str, path: Path) -> bool:
    try:
        return is_match(str(expand_user(pattern)), str(path).lstrip("/"))
    except ValueError:  # an invalid pattern matches nothing
        return False
