"""What the SQLite store still has after its process has ended, and which files it refuses."""

import os
import sqlite3
from pathlib import Path

import pytest
import trio

from tailrace.controller.key_value.interface import (
    NO_VERSION,
    Delete,
    Entry,
    FellBehind,
    Put,
    StoreCorrupt,
    StoreUnavailable,
)
from tailrace.controller.key_value.sqlite import SqliteStore, open_sqlite


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.sqlite")


async def put(store: SqliteStore, key: str, value: bytes = b"", version: int = NO_VERSION) -> Entry:
    (written,) = await store.write([Put(key, value, version)])
    assert written is not None
    return Entry(key, value, written)


async def reopened(store: SqliteStore, path: str) -> SqliteStore:
    await store.close()
    return await open_sqlite(path)


async def test_only_its_user_can_read_the_store(path: str) -> None:
    """The store has keys of users and tokens. An earlier version let everybody read it."""

    def others_may() -> int:
        return sum(os.stat(each).st_mode & 0o077 for each in (path, f"{path}-wal"))

    store = await open_sqlite(path)
    await put(store, "a")
    assert others_may() == 0
    await store.close()
    os.chmod(path, 0o644)
    store = await open_sqlite(path)
    await put(store, "b")
    assert others_may() == 0
    await store.close()


async def test_everything_is_there_after_a_restart(path: str) -> None:
    store = await open_sqlite(path)
    await put(store, "a", b"1")
    await put(store, "ü", bytes(range(256)))
    before = await store.list("")
    store = await reopened(store, path)
    assert await store.list("") == before
    await store.close()


async def test_a_version_is_given_once_also_over_restarts(path: str) -> None:
    store = await open_sqlite(path)
    entry = await put(store, "a")
    (deletion,) = await store.write([Delete("a", entry.version)])
    store = await reopened(store, path)
    assert deletion is not None
    assert (await put(store, "a")).version > deletion
    await store.close()


async def test_a_watch_from_before_a_restart_fell_behind(path: str) -> None:
    store = await open_sqlite(path)
    first, second = await put(store, "a"), await put(store, "b")
    store = await reopened(store, path)
    with pytest.raises(FellBehind):
        async with store.watch("", first.version) as watch:
            await anext(watch)
    third = await put(store, "c")
    async with store.watch("", second.version) as watch:
        assert (await anext(watch)).entry == third  # type: ignore[union-attr]
    await store.close()


async def test_a_restart_has_no_leases_and_what_was_under_them_is_gone(path: str) -> None:
    store = await open_sqlite(path)
    leader = await store.take("leader", b"one", 60)
    assert leader is not None
    renamed = await store.take("kept", b"", 60)
    assert renamed is not None
    await put(store, "kept", b"now without a lease", renamed.version)
    store = await reopened(store, path)
    assert [entry.key for entry in (await store.list("")).entries] == ["kept"]
    assert (await store.take("leader", b"two", 60) or leader).version > leader.version
    await store.close()


@pytest.mark.parametrize("content", [b"not a database, at all", b"SQLite format 3\0" + bytes(100)])
async def test_a_file_that_is_no_store_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"store\.sqlite is no database, or a damaged one"):
        await open_sqlite(str(path))


async def test_a_second_opener_is_refused(path: str) -> None:
    store = await open_sqlite(path)
    with pytest.raises(StoreUnavailable, match="is open in another process"):
        await open_sqlite(path)
    await store.close()


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("INSERT INTO entries VALUES ('text', x'', 99, 0)", "an entry under the key 'text' that no SC has written"),
        ("INSERT INTO entries VALUES (x'ff', x'', 99, 0)", "an entry under the key b'.xff' that no SC has written"),
        ("INSERT INTO entries VALUES (x'61', 'text', 99, 0)", "an entry under the key b'a' that no SC has written"),
    ],
)
async def test_a_row_that_somebody_else_wrote_is_reported(path: str, damage: str, finding: str) -> None:
    await (await open_sqlite(path)).close()
    with sqlite3.connect(path, isolation_level=None) as theirs:
        theirs.execute(damage)
    theirs.close()
    store = await open_sqlite(path)
    with pytest.raises(StoreCorrupt, match=finding):
        await store.list("")
    await store.close()


async def test_a_store_without_its_revision_is_not_opened(path: str) -> None:
    await (await open_sqlite(path)).close()
    with sqlite3.connect(path, isolation_level=None) as theirs:
        theirs.execute("DELETE FROM store")
    theirs.close()
    with pytest.raises(StoreCorrupt, match="0 revisions"):
        await open_sqlite(path)


async def test_a_cancelled_write_that_was_done_is_told_to_the_watches(path: str) -> None:
    store = await open_sqlite(path)

    async def write(scope: trio.CancelScope) -> None:
        with scope:
            await store.write([Put("a", b"", NO_VERSION)])

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, scope)
        await trio.testing.wait_all_tasks_blocked()  # on the database's thread
        scope.cancel()
    found = await store.get("a")
    assert found is not None
    async with store.watch("", NO_VERSION) as watch:
        assert (await anext(watch)).entry == found  # type: ignore[union-attr]
    await store.close()
