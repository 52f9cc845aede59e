"""What leaders read from the copies on this SPU."""

from typing import Any

import pytest
from batch_samples import header_of
from shelf_bench import BATCH_BYTES, END, NOW, OTHER, shelf_bench
from spus import batch

from tailrace.broker.shelves import shelf_filling, shelf_portions, shelf_serving
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.error_codes import ErrorCode


async def test_a_copy_is_read_like_a_log_but_not_beyond_the_end(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill(8)
        await bench.fill(16)
        bench.name(end=16)
        assert await bench.bases(0, 16, 2 * BATCH_BYTES) == [0, 2]
        assert await bench.bases(3, 16, 0) == [2]
        assert await bench.bases(6, 12) == [6]  # a response ends with a segment
        assert await bench.bases(8, 12) == [8, 10]
        assert await bench.bases(8, 11) == [8]
        assert await bench.bases(10, 11) == []
        assert await bench.bases(16, 16) == await bench.bases(17, 12) == []
        assert bench.metrics.shelf_read_bytes == 7 * BATCH_BYTES
        response = await bench.read(0, 18)
        assert (response.error_code, response.error_message) == (
            ErrorCode.KAFKA_STORAGE_ERROR,
            "SPU 5 has only the records before offset 16 of a shelf that is read up to offset 18",
        )


async def test_a_response_is_bounded(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_serving, "READ_BYTES_MAX", 3 * BATCH_BYTES)
    async with shelf_bench() as bench:
        await bench.fill()
        assert await bench.bases(2) == [2, 4, 6]


async def test_timestamps_are_searched(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        epoch = bench.spec.epoch

        async def found(timestamp: int, end: int = END, offset: int = 0) -> tuple[int, int, int]:
            response = await bench.read(offset, end, timestamp=timestamp)
            assert (response.error_code, response.records) == (0, b"")
            return response.found_timestamp, response.found_offset, response.found_epoch

        assert await found(NOW + 11) == (NOW + 11, 3, epoch)
        assert await found(NOW + 12) == (NOW + 20, 4, epoch)
        assert await found(0, offset=7) == (NOW + 31, 7, epoch)
        assert await found(-3) == (NOW + 91, 19, epoch)
        assert await found(-3, 8) == (NOW + 31, 7, epoch)
        assert await found(NOW + 41, 8) == (-1, -1, -1)


async def test_a_missing_copy_is_not_read(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        assert (await bench.read()).error_message == "SPU 5 has nothing of a shelf that is read up to offset 20"
        await bench.fill()
        bench.name(stores=[OTHER])
        assert (await bench.read()).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("position", [12, 15, 7])
async def test_a_replacement_is_not_made_from_a_segment_with_damaged_headers(
    position: int, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader does not have the records any more, and reads through to the stores, of which this SPU is one."""
    async with shelf_bench() as bench:
        await bench.fill()
        bench.name(end=END)
        content = await bench.content_here()
        fetch = shelf_filling.fetch_portion
        has_others = False

        async def read_through(
            spus: Any, leader: Any, spec: PartitionSpec, offset: int, end: int
        ) -> tuple[shelf_portions.Portion, shelf_portions.AbortedFirsts]:
            if has_others:
                return await fetch(spus, leader, spec, offset, end)
            response = await bench.read(offset, end)
            records = memoryview(response.records)
            nothing = shelf_portions.NOTHING
            return shelf_portions.portion_of(records, spec.epoch, offset, end) if records else nothing, {}

        async def rest_after(count: int) -> None:
            pass

        monkeypatch.setattr(shelf_filling, "fetch_portion", read_through)
        await bench.flip(4 * BATCH_BYTES + position)
        await bench.keeper.scrubbing.scrub(rest_after, lambda: False)
        await bench.keeper.repair.repair(bench.key)
        assert (await bench.read(8, bytes_max=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await bench.read(timestamp=NOW)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        has_others = True
        await bench.keeper.repair.repair(bench.key)
        assert await bench.content_here() == content


def test_the_batches_of_the_tests_have_two_records() -> None:
    assert header_of(batch(b"00", b"00")).last_offset_delta == 1
