"""Write the spans of many sessions to one file; large stores are shared among processes.

Each process writes parts, which are joined in the order of the sessions: the file is the same as
one process would write. Neither spans nor parts are held in memory as a whole.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, ClassVar, NamedTuple

from msgspec import Struct, field

from turnlog.format.regular_files import Skipped, collect_skipped, note_skipped
from turnlog.store.batches import gathered
from turnlog.store.parallel import open_pool
from turnlog.trace.span import Span
from turnlog.trace.span_files import encode_span, otlp_file, write_otlp, write_perfetto

PROCESSES = 2
PART = 2 << 20
"""Bytes of sessions that one part is made of, at least."""
LARGE = 4 * PART
"""Bytes of a part that takes long enough for the other processes to run out of work."""
WORTH_SHARING = 4 << 20
"""Starting other processes takes longer than making spans of this many bytes."""

SpansOf = Callable[[Path], Iterator[Span]]
Progress = Callable[[int], None]
"""Called with the bytes of sessions that were written since the last call."""


class SpanTally(Struct):
    """What was written."""

    turns: set[str] = field(default_factory=set[str])
    """Their trace ids."""
    spans: int = 0

    def add(self, span: Span) -> None:
        if not span.trace.is_helper:
            self.turns.add(span.trace.id)
        self.spans += 1


class Batch(NamedTuple):
    """Sessions that make one part, and their bytes."""

    sessions: Sequence[Path]
    size: int


class WrittenPart(NamedTuple):
    """A part that another process has written."""

    path: Path
    tally: SpanTally
    skipped: Skipped


def write_sessions(
    path: Path,
    sessions: Sequence[Path],
    spans_of: SpansOf,
    progress: Progress,
    resource: Mapping[str, str] | None,
) -> SpanTally:
    """Write the spans of sessions to a file, as OTLP's JSON or as Perfetto's events.

    Perfetto's events have no resource; OTLP's have one, even if it has no attributes.
    """
    sizes = {session: _size(session) for session in sessions}
    tally = SpanTally()
    if resource is None or sum(sizes.values()) < WORTH_SHARING:
        spans = _counted(sessions, spans_of, tally, lambda done: progress(sizes[done]))
        if resource is None:
            write_perfetto(path, spans)
        else:
            write_otlp(path, spans, resource)
        return tally
    groups = gathered(sessions, sizes.__getitem__, PART)
    batches = [Batch(group, sum(map(sizes.__getitem__, group))) for group in groups]
    with (
        otlp_file(path, resource) as file,
        TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder,
    ):
        for part in _parts(batches, spans_of, Path(folder), progress):
            _join(file, part, tally)
    return tally


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _counted(
    sessions: Iterable[Path], spans_of: SpansOf, tally: SpanTally, done: Callable[[Path], None]
) -> Iterator[Span]:
    for session in sessions:
        for span in spans_of(session):
            tally.add(span)
            yield span
        done(session)


def _parts(
    batches: Sequence[Batch], spans_of: SpansOf, folder: Path, progress: Progress
) -> Iterator[WrittenPart]:
    """Have other processes write parts; yield them in order."""
    # Large sessions first, so that none is left to one process at the end while others wait. The
    # rest stays in order: parts are joined, and their files deleted, soon after they are written.
    ranks = sorted(range(len(batches)), key=lambda rank: batches[rank].size < LARGE)
    with open_pool(PROCESSES, _PartWriter.start, spans_of) as pool:
        tasks = {
            pool.submit(_PartWriter.write, batches[rank].sessions, folder / str(rank)): rank
            for rank in ranks
        }
        written: dict[int, WrittenPart] = {}
        joined = 0
        for task in as_completed(tasks):
            rank = tasks[task]
            written[rank] = task.result()
            progress(batches[rank].size)
            while joined in written:
                yield written.pop(joined)
                joined += 1


def _join(file: BinaryIO, part: WrittenPart, tally: SpanTally) -> None:
    with part.path.open("rb") as written:
        if not tally.spans:
            written.read(1)  # the comma that separates a span from the one before
        shutil.copyfileobj(written, file)
    part.path.unlink()
    tally.turns |= part.tally.turns
    tally.spans += part.tally.spans
    for path, reason in part.skipped.items():
        note_skipped(path, reason)


class _PartWriter:
    """What a process of the pool has from one part to the next."""

    spans_of: ClassVar[SpansOf]

    @classmethod
    def start(cls, spans_of: SpansOf) -> None:
        cls.spans_of = spans_of

    @classmethod
    def write(cls, sessions: Sequence[Path], path: Path) -> WrittenPart:
        tally = SpanTally()
        with collect_skipped() as skipped, path.open("wb") as file:
            for span in _counted(sessions, cls.spans_of, tally, lambda _: None):
                file.write(b"," + encode_span(span))
        return WrittenPart(path, tally, skipped)
