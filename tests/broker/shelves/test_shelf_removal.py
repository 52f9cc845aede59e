"""Removal of deleted records from copies, and of unassigned copies."""

import trio
from msgspec.structs import replace
from shelf_bench import BATCH_BYTES, END, shelf_bench
from structlog.testing import capture_logs


async def test_deleted_records_are_removed_by_segments(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        for end in (8, 14):
            await bench.fill(end)
        bench.name(end=14, shelved_from=9)
        response = await bench.fill(END)
        assert [(each.base, each.end) for each in response.segments] == [(8, 14), (14, END)]
        assert await bench.bases(0) == [8, 10, 12]
        bench.name(end=14, shelved_from=11)
        assert await bench.bases(0) == [10, 12], "deleted records are not read, even if they are still stored"
        bench.name(end=END, shelved_from=15)
        await bench.keeper.removal.delete_before_starts()
        assert bench.keeper.copies.size_bytes == 3 * BATCH_BYTES
        after = bench.after(bench.files.crash("synced"))
        assert (await after.fill()).end == END
        assert await after.bases(15) == [14, 16, 18]


async def test_an_unassigned_copy_is_removed_when_its_topic_cannot_be_undeleted(autojump_clock: object) -> None:
    async with shelf_bench() as bench:
        await bench.fill()
        shelved = bench.spec
        bench.keeper.copies.apply([replace(shelved, shelves=())], (), is_full=False)
        await bench.keeper.removal.remove_unassigned()
        await trio.sleep(1000)
        await bench.keeper.removal.remove_unassigned()
        assert bench.logs.found() == [bench.key], "not all specs are known"
        bench.keeper.copies.apply((), (), is_full=True)
        assert (bench.keeper.copies.count, bench.keeper.copies.size_bytes) == (0, 0)
        await bench.keeper.removal.remove_unassigned()
        await trio.sleep(119)
        await bench.keeper.removal.remove_unassigned()
        bench.keeper.copies.apply([shelved], (), is_full=False)
        assert await bench.content_here() == bench.content
        await trio.sleep(119)
        await bench.keeper.removal.remove_unassigned()
        bench.keeper.copies.apply((), [(shelved.topic_id, 0)], is_full=False)
        await bench.keeper.removal.remove_unassigned()
        await trio.sleep(119)
        await bench.keeper.removal.remove_unassigned()
        assert bench.logs.found() == [bench.key]
        await trio.sleep(1)
        with capture_logs() as logs:
            await bench.keeper.removal.remove_unassigned()
        assert [each["event"] for each in logs] == ["shelf_removed"]
        assert (bench.logs.found(), bench.files.list("/data/shelves")) == ([], [])


async def test_a_failed_listing_is_retried(autojump_clock: object) -> None:
    """The copy counts as unassigned during the failures too."""
    async with shelf_bench() as bench:
        await bench.fill()
        bench.keeper.copies.apply((), (), is_full=True)
        await bench.keeper.removal.remove_unassigned()
        for opens_left, reads_fail in ((0, False), (None, True)):
            bench.files.opens_left, bench.files.reads_fail = opens_left, reads_fail
            with capture_logs() as logs:
                await bench.keeper.removal.remove_unassigned()
            assert [each["event"] for each in logs] == ["shelves_not_listed"]
        bench.files.reads_fail = False
        await trio.sleep(120)
        await bench.keeper.removal.remove_unassigned()
        assert bench.logs.found() == []
