"""One SQLite database in one file with a thread of its own, whose transactions are on the disk when they return.

It is part of `runtime` because it waits for the disk in a thread, as the file seam does. Its user defines the tables.
The file belongs to one process; a second one is refused. `sqlite3` is imported with the first database, since most
processes open none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from .files import sync_directory

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")


class DatabaseUnavailableError(Exception):
    """The disk is full or broken, another process has the file, or it was closed. Nothing was changed."""


class DatabaseDamagedError(Exception):
    """The file is damaged, or not a database, or has other tables. The message names the file and the problem."""


class Database:
    """An open database; see `open_database`. Work runs in the order of the calls, one piece at a time."""

    def __init__(self, path: str, connection: sqlite3.Connection, thread: trio.CapacityLimiter) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = connection
        self._thread = thread

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in the thread as one transaction. A cancellation does not interrupt it.

        If this returns, all of it is on the disk; if it raises, nothing is.
        """
        return await trio.to_thread.run_sync(self._transact, work, limiter=self._thread)

    async def close(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._close, limiter=self._thread)

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            raise DatabaseUnavailableError(f"{self.path} has been closed")
        return _in_transaction(self.path, self._connection, work)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def open_database(path: str, application_id: int, format_version: int, tables: str) -> Database:
    """Opens the file, or creates it with the `tables`. Raises DatabaseDamagedError for a wrong file."""
    thread = trio.CapacityLimiter(1)
    connection = await trio.to_thread.run_sync(_open, path, application_id, format_version, tables, limiter=thread)
    return Database(path, connection, thread)


def _open(path: str, application_id: int, format_version: int, tables: str) -> sqlite3.Connection:
    import sqlite3

    _make_private(path)
    try:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise DatabaseUnavailableError(f"{path} cannot be opened: {error}") from error

    def prepare(opened: sqlite3.Connection) -> None:
        found = (_pragma(opened, "application_id"), _pragma(opened, "user_version"))
        if found == (0, 0) and not _pragma(opened, "schema_version"):
            for statement in tables.split(";"):
                opened.execute(statement)
            opened.execute(f"PRAGMA application_id = {application_id}")
            opened.execute(f"PRAGMA user_version = {format_version}")
        elif found[0] != application_id:
            raise DatabaseDamagedError(f"{path} is a database of another program")
        elif found[1] != format_version:
            raise DatabaseDamagedError(f"{path} has format {found[1]}; this version reads format {format_version} only")
        elif (finding := opened.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise DatabaseDamagedError(f"{path} is damaged: {finding}")

    try:
        _translating_errors(path, lambda: _configure(connection))
        _in_transaction(path, connection, prepare)
        sync_directory(os.path.dirname(path) or ".")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: str) -> None:
    """Lets only the user of this process read the database: it has keys of users. The library extends that to its log.

    What is wrong with the path is left for the library to say.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for each in (path, f"{path}-wal"):
        with contextlib.suppress(OSError):
            os.chmod(each, 0o600)


def _configure(connection: sqlite3.Connection) -> None:
    # In exclusive mode a second process is refused, and the write-ahead log needs no shared memory.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    # Committed data must survive a power failure: an epoch that is given twice would mean two leaders.
    connection.execute("PRAGMA synchronous = FULL")


def _in_transaction(path: str, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    def transact() -> T:
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    return _translating_errors(path, transact)


def _translating_errors(path: str, work: Callable[[], T]) -> T:
    import sqlite3

    try:
        return work()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith("SQLITE_BUSY"):
            raise DatabaseUnavailableError(f"{path} is open in another process") from error
        raise DatabaseUnavailableError(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise DatabaseDamagedError(f"{path} is no database, or a damaged one: {error}") from error


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
