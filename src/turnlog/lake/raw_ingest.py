"""Convert raw session files on shared storage to a lake, here or on a Spark cluster.

Files are planned here and converted in tasks. A second run writes only units that have changed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from turnlog.errors import NotFound, UsageError
from turnlog.format.regular_files import collect_skipped
from turnlog.lake.lake_parts import require_version, units_folder
from turnlog.lake.lake_settings import LakeSettings, names_for, this_machine
from turnlog.lake.lake_storage import LakeStorage, open_storage
from turnlog.lake.lake_units import UnitKey
from turnlog.lake.live_units import FORGOTTEN, UnitRow, all_winners
from turnlog.lake.raw_files import RawFile, RawFolder, absolute_place, origin_of, share_out
from turnlog.lake.raw_task import (
    KnownUnit,
    RawMachine,
    RawSource,
    RawSummary,
    RawTask,
    decode_summary,
    encode_task,
    raw_id,
    run_encoded,
)
from turnlog.lake.spark_tasks import run_on_spark

TASK_SIZE = 128 << 20
"""Bytes of raw files that a task reads."""
ENGINES = ("local", "spark")

Step = Callable[[int, int], None]
"""Called with the number of finished tasks, and the total."""


@dataclass(frozen=True)
class RawOptions:
    """Options of a raw ingestion."""

    engine: str = "local"
    master: str | None = None
    """The Spark cluster; None for the one passed to spark-submit."""
    since: float | None = None
    """Read only files that were changed since this time, in seconds since 1970."""
    user: str | None = None
    """The user of all files, instead of the one derived from a store's path."""
    task_size: int = TASK_SIZE
    is_dry_run: bool = False
    step: Step = lambda done, total: None


@dataclass
class Ingested:
    """The result of a raw ingestion."""

    raw: str
    dest: str
    engine: str
    machines: int = 0
    tasks: int = 0
    forgotten: int = 0
    """Files left out because they were removed by `lake forget`."""
    seconds: float = 0
    tasks_seconds: float = 0
    """Time from the first task to the last."""
    summary: RawSummary = field(default_factory=RawSummary)
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Paths that were not read, with the reason."""


def ingest_raw(
    raw: str, dest: str, settings: LakeSettings, options: RawOptions | None = None
) -> Ingested:
    """Write the rows of all session files below `raw` to a lake."""
    options = options or RawOptions()
    if options.engine not in ENGINES:
        known = " or ".join(ENGINES)
        raise UsageError(f"--engine {options.engine}: choose {known}", "turnlog lake ingest --help")
    start, storage = time.monotonic(), open_storage(dest)
    require_version(storage)
    done = Ingested(raw, dest, options.engine)
    folder = RawFolder(raw)
    with collect_skipped() as skipped:
        files = folder.list_files()
    done.skipped = skipped
    if not files:
        raise NotFound(f"there are no session files below {raw}", f"ls -R {raw}")
    tasks = list(_Plan(storage, settings, options, done).tasks(folder.place, files))
    done.tasks = len(tasks)
    begin = time.monotonic()
    for summary in _run(tasks, options):
        done.summary.add(decode_summary(summary))
    done.tasks_seconds = time.monotonic() - begin
    done.seconds = time.monotonic() - start
    return done


def _run(tasks: Sequence[bytes], options: RawOptions) -> Iterable[bytes]:
    if options.engine == "spark":
        return run_on_spark(run_encoded, tasks, options.master, options.step)
    return _run_here(tasks, options.step)


def _run_here(tasks: Sequence[bytes], step: Step) -> Iterator[bytes]:
    for number, task in enumerate(tasks):
        step(number, len(tasks))
        yield run_encoded(task)
    step(len(tasks), len(tasks))


class _Plan:
    """Decides which files each task reads, and tells it which units the lake already has."""

    def __init__(
        self, storage: LakeStorage, settings: LakeSettings, options: RawOptions, done: Ingested
    ) -> None:
        self.storage, self.options, self.done = storage, options, done
        self.names = names_for(settings, this_machine())
        self.known_machines = set(storage.names(units_folder()))
        self.machines: dict[str, tuple[str, int, Mapping[str, list[UnitRow]]]] = {}

    def tasks(self, raw: str, files: Sequence[RawFile]) -> Iterator[bytes]:
        """Yield encoded tasks."""
        since = self.options.since
        chosen = [each for each in files if since is None or each.mtime_ns >= since * 1e9]
        # The list is sorted by store, so each group of a task is one machine.
        for some in share_out(chosen, self.options.task_size):
            groups = groupby(some, key=_store_of)
            machines = [self._machine(store, list(group)) for store, group in groups]
            task = RawTask(
                raw=raw,
                dest=absolute_place(self.storage),
                names=self.names,
                machines=[each for each in machines if each.sources],
                is_dry_run=self.options.is_dry_run,
            )
            if task.machines:
                yield encode_task(task)
        self.done.machines = len(self.machines)

    def _machine(self, store: str, files: Sequence[RawFile]) -> RawMachine:
        if store not in self.machines:
            self.machines[store] = self._known(raw_id(self.names.key, "machine", store))
        machine, version, units = self.machines[store]
        sources: list[RawSource] = []
        for each in files:
            file = raw_id(self.names.key, "file", each.session_name)
            rows = units.get(file, [])
            # Tasks do not check tombstones, so leave out forgotten files here.
            if any(row.is_forgotten for row in rows):
                self.done.forgotten += 1
                continue
            known = [KnownUnit(r.table, r.day, r.sha256 or "") for r in rows if not r.is_retracted]
            sources.append(RawSource(each, file, known))
        user, host = people_of(store)
        return RawMachine(machine, version, self.options.user or user, host, sources)

    def _known(self, machine: str) -> tuple[str, int, dict[str, list[UnitRow]]]:
        """Return a machine with the version to write and its units in the lake, by file."""
        winners: dict[UnitKey, UnitRow] = {}
        # In an object store, even looking for units that do not exist takes a request.
        if f"machine={machine}" in self.known_machines:
            winners = all_winners(self.storage, machine)
        by_file: dict[str, list[UnitRow]] = {}
        for row in winners.values():
            by_file.setdefault(row.file, []).append(row)
        versions = [row.version for row in winners.values() if row.version < FORGOTTEN]
        return machine, max(versions, default=0) + 1, by_file


def _store_of(file: RawFile) -> str:
    origin = origin_of(file.session_name)
    return origin.store if origin else ""


def people_of(store: str) -> tuple[str | None, str | None]:
    """Derive user and host from the path of a store.

    >>> people_of("ada/laptop"), people_of("ada/.claude"), people_of("")
    (('ada', 'laptop'), ('ada', 'ada'), (None, None))
    """
    parts = [part for part in store.split("/") if part and not part.startswith(".")]
    return (parts[0], parts[-1]) if parts else (None, None)
