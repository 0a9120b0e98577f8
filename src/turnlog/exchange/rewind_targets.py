"""Find files outside of a project that `/rewind` would change because of received lines.

Importing a bundle stops tracking such files. A sync never changes lines, which normally come from
the user's own machines. But anyone who can write to DEST can add lines, so the files are reported.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.edit.tracked_files import without_foreign_files
from turnlog.exchange.editions import OwnFile
from turnlog.exchange.line_merge import split_lines
from turnlog.exchange.packs import Fetch
from turnlog.exchange.shared_paths import Places

MOST_TARGETS = 3


class RewindTargets:
    """Collects files outside of the project that are tracked by received lines of one log."""

    def __init__(self, file: OwnFile, places: Places) -> None:
        self.found: dict[str, None] = {}
        self._is_log = file.version.is_log
        self._directory = places.local_directory(file.version.project)
        if file.segments is not None:
            # Lines that this machine had before are its own.
            base = set(file.base)
            for segment in file.segments:
                if segment.piece not in base:
                    self._look(segment.lines)

    def watched(self, fetch: Fetch) -> Fetch:
        """Return a function that fetches a piece, and inspects its lines if the file is a log."""
        if not self._is_log:
            return fetch

        def fetch_and_look(digest: bytes, size: int) -> bytes:
            raw = fetch(digest, size)
            self._look(split_lines(raw))
            return raw

        return fetch_and_look

    def describe(self) -> str:
        """Return the first files, for a message; empty if there are none."""
        shown = ", ".join(list(self.found)[:MOST_TARGETS])
        more = len(self.found) - MOST_TARGETS
        return f"{shown} and {more} more" if more > 0 else shown

    def _look(self, lines: Iterable[bytes]) -> None:
        self.found |= dict.fromkeys(self._targets(lines))

    def _targets(self, lines: Iterable[bytes]) -> Iterator[str]:
        for line in lines:
            for path in without_foreign_files(line, self._directory)[1]:
                whole = Path(self._directory, path)
                # Skip directories of other machines that do not exist here, such as /Users/ada.
                if not whole.is_absolute() or whole.parent.is_dir():
                    yield str(whole if whole.is_absolute() else path)
