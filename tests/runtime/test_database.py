"""Transactions are all or nothing and survive the process; a foreign file is refused with its name."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

from tailrace.runtime.database import Database, DatabaseDamagedError, DatabaseUnavailableError, open_database

APPLICATION = 7
TABLES = "CREATE TABLE numbers (number INTEGER PRIMARY KEY); INSERT INTO numbers VALUES (1)"


async def opened(path: Path, application: int = APPLICATION, version: int = 1) -> Database:
    return await open_database(str(path), application, version, TABLES)


def insert(number: int):  # type: ignore[no-untyped-def]
    return lambda connection: connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM numbers")]


async def test_committed_work_survives_a_restart(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")
    await database.run(insert(2))
    await database.close()
    database = await opened(tmp_path / "d")
    assert await database.run(numbers) == [1, 2]
    await database.close()


async def test_committed_work_survives_a_kill(tmp_path: Path) -> None:
    script = (
        "import os, trio\n"
        "from tailrace.runtime.database import open_database\n"
        "async def main():\n"
        f"    database = await open_database({str(tmp_path / 'd')!r}, {APPLICATION}, 1, {TABLES!r})\n"
        "    await database.run(lambda connection: connection.execute('INSERT INTO numbers VALUES (2)'))\n"
        "    os.kill(os.getpid(), 9)\n"
        "trio.run(main)\n"
    )
    assert await trio.to_thread.run_sync(lambda: subprocess.run([sys.executable, "-c", script]).returncode) == -9
    database = await opened(tmp_path / "d")
    assert await database.run(numbers) == [1, 2]
    await database.close()


async def test_a_transaction_that_fails_has_done_nothing(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO numbers VALUES (2)")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await database.run(fail)
    assert await database.run(numbers) == [1]
    await database.run(insert(3))
    assert await database.run(numbers) == [1, 3]
    await database.close()


async def test_every_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """SQLite's own setting says so; a test cannot cause a power failure."""
    database = await opened(tmp_path / "d")
    full = 2
    assert await database.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0]) == full
    assert await database.run(lambda connection: connection.execute("PRAGMA journal_mode").fetchone()[0]) == "wal"
    await database.close()


async def test_the_event_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")
    go_on = threading.Event()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.run, lambda _: go_on.wait(20))
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
    await database.close()


async def test_a_cancelled_caller_learns_what_was_done(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")
    with trio.CancelScope() as scope:
        done = await database.run(lambda connection: (trio.from_thread.run_sync(scope.cancel), numbers(connection))[1])
    assert done == [1]
    await database.close()


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")
    with pytest.raises(DatabaseUnavailableError, match=r"d is open in another process"):
        await opened(tmp_path / "d")
    await database.close()


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"hello, world\n" * 1000, "is no database, or a damaged one: file is not a database"),
        (b"SQLite format 3\0" + bytes(4080), "is no database, or a damaged one"),
    ],
)
async def test_an_error_names_a_file_that_is_no_database(tmp_path: Path, content: bytes, finding: str) -> None:
    path = tmp_path / "d"
    path.write_bytes(content)
    with pytest.raises(DatabaseDamagedError, match=finding) as caught:
        await opened(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


async def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")
    await database.run(lambda connection: [insert(number)(connection) for number in range(2, 2000)])
    await database.close()
    whole = (tmp_path / "d").read_bytes()
    (tmp_path / "d").write_bytes(whole[:4096] + b"\xff" * 4096 + whole[8192:])
    with pytest.raises(DatabaseDamagedError, match="damaged"):
        await opened(tmp_path / "d")
    (tmp_path / "d").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatabaseDamagedError, match="damaged"):
        await opened(tmp_path / "d")


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    theirs = sqlite3.connect(tmp_path / "d")
    theirs.execute("CREATE TABLE theirs (number INTEGER)")
    theirs.close()
    with pytest.raises(DatabaseDamagedError, match="d is a database of another program"):
        await opened(tmp_path / "d")


async def test_a_database_of_another_format_is_refused(tmp_path: Path) -> None:
    await (await opened(tmp_path / "d", version=2)).close()
    with pytest.raises(DatabaseDamagedError, match="d has format 2; this version reads format 1 only"):
        await opened(tmp_path / "d")


async def test_an_unfinished_database_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "d").touch()
    database = await opened(tmp_path / "d")
    assert await database.run(numbers) == [1]
    await database.close()


async def test_a_database_in_a_missing_directory_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailableError, match="missing/d cannot be opened"):
        await opened(tmp_path / "missing" / "d")


async def test_after_closing_nothing_runs(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")
    await database.close()
    await database.close()
    with pytest.raises(DatabaseUnavailableError, match="d has been closed"):
        await database.run(numbers)


async def test_a_full_disk_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    database = await opened(tmp_path / "d")
    await database.run(lambda connection: connection.execute("PRAGMA max_page_count = 4"))
    with pytest.raises(DatabaseUnavailableError, match="d: database or disk is full"):
        await database.run(lambda connection: [insert(number)(connection) for number in range(2, 5000)])
    assert await database.run(numbers) == [1]
    await database.close()


def test_processes_without_a_database_do_not_import_sqlite() -> None:
    script = "import sys, tailrace.runtime.database as d; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
