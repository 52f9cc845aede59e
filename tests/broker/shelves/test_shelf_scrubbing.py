"""Scrubbing of copies."""

from shelf_bench import BATCH_BYTES, BATCHES, END, shelf_bench
from structlog.testing import capture_logs


async def test_a_scrub_finds_damage_that_no_checksum_of_a_batch_covers(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        rested: list[int] = []
        is_off = False

        async def rest_after(count: int) -> None:
            rested.append(count)

        await bench.fill()
        bench.name(end=END)
        with capture_logs() as logs:
            await bench.keeper.scrubbing.scrub(rest_after, lambda: is_off)
        assert (logs, sum(rested)) == ([], BATCHES * BATCH_BYTES)
        await bench.flip(5)  # no checksum of a batch covers this byte
        is_off = True
        with capture_logs() as logs:
            await bench.keeper.scrubbing.scrub(rest_after, lambda: is_off)
        assert logs == []
        is_off = False
        with capture_logs() as logs:
            await bench.keeper.scrubbing.scrub(rest_after, lambda: is_off)
        assert [each["event"] for each in logs] == ["shelf_damaged"]
        await bench.keeper.repair.repair(bench.key)
        with capture_logs() as logs:
            await bench.keeper.scrubbing.scrub(rest_after, lambda: is_off)
        assert logs == []
