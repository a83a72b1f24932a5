"""The state file: SQLite, shared by several sidecars, and what happens when it cannot be used.

Nothing here ever destroys a file it does not understand. A file that is damaged, from a newer version, locked, read-only or on a
full disk puts the store in *reduced mode*: it goes on in memory, with what could still be read, and says so in one message.
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sidecar.config.paths import private_directory
from sidecar.errors import Unavailable
from sidecar.store.migrations import MIGRATIONS, SCHEMA_VERSION

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

BUSY_WAIT_SECONDS: Final = 2.0
BUSY_PAUSE_SECONDS: Final = 0.02
MAX_COPY_BYTES: Final = 64 * 1024 * 1024
MAX_WAL_BYTES: Final = 8 * 1024 * 1024
PRIVATE_FILE_MODE: Final = 0o600

_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_USER_VERSION: Final = slice(60, 64)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_READABLE: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
_REASONS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is damaged",
    sqlite3.SQLITE_CANTOPEN: "it could not be opened",
    sqlite3.SQLITE_PERM: "it may not be accessed",
    sqlite3.SQLITE_AUTH: "it may not be accessed",
}


class StoreBusy(Unavailable):
    """Another program held the state file locked for longer than ``BUSY_WAIT_SECONDS``; nothing was written."""


class _Unusable(Exception):
    """Why the state file cannot be used: half a sentence for the user. ``readable``: it may be read, though not written."""

    def __init__(self, reason: str, *, readable: bool = False) -> None:
        super().__init__(reason)
        self.readable = readable


def _primary(error: sqlite3.Error) -> int:
    """The primary result code of SQLite (its low byte), or SQLITE_ERROR for errors of the Python module itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else sqlite3.SQLITE_ERROR


class Database:
    """One connection, used by one thread at a time.

    ``path`` None keeps everything in memory (tests, ``--no-state``). ``reduced`` is None, or the one message for the user on why
    nothing is saved. Opening never raises for a state file that cannot be used.
    """

    def __init__(self, path: Path | None, *, busy_wait: float = BUSY_WAIT_SECONDS) -> None:
        self.path = path
        self.reduced: str | None = None
        self._busy_wait = busy_wait
        self._lock = threading.Lock()
        self._connection = self._open()

    def read(self, operation: Operation[T]) -> T:
        """Run ``operation``, which only reads. Raises ``StoreBusy``."""
        with self._lock:
            return self._attempt(operation)

    def write(self, operation: Operation[T]) -> T:
        """Run ``operation`` as one transaction: all of it is durable when this returns, or nothing. Raises ``StoreBusy``."""
        with self._lock:
            return self._attempt(lambda connection: _in_transaction(connection, operation))

    def close(self) -> None:
        """Close the file; the database is not usable afterwards."""
        with self._lock:
            self._connection.close()

    def _attempt(self, operation: Operation[T]) -> T:
        try:
            return operation(self._connection)
        except sqlite3.DatabaseError as error:
            code = _primary(error)
            if code in _BUSY:
                raise StoreBusy(f"{self.path} is locked by another program; it was tried for {self._busy_wait:g} s") from None
            if self.reduced or code not in _REASONS:
                raise
            self._reduce(_REASONS[code])
        return operation(self._connection)

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            return _memory()
        try:
            return _open_file(self.path, self._busy_wait)
        except _Unusable as error:
            reason, readable = str(error), error.readable
        except sqlite3.DatabaseError as error:
            code = _primary(error)
            reason = "another program has locked it" if code in _BUSY else _REASONS.get(code, "it is damaged")
            readable = code in _READABLE
        self.reduced = self._message(reason)
        return (_copied(self.path) if readable else None) or _memory()

    def _reduce(self, reason: str) -> None:
        """Go on in memory, with what can still be read."""
        self.reduced = self._message(reason)
        failed = self._connection
        try:
            copy = _copy_of(failed) if _size(failed) <= MAX_COPY_BYTES else None
        except sqlite3.Error:
            copy = None
        self._connection = copy or _memory()
        failed.close()

    def _message(self, reason: str) -> str:
        return (
            f"Sessions and drafts are kept in memory only, until the sidecar is started again: {reason} ({self.path}). "
            "The file was left as it is; once the cause is gone, or the file is moved away, restart the sidecar."
        )


def _in_transaction(connection: sqlite3.Connection, operation: Operation[T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = operation(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _migrate(connection)
    return connection


def _open_file(path: Path, busy_wait: float) -> sqlite3.Connection:
    try:
        private_directory(path.parent)
    except Unavailable as error:
        raise _Unusable(error.message, readable=True) from None
    _check_header(path)
    _make_private(path)
    connection = sqlite3.connect(path, timeout=busy_wait, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, busy_wait)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, busy_wait: float) -> None:
    """Look first and write only where something is to be changed: a file that turns out damaged stays byte for byte."""
    if _check_version(connection) == SCHEMA_VERSION:
        _check_tables(connection)
    elif connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _patiently(connection, "PRAGMA journal_mode = WAL", busy_wait)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}")
    _migrate(connection)


def _check_header(path: Path) -> None:
    """Look at the file before SQLite does, since SQLite may already write when it opens one."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise _Unusable("it is not a regular file")
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _Unusable(f"it cannot be read ({error.strerror})") from None
    if header and (len(header) < _HEADER_BYTES or not header.startswith(_MAGIC)):
        raise _Unusable("it is damaged")
    if header and int.from_bytes(header[_USER_VERSION], "big", signed=True) > SCHEMA_VERSION:
        raise _Unusable("it was written by a newer version of the sidecar")


def _make_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), PRIVATE_FILE_MODE))
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(PRIVATE_FILE_MODE)
    except OSError as error:
        raise _Unusable(f"it cannot be written ({error.strerror})", readable=True) from None


def _check_version(connection: sqlite3.Connection) -> int:
    """Return the version; the header on disk may lag behind the log beside it."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise _Unusable("it was written by a newer version of the sidecar")
    return version


def _check_tables(connection: sqlite3.Connection) -> None:
    """Touch the root of each table: damage there must show now, not in the middle of a turn."""
    for table in ("sessions", "turns", "drafts", "wishes"):
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608 - names from the line above


def _patiently(connection: sqlite3.Connection, statement: str, seconds: float) -> None:
    """Execute what SQLite refuses at once, without its busy wait, while another connection changes the same setting."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute(statement).fetchone()
        except sqlite3.OperationalError as error:
            if _primary(error) not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE_SECONDS)
        else:
            return


def _migrate(connection: sqlite3.Connection) -> None:
    if _check_version(connection) == SCHEMA_VERSION:
        return

    def steps(inside: sqlite3.Connection) -> None:
        for statements in MIGRATIONS[_check_version(inside) :]:
            for statement in statements:
                inside.execute(statement)
        inside.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    _in_transaction(connection, steps)


def _copied(path: Path) -> sqlite3.Connection | None:
    """Return a copy in memory of a file that can be read though not written, or None."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_COPY_BYTES:
            return None
    except OSError:
        return None
    for options in ("mode=ro", "immutable=1"):
        try:
            source = sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, timeout=0)
        except sqlite3.Error:
            continue
        copy = _copy_of(source)
        source.close()
        if copy is not None:
            return copy
    return None


def _copy_of(source: sqlite3.Connection) -> sqlite3.Connection | None:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        _check_version(source)
        source.backup(copy)
        intact = copy.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
        _migrate(copy)
    except (sqlite3.Error, _Unusable):
        intact = False
    if not intact:
        copy.close()
        return None
    return copy


def _size(connection: sqlite3.Connection) -> int:
    pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    return pages * int(connection.execute("PRAGMA page_size").fetchone()[0])
