"""Lines as they are appended, to one file or to any session of a store.

A line is yielded once, when its newline is there. A file that was truncated, or replaced by other
content, is read again from its start.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Event

from turnlog.errors import NotFound
from turnlog.format.jsonl import Bookmark, Line, read_lines, read_lines_backwards
from turnlog.format.regular_files import regular_paths

POLL_MS = 1000


class Follower:
    """Remembers how far each file has been read."""

    def __init__(self) -> None:
        self._places: dict[Path, Bookmark] = {}

    def skip(self, path: Path, but: int) -> None:
        """Take the whole lines of a file as read, but for the last few."""
        whole = (line for line in read_lines_backwards(path) if line.is_whole)
        last = list(islice(whole, max(but, 1)))
        start = 0 if not last else last[-1].offset if but else last[0].end
        self._places[path] = Bookmark.at(path, start)

    def read_new(self, path: Path) -> Iterator[Line]:
        """Yield the whole lines that a file has gained since it was last read."""
        try:
            place = self._place_in(path)
            for line in read_lines(path, place.offset):
                if not line.is_whole:
                    break
                place = place.past(line)
                yield line
            self._places[path] = place
        except FileNotFoundError:
            self._places.pop(path, None)

    def _place_in(self, path: Path) -> Bookmark:
        place = self._places.get(path, Bookmark())
        return place if place.holds(path) else Bookmark()


def watch(
    path: Path, is_wanted: Callable[[Path], bool], last: int = 0, stop: Event | None = None
) -> Iterator[tuple[Path, Line]]:
    """Yield each line appended to a file, or to the wanted files below a folder, and its file.

    What was there before is left out, but for the `last` lines of each file.
    """
    from watchfiles import watch as wait_for_changes

    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        raise NotFound(f"nothing to watch: {folder} does not exist", "turnlog where")
    follower = Follower()
    for each in _files_at(path, is_wanted):
        follower.skip(each, last)
        yield from ((each, line) for line in follower.read_new(each))
    for changes in wait_for_changes(
        folder, stop_event=stop, rust_timeout=POLL_MS, yield_on_timeout=True, debounce=100, step=20
    ):
        # Where none is told, look at every file: some file systems do not tell.
        changed = {Path(name) for _, name in changes}
        for each in _files_at(path, is_wanted):
            if not changed or each.absolute() in changed:
                yield from ((each, line) for line in follower.read_new(each))


def _files_at(path: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    if not path.is_dir():
        return [path] if path.exists() else []
    return regular_paths(filter(is_wanted, path.rglob("*.jsonl")))
