"""Write the spans of many sessions to one file, in parallel for large stores.

Each process writes parts, which are joined in the order of the sessions: the result is the same as
from one process. Neither spans nor parts are ever held in memory completely.
"""

import re
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
"""Minimum bytes of sessions per part."""
LARGE = 4 * PART
"""Minimum bytes of a part that is started early, so that no process ends up working alone on it."""
WORTH_SHARING = 4 << 20
"""Minimum bytes for which starting other processes pays off."""

IDS = re.compile(rb'\{"traceId":"(\w+)","spanId":"(\w+)"')
"""The start of an encoded span."""

SpansOf = Callable[[Path], Iterator[Span]]
Progress = Callable[[int], None]
"""Called with the number of bytes of sessions processed since the last call."""


class SpanTally(Struct):
    """Counts the turns and spans that were written."""

    turns: set[str] = field(default_factory=set[str])
    """Trace ids of the turns."""
    ids: set[bytes] = field(default_factory=set[bytes])
    """Keys of the spans: each is the trace id followed by the span id."""

    @property
    def spans(self) -> int:
        return len(self.ids)

    def add(self, span: Span) -> bool:
        """Count a span; return False if it was counted before, in another copy of its session."""
        if not span.trace.is_helper:
            self.turns.add(span.trace.id)
        before = len(self.ids)
        self.ids.add(bytes.fromhex(span.trace.id + span.id))
        return len(self.ids) > before


class Batch(NamedTuple):
    """Sessions that are written as one part, and their total size."""

    sessions: Sequence[Path]
    size: int


class WrittenPart(NamedTuple):
    """A part written by another process."""

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
    """Write the spans of sessions as OTLP JSON, or for Perfetto if `resource` is None."""
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
            if tally.add(span):
                yield span
        done(session)


def _parts(
    batches: Sequence[Batch], spans_of: SpansOf, folder: Path, progress: Progress
) -> Iterator[WrittenPart]:
    """Write parts in other processes; yield them in order."""
    # Large parts first, so that no process works on one alone at the end. The rest stays in order,
    # so that parts can be joined, and their files deleted, soon after they are written.
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
            written.read(1)  # skip the comma before the very first span
        if tally.ids.isdisjoint(part.tally.ids):
            shutil.copyfileobj(written, file)
        else:
            file.writelines(_unwritten(written, tally.ids))
    part.path.unlink()
    tally.turns |= part.tally.turns
    tally.ids |= part.tally.ids
    for path, reason in part.skipped.items():
        note_skipped(path, reason)


def _unwritten(written: Iterable[bytes], known: set[bytes]) -> Iterator[bytes]:
    """Yield the spans of a part, one per line, that are in no earlier part."""
    for line in written:
        if (ids := IDS.match(line)) and bytes.fromhex(ids.expand(rb"\1\2").decode()) not in known:
            yield b",\n" + line.removesuffix(b"\n").removesuffix(b",")


class _PartWriter:
    """The state that a pool process keeps between parts."""

    spans_of: ClassVar[SpansOf]

    @classmethod
    def start(cls, spans_of: SpansOf) -> None:
        """Initialize a process of the pool."""
        cls.spans_of = spans_of

    @classmethod
    def write(cls, sessions: Sequence[Path], path: Path) -> WrittenPart:
        """Write the spans of sessions to a part, each preceded by a comma."""
        tally = SpanTally()
        with collect_skipped() as skipped, path.open("wb") as file:
            for span in _counted(sessions, cls.spans_of, tally, lambda _: None):
                file.write(b"," + encode_span(span))
        return WrittenPart(path, tally, skipped)
