"""The key-value store in one SQLite file, for an SC that runs alone.

Each write is one durable transaction. The file belongs to one process at a time, so watches and leases live in that
process. After a restart, watches from before have fallen behind and leased keys are deleted.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

import trio

from tailrace.runtime.database import Database, DatabaseDamagedError, DatabaseUnavailableError, open_database

from .history import CHANGES_MAX, History, HistoryWatch
from .interface import (
    NO_VERSION,
    Change,
    Delete,
    Entry,
    EntryDeleted,
    EntryPut,
    LeadershipLost,
    Listing,
    Put,
    StoreCorrupt,
    StoreUnavailable,
    WatchEvent,
    check_sizes,
    end_of_prefix,
)
from .process_leases import ProcessLeases

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

APPLICATION_ID = int.from_bytes(b"tail", "big")
FORMAT_VERSION = 1
TABLES = """
CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, is_leased INTEGER NOT NULL);
CREATE TABLE store (revision INTEGER NOT NULL);
INSERT INTO store VALUES (0)
"""


async def open_sqlite(path: str, history_changes_max: int = CHANGES_MAX) -> "SqliteStore":
    """Opens or creates the store. The directory must exist. Raises StoreCorrupt if the file is damaged or no store."""

    def start(connection: "Connection") -> int:
        writer = _Writer(connection)
        for row in connection.execute("SELECT key, value, version FROM entries WHERE is_leased").fetchall():
            leased = _entry(row)
            writer.apply(Delete(leased.key, leased.version))
        return writer.finish()

    try:
        database = await open_database(path, APPLICATION_ID, FORMAT_VERSION, TABLES)
        try:
            revision = await database.run(start)
        except BaseException:
            await database.close()
            raise
    except (DatabaseDamagedError, DatabaseUnavailableError) as error:
        raise _store_error(error) from error
    return SqliteStore(database, History(revision, history_changes_max))


class SqliteStore:
    def __init__(self, database: Database, history: History) -> None:
        self._database = database
        self._history = history
        self._leases = ProcessLeases()
        self._commit_order = trio.Lock()
        """Held from a transaction until the watches know of it, so that they see transactions in their order."""

    async def get(self, key: str) -> Entry | None:
        def read(connection: "Connection") -> Entry | None:
            found = connection.execute("SELECT key, value, version FROM entries WHERE key = ?", (key.encode(),))
            row = found.fetchone()
            return None if row is None else _entry(row)

        await self._expire()
        return await self._run(read)

    async def list(self, prefix: str) -> Listing:
        def read(connection: "Connection") -> Listing:
            where = "WHERE key >= ? AND key < ?" if prefix else ""
            bounds = (prefix.encode(), end_of_prefix(prefix.encode())) if prefix else ()
            rows = connection.execute(f"SELECT key, value, version FROM entries {where} ORDER BY key", bounds)
            return Listing(tuple(_entry(row) for row in rows), _revision(connection))

        await self._expire()
        return await self._run(read)

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        def change(writer: "_Writer") -> Sequence[int | None]:
            if guard is not None and not writer.has(guard.key, guard.version):
                raise LeadershipLost(f"{guard.key} has changed hands")
            return [writer.apply(change) for change in changes]

        check_sizes(changes)
        await self._expire()
        return await self._change(change)

    def watch(self, prefix: str, after_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return nullcontext(HistoryWatch(self._history, prefix, after_revision, self._expire))

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        await self._expire()
        version = await self._change(lambda writer: writer.apply(Put(key, value, NO_VERSION), is_leased=True))
        if version is None:
            return None
        entry = Entry(key, value, version)
        self._leases.grant(entry, ttl_seconds, trio.current_time())
        return entry

    async def renew(self, entry: Entry) -> None:
        await self._expire()
        self._leases.renew(entry, trio.current_time())

    async def give_up(self, entry: Entry) -> None:
        await self._expire()
        await self._change(lambda writer: writer.apply(Delete(entry.key, entry.version)))

    async def close(self) -> None:
        self._history.close()
        await self._database.close()

    async def _expire(self) -> float:
        """Deletes keys whose leases have expired, and returns the time of the next expiry."""
        await trio.lowlevel.checkpoint()
        self._history.check_open()
        expired = self._leases.expired(trio.current_time())
        if expired:
            await self._change(lambda writer: [writer.apply(Delete(key, version)) for key, version in expired])
        return self._leases.next_expiry()

    async def _change(self, work: Callable[["_Writer"], T]) -> T:
        """Carries out one transaction and adds its changes to the history."""

        def transact(connection: "Connection") -> tuple[T, _Writer]:
            writer = _Writer(connection)
            result = work(writer)
            writer.finish()
            return result, writer

        async with self._commit_order:
            result, writer = await self._run(transact)
            for event in writer.events:
                self._leases.forget(event.entry.key if isinstance(event, EntryPut) else event.key)
            self._history.add(writer.events)
        return result

    async def _run(self, work: Callable[["Connection"], T]) -> T:
        try:
            return await self._database.run(work)
        except (DatabaseDamagedError, DatabaseUnavailableError) as error:
            raise _store_error(error) from error


class _Writer:
    """Applies the changes of one transaction, on the database's thread."""

    def __init__(self, connection: "Connection") -> None:
        self.events: list[WatchEvent] = []
        self._connection = connection
        self._revision = _revision(connection)

    def has(self, key: str, version: int) -> bool:
        found = self._connection.execute("SELECT 1 FROM entries WHERE (key, version) = (?, ?)", (key.encode(), version))
        return found.fetchone() is not None

    def apply(self, change: Change, *, is_leased: bool = False) -> int | None:
        revision = self._revision + 1
        key = change.key.encode()
        event: WatchEvent
        match change:
            case Put(_, value, 0):
                statement = "INSERT INTO entries VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
                done = self._connection.execute(statement, (key, value, revision, is_leased))
                event = EntryPut(Entry(change.key, bytes(value), revision))
            case Put(_, value, version):
                statement = "UPDATE entries SET value = ?, version = ?, is_leased = ? WHERE (key, version) = (?, ?)"
                done = self._connection.execute(statement, (value, revision, is_leased, key, version))
                event = EntryPut(Entry(change.key, bytes(value), revision))
            case Delete(_, version):
                done = self._connection.execute("DELETE FROM entries WHERE (key, version) = (?, ?)", (key, version))
                event = EntryDeleted(change.key, revision)
        if done.rowcount == 0:
            return None
        self._revision = revision
        self.events.append(event)
        return revision

    def finish(self) -> int:
        if self.events:
            self._connection.execute("UPDATE store SET revision = ?", (self._revision,))
        return self._revision


def _revision(connection: "Connection") -> int:
    rows = connection.execute("SELECT revision FROM store").fetchall()
    if len(rows) != 1:
        raise StoreCorrupt(f"the store has {len(rows)} revisions, not one")
    revision: int = rows[0][0]
    return revision


def _entry(row: tuple[object, object, object]) -> Entry:
    match row:
        case bytes(key), bytes(value), int(version):
            with contextlib.suppress(UnicodeDecodeError):
                return Entry(key.decode(), value, version)
    raise StoreCorrupt(f"the store has an entry under the key {row[0]!r} that no SC has written")


def _store_error(error: DatabaseDamagedError | DatabaseUnavailableError) -> Exception:
    return (StoreCorrupt if isinstance(error, DatabaseDamagedError) else StoreUnavailable)(str(error))
