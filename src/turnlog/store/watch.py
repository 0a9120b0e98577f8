"""Yield lines as they are appended to one file or to any session of a store.

Each line is yielded once, when its newline has been written. A truncated or replaced file is read
again from its start.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Event

from turnlog.errors import NotFound
from turnlog.format.jsonl import Bookmark, Line, read_lines, read_lines_backwards
from turnlog.format.regular_files import regular_paths

POLL_MS = 1000


class Follower:
    """The read position in each of several files."""

    def __init__(self) -> None:
        self._bookmarks: dict[Path, Bookmark] = {}

    def skip(self, path: Path, but: int) -> None:
        """Mark the whole lines of a file as read, except the last few."""
        whole = (line for line in read_lines_backwards(path) if line.is_whole)
        last = list(islice(whole, max(but, 1)))
        start = 0 if not last else last[-1].offset if but else last[0].end
        self._bookmarks[path] = Bookmark.at(path, start)

    def skip_to_tail(self, path: Path, reach: int) -> None:
        """Mark a file as read, except for the lines that end within its last `reach` bytes."""
        start, end = 0, path.stat().st_size
        for line in read_lines_backwards(path):
            if line.end <= end - reach:
                break
            start = line.offset
        self._bookmarks[path] = Bookmark.at(path, start)

    def position(self, path: Path) -> int:
        """Return the offset up to which a file was read; 0 if it was replaced since."""
        return self._bookmark_in(path).offset

    def read_new(self, path: Path) -> Generator[Line]:
        """Yield the whole lines appended to a file since it was last read.

        A caller that stops early continues after the last line yielded.
        """
        try:
            bookmark = self._bookmark_in(path)
            try:
                for line in read_lines(path, bookmark.offset):
                    if not line.is_whole:
                        break
                    bookmark = bookmark.past(line)
                    yield line
            finally:
                self._bookmarks[path] = bookmark
        except FileNotFoundError:
            self._bookmarks.pop(path, None)

    def _bookmark_in(self, path: Path) -> Bookmark:
        bookmark = self._bookmarks.get(path, Bookmark())
        return bookmark if bookmark.holds(path) else Bookmark()


def watch(
    paths: Path | Sequence[Path],
    is_wanted: Callable[[Path], bool],
    last: int = 0,
    stop: Event | None = None,
) -> Iterator[tuple[Path, Line]]:
    """Yield each line appended to a file, or to the wanted files below folders, with its file.

    Existing lines are skipped, except the `last` lines of each file.
    """
    from watchfiles import watch as wait_for_changes

    places = [paths] if isinstance(paths, Path) else list(paths)
    folders = [path if path.is_dir() else path.parent for path in places]
    for folder in folders:
        if not folder.is_dir():
            raise NotFound(f"nothing to watch: {folder} does not exist", "turnlog where")
    follower = Follower()
    for found in _files_at(places, is_wanted):
        follower.skip(found, last)
        yield from ((found, line) for line in follower.read_new(found))
    for changes in wait_for_changes(
        *folders,
        stop_event=stop,
        rust_timeout=POLL_MS,
        yield_on_timeout=True,
        debounce=100,
        step=20,
    ):
        # Some file systems (network mounts) never report changes. On a timeout, which reports none,
        # look at every file.
        changed = {Path(name) for _, name in changes}
        for found in _files_at(places, is_wanted):
            if not changed or found.absolute() in changed:
                yield from ((found, line) for line in follower.read_new(found))


def _files_at(places: Sequence[Path], is_wanted: Callable[[Path], bool]) -> list[Path]:
    found: dict[Path, None] = {}  # nested stores list a file twice
    for path in places:
        if path.is_dir():
            found |= dict.fromkeys(regular_paths(filter(is_wanted, path.rglob("*.jsonl"))))
        elif path.exists():
            found[path] = None
    return list(found)
