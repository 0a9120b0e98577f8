"""Open, create, lock and discard the SQLite file that holds the index.

The index is derived from the session files: if it is damaged or outdated, it is rebuilt.
"""

import os
import sqlite3
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from turnlog.errors import TurnlogError, Unavailable, UsageError
from turnlog.format.locks import lock
from turnlog.format.private_files import open_private, secure_folder
from turnlog.store.directories import cache_directory
from turnlog.store.paths import Store
from turnlog.store.stores import AnyStores, present

READING = 7
"""Increment when the same lines produce different rows than before; existing indexes are rebuilt.
"""
MOST_STORES = 20
"""Maximum number of stores per index: a file name has at most 255 characters, nine per store."""
PATIENCE = 30
"""Seconds to wait for a write lock."""
FTS_MEMORY = 32 << 20
"""Bytes of words that FTS5 buffers in memory before writing them."""
REBUILD = "turnlog sync"
ELSEWHERE = "export XDG_CACHE_HOME=FOLDER"
SETTINGS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
"""


class DamagedIndex(Unavailable):
    """The index turned out to be damaged while it was used, and was deleted."""


class Index:
    """An open index."""

    def __init__(
        self, path: Path, db: sqlite3.Connection, notice: str | None, was_damaged: bool = False
    ) -> None:
        self.path = path
        self.db = db
        self.notice = notice
        """A message to show the user once: why the index is being rebuilt."""
        self.was_damaged = was_damaged
        """True if it is empty because the file was damaged."""

    @contextmanager
    def disconnected(self) -> Generator[None]:
        """Close the connection while worker processes use the file, and reconnect afterwards."""
        # SQLite connections must not cross a fork: the child would believe that it holds locks
        # which POSIX grants to the parent only.
        self.db.close()
        try:
            yield
        finally:
            self.db = connect(self.path)

    def close(self) -> None:
        self.db.close()


def index_path(stores: AnyStores, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the index of stores, in the user's cache directory.

    Several stores share one index, because a message that two of them contain counts once. Its name
    does not depend on the order of the stores.
    """
    # The first store may not exist: a process that names only the others must get the same index.
    names = sorted({_store_name(store) for store in present(stores)})
    if len(names) > MOST_STORES:
        raise UsageError(f"{len(names)} stores are too many: at most {MOST_STORES} at once")
    return Path(cache_directory(environment), f"index-{'-'.join(names)}.db")


def indexes_with(store: Store, environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return every index that contains a store, alone or with others, whether it exists or not."""
    folder = Path(cache_directory(environment))
    # While an index is being built, only its lock file or tables may exist.
    files = (path.with_suffix(".db") for path in folder.glob(f"index-*{_store_name(store)}*"))
    return list(dict.fromkeys([index_path(store, environment), *files]))


def _store_name(store: Store) -> str:
    return f"{zlib.crc32(str(store.root.resolve()).encode()):08x}"


def tables_folder(index: Path) -> Path:
    """Return the directory of the node tables that are deleted together with an index."""
    return index.with_suffix(".tables")


@contextmanager
def open_index(path: Path) -> Generator[Index]:
    """Open an index, rebuilding it if it is damaged or was written by another version."""
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
        raise Unavailable(f"cannot create {folder}: {error.strerror}", ELSEWHERE) from error


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Hold a lock file so that no other process opens the index while it may be replaced."""
    descriptor = open_private(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def build_lock(path: Path) -> Generator[int]:
    """Hold the lock of the process that first builds an index; yield its descriptor."""
    descriptor = open_private(path.with_suffix(".build"), os.O_RDWR | os.O_CREAT)
    try:
        lock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(path: Path) -> Index:
    is_new, was_damaged = not path.exists(), False
    try:
        db = connect(path)
        if _version(db) == current_version():
            return Index(path, db, None)
        notice = None if is_new else "rebuilding the index: another version of turnlog wrote it"
        db.close()
    except sqlite3.DatabaseError as error:
        # An OperationalError (locked, read-only, disk full) does not mean that the file is damaged;
        # replacing it would destroy a good index.
        if isinstance(error, sqlite3.OperationalError):
            raise
        notice, was_damaged = "rebuilding the index: it is damaged", True
    return Index(path, _created(path), notice, was_damaged)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection for reading and writing that any thread may use, one at a time.

    SQLite copies the database's file mode to its -wal and -shm files, so the database has to be
    private before SQLite opens it.
    """
    _create_private(path)
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    db.executescript(SETTINGS)
    return db


def _create_private(path: Path) -> None:
    # Never open an existing database here: closing any descriptor of a file drops all locks that
    # the process holds on it, including those of other connections.
    with suppress(OSError):  # SQLite reports the same failure with a better message
        if not path.exists():
            os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a read-only connection that any thread may use, one at a time."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA query_only = ON")
    return db


@contextmanager
def writing(db: sqlite3.Connection) -> Generator[None]:
    """Run a write transaction: commit on success, roll back on any exception."""
    # IMMEDIATE takes the write lock at once. A deferred transaction would read first, and fail with
    # "locked" instead of waiting if another process wrote in the meantime.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextmanager
def unless_busy(db: sqlite3.Connection) -> Generator[None]:
    """Write something optional, such as a cache entry; skip it if another process is writing."""
    db.execute("PRAGMA busy_timeout = 0")
    try:
        with suppress(sqlite3.OperationalError):
            yield
    finally:
        db.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000}")


def defer_merging(db: sqlite3.Connection) -> None:
    """Stop FTS5 from merging its segments during a large write."""
    _set_merging(db, 0, 1000)


def finish_merging(db: sqlite3.Connection) -> None:
    """Merge all FTS5 segments if merging was deferred, even by a process that was killed since."""
    automerge = db.execute("SELECT v FROM words_config WHERE k = 'automerge'").fetchone()
    if automerge == (0,):
        db.execute("INSERT INTO words (words) VALUES ('optimize')")
        _set_merging(db, 4, 16)


def _set_merging(db: sqlite3.Connection, usual: int, urgent: int) -> None:
    """Set the segment counts at which FTS5 merges: gradually at `usual`, at once at `urgent`."""
    for name, pieces in (("automerge", usual), ("crisismerge", urgent)):
        db.execute("INSERT INTO words (words, rank) VALUES (?, ?)", (name, pieces))


def is_built(db: sqlite3.Connection) -> bool:
    """Return whether the first build has finished; after it, every write dedupes its rows."""
    # The first build adds its database indexes at the end, in the transaction that dedupes all
    # rows; testing for one of them is enough.
    statement = "SELECT 1 FROM sqlite_master WHERE name = 'messages_at_work'"
    return db.execute(statement).fetchone() is not None


def add_indexes(db: sqlite3.Connection) -> None:
    """Create the database indexes that the first build omits, within the caller's transaction."""
    # executescript would commit the caller's transaction.
    for statement in _sql("indexes.sql").split(";")[:-1]:
        db.execute(statement)


def _version(db: sqlite3.Connection) -> str | None:
    known = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone()
    row = db.execute("SELECT value FROM about WHERE name = 'version'").fetchone() if known else None
    return row[0] if row else None


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the database file is damaged."""
    # SQLITE_CORRUPT and SQLITE_NOTADB have no class of their own; locks and full disks do.
    return type(error) is sqlite3.DatabaseError


def discarded(path: Path) -> DamagedIndex:
    """Delete a damaged index; return the error to raise."""
    discard_index(path)
    return DamagedIndex("the index was damaged, and is built again by the next command", REBUILD)


def discard_indexes(store: Store) -> None:
    """Delete all indexes that contain a store, because FTS5 keeps the words of deleted texts."""
    for path in indexes_with(store):
        discard_index(path)


def discard_index(path: Path) -> None:
    """Delete an index; the next query rebuilds it."""
    if path.exists() or tables_folder(path).exists():
        with _alone(path):
            _remove(path)


def _remove(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        name.unlink(missing_ok=True)
    tables = tables_folder(path)
    for table in tables.iterdir() if tables.is_dir() else ():
        table.unlink(missing_ok=True)


def _created(path: Path) -> sqlite3.Connection:
    """Create an empty index; processes that have the old one open keep using it until they exit."""
    _remove(path)
    db = connect(path)
    _fill_empty(db)
    return db


def create_in_memory() -> sqlite3.Connection:
    """Create an empty index that lasts as long as its connection."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _fill_empty(db)
    return db


def _fill_empty(db: sqlite3.Connection) -> None:
    """Create the tables of an index."""
    db.executescript(_sql("schema.sql") + work_view())
    db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (FTS_MEMORY,))
    db.execute(
        "INSERT INTO about VALUES ('next_doc', 1), ('generation', 1), ('version', ?)",
        (current_version(),),
    )


def current_version() -> str:
    """Return a version that changes with whatever determines the rows: tables, prices, reader."""
    prices = Path(__file__).parent.parent.joinpath("conversation", "prices.json").read_bytes()
    tables = _sql("schema.sql") + work_view() + _sql("indexes.sql")
    return f"{READING}-{zlib.crc32(tables.encode() + prices):08x}"


def work_view() -> str:
    """Return the statement that defines the view `work`, in SQL that any engine understands."""
    return _sql("work_view.sql")


def _sql(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


@contextmanager
def _explained(path: Path) -> Generator[None]:
    """Turn SQLite's errors into errors that name the path and a remedy."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise discarded(path) from error
        if not isinstance(error, sqlite3.OperationalError):
            raise
        reason = str(error)
        if "locked" in reason:
            raise Unavailable(f"{path} is locked by another process", f"fuser {path}") from error
        if "readonly" in reason or "unable to open" in reason:
            raise Unavailable(f"cannot write to {path}: {reason}", ELSEWHERE) from error
        if "full" in reason or "disk I/O" in reason:
            raise Unavailable(f"cannot write to {path}: {reason}", f"df {path.parent}") from error
        raise TurnlogError(f"{path}: {reason}", f"rm {path}") from error
