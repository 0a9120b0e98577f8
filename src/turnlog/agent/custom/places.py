"""Where commands, skills and agents are defined: with the user, and along the way to the project.

A project's own folders lie in every directory from its repository's root to where the work is.
"""

from pathlib import Path

from turnlog.agent.repository import repository_of
from turnlog.store.paths import Store


def project_folders(cwd: Path, kind: str) -> list[Path]:
    """The folders of a project for one kind of definition, the nearest last.

    >>> [str(each) for each in project_folders(Path("/nowhere"), "agents")]
    ['/nowhere/.claude/agents']
    """
    root = repository_of(cwd) or cwd
    way = [cwd, *cwd.parents]
    return [each / ".claude" / kind for each in reversed(way[: way.index(root) + 1])]


def user_folder(store: Store, kind: str) -> Path:
    """The folder of the user for one kind of definition."""
    return store.root / kind


def markdown_files(folder: Path) -> list[Path]:
    """All Markdown files in a folder and below it."""
    return sorted(path for path in folder.rglob("*.md") if path.is_file())


def read_text(path: Path) -> str | None:
    """A file's text; None for one that cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None
