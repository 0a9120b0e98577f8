"""Memory files: what the user, the project and the organisation tell every conversation.

They lie in every directory from the root to where the work is; the nearer ones come later. What a
file imports comes before it.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from turnlog.agent.custom.frontmatter import names_of, split_head
from turnlog.agent.custom.markdown_text import PUNCTUATION, imports_of, without_comments
from turnlog.agent.custom.places import markdown_files, read_text
from turnlog.agent.repository import repository_of

MANAGED = Path("/etc/claude-code")
MOST_HOPS = 4
MOST_PATTERNS = 1_000


class MemoryKind(StrEnum):
    """Whose memory a file is, in the words that the client records."""

    MANAGED = "Managed"
    USER = "User"
    PROJECT = "Project"
    LOCAL = "Local"


class Loaded(Struct, frozen=True):
    """Why a memory file is told, in the client's words."""

    reason: str = "session_start"
    trigger: Path | None = None
    """The file that was read or changed."""
    globs: tuple[str, ...] = ()
    """The patterns that the file is one of."""
    parent: Path | None = None
    """The memory file that imports it."""


AT_START = Loaded()


class Memory(Struct, frozen=True):
    """A memory file, as the model is shown it."""

    path: Path
    kind: MemoryKind
    text: str
    needs_approval: bool = False
    """Whether a file of the project imports it from outside: not to be shown before the user has
    agreed, as anyone who can change the project could have written that."""
    loaded: Loaded = AT_START


class MemoryFiles:
    """The memory files of a conversation, each told once."""

    def __init__(
        self, cwd: Path, home: Path, managed: Path = MANAGED, is_approved: bool = False
    ) -> None:
        """`home` is the client's configuration directory; `is_approved` whether the user agreed to
        what the project imports from outside."""
        self.cwd = cwd.resolve()
        self.home = home
        self.managed = managed
        self._is_approved = is_approved
        self._project = repository_of(self.cwd) or self.cwd
        self._seen: set[Path] = set()

    def at_start(self) -> list[Memory]:
        """What a conversation starts with."""
        found = [*self._read(self.managed / "CLAUDE.md", MemoryKind.MANAGED)]
        found += self._read(self.home / "CLAUDE.md", MemoryKind.USER)
        found += self._rules(self.home / "rules", MemoryKind.USER)
        for folder in (*reversed(self.cwd.parents), self.cwd):
            found += self._in_folder(folder)
        return found

    def for_file(self, path: Path) -> list[Memory]:
        """What is to be told when a file is read: of the directories on the way down to it, and
        the rules for such files."""
        path = path.resolve()
        found: list[Memory] = []
        if path.is_relative_to(self.cwd):
            below = [each for each in path.parents if each.is_relative_to(self.cwd)]
            for folder in reversed(below[:-1]):
                found += self._in_folder(folder, Loaded("nested_traversal", path))
        found += self._rules_for(path, self.home / "rules", MemoryKind.USER, self.cwd)
        for folder in reversed(path.parents):
            rules = folder / ".claude" / "rules"
            found += self._rules_for(path, rules, MemoryKind.PROJECT, folder)
        return found

    def _in_folder(self, folder: Path, why: Loaded = AT_START) -> Iterator[Memory]:
        yield from self._read(folder / "CLAUDE.md", MemoryKind.PROJECT, why)
        yield from self._read(folder / ".claude" / "CLAUDE.md", MemoryKind.PROJECT, why)
        yield from self._rules(folder / ".claude" / "rules", MemoryKind.PROJECT, why)
        yield from self._read(folder / "CLAUDE.local.md", MemoryKind.LOCAL, why)

    def _rules(self, folder: Path, kind: MemoryKind, why: Loaded = AT_START) -> Iterator[Memory]:
        """The rules of a folder that are not limited to certain files."""
        for path in markdown_files(folder):
            if _patterns_of(path) is None:
                yield from self._read(path, kind, why)

    def _rules_for(
        self, target: Path, folder: Path, kind: MemoryKind, root: Path
    ) -> Iterator[Memory]:
        """The rules of a folder that are for a certain file."""
        for path in markdown_files(folder):
            patterns = _patterns_of(path)
            if patterns and _fits(target, patterns, root):
                why = Loaded("path_glob_match", target, tuple(patterns))
                yield from self._read(path, kind, why)

    def _read(
        self, path: Path, kind: MemoryKind, why: Loaded = AT_START, hops: int = 0
    ) -> Iterator[Memory]:
        """A file, after what it imports."""
        real = path.resolve()
        raw = read_text(path) if path.is_file() and real not in self._seen else None
        if raw is None or "\0" in raw:
            return
        self._seen.add(real)
        _, body = split_head(raw)
        text = without_comments(body).strip()
        if hops < MOST_HOPS:
            for named in imports_of(body):
                by_import = Loaded("include", why.trigger, parent=path)
                yield from self._read(_import_path(named, path), kind, by_import, hops + 1)
        if text:
            yield Memory(path, kind, text, bool(hops) and self._is_outside(real, kind), why)

    def _is_outside(self, path: Path, kind: MemoryKind) -> bool:
        is_shared = kind in (MemoryKind.PROJECT, MemoryKind.LOCAL)
        return is_shared and not self._is_approved and not path.is_relative_to(self._project)


def _patterns_of(path: Path) -> list[str] | None:
    fields, _ = split_head(read_text(path) or "")
    return names_of(fields.get("paths"))


def _import_path(named: str, importer: Path) -> Path:
    """The file that an import names: what ends a sentence is no part of it, if it cannot be."""
    path = _located(named, importer)
    return path if path.exists() else _located(named.rstrip(PUNCTUATION), importer)


def _located(named: str, importer: Path) -> Path:
    return importer.parent / Path(named).expanduser()


def _fits(path: Path, patterns: list[str], root: Path) -> bool:
    """Whether a file is one of those that patterns name, seen from the project's directory."""
    from pathspec import GitIgnoreSpec

    if not path.is_relative_to(root):
        return False
    anchored = [f"/{each.lstrip('/')}" for pattern in patterns for each in _expand(pattern)]
    return GitIgnoreSpec.from_lines(anchored).match_file(str(path.relative_to(root)))


def _expand(pattern: str) -> list[str]:
    """A pattern for each choice of its braces; one of very many choices stays as it is.

    >>> _expand("src/*.{ts,tsx}")
    ['src/*.ts', 'src/*.tsx']
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= MOST_PATTERNS:
        head, brace, rest = waiting.pop().partition("{")
        inner, close, tail = rest.partition("}")
        if not brace or not close:
            done.append(head + brace + rest)
        else:
            waiting += [f"{head}{each}{tail}" for each in reversed(inner.split(","))]
    return [pattern] if waiting else done
