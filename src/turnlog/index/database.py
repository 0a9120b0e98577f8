"""The index as an SQLite file of turnlog's own.

It is derived from the session files: whatever is wrong with it, a new one is made.
"""

import os
import sqlite3
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from turnlog.errors import TurnlogError, Unavailable
from turnlog.format.locks import lock
from turnlog.format.private_files import open_private, secure_folder
from turnlog.store.paths import Store

READING = 4
"""To be raised when the same lines give other facts than before."""
PATIENCE = 30
"""Seconds to wait for another process that writes."""
FTS_MEMORY = 32 << 20
"""Bytes of words that SQLite gathers before it writes them."""
ELSEWHERE = "set XDG_CACHE_HOME to a folder that can be written to"
SETTINGS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
"""


class Index:
    """An open index."""

    def __init__(self, path: Path, db: sqlite3.Connection, notice: str | None) -> None:
        self.path = path
        self.db = db
        self.notice = notice
        """What to tell the user of, once: why the index is made anew."""

    @contextmanager
    def let_go(self) -> Generator[None]:
        """Close the file while forks of this process have it open: SQLite would mix up locks."""
        self.db.close()
        try:
            yield
        finally:
            self.db = connect(self.path)

    def close(self) -> None:
        self.db.close()


def index_path(store: Store, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the index of a store lies: in the user's cache, one for each store."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = zlib.crc32(str(store.root.resolve()).encode())
    return Path(cache, "turnlog", f"index-{name:08x}.db")


@contextmanager
def open_index(path: Path) -> Generator[Index]:
    """Open an index; one that is damaged, or of another version of turnlog, is made anew."""
    with _explained(path):
        _make_folder(path.parent)
        with _alone(path):
            index = _opened(path)
        try:
            yield index
        finally:
            index.close()


def _make_folder(folder: Path) -> None:
    try:
        secure_folder(folder)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be made: {error.strerror}", ELSEWHERE) from error


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Let no other process open the index while it may be replaced."""
    descriptor = open_private(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _opened(path: Path) -> Index:
    is_new = not path.exists()
    try:
        db = connect(path)
        if _version(db) == current_version():
            return Index(path, db, None)
        notice = None if is_new else "the index is of another version of turnlog: it is made anew"
        db.close()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        notice = "the index is damaged: it is made anew"
    return Index(path, _created(path), notice)


def connect(path: Path) -> sqlite3.Connection:
    """A connection to an index that is known to be sound.

    SQLite gives its -wal and -shm files the mode of the database: that has to be private before.
    """
    _create_private(path)
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    db.executescript(SETTINGS)
    return db


def _create_private(path: Path) -> None:
    # Only a file that is not there may be opened here: when any descriptor of a file is closed, the
    # process loses all its locks on it, also those of other connections.
    with suppress(OSError):  # SQLite tells better what is wrong
        if not path.exists():
            os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing, and that any thread may use, one at a time."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA query_only = ON")
    return db


@contextmanager
def writing(db: sqlite3.Connection) -> Generator[None]:
    """A transaction that writes: all of it counts, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextmanager
def unless_busy(db: sqlite3.Connection) -> Generator[None]:
    """Write what can be done without, unless another process is writing: do not wait for it."""
    db.execute("PRAGMA busy_timeout = 0")
    try:
        with suppress(sqlite3.OperationalError):
            yield
    finally:
        db.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000}")


def put_merging_off(db: sqlite3.Connection) -> None:
    """Have what is written next to the words stay in pieces of its own."""
    _set_merging(db, 0, 1000)


def make_up_for_merging(db: sqlite3.Connection) -> None:
    """Merge what was left in pieces, be it by a process that was killed, and go on as usual."""
    kept = db.execute("SELECT v FROM words_config WHERE k = 'automerge'").fetchone()
    if kept == (0,):
        db.execute("INSERT INTO words (words) VALUES ('optimize')")
        _set_merging(db, 4, 16)


def _set_merging(db: sqlite3.Connection, usual: int, urgent: int) -> None:
    """From how many pieces on words are merged: a little with each write, and all at once."""
    for name, pieces in (("automerge", usual), ("crisismerge", urgent)):
        db.execute("INSERT INTO words (words, rank) VALUES (?, ?)", (name, pieces))


def is_built(db: sqlite3.Connection) -> bool:
    """Return whether the first build has ended, so that every later write settles what it adds."""
    asked = "SELECT 1 FROM sqlite_master WHERE name = 'messages_at_work'"
    return db.execute(asked).fetchone() is not None


def add_indexes(db: sqlite3.Connection) -> None:
    """Add what the first build does without; part of the caller's transaction."""
    # Not executescript, which would commit.
    for statement in _sql("indexes.sql").split(";")[:-1]:
        db.execute(statement)


def _version(db: sqlite3.Connection) -> str | None:
    known = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone()
    row = db.execute("SELECT value FROM about WHERE name = 'version'").fetchone() if known else None
    return row[0] if row else None


def discard_index(path: Path) -> None:
    """Delete an index: words of what was taken out of files stay in it until it is made anew."""
    if path.exists():
        with _alone(path):
            _remove(path)


def _remove(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        name.unlink(missing_ok=True)


def _created(path: Path) -> sqlite3.Connection:
    """A new, empty index; others that have the old one open go on with it until they end."""
    _remove(path)
    db = connect(path)
    db.executescript(_sql("schema.sql"))
    db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (FTS_MEMORY,))
    db.execute(
        "INSERT INTO about VALUES ('next_doc', 1), ('generation', 1), ('version', ?)",
        (current_version(),),
    )
    return db


def current_version() -> str:
    """Changes with all that decides what is in the index: tables, prices, reading."""
    prices = Path(__file__).parent.parent.joinpath("conversation", "prices.json").read_bytes()
    tables = _sql("schema.sql") + _sql("indexes.sql")
    return f"{READING}-{zlib.crc32(tables.encode() + prices):08x}"


def _sql(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


@contextmanager
def _explained(path: Path) -> Generator[None]:
    """Errors of the database as a user can act on them."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = str(error)
        if "locked" in reason:
            raise Unavailable(f"{path} is in use by another process", "try again") from error
        if "readonly" in reason or "unable to open" in reason:
            raise Unavailable(f"{path} cannot be written to", ELSEWHERE) from error
        if "full" in reason or "disk I/O" in reason:
            raise Unavailable(f"{path} cannot be written: {reason}", "is the disk full?") from error
        raise TurnlogError(f"{path}: {reason}", f"rm {path}") from error
