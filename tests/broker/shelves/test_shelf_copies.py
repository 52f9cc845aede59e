"""Damaged copies of shelves are repaired if others rely on them, and discarded otherwise."""

import pytest
from msgspec.structs import replace
from shelf_bench import BATCH_BYTES, END, lose_a_segment, shelf_bench
from structlog.testing import capture_logs

from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.files import UnreadableError
from tailrace.storage.directory.layout import ShelfKey
from tailrace.storage.log.log import Log


async def test_a_copy_on_which_nobody_relies_is_discarded_if_it_does_not_open(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill(8)
        await bench.logs.close()
        after = bench.after(bench.files.crash("all"))
        lose_a_segment(after)
        with capture_logs() as logs:
            response = await after.fill()
        assert (response.error_code, response.end, logs[0]["event"]) == (0, END, "shelf_copy_discarded")
        assert await after.content_here() == bench.content


async def test_leaders_rely_on_a_confirmed_copy_before_the_specs_say_so(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill(8)
        await bench.logs.close()
        lose_a_segment(bench)
        with capture_logs() as logs:
            assert (await bench.fill(6)).end == 6
            assert [each["event"] for each in logs] == ["shelf_damaged"]
            await bench.keeper.repair.repair(bench.key)
        assert [each["event"] for each in logs] == ["shelf_damaged", "shelf_repaired"]
        assert (await bench.fill()).end == END
        assert await bench.content_here() == bench.content


async def test_a_copy_without_its_beginning_is_damaged(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        bench.name(base=8)
        await bench.fill(base=8)
        await bench.logs.close()
        bench.files.rename(bench.logs.directory(bench.key._replace(base=8)), bench.logs.directory(bench.key))
        bench.name(end=END)
        assert (await bench.read(10)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await bench.keeper.repair.repair(bench.key)
        assert await bench.content_here() == bench.content


async def test_a_damaged_copy_is_read_until_its_replacement_is_complete(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        bench.name(end=END)
        await bench.flip(3 * BATCH_BYTES + 70)
        with capture_logs() as logs:
            response = await bench.read(6, bytes_max=1)
        assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [(each["event"], each["is_only_copy"]) for each in logs] == [("shelf_damaged", False)]
        # Intact batches are still read, even when a part of the new copy exists.
        assert (await bench.fill(8)).end == 8
        assert await bench.bases(8, bytes_max=1) == [8]
        assert (await bench.read(6, bytes_max=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        with capture_logs() as logs:
            await bench.keeper.repair.repair(bench.key)
        assert [each["event"] for each in logs] == ["shelf_repaired"]
        assert await bench.content_here() == bench.content
        after = bench.after(bench.files.crash("synced"))
        assert await after.content_here() == bench.content


async def test_an_unreadable_disk_counts_as_damage(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        bench.name(end=END)
        read = Log.read

        def failing(log: Log, *arguments: object, **named: object) -> object:
            raise UnreadableError(log.directory)

        monkeypatch.setattr(Log, "read", failing)
        assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        monkeypatch.setattr(Log, "read", read)
        with capture_logs() as logs:
            await bench.fill()
        assert [each["event"] for each in logs] == ["shelf_repaired"]


async def test_damage_found_as_a_fill_ends_removes_nothing(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shelf_bench() as bench:
        await bench.fill(8)
        bench.name(end=8)
        await bench.flip(70)
        end_segment = Log.end_segment

        async def end_segment_as_somebody_reads(log: Log) -> None:
            await end_segment(log)
            assert (await bench.read(0, 8, bytes_max=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR

        monkeypatch.setattr(Log, "end_segment", end_segment_as_somebody_reads)
        await bench.fill()
        monkeypatch.setattr(Log, "end_segment", end_segment)
        assert await bench.bases(2, 8, bytes_max=1) == [2]
        await bench.keeper.repair.repair(bench.key)
        assert (await bench.fill()).end == END
        assert await bench.content_here() == bench.content


async def test_a_copy_may_become_unassigned_while_it_is_replaced(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        bench.name(end=END)
        await bench.flip(70)
        assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        put_in_place = bench.logs.put_replacement_in_place

        async def put_in_place_at_last(key: ShelfKey) -> None:
            await put_in_place(key)
            spec = replace(bench.spec, version=bench.spec.version + 1, shelves=())
            bench.keeper.copies.apply([spec], (), is_full=False)

        monkeypatch.setattr(bench.logs, "put_replacement_in_place", put_in_place_at_last)
        assert (await bench.fill()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert bench.keeper.copies.count == 0
