"""Measure turnlog beside a peer on generated sessions: `make bench`.

All figures come from one run, because machines differ and change; the aims are ratios. The table is
printed and kept in bench/results.md.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path

from bundles import BUNDLE_PEAK, BUNDLE_RATE, UNBUNDLE_RATE, measure_bundles
from chain import write_chain
from chat import Chats
from edits import EDIT_RATE, edit_jobs, peak_limit
from file_moments import FILE_AIMS, file_jobs
from generate import UNITS, default_sessions, generate, parse_size
from hook import FILE_RATE, GROWTH, LEEWAY, backfill_job, file_job, measure_hook, sink
from know import Homes, appending, copy_with_one_apart, require_same_totals, telling
from measure import Job, measure, measure_peaks
from peer import (
    AGENTSVIEW,
    ALONE,
    ARGUMENTS,
    CC_SEARCH,
    install_ccusage,
    install_claude_code_log,
    install_package,
)
from pick import pick_jobs
from reports import describe
from small import SESSIONS, write_small
from syncing import RECEIVE_RATE, SEND_RATE, UNCHANGED, sync_jobs

from web import WebBench

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache/bench"
RESULTS = HERE / "results.md"
REPORTS = """## Reports

Asked of the tables, without an answer that was kept; the best of three.

"""
PYTHON = Path(sys.executable)
TURNLOG = PYTHON.parent / "turnlog"
MANY_SESSIONS = 3000
MANY_SIZE = 500 * UNITS["MB"]
SOME_SIZE = 100 * UNITS["MB"]
LONG_SIZE = 25 * UNITS["MB"]
LINES = 1_000_000
PEAK_LIMIT = 150 * UNITS["MB"]
INDEX_PEAK = 300 * UNITS["MB"]
EXPORT_PEAK = 60 * UNITS["MB"]
PICKED_SESSIONS = 10_000
QUICK_ROUNDS = 8
"""How many times as often jobs of a tenth of a second are measured."""


@dataclass(frozen=True)
class Row:
    """A measured job and the aims it is held to, each a value that it should not exceed."""

    job: Job
    against: str = ""
    seconds: float | None = None
    peak: int | None = None


def main() -> None:
    options = _options()
    load = os.getloadavg()[0]
    if options.web:
        long = _store("long", LONG_SIZE, 1)
        print(_table([*_shows(long), *_pages(long)]))
        return
    large = _store("large", options.size, default_sessions(options.size))
    many = _store("many", MANY_SIZE, MANY_SESSIONS)
    small = _small_store()
    rows = [
        *_scans(large, options.rounds),
        *_lists(many, options.rounds),
        *_starts(options.rounds),
        *_shows(_store("long", LONG_SIZE, 1)),
        *_opens(CACHE / "million.jsonl"),
        *_pages(_store("long", LONG_SIZE, 1)),
        *_edits(CACHE / "edits"),
        *_bundles(CACHE / "bundles"),
        *_files(CACHE / "files"),
        *_knows(large, options.rounds),
        *_small(small, options.rounds),
        *_two_stores(small, _store("some", SOME_SIZE, default_sessions(SOME_SIZE)), options.rounds),
        *_picks(options.rounds),
        *_hooks(_store("some", SOME_SIZE, default_sessions(SOME_SIZE))),
        *_syncs(_store("some", SOME_SIZE, default_sessions(SOME_SIZE))),
        *_chats(options.rounds),
    ]
    text = _report(rows, load, large, many)
    indexes = {"1 GB": _index("first"), f"{SESSIONS:,} sessions": _index("small")}
    text += f"\n{REPORTS}{describe(indexes)}"
    RESULTS.write_text(text)
    print(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure turnlog beside a peer.")
    size = os.environ.get("BENCH_SIZE", "1GB")
    parser.add_argument("--size", type=parse_size, default=size, help="or BENCH_SIZE; default: 1GB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--web", action="store_true", help="only export and web app, printed")
    return parser.parse_args()


def _store(name: str, size: int, sessions: int) -> Path:
    """A generated store, made anew only where it would come out different."""
    folder, stamp = CACHE / name, CACHE / f"{name}.json"
    sources = b"".join((HERE / f"{module}.py").read_bytes() for module in GENERATOR)
    wanted = json.dumps([size, sessions, hashlib.sha256(sources).hexdigest()])
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Writing {size / UNITS['MB']:,.0f} MB of sessions to {folder}", file=sys.stderr)
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        generate(folder, size, sessions)
        stamp.write_text(wanted)
    return folder


def _small_store() -> Path:
    """A store of very many sessions, made anew only where it would come out different."""
    folder, stamp = CACHE / "small", CACHE / "small.json"
    wanted = hashlib.sha256((HERE / "small.py").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Writing {SESSIONS:,} sessions to {folder}", file=sys.stderr)
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        write_small(folder)
        stamp.write_text(wanted)
    return folder


def _scans(store: Path, rounds: int) -> Iterator[Row]:
    """Jobs that read every byte of a store."""
    scan = (PYTHON, HERE / "scan.py")
    lines = _job("read lines", (*scan, "read", "1", store), store)
    alone = _job("decode entries, 1 process", (*scan, "decode", "1", store), store)
    shared = _job("decode entries, 2 processes", (*scan, "decode", "2", store), store)
    tokens = _job("scan tokens, 2 processes", (*scan, "tokens", "2", store), store)
    survey = _job("turnlog inspect --all", (TURNLOG, "inspect", "--all"), store)
    found = install_ccusage(CACHE / "ccusage")
    peers = [_job(name, (path, *ARGUMENTS), store) for name, path in found.items()]
    jobs = [lines, alone, shared, tokens, survey, *peers]
    size = _size(store)[1]
    for job in jobs:
        job.size = size
    measure(jobs, rounds)
    measure_peaks(jobs)
    best = min(peer.seconds for peer in peers) if peers else None
    yield Row(lines, peak=PEAK_LIMIT)
    yield Row(alone, peak=PEAK_LIMIT)
    yield Row(tokens, "0.8 × ccusage", 0.8 * best if best else None, PEAK_LIMIT)
    yield Row(shared, "ccusage" if peers else "ccusage (could not be installed)", best, PEAK_LIMIT)
    yield Row(survey, peak=PEAK_LIMIT)
    yield from map(Row, peers)


def _lists(store: Path, rounds: int) -> Iterator[Row]:
    """Jobs that look at the ends of many files."""
    recent = _job(f"turnlog ls, of {MANY_SESSIONS:,}", (TURNLOG, "ls"), store)
    full = _job(f"turnlog ls --limit 0, {MANY_SESSIONS:,}", (TURNLOG, "ls", "--limit", "0"), store)
    measure([recent, full], rounds)
    measure_peaks([recent, full])
    yield Row(recent, "0.5 s", 0.5, PEAK_LIMIT)
    yield Row(full, peak=PEAK_LIMIT)


def _starts(rounds: int) -> Iterator[Row]:
    """Jobs that only start."""
    bare = _job("python -c pass", (PYTHON, "-c", "pass"))
    usage = _job("turnlog --help", (TURNLOG, "--help"))
    measure([bare, usage], QUICK_ROUNDS * rounds)
    yield Row(usage, "3 × python", 3 * bare.seconds)
    yield Row(bare)


def _shows(store: Path) -> Iterator[Row]:
    """One long session, to read."""
    path = max(store.rglob("*.jsonl"), key=lambda each: each.stat().st_size)
    count = sum(1 for _ in path.open("rb"))
    text = _job(f"turnlog show, {count:,} lines", (TURNLOG, "show", path), store)
    markdown = _job("turnlog show --format md", (TURNLOG, "show", path, "--format", "md"), store)
    exported = CACHE / "exported.html"
    command = (TURNLOG, "export", path, "--yes", "-o", exported)
    html = _job("turnlog export, to HTML", command, store)
    found = install_claude_code_log(CACHE / "claude-code-log")
    page = CACHE / "long.html"
    peers = [_job("claude-code-log, to HTML", (found, path, "-o", page))] if found else []
    jobs = [text, markdown, html, *peers]
    measure(jobs, 3)
    measure_peaks(jobs)
    for job, written in ((html, exported), *((peer, page) for peer in peers)):
        job.name += f" ({written.stat().st_size / UNITS['MB']:.1f} MB)"
    yield Row(text, "1 s", 1)
    yield Row(markdown, "1 s", 1)
    yield Row(html, "1 s", 1, EXPORT_PEAK)
    yield from map(Row, peers)


def _opens(path: Path) -> Iterator[Row]:
    """A session of very many lines: its time should grow as its lines do."""
    half = path.with_stem("half-million")
    write_chain(half, LINES // 2)
    write_chain(path, LINES)
    scan = (PYTHON, HERE / "scan.py", "open", "1")
    first = _job(f"open a session of {LINES // 2:,} lines", (*scan, half))
    second = _job(f"open a session of {LINES:,} lines", (*scan, path))
    measure([first, second], 2)
    measure_peaks([first, second])
    yield Row(first)
    yield Row(second, "2.5 × the half", 2.5 * first.seconds, UNITS["GB"])
    yield from _tables(path)


def _tables(path: Path) -> Iterator[Row]:
    """The same session opened with its node table, which the first command writes."""
    cat = _job("cat of the same file", ("cat", path))
    jobs = [_job("turnlog show --turn 250000", (TURNLOG, "show", path, "--turn", "250000"))]
    jobs += [
        _job(f"turnlog {name}, first rows", ("sh", "-c", f"{TURNLOG} {name} {path} | head -20"))
        for name in ("show", "turns", "tree")
    ]
    writing = _job("turnlog show, which writes the table", jobs[0].command)
    measure([writing], 1)
    measure([cat, *jobs], 5)
    measure_peaks(jobs)
    for job in jobs:
        yield Row(job, "0.3 s", 0.3, PEAK_LIMIT)
    yield Row(cat)
    yield Row(writing)


def _pages(long: Path) -> Iterator[Row]:
    """The web app in a browser, and what peers show of the same session."""
    write_chain(CACHE / "million.jsonl", LINES)
    bench = WebBench(CACHE / "web", TURNLOG, _job("", ()).environment)
    exported, page = CACHE / "exported.html", CACHE / "long.html"  # written by `_shows`
    view = install_package(CACHE / "agentsview", AGENTSVIEW, "agentsview")
    yield from starmap(Row, bench.sessions(long, CACHE / "million.jsonl"))
    yield from starmap(Row, bench.pages())
    yield from starmap(Row, bench.peers(long, exported, page, view))


def _edits(folder: Path) -> Iterator[Row]:
    """Changes of one very large session."""
    jobs, made = edit_jobs(folder, TURNLOG, _job("", ()).environment)
    measure(jobs, 3)
    measure_peaks(jobs)
    for job in jobs:
        yield Row(job, "100 MB/s", made.size / EDIT_RATE, peak_limit(made))


def _bundles(folder: Path) -> Iterator[Row]:
    """Sessions packed, and imported elsewhere."""
    whole, redacted, imported = measure_bundles(folder, TURNLOG, _job("", ()).environment)
    yield Row(whole, "10 MB/s", whole.size / UNBUNDLE_RATE, BUNDLE_PEAK)
    yield Row(redacted, "2 MB/s", redacted.size / BUNDLE_RATE, BUNDLE_PEAK)
    yield Row(imported, "10 MB/s", imported.size / UNBUNDLE_RATE, BUNDLE_PEAK)


def _files(folder: Path) -> Iterator[Row]:
    """Files of one large session at a moment, and the session as a git repository."""
    jobs = file_jobs(folder, TURNLOG, _job("", ()).environment)
    measure(jobs, 3)
    measure_peaks(jobs)
    for job, seconds in zip(jobs, FILE_AIMS, strict=True):
        yield Row(job, f"{seconds:.0f} s", seconds, PEAK_LIMIT)


def _knows(store: Path, rounds: int) -> Iterator[Row]:
    """The index: made, brought up to date, asked."""
    homes = Homes(CACHE / "homes", store)
    size = _size(store)[1]
    first = homes.fresh_job("turnlog sync, first", (TURNLOG, "sync"), "first")
    view = install_package(CACHE / "agentsview", AGENTSVIEW, "agentsview")
    other = install_package(CACHE / "cc-search", CC_SEARCH, "cc-search")
    peers: list[Job] = []
    if view:
        peers.append(homes.fresh_job("agentsview, first sync", (view, "sync"), "view", **ALONE))
    if other:
        peers.append(homes.fresh_job("cc-search (FTS5), first", (other, "--reindex"), "other"))
    for job in (first, *peers):
        job.size = size
    measure([first, *peers], 2)
    measure_peaks([first, *peers])
    slowest = peers[0].seconds / 4 if view else None
    index = next((homes.folder / "first/.cache/turnlog").glob("*.db"))
    first.name += f" (index: {index.stat().st_size / size:.0%} of the files' size)"
    yield Row(first, "a quarter of agentsview", slowest, INDEX_PEAK)
    yield from map(Row, peers)
    yield from _asks(homes, rounds)
    yield from _appends(store, rounds)


def _asks(homes: Homes, rounds: int) -> Iterator[Row]:
    stats = homes.job("turnlog stats daily, warm", (TURNLOG, "stats", "daily", "--json"), "first")
    word = homes.job("turnlog search, a common word", (TURNLOG, "search", "error"), "first")
    line = telling(homes.folder / "first", (TURNLOG, "statusline"))
    status = homes.job("turnlog statusline", line, "first")
    found = install_ccusage(CACHE / "ccusage")
    peers = [homes.job(name, (path, *ARGUMENTS), "first") for name, path in found.items()]
    for peer in peers:
        require_same_totals(stats, peer)
    report = (TURNLOG, "stats", "daily", "--json")
    fresh = homes.fresh_job("turnlog stats daily, first", report, "fresh")
    measure([stats, fresh, *peers], rounds)
    measure([word, status], rounds * QUICK_ROUNDS)
    measure_peaks([stats, word, status])
    best = min(peer.seconds for peer in peers) if peers else None
    yield Row(stats, "a fifth of ccusage", best / 5 if best else None, INDEX_PEAK)
    yield Row(fresh, "1.5 × ccusage", 1.5 * best if best else None)
    yield Row(word, "0.1 s", 0.1, INDEX_PEAK)
    yield Row(status, "0.1 s", 0.1, INDEX_PEAK)
    yield from map(Row, peers)


def _small(store: Path, rounds: int) -> Iterator[Row]:
    """Very many sessions: brought into the index, and asked for when nothing has changed."""
    homes = Homes(CACHE / "small-homes", store)
    first = homes.fresh_job(f"turnlog stats, first, {SESSIONS:,}", (TURNLOG, "stats"), "small")
    measure([first], 1)
    words = homes.job(f"turnlog sync, words of {SESSIONS:,}", (TURNLOG, "sync"), "small")
    measure([words], 1)
    warm = [
        homes.job(f"turnlog {name}, warm, of {SESSIONS:,}".replace(" ,", ","), command, "small")
        for name, command in WARM.items()
    ]
    measure(warm, rounds)
    yield Row(first, "30 s", 30)
    yield Row(words)
    for job in warm:
        yield Row(job, "0.5 s", 0.5)


def _two_stores(store: Path, second: Path, rounds: int) -> Iterator[Row]:
    """A report over two stores, which have one index, against the same over one of them."""
    homes = Homes(CACHE / "small-homes", store)
    options = (word for root in (store, second) for word in ("--store", root))
    alone = homes.job(f"turnlog stats, warm, one store of {SESSIONS:,}", (TURNLOG, "stats"), "two")
    both = homes.job(
        f"turnlog stats, warm, {SESSIONS:,} and a second store",
        (TURNLOG, *options, "stats"),
        "two",
    )
    for job in (alone, both):
        measure([job], 1)
        job.times.clear()
    measure([alone, both], rounds)
    yield Row(both, "1.5 × one store", 1.5 * alone.seconds)
    yield Row(alone)


def _picks(rounds: int) -> Iterator[Row]:
    """The picker: its first paint, and how long a key takes to have its effect."""
    store = CACHE / "picked"
    if not store.exists():
        write_small(store, PICKED_SESSIONS)
    homes = Homes(CACHE / "picked-homes", store)
    sync = homes.job(f"turnlog sync, {PICKED_SESSIONS:,}", (TURNLOG, "sync"), "picked")
    measure([sync], 1)
    for job, aim in pick_jobs(TURNLOG, sync.environment, rounds):
        yield Row(job, f"{aim} s", aim)


def _index(home: str) -> Path:
    folder = CACHE / ("small-homes" if home == "small" else "homes")
    return next((folder / home / ".cache/turnlog").glob("*.db"))


def _appends(store: Path, rounds: int) -> Iterator[Row]:
    path = copy_with_one_apart(store, CACHE / "grown")
    homes = Homes(CACHE / "homes", CACHE / "grown")
    sync = (TURNLOG, "sync")
    grown = homes.job("turnlog sync, one line more", appending(path, sync), "grown")
    same = homes.job("turnlog sync, nothing new", sync, "grown")
    help_ = homes.job("turnlog schema user", (TURNLOG, "schema", "user"), "grown")
    measure([same], 1)
    same.times.clear()
    measure([grown, same, help_], rounds)
    yield Row(grown, "a start + 0.05 s", help_.seconds + 0.05)
    yield Row(same)
    yield Row(help_)


def _hooks(store: Path) -> Iterator[Row]:
    """Traces: sent by the client's hook, and all at once."""
    environment = _job("", ()).environment
    with sink() as url:
        bare, large, small = measure_hook(CACHE / "hooked", TURNLOG, environment, url)
        backfill = backfill_job(store, TURNLOG, environment, url)
        written = file_job(store, TURNLOG, environment)
        backfill.size = written.size = _size(store)[1]
        measure([backfill, written], 2)
        measure_peaks([backfill, written])
    for each in (large, small):
        yield Row(each.hook, f"python + {LEEWAY} s", bare.seconds + LEEWAY)
    yield Row(bare)
    yield Row(large.sender, f"{GROWTH} × that of 1 MB", GROWTH * small.sender.seconds)
    yield Row(small.sender)
    yield Row(backfill, peak=INDEX_PEAK)
    yield Row(written, "25 MB/s", written.size / FILE_RATE, INDEX_PEAK)


def _syncs(store: Path) -> Iterator[Row]:
    """Syncs with a directory."""
    environment = _job("", ()).environment
    send, receive, again = sync_jobs(store, CACHE / "synced", TURNLOG, environment)
    send.size = receive.size = _size(store)[1]
    start = Job("turnlog schema user", (TURNLOG, "schema", "user"), again.environment)
    measure([send, receive, again, start], 2)
    yield Row(send, f"{SEND_RATE // UNITS['MB']} MB/s", send.size / SEND_RATE)
    yield Row(receive, f"{RECEIVE_RATE // UNITS['MB']} MB/s", receive.size / RECEIVE_RATE)
    yield Row(again, f"a start + {UNCHANGED} s", start.seconds + UNCHANGED)


def _chats(rounds: int) -> Iterator[Row]:
    """Chats, with a scripted model."""
    chats = Chats(CACHE / "chats", TURNLOG)
    bare = _job("python -c pass", (PYTHON, "-c", "pass"))
    measure([bare], QUICK_ROUNDS * rounds)
    character, prompt, *client = chats.starts(rounds)
    yield Row(character, "10 × python", 10 * bare.seconds)
    yield Row(prompt, "the client's first character", client[0].seconds if client else None)
    yield from map(Row, client)
    first, last = chats.turns()
    yield Row(first)
    yield Row(last, "1.3 × the first", 1.3 * first.seconds, int(1.3 * first.peak))
    short, long = chats.contexts()
    yield Row(short)
    yield Row(long, "2 × a new session's", 2 * short.seconds)
    shown, old, new = chats.resumes(rounds)
    yield Row(shown, "1 s", 1)
    yield Row(old, "a new session + 0.5 s", new.seconds + 0.5)
    yield Row(new)
    yield Row(chats.hosted(rounds), "1.5 × a new session", 1.5 * new.seconds)


def _job(name: str, command: Sequence[str | Path], store: Path | None = None) -> Job:
    home = CACHE / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    environment["CLAUDE_CONFIG_DIR"] = str(store or home)
    if path := os.environ.get("PYTHONPATH"):  # to measure another checkout than the installed one
        environment["PYTHONPATH"] = path
    return Job(name, command, environment)


def _size(store: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in store.rglob("*.jsonl")]
    return len(sizes), sum(sizes)


def _report(rows: list[Row], load: float, *stores: Path) -> str:
    sizes = [
        f"{count:,} files of {size / UNITS['MB']:,.0f} MB" for count, size in map(_size, stores)
    ]
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    return (
        f"# Measured on {datetime.now(UTC):%Y-%m-%d}\n\n"
        f"{machine}, Python {platform.python_version()}; load average before: {load:.1f}.\n"
        f"The best of several rounds of each job, start-up included; for hooks the median.\n"
        f"Read: {sizes[0]}; listed: {sizes[1]}.\n\n{_table(rows)}"
    )


def _table(rows: list[Row]) -> str:
    head = (
        "job",
        "seconds",
        "CPU s",
        "MB/s",
        "time against its aim",
        "peak MB",
        "peak against its aim",
    )
    cells = [head, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = tuple("-" * width for width in widths)
    return "".join(
        "| " + " | ".join(map(str.ljust, row, widths)) + " |\n"
        for row in (cells[0], rule, *cells[1:])
    )


def _cells(row: Row) -> tuple[str, ...]:
    job = row.job
    time_aim = f"{_against(job.seconds, row.seconds)} {row.against}".strip()
    return (
        job.name,
        f"{job.seconds:.3f}",
        f"{job.cpu_seconds:.3f}",
        f"{job.size / job.seconds / UNITS['MB']:,.0f}" if job.size else "",
        time_aim,
        f"{job.peak / UNITS['MB']:.0f}" if job.peak else "",
        _against(job.peak, row.peak),
    )


def _against(value: float, aim: float | None) -> str:
    if aim is None:
        return ""
    return f"{'✓' if value <= aim else '✗'} {value / aim:.2f} ×"


WARM = {
    "": (TURNLOG,),
    "stats": (TURNLOG, "stats"),
    "search": (TURNLOG, "search", "error"),
}
"""What is asked of very many sessions."""
GENERATOR = ("generate", "lines", "clients", "texts")
"""The modules that decide what a generated store holds."""

if __name__ == "__main__":
    main()
